/* SPDX-License-Identifier: Apache-2.0 */
/* Models through the public header: options of other versions, errors as values, what a model says
 * of itself, two of them at once. */
#include "unit/library/library_fixture.h"

#include <pthread.h>

/* --- refusals --------------------------------------------------------------------------------- */

static void refused(const whimbrel_model_options *options, whimbrel_status status,
                    const char *field, const char *text)
{
    whimbrel_model *m = (whimbrel_model *)&status;
    whimbrel_error error;
    assert_int_equal(whimbrel_open(options, &m, &error), status);
    assert_int_equal(error.status, status);
    assert_null(m);
    assert_string_equal(error.field, field);
    if (strstr(error.text, text) == NULL) {
        fail_msg("\"%s\" is not in: %s", text, error.text);
    }
    assert_int_equal(whimbrel_open(options, &m, NULL), status);
}

static void what_cannot_be_opened_is_refused(void **state)
{
    (void)state;
    whimbrel_model_options o = options_of(NULL);
    refused(&o, WHIMBREL_INVALID, "path", "path");
    refused(NULL, WHIMBREL_INVALID, "", "NULL");
    o = options_of("tests/data/none");
    refused(&o, WHIMBREL_NOT_FOUND, "", "tests/data/none");
    o = options_of(folder);
    o.context = 100000;
    refused(&o, WHIMBREL_INVALID, "context", "100000");
    o.context = -1;
    refused(&o, WHIMBREL_INVALID, "context", "-1");
    o = options_of(folder);
    o.max_parallel = -1;
    refused(&o, WHIMBREL_INVALID, "max_parallel", "-1");
    o = options_of(folder);
    o.kv_type = "q9";
    refused(&o, WHIMBREL_INVALID, "kv_type", "q9");
    o = options_of(folder);
    o.backend = "abacus";
    refused(&o, WHIMBREL_NOT_FOUND, "backend", "abacus");
    o = options_of(folder);
    o.isa = "mmx";
    refused(&o, WHIMBREL_UNSUPPORTED, "isa", "mmx");
    o = options_of(folder);
    o.threads = 1 << 20;
    refused(&o, WHIMBREL_INVALID, "threads", "1048576");
    o = options_of(folder);
    o.kv_bytes = 1;
    refused(&o, WHIMBREL_INVALID, "kv_bytes", "one KV page");
    o = options_of(folder);
    o.template_args = "[1]";
    refused(&o, WHIMBREL_INVALID, "template_args", "JSON object");
    o = options_of(folder);
    o.chat_template = "tests/data/none";
    refused(&o, WHIMBREL_NOT_FOUND, "chat_template", "tests/data/none");
    o = options_of("tests/data/golden/llama-bf16"); /* without a tokenizer */
    refused(&o, WHIMBREL_NOT_FOUND, "", "tokenizer.json");
}

/* A newer program may know fields that this library does not: refused only where it uses them. An
 * older one gives less. */
static void options_of_other_versions(void **state)
{
    (void)state;
    struct {
        whimbrel_model_options o;
        int64_t more;
    } newer = {options_of(folder), 0};
    whimbrel_model *m;
    newer.o.size = sizeof newer;
    assert_int_equal(whimbrel_open(&newer.o, &m, NULL), WHIMBREL_OK);
    whimbrel_close(m);
    newer.more = 1;
    refused(&newer.o, WHIMBREL_INVALID, "", "newer");
    newer.o.size = 0;
    refused(&newer.o, WHIMBREL_INVALID, "", "size");
    /* Fields that came later stand behind those of the first header. */
    assert_true(offsetof(whimbrel_model_options, no_lookup) >
                offsetof(whimbrel_model_options, wake_ctx));
    newer.o.size = offsetof(whimbrel_model_options, context);
    newer.o.context = 1 << 30; /* not looked at */
    assert_int_equal(whimbrel_open(&newer.o, &m, NULL), WHIMBREL_OK);
    whimbrel_close(m);
}

static void loading_comes_before_asking_and_once(void **state)
{
    (void)state;
    whimbrel_error error;
    whimbrel_model *m;
    whimbrel_request *request;
    whimbrel_model_options o = options_of(folder);
    whimbrel_request_options ask = ask_text("a", 1);
    assert_int_equal(whimbrel_open(&o, &m, &error), WHIMBREL_OK);
    assert_int_equal(whimbrel_submit(m, &ask, &request, &error), WHIMBREL_INVALID);
    assert_non_null(strstr(error.text, "whimbrel_load"));
    assert_null(request);
    /* But a request may be made, and waits. */
    assert_int_equal(whimbrel_prepare(m, &ask, &request, &error), WHIMBREL_OK);
    assert_null(whimbrel_wait(request, -1));
    assert_int_equal(whimbrel_load(m, &error), WHIMBREL_OK);
    assert_int_equal(whimbrel_load(m, &error), WHIMBREL_INVALID);
    assert_int_equal(whimbrel_start(request, &error), WHIMBREL_OK);
    assert_int_equal(whimbrel_start(request, &error), WHIMBREL_INVALID);
    reply r = {.n_id = 0};
    read_all(request, &r);
    assert_int_equal(r.n_id, 1);
    whimbrel_close(m);
    whimbrel_close(NULL);
    whimbrel_free(NULL);
}

/* After a failure close is all that is left. */
static void loading_fails_once(void **state)
{
    (void)state;
    whimbrel_error error;
    whimbrel_model *m;
    whimbrel_model_options o = options_of(folder);
    char command[256];
    assert_int_equal(whimbrel_open(&o, &m, &error), WHIMBREL_OK);
    snprintf(command, sizeof command,
             "cd %s && cp model.safetensors whole && truncate -s 9000 model.safetensors", folder);
    assert_int_equal(system(command), 0);
    assert_int_not_equal(whimbrel_load(m, &error), WHIMBREL_OK);
    snprintf(command, sizeof command, "cd %s && mv whole model.safetensors", folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(whimbrel_load(m, &error), WHIMBREL_INVALID);
    assert_non_null(strstr(error.text, "close"));
    whimbrel_close(m);
}

/* --- what it says of itself ------------------------------------------------------------------- */

static void it_says_what_it_is(void **state)
{
    (void)state;
    const whimbrel_info *info = whimbrel_get_info(model);
    int64_t sum = 0, n = 0;
    assert_string_equal(info->name, strrchr(folder, '/') + 1);
    assert_string_equal(info->architecture, "llama");
    assert_string_equal(info->weights, "BF16");
    assert_int_equal(info->n_vocab, 83);
    assert_int_equal(info->context, 512);
    assert_int_equal(info->model_context, 512);
    assert_true(info->has_text && info->has_template && info->n_parameter > 10000);
    for (int32_t i = 0; i < info->n_plan; i++) {
        sum += info->plan[i].bytes;
        assert_true(info->plan[i].name[0] != '\0' && info->plan[i].detail[0] != '\0');
    }
    assert_true(sum == info->plan_bytes && info->plan_bytes < info->free_bytes);
    assert_memory_equal(whimbrel_token_text(model, 3, &n), "d", 1);
    assert_int_equal(n, 1);
    whimbrel_token_text(model, 99, &n);
    assert_int_equal(n, 0);
    assert_true(strchr(whimbrel_version(), '.') != NULL);
    assert_string_equal(whimbrel_status_text(WHIMBREL_NO_MEMORY), "out of memory");
    assert_string_equal(whimbrel_end_name(WHIMBREL_END_LENGTH), "length");
    assert_string_equal(whimbrel_end_name((whimbrel_end)99), "unknown");
}

static void sampling_is_written_as_far_as_it_is_known(void **state)
{
    (void)state;
    whimbrel_sampling a = {.size = sizeof a}, b = {.size = offsetof(whimbrel_sampling, seed)};
    whimbrel_get_sampling(model, &a);
    assert_true(a.temperature > 0 && a.top_p > 0 && a.repetition_penalty > 0);
    b.seed = 5;
    whimbrel_get_sampling(model, &b);
    assert_int_equal(b.seed, 5);
    assert_int_equal(b.size, offsetof(whimbrel_sampling, seed));
    assert_true(b.temperature == a.temperature);
    struct {
        whimbrel_sampling s;
        int64_t more;
    } newer = {{.size = sizeof newer}, 7};
    whimbrel_get_sampling(model, &newer.s);
    assert_true(newer.more == 0 && newer.s.temperature == a.temperature);
    /* What an older program does not know of is as usual. */
    whimbrel_sampling older = {.size = offsetof(whimbrel_sampling, top_k), .temperature = 0.5f};
    whimbrel_request_options ask = ask_text("a", 1);
    ask.sampling = &older;
    reply r = {.n_id = 0};
    read_all(submit(model, &ask), &r);
    assert_int_equal(r.n_id, 1);
}

/* --- two at once ------------------------------------------------------------------------------ */

enum { N_ROUND = 6 };

typedef struct asker {
    whimbrel_model *m;
    int32_t ids[N_ROUND][24];
} asker;

static void *ask_often(void *ctx)
{
    asker *a = ctx;
    for (int i = 0; i < N_ROUND; i++) {
        const int32_t prompt[] = {5, 6, 7, 8 + i % 2};
        whimbrel_sampling greedy = {
            .size = sizeof greedy, .top_p = 1, .repetition_penalty = 1, .temperature = 0};
        whimbrel_request_options ask = {.size = sizeof ask,
                                        .ids = prompt,
                                        .n_id = 4,
                                        .sampling = &greedy,
                                        .max_tokens = 24,
                                        .ignore_end = true};
        reply r = {.n_id = 0};
        read_all(submit(a->m, &ask), &r);
        memcpy(a->ids[i], r.ids, sizeof a->ids[i]);
    }
    return NULL;
}

/* Two models, one of them asked by two threads: each answers as it does alone. */
static void models_know_nothing_of_each_other(void **state)
{
    (void)state;
    whimbrel_model_options first = options_of("tests/data/golden/llama-bf16");
    whimbrel_model_options second = options_of("tests/data/golden/qwen3-bf16");
    first.ids_only = second.ids_only = true;
    asker alone[2], both[3];
    whimbrel_model *a = open_loaded(&first);
    alone[0].m = a;
    ask_often(&alone[0]);
    whimbrel_model *b = open_loaded(&second);
    alone[1].m = b;
    ask_often(&alone[1]);
    assert_memory_not_equal(alone[0].ids, alone[1].ids, sizeof alone[0].ids);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        both[i].m = i == 1 ? b : a;
        assert_int_equal(pthread_create(&threads[i], NULL, ask_often, &both[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_memory_equal(both[i].ids, alone[i == 1].ids, sizeof both[i].ids);
    }
    whimbrel_close(a);
    whimbrel_close(b);
}

/* --- a draft beside the model ----------------------------------------------------------------- */

static char beside[64]; /* a model of ids with the folder "draft" in its own */

static void beside_make(const char *draft, const char *then)
{
    char command[512];
    snprintf(beside, sizeof beside, "/tmp/whim_library_XXXXXX");
    assert_non_null(mkdtemp(beside));
    snprintf(
        command, sizeof command,
        "cp tests/data/golden/llama-f32/*.json tests/data/golden/llama-f32/*.safetensors %s && "
        "cp -r tests/data/drafts/%s %s/draft && cd %s/draft && %s",
        beside, draft, beside, beside, then);
    assert_int_equal(system(command), 0);
}

static whimbrel_model_options beside_options(void)
{
    whimbrel_model_options o = options_of(beside);
    o.context = 0;
    o.ids_only = true;
    o.max_parallel = 1;
    return o;
}

static void beside_remove(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", beside);
    assert_int_equal(system(command), 0);
}

/* It opens, and is told why without its draft; NULL: it has it. */
static void expect_beside(const whimbrel_model_options *o, const char *why)
{
    whimbrel_model *m = open_loaded(o);
    const whimbrel_info *info = whimbrel_get_info(m);
    if (why == NULL) {
        assert_string_equal(info->draft, "draft");
        assert_string_equal(info->draft_kind, "dflash");
        assert_null(info->draft_unused);
    } else {
        assert_true(info->draft == NULL && info->draft_kind == NULL);
        assert_non_null(info->draft_unused);
        if (strstr(info->draft_unused, why) == NULL) {
            fail_msg("\"%s\" is not in: %s", why, info->draft_unused);
        }
    }
    whimbrel_close(m);
}

static void a_draft_that_was_found_is_used(void **state)
{
    (void)state;
    beside_make("llama-f32-dflash", "true");
    whimbrel_model_options o = beside_options();
    expect_beside(&o, NULL);
    o.draft = "";
    whimbrel_model *m = open_loaded(&o);
    assert_true(whimbrel_get_info(m)->draft == NULL && whimbrel_get_info(m)->draft_unused == NULL);
    whimbrel_close(m);
    beside_remove();
}

/* One that nobody asked for keeps nobody from an answer. */
static void a_draft_that_cannot_be_used_is_left_alone(void **state)
{
    (void)state;
    char path[128];
    beside_make("qwen3-f32-dflash", "true"); /* for another model */
    whimbrel_model_options o = beside_options();
    expect_beside(&o, "hidden_size");
    o.draft_type = "q9";
    refused(&o, WHIMBREL_INVALID, "draft_type", "q9");
    o = beside_options();
    snprintf(path, sizeof path, "%s/draft", beside);
    o.draft = path; /* asked for */
    refused(&o, WHIMBREL_INVALID, "draft", "hidden_size");
    beside_remove();
    beside_make("llama-f32-dflash", "truncate -s -4 model.safetensors");
    o = beside_options();
    expect_beside(&o, "model.safetensors");
    beside_remove();
}

static int64_t kv_bytes_of(const whimbrel_model_options *o)
{
    whimbrel_model *m;
    assert_int_equal(whimbrel_open(o, &m, NULL), WHIMBREL_OK);
    const whimbrel_info *info = whimbrel_get_info(m);
    int64_t bytes = 0;
    for (int32_t i = 0; i < info->n_plan; i++) {
        bytes += strcmp(info->plan[i].name, "KV pages") == 0 ? info->plan[i].bytes : 0;
    }
    whimbrel_close(m);
    return bytes;
}

/* Neither does one for which there is no room; where there is none for the model either, that is
 * what is told. */
static void a_draft_that_does_not_fit_is_left_alone(void **state)
{
    (void)state;
    beside_make("llama-f32-dflash", "true");
    whimbrel_model_options o = beside_options();
    o.context = 32; /* a page */
    o.draft = "";
    o.kv_bytes = kv_bytes_of(&o);
    o.draft = NULL;
    expect_beside(&o, "below one KV page");
    whimbrel_model *m;
    whimbrel_error error;
    o.kv_bytes = INT64_C(1) << 40;
    o.take_memory = true;
    assert_int_equal(whimbrel_open(&o, &m, &error), WHIMBREL_OK);
    assert_null(whimbrel_get_info(m)->draft_unused);
    assert_int_equal(whimbrel_load(m, &error), WHIMBREL_NO_FIT);
    whimbrel_close(m);
    beside_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_opened_is_refused),
        cmocka_unit_test(options_of_other_versions),
        cmocka_unit_test(loading_comes_before_asking_and_once),
        cmocka_unit_test(loading_fails_once),
        cmocka_unit_test(it_says_what_it_is),
        cmocka_unit_test(sampling_is_written_as_far_as_it_is_known),
        cmocka_unit_test(models_know_nothing_of_each_other),
        cmocka_unit_test(a_draft_that_was_found_is_used),
        cmocka_unit_test(a_draft_that_cannot_be_used_is_left_alone),
        cmocka_unit_test(a_draft_that_does_not_fit_is_left_alone),
    };
    return cmocka_run_group_tests_name("library model", tests, open_tiny, close_tiny);
}
