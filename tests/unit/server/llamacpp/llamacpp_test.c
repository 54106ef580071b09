/* SPDX-License-Identifier: Apache-2.0 */
/* /completion, /infill, /props and /slots: what becomes of their fields, and their answers byte by
 * byte but for times. */
#include "unit/server/read_body.h"

#include "server/llamacpp/llamacpp.h"
#include "server/ollama/ollama.h"
#include "server/openai/openai.h"

enum { PREFIX = 260, SUFFIX, MIDDLE, PAD, REPO, FILE_MARK };

static void set_fim(whim_fim fim)
{
    whim_tokenizer *tok = fake_model.text.tok;
    tok->fim = fim;
    tok->has_fim = true;
}

static void takes_fields(void **state)
{
    (void)state;
    whim_task *task = read_good(
        whim_llamacpp_read_completion,
        "{\"prompt\":\"a\",\"n_predict\":7,\"seed\":3,\"temperature\":0.5,\"stop\":[\"x\"],"
        "\"n_probs\":2,\"n_cmpl\":2,\"cache_prompt\":true,\"id_slot\":-1,"
        "\"samplers\":[\"top_k\"],\"logit_bias\":[[5,1.5],[\"ab\",false]]}");
    assert_int_equal(task->ask.max_tokens, 7);
    assert_int_equal(task->ask.n_choice, 2);
    assert_int_equal(task->ask.top_logprobs, 2);
    assert_int_equal(task->sampling.seed, 3);
    assert_true(task->ask.logprobs && !task->return_token_ids && task->ask.n_stop == 1);
    assert_true(task->sampling.n_bias >= 2 && task->sampling.bias[0].id == 5);
    assert_true(task->sampling.bias[0].bias == 1.5f && task->sampling.bias[1].bias == -100);
    whim_task_destroy(task);
    task = read_good(whim_llamacpp_read_completion,
                     "{\"prompt\":[1,2],\"n_predict\":-1,\"stream\":true,\"seed\":-1}");
    assert_true(task->ask.max_tokens == 0 && task->return_token_ids && task->prompts[0].n == 2);
    assert_true(task->sampling.seed != UINT64_MAX);
    whim_task_destroy(task);
    task = read_good(whim_llamacpp_read_completion, "{\"prompt\":\"a\",\"n_predict\":0}");
    assert_int_equal(task->ask.max_tokens, -1);
    whim_task_destroy(task);
}

/* Ids that end an answer never come, whatever was said of them; the settings tell all. */
static void ignored_ends_are_biases(void **state)
{
    (void)state;
    whim_text_side *text = &fake_model.text;
    assert_int_equal(text->n_stop_id, 0);
    text->stop_ids[0] = 7;
    text->stop_ids[1] = 5;
    text->n_stop_id = 2;
    static const char *const rows[][2] = {
        {"", "[{\"token\":5,\"bias\":1.5},{\"token\":9,\"bias\":null}]"},
        {",\"ignore_eos\":true", "[{\"token\":9,\"bias\":null},{\"token\":7,\"bias\":null},"
                                 "{\"token\":5,\"bias\":null}]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char body[128];
        whim_str told = {0};
        snprintf(body, sizeof body, "{\"prompt\":\"a\",\"logit_bias\":[[5,1.5],[9,false]]%s}",
                 rows[i][0]);
        whim_task *task = read_good(whim_llamacpp_read_completion, body);
        whim_llamacpp_put_settings(&api, task, &told);
        const char *list = strstr(whim_str_text(&told), "\"logit_bias\":");
        assert_non_null(list);
        assert_int_equal(strncmp(list + strlen("\"logit_bias\":"), rows[i][1], strlen(rows[i][1])),
                         0);
        whim_str_deinit(&told);
        whim_task_destroy(task);
    }
    text->n_stop_id = 0;
}

/* Texts, lists of ids and objects may be mixed, and texts stand among ids. */
static void prompts_are_mixed(void **state)
{
    (void)state;
    whim_task *task =
        read_good(whim_llamacpp_read_completion,
                  "{\"prompt\":[[1,\"ab\",2],{\"prompt_string\":\"ab\"},\"ab\",[3]]}");
    assert_int_equal(task->n_prompt, 4);
    const whim_ids *p = task->prompts, *text = &task->prompts[2];
    assert_true(p[1].n == text->n && p[3].n == 1 && p[3].ids[0] == 3);
    assert_int_equal(memcmp(p[1].ids, text->ids, (size_t)text->n * sizeof *text->ids), 0);
    assert_true(p[0].n >= 3 && p[0].ids[0] == 1 && p[0].ids[p[0].n - 1] == 2);
    whim_task_destroy(task);
    task = read_good(whim_llamacpp_read_completion, "{\"prompt\":[\"a\",5]}");
    assert_true(task->n_prompt == 1 && task->prompts[0].ids[task->prompts[0].n - 1] == 5);
    whim_task_destroy(task);
    task = read_good(whim_llamacpp_read_completion, "{\"prompt\":{\"prompt_string\":\"a\"}}");
    assert_int_equal(task->n_prompt, 1);
    whim_task_destroy(task);
}

/* A text among ids becomes the ids that it is alone: a mark of the vocabulary, and the first token. */
static void options_hold_among_ids(void **state)
{
    static const char *const options[] = {"", ",\"parse_special\":false",
                                          ",\"add_special_tokens\":false"};
    const whim_tokenizer *usual = api.tok;
    whim_tokenizer *marked = open_file("cat tests/data/text/tiny/flags.json");
    (void)state;
    for (size_t i = 0; i < 2 * N_OF(options); i++) {
        char body[128];
        api.tok = i % 2 == 0 ? usual : marked;
        snprintf(body, sizeof body, "{\"prompt\":[[\"<plain>\",5],\"<plain>\"]%s}", options[i / 2]);
        whim_task *task = read_good(whim_llamacpp_read_completion, body);
        const whim_ids *p = task->prompts;
        assert_int_equal(p[0].n, p[1].n + 1);
        assert_int_equal(memcmp(p[0].ids, p[1].ids, (size_t)p[1].n * sizeof *p[1].ids), 0);
        assert_true(i % 2 == 0 || (p[1].n > 1) == (i / 2 == 1));
        whim_task_destroy(task);
    }
    api.tok = usual;
    whim_tokenizer_close(marked);
}

/* What is behind the part that is too much is not read, unless the prompt is cut. */
static void mixed_prompts_end_at_the_context(void **state)
{
    char text[61], body[256];
    (void)state;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    snprintf(body, sizeof body, "{\"prompt\":[1,\"%s\",\"%s\",277]}", text, text);
    assert_null(read_body(whim_llamacpp_read_completion, body));
    assert_int_equal(read_fault.kind, WHIM_FAULT_CONTEXT);
    snprintf(body, sizeof body, "{\"prompt\":[1,\"%s\",\"%s\",27],\"truncate_prompt_tokens\":9}",
             text, text);
    whim_task *task = read_good(whim_llamacpp_read_completion, body);
    assert_true(task->prompts[0].n > api.ctx);
    whim_task_destroy(task);
}

static void refuses_what_it_cannot_do(void **state)
{
    (void)state;
    static const struct {
        const char *body, *param, *why;
    } rows[] = {
        {"{\"n_predict\":1}", "prompt", "is missing"},
        {"{\"prompt\":\"a\",\"n_predict\":-3}", "n_predict", "must be"},
        {"{\"prompt\":\"a\",\"n_probs\":21}", "n_probs", "must be"},
        {"{\"prompt\":{}}", "prompt", "prompt_string"},
        {"{\"prompt\":[{\"prompt_string\":\"a\",\"multimodal_data\":[\"\"]}]}", "prompt",
         "reads text only"},
        {"{\"prompt\":{\"prompt_string\":\"a\",\"multimodal_data\":{\"a\":1}}}", "prompt",
         "reads text only"},
        {"{\"prompt\":{\"prompt_string\":\"a\",\"multimodal_data\":false}}", "prompt",
         "reads text only"},
        {"{\"prompt\":[\"a\",277]}", "prompt", "from 0 to"},
        {"{\"prompt\":[\"a\",4294967297]}", "prompt", "from 0 to"},
        {"{\"prompt\":[\"a\",1],\"parse_special\":3}", "parse_special", "must be"},
        {"{\"prompt\":[1,\"a\",null]}", "prompt", ""},
        {"{\"prompt\":\"a\",\"response_fields\":[3]}", "response_fields", ""},
        {"{\"prompt\":\"a\",\"lora\":[{\"id\":0}]}", "lora", "is not supported"},
        {"{\"prompt\":\"a\",\"post_sampling_probs\":true}", "post_sampling_probs", "is not"},
        {"{\"prompt\":\"a\",\"logit_bias\":[[null,1]]}", "logit_bias", "entry 0 is not"},
        {"{\"prompt\":\"a\",\"logit_bias\":[[5]]}", "logit_bias", "entry 0 is not"},
        {"{\"prompt\":\"a\",\"logit_bias\":[[5,true]]}", "logit_bias", "entry 0 is not"},
        {"{\"prompt\":\"a\",\"logit_bias\":[[1,2],[277,1]]}", "logit_bias", "not \"277\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_refused(whim_llamacpp_read_completion, rows[i].body, rows[i].param, rows[i].why);
    }
}

/* --- gaps ------------------------------------------------------------------------------------- */

/* The prompt as text, with marks as letters. */
static const char *gap_of(const char *body)
{
    static char text[1024];
    size_t n = 0;
    whim_task *task = read_good(whim_llamacpp_read_infill, body);
    assert_int_equal(task->n_prompt, 1);
    for (int64_t i = 0; i < task->prompts[0].n; i++) {
        int32_t id = task->prompts[0].ids[i];
        int64_t len = 0;
        const char *bytes = whim_tokenizer_bytes(api.tok, id, &len);
        if (id >= PREFIX && id <= FILE_MARK) {
            n += (size_t)sprintf(text + n, "{%c}", "PSMARF"[id - PREFIX]);
        } else {
            n += (size_t)sprintf(text + n, "%.*s", (int)len, bytes);
        }
    }
    text[n] = '\0';
    whim_task_destroy(task);
    return text;
}

static void gaps_are_marked(void **state)
{
    (void)state;
    set_fim((whim_fim){PREFIX, SUFFIX, MIDDLE, PAD, REPO, FILE_MARK});
#define FILES "\"input_extra\":[{\"filename\":\"a.h\",\"text\":\"int a;\"},{\"text\":\"b\"}]"
#define GAP "\"input_prefix\":\"x=\",\"input_suffix\":\";\""
    const char *bos = whim_tokenizer_bos(api.tok);
    char want[256];
    snprintf(want, sizeof want, "%s{P}x={S};{M}", bos);
    assert_string_equal(gap_of("{" GAP "}"), want);
    snprintf(want, sizeof want, "%s{P}x=1+{S};{M}", bos);
    assert_string_equal(gap_of("{" GAP ",\"prompt\":\"1+\"}"), want);
    snprintf(want, sizeof want, "%s{R}myproject\n{F}a.h\nint a;{F}tmp\nb{F}filename\n{P}x={S};{M}",
             bos);
    assert_string_equal(gap_of("{" GAP "," FILES "}"), want);
    set_fim((whim_fim){PREFIX, SUFFIX, MIDDLE, -1, -1, -1});
    snprintf(want, sizeof want,
             "%s\n\n--- snippet ---\n\nint a;\n\n--- snippet ---\n\nb{P}x={S};{M}", bos);
    assert_string_equal(gap_of("{" GAP "," FILES "}"), want);
}

/* Of what does not fit the part next to the gap stays; a mark in a file is text. */
static void gaps_are_cut(void **state)
{
    (void)state;
    char body[1024], digits[301];
    set_fim((whim_fim){PREFIX, SUFFIX, MIDDLE, PAD, REPO, FILE_MARK});
    for (int i = 0; i < 300; i++) {
        digits[i] = (char)('0' + i % 10);
    }
    digits[300] = '\0';
    snprintf(body, sizeof body,
             "{\"input_prefix\":\"%s\",\"input_suffix\":\"%s\",\"n_predict\":10}", digits, digits);
    whim_task *task = read_good(whim_llamacpp_read_infill, body);
    assert_true(task->prompts[0].n < api.ctx - 10);
    assert_int_equal(task->ask.n_stop_id, 3);
    whim_task_destroy(task);
    const char *text = gap_of(body);
    assert_non_null(strstr(text, "6789{S}0123"));
    assert_true(strlen(text) - (size_t)(strstr(text, "{S}") - text) > 10);
    assert_string_equal(text + strlen(text) - 3, "{M}");
    assert_refused(whim_llamacpp_read_infill, "{\"input_prefix\":\"a\"}", "input_suffix",
                   "is missing");
    assert_refused(whim_llamacpp_read_infill, "{" GAP ",\"input_extra\":[{}]}",
                   "input_extra[0].text", "is missing");
    assert_refused(whim_llamacpp_read_infill, "{" GAP ",\"input_extra\":[3]}",
                   "input_extra[0].text", "is missing");
}

/* The same end what other dialects call a suffix, beside the ends that were asked for. */
static void suffixes_end_as_gaps(void **state)
{
    (void)state;
    static const char body[] = "{\"model\":\"m\",\"prompt\":\"a\",\"suffix\":\"b\","
                               "\"stop_token_ids\":[7]}";
    static whim_task_reader *const routes[] = {whim_openai_read_completion,
                                               whim_ollama_read_generate};
    set_fim((whim_fim){PREFIX, SUFFIX, MIDDLE, PAD, -1, FILE_MARK});
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        whim_task *task = read_good(routes[i], body);
        const int32_t *ids = task->ask.stop_ids;
        assert_int_equal(task->ask.n_stop_id, 3);
        assert_true(ids[0] == 7 && ids[1] == PAD && ids[2] == FILE_MARK);
        whim_task_destroy(task);
    }
}

static void models_without_marks_say_so(void **state)
{
    (void)state;
    set_fim((whim_fim){PREFIX, SUFFIX, -1, -1, -1, -1});
    assert_null(read_body(whim_llamacpp_read_infill, "{" GAP "}"));
    assert_int_equal(read_fault.kind, WHIM_FAULT_BAD_REQUEST);
    assert_non_null(strstr(read_fault.message, "fill-in-the-middle"));
}

/* --- answers ---------------------------------------------------------------------------------- */

/* The answer with every time as 0. */
static const char *answer(const char *body, const whim_job_event *events, int64_t n)
{
    static char text[1 << 20]; /* as long as any reply may be */
    const char *at = call(whim_route_llamacpp_completion, "/completion", body, events, n);
    char *out = text;
    while (*at != '\0') {
        static const char *const marks[] = {"_ms\":", "_second\":", NULL};
        int i = 0;
        while (marks[i] != NULL && strncmp(at, marks[i], strlen(marks[i])) != 0) {
            i++;
        }
        *out++ = *at++;
        if (marks[i] != NULL) {
            at += strlen(marks[i]) - 1;
            out += sprintf(out, "%s0", marks[i] + 1);
            at += strspn(at, "0123456789.e+-");
        }
    }
    *out = '\0';
    return text;
}

static const whim_job_event events[] = {ADMITTED, TOKEN(0, 1, "a\n"), TOKEN(0, 2, "b"),
                                        CHOICE_END(0, WHIM_END_LENGTH)};

#define COUNTS(made) "\"id_slot\":-1,\"tokens_predicted\":" made ",\"tokens_evaluated\":1"
#define SPEED(name, n) \
    "\"" name "_n\":" n ",\"" name "_ms\":0,\"" name "_per_token_ms\":0,\"" name "_per_second\":0"
#define END(stream, why, line)                                                                    \
    "\"stop\":true,\"model\":\"tiny\",\"generation_settings\":{\"n_predict\":9,\"max_tokens\":9," \
    "\"seed\":3,\"temperature\":1,\"top_k\":0,\"top_p\":1,\"min_p\":0,\"repeat_penalty\":1,"      \
    "\"presence_penalty\":0,\"frequency_penalty\":0,\"xtc_probability\":0,\"xtc_threshold\":0,"   \
    "\"typical_p\":1.0,\"mirostat\":0,"                                                           \
    "\"ignore_eos\":false,\"stream\":" stream                                                     \
    ",\"n_probs\":0,\"stop\":[],\"logit_bias\":[]},\"prompt\":\"\\u0001\","                       \
    "\"has_new_line\":" line ",\"truncated\":false,\"stop_type\":\"" why                          \
    "\",\"stopping_word\":\"\",\"tokens_cached\":2,\"timings\":{\"cache_n\":2," SPEED(            \
        "prompt", "-1") "," SPEED("predicted", "2") "}}"
#define BODY(more) "{\"prompt\":[1],\"n_predict\":9,\"seed\":3" more "}"

static void answers_are_told(void **state)
{
    (void)state;
    assert_string_equal(answer(BODY(""), events, N_OF(events)),
                        "{\"index\":0,\"content\":\"a\\nb\",\"tokens\":[]," COUNTS("2") "," END(
                            "false", "limit", "true"));
    assert_string_equal(
        answer(BODY(",\"stream\":true"), events, N_OF(events)),
        "data: {\"index\":0,\"content\":\"a\\n\",\"tokens\":[1]," COUNTS(
            "1") ",\"stop\":false}\n\n"
                 "data: {\"index\":0,\"content\":\"b\",\"tokens\":[2]," COUNTS(
                     "2") ",\"stop\":false}\n\n"
                          "data: {\"index\":0,\"content\":\"\",\"tokens\":[]," COUNTS("2") "," END(
                              "true", "limit", "true") "\n\n");
}

static void answers_are_cut_down(void **state)
{
    (void)state;
    const char *fields = ",\"response_fields\":[\"content\",\"none\",\"timings/prompt_n\"]";
    const char *cut = "{\"content\":\"a\\nb\",\"timings/prompt_n\":-1}";
    char body[128], stream[128];
    snprintf(body, sizeof body, BODY("%s"), fields);
    snprintf(stream, sizeof stream, BODY("%s,\"stream\":true"), fields);
    assert_string_equal(answer(body, events, N_OF(events)), cut);
    assert_non_null(strstr(answer(stream, events, N_OF(events)),
                           "\"tokens_evaluated\":1,\"stop\":false}\n\ndata: {\"content\":\"\","
                           "\"timings/prompt_n\":-1}\n\n"));
    assert_string_equal(answer(BODY(",\"response_fields\":[\"content/a\"]"), events, N_OF(events)),
                        "{}");
    assert_string_equal(answer(BODY(",\"temperature\":0.8,\"response_fields\":["
                                    "\"generation_settings/temperature\"]"),
                               events, N_OF(events)),
                        "{\"generation_settings/temperature\":0.800000012}");
}

static void several_are_a_list(void **state)
{
    (void)state;
    static const whim_job_event two[] = {ADMITTED, TOKEN(0, 1, "a"), TOKEN(1, 2, "b"),
                                         CHOICE_END(0, WHIM_END_EOS), CHOICE_END(1, WHIM_END_EOS)};
    json_t *list =
        json_loads(answer(BODY(",\"n_cmpl\":2,\"return_tokens\":true"), two, N_OF(two)), 0, NULL);
    assert_int_equal(json_array_size(list), 2);
    const json_t *second = json_array_get(list, 1);
    assert_int_equal(json_integer_value(json_object_get(second, "index")), 1);
    assert_string_equal(json_string_value(json_object_get(second, "content")), "b");
    assert_string_equal(json_string_value(json_object_get(second, "stop_type")), "eos");
    assert_string_equal(json_string_value(json_object_get(second, "prompt")), "");
    assert_int_equal(json_integer_value(json_array_get(json_object_get(second, "tokens"), 0)), 2);
    json_decref(list);
}

/* Each repeats the settings: few bytes may not ask for much, and what is much keeps nobody
 * waiting. */
static void settings_are_repeated_within_a_limit(void **state)
{
    (void)state;
    static const char *const ends[] = {"answers", "replies"};
    for (int stream = 0; stream < 2; stream++) {
        for (int many = 0; many < 3; many++) {
            whim_str body = {0};
            whim_str_printf(&body, "{\"prompt\":[1],\"n_predict\":9,\"n_cmpl\":%d,\"stream\":%s",
                            many == 0 ? 1 : 128, stream ? "true" : "false");
            whim_str_append(&body, ",\"logit_bias\":[[5,1]");
            for (int i = 1; i < 200; i++) {
                whim_str_printf(&body, ",[%d,1]", 5 + i);
            }
            whim_str_append(&body, "],\"stop\":[\"a\"");
            for (int i = 0; i < (many == 2 ? 63 : 0); i++) {
                char stop[1024 + 1];
                memset(stop, 'x', sizeof stop - 1);
                stop[sizeof stop - 1] = '\0';
                whim_str_printf(&body, ",\"%s\"", stop);
            }
            whim_str_append(&body, "]}");
            const char *got = answer(body.text, events, N_OF(events));
            if (many < 2) {
                assert_int_equal(exchange.status, 200);
                assert_string_equal(exchange.ended_by, ends[many]);
            } else { /* (200 + 63 * 1024 / 8) * 128 */
                assert_int_equal(exchange.status, 400);
                assert_non_null(strstr(got, "1057792 times"));
            }
            whim_str_deinit(&body);
        }
    }
}

static void server_is_told(void **state)
{
    (void)state;
    api.n_slot = 2; /* the fake service runs one */
    json_t *props = json_loads(call(whim_route_llamacpp_props, "/props", "", NULL, 0), 0, NULL);
    const json_t *slot = json_object_get(props, "default_generation_settings");
    assert_int_equal(json_integer_value(json_object_get(props, "total_slots")), 2);
    assert_int_equal(json_integer_value(json_object_get(slot, "n_ctx")), api.ctx);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(slot, "params"), "n_predict")), -1);
    json_decref(props);
#define SLOT(id, busy) \
    "{\"id\":" id ",\"id_task\":-1,\"n_ctx\":100,\"speculative\":false,\"is_processing\":" busy "}"
    assert_string_equal(call(whim_route_llamacpp_slots, "/slots", "", NULL, 0),
                        "[" SLOT("0", "true") "," SLOT("1", "false") "]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_fields),
        cmocka_unit_test(ignored_ends_are_biases),
        cmocka_unit_test(prompts_are_mixed),
        cmocka_unit_test(options_hold_among_ids),
        cmocka_unit_test(mixed_prompts_end_at_the_context),
        cmocka_unit_test(refuses_what_it_cannot_do),
        cmocka_unit_test(gaps_are_marked),
        cmocka_unit_test(gaps_are_cut),
        cmocka_unit_test(suffixes_end_as_gaps),
        cmocka_unit_test(models_without_marks_say_so),
        cmocka_unit_test(answers_are_told),
        cmocka_unit_test(answers_are_cut_down),
        cmocka_unit_test(several_are_a_list),
        cmocka_unit_test(settings_are_repeated_within_a_limit),
        cmocka_unit_test(server_is_told),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
