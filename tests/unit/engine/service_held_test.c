/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that the service holds to something: a budget of reasoning, a grammar, both. */
#include "chat/reasoning.h"
#include "support/byte_vocab.h"
#include "unit/engine/service_fixture.h"
#include "unit/text/text_fixture.h"

/* After the budget come just the tokens of the end, from the first to the last, then what the model
 * says. */
static void reasoning_has_a_budget(void **state)
{
    answer free_one, held;
    whim_diag diag = {""};
    whim_tokenizer *tok = open_file("cat tests/data/text/tiny/llama3.json");
    whim_ids end = encode(tok, "<E>", 3, (whim_encode_opts){.parse_special = true});
    whim_service_cfg with_text = {.engine = engine,
                                  .tok = tok,
                                  .max_seqs = MAX_SEQS,
                                  .max_step_tokens = STEP,
                                  .max_outs = OUTS};
    assert_int_equal(whim_service_create(&with_text, &service, &diag), WHIM_ERR_OK);
    whim_job_cfg cfg = job_cfg(0, 20, 12);
    read_all(submit(&cfg), &free_one);
    cfg.think_budget = 5;
    cfg.think_end = "<E>";
    read_all(submit(&cfg), &held); /* no reasoning, nothing to end */
    assert_memory_equal(held.ids[0], free_one.ids[0], 12 * sizeof(int32_t));
    cfg.think_open = true;
    read_all(submit(&cfg), &held);
    assert_int_equal(held.n[0], 12);
    assert_memory_equal(held.ids[0], free_one.ids[0], 5 * sizeof(int32_t));
    assert_true(end.n > 1 && end.n < 7);
    assert_memory_equal(held.ids[0] + 5, end.ids, (size_t)end.n * sizeof(int32_t));
    assert_memory_not_equal(held.ids[0] + 5 + end.n, end.ids, (size_t)end.n * sizeof(int32_t));
    stop(state);
    whim_ids_deinit(&end);
    whim_tokenizer_close(tok);
}

/* The place of the first token that did not come before it, and is not one of the first three. */
static int64_t first_new(const answer *a)
{
    int64_t at = 2;
    for (bool is_new = false; !is_new;) {
        at++;
        assert_true(at < a->n[0]);
        is_new = a->ids[0][at] > 2;
        for (int64_t i = 0; i < at; i++) {
            is_new = is_new && a->ids[0][i] != a->ids[0][at];
        }
    }
    return at;
}

/* A vocabulary of "<E>" and of these two tags, the second of which may be NULL. */
static whim_tokenizer *open_tags(const char *const tags[2], const int32_t ids[2])
{
    whim_diag diag = {""};
    whim_str json = {0};
    whim_tokenizer *tok;
    for (int i = 0; i < 2 && tags[i] != NULL; i++) {
        whim_str_printf(&json,
                        "%s{\"id\":%d,\"content\":\"%s\",\"single_word\":false,"
                        "\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true}",
                        i == 0 ? "{\"added_tokens\":[" : ",", ids[i], tags[i]);
    }
    whim_str_append(&json,
                    "],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\","
                    "\"add_prefix_space\":false,\"use_regex\":true},\"post_processor\":null,"
                    "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\","
                    "\"ignore_merges\":true,\"merges\":[],\"vocab\":{\"<\":0,\"E\":1,\">\":2}}}");
    if (open_text(whim_str_text(&json), json.len, &tok, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    whim_str_deinit(&json);
    return tok;
}

enum { N_ANSWER = 40, N_BUDGET = 2 };

/* An answer whose thoughts stand behind tags of these tokens. */
static void read_thinking(void **state, const whim_think_words *around, const char *const tags[2],
                          const int32_t ids[2], answer *a)
{
    whim_diag diag = {""};
    whim_service_cfg service_cfg = {.engine = engine,
                                    .tok = open_tags(tags, ids),
                                    .max_seqs = MAX_SEQS,
                                    .max_step_tokens = STEP,
                                    .max_outs = OUTS};
    whim_job_cfg cfg = job_cfg(0, 20, N_ANSWER);
    cfg.think_budget = N_BUDGET;
    cfg.think_end = "<E>";
    cfg.think_words = around;
    assert_int_equal(whim_service_create(&service_cfg, &service, &diag), WHIM_ERR_OK);
    read_all(submit(&cfg), a);
    stop(state);
    whim_tokenizer_close((whim_tokenizer *)service_cfg.tok);
}

static void read_free(void **state, answer *a)
{
    whim_diag diag = {""};
    whim_service_cfg service_cfg = {
        .engine = engine, .max_seqs = MAX_SEQS, .max_step_tokens = STEP, .max_outs = OUTS};
    whim_job_cfg cfg = job_cfg(0, 20, N_ANSWER);
    assert_int_equal(whim_service_create(&service_cfg, &service, &diag), WHIM_ERR_OK);
    read_all(submit(&cfg), a);
    stop(state);
}

/* The two are the same until the budget is used up, and then the end comes. */
static void assert_ended(const answer *held, const answer *a, int64_t n_before)
{
    static const int32_t end[] = {0, 1, 2};
    int64_t until = n_before + N_BUDGET;
    assert_memory_equal(held->ids[0], a->ids[0], (size_t)until * sizeof(int32_t));
    assert_memory_equal(held->ids[0] + until, end, sizeof end);
}

/* Tokens before the reasoning are none of it. */
static void the_budget_counts_from_the_tag(void **state)
{
    answer a, held;
    read_free(state, &a);
    int64_t at = first_new(&a);
    for (int i = 0; i < 2; i++) {
        const whim_think_words *around = &whim_think_words_known[i];
        const char *const tags[2] = {around->open, NULL};
        read_thinking(state, around, tags, &a.ids[0][at], &held);
        assert_ended(&held, &a, at + 1);
    }
}

/* A tag may be several tokens, of which the first begins other things, too. */
static void the_tag_may_be_several_tokens(void **state)
{
    static const whim_think_words around = {"<|channel>thought", "<channel|>"};
    static const char *const tags[2] = {"<|channel>", "thought"};
    answer a, held;
    read_free(state, &a);
    int64_t at = first_new(&a);
    int32_t ids[2] = {a.ids[0][at], a.ids[0][at + 1]};
    assert_true(at + 1 < a.n[0] && ids[1] > 2 && ids[1] != ids[0]);
    read_thinking(state, &around, tags, ids, &held);
    assert_ended(&held, &a, at + 2);
    for (bool is_there = true; is_there;) { /* one that never comes */
        ids[1]++;
        is_there = false;
        for (int64_t i = 0; i < a.n[0]; i++) {
            is_there = is_there || a.ids[0][i] == ids[1];
        }
    }
    read_thinking(state, &around, tags, ids, &held);
    assert_memory_equal(held.ids[0], a.ids[0], N_ANSWER * sizeof(int32_t));
}

/* A service whose model writes with the vocabulary `tok`, and a grammar for it. */
typedef struct held_service {
    whim_tokenizer *tok;
    whim_grammar_vocab *vocab;
    whim_grammar *grammar;
} held_service;

static held_service hold(whim_tokenizer *tok, const char *regex)
{
    static const int32_t end = 3;
    held_service h = {.tok = tok};
    whim_diag diag = {""};
    whim_grammar_builder *b;
    assert_int_equal(whim_grammar_vocab_create(tok, &end, 1, &h.vocab), WHIM_ERR_OK);
    assert_int_equal(whim_grammar_builder_create(NULL, &b), WHIM_ERR_OK);
    assert_int_equal(whim_grammar_build(b, whim_grammar_regex(b, regex, "r"), &h.grammar, &diag),
                     WHIM_ERR_OK);
    whim_grammar_builder_destroy(b);
    whim_service_cfg with_text = {.engine = engine,
                                  .tok = tok,
                                  .stop_ids = &end,
                                  .n_stop_id = 1,
                                  .max_seqs = MAX_SEQS,
                                  .max_step_tokens = STEP,
                                  .max_outs = OUTS};
    assert_int_equal(whim_service_create(&with_text, &service, &diag), WHIM_ERR_OK);
    return h;
}

static void let_go(held_service *h)
{
    pages_come_back();
    stop(NULL);
    whim_grammar_unref(h->grammar);
    whim_grammar_vocab_destroy(h->vocab);
    whim_tokenizer_close(h->tok);
}

static whim_tokenizer *open_abc(void)
{
    whim_diag diag = {""};
    whim_tokenizer *tok;
    assert_int_equal(open_text(ABC_VOCAB, sizeof ABC_VOCAB - 1, &tok, &diag), WHIM_ERR_OK);
    return tok;
}

/* A text that the vocabulary cannot write is no answer that stopped. */
static void a_grammar_may_not_fit_the_vocabulary(void **state)
{
    (void)state;
    answer a;
    held_service h = hold(open_abc(), "abc\xF1\x90\x80\x80");
    whim_job_cfg cfg = job_cfg(0, 20, 12);
    cfg.ignore_eos = false;
    cfg.grammar = h.grammar;
    cfg.vocab = h.vocab;
    read_all(submit(&cfg), &a);
    assert_int_equal(a.n[0], 3);
    assert_true(a.failed);
    assert_int_equal(a.err, WHIM_ERR_INVALID);
    assert_non_null(strstr(a.message, "vocabulary"));
    let_go(&h);
}

/* What the request itself rules out, likewise: here "a" may come, and the "b" behind it may not. */
static void a_grammar_may_not_fit_a_list_of_tokens(void **state)
{
    (void)state;
    answer a;
    held_service h = hold(open_abc(), "abc");
    whim_ids allowed = encode(h.tok, "a", 1, (whim_encode_opts){0});
    whim_job_cfg cfg = job_cfg(0, 20, 12);
    cfg.grammar = h.grammar;
    cfg.vocab = h.vocab;
    cfg.allowed = allowed.ids;
    cfg.n_allowed = (int32_t)allowed.n;
    read_all(submit(&cfg), &a);
    assert_int_equal(a.n[0], 1);
    assert_true(a.failed);
    assert_int_equal(a.err, WHIM_ERR_INVALID);
    assert_non_null(strstr(a.message, "tokens that are allowed"));
    whim_ids_deinit(&allowed);
    let_go(&h);
}

/* What the grammar cannot go on with ends its job and no other, also at the last token allowed. */
static void a_choice_that_fails_is_alone(void **state)
{
    (void)state;
    answer a, b;
    held_service h = hold(open_abc(), "ab\xF1\x90\x80\x80");
    whim_job_cfg good = job_cfg(1, 20, 30), bad = job_cfg(0, 20, 3);
    bad.grammar = h.grammar;
    bad.vocab = h.vocab;
    whim_job *other = submit(&good);
    read_all(submit(&bad), &a);
    assert_true(a.failed);
    read_all(other, &b);
    assert_int_equal(b.n[0], 30);
    let_go(&h);
}

/* Where the grammar has no place for the end of reasoning yet, the model goes on until it has. */
static void the_budget_waits_for_the_grammar(void **state)
{
    (void)state;
    answer a;
    held_service h =
        hold(open_file("cat tests/data/text/tiny/llama3.json"), "[a-z0-9]{30}[a-z0-9<E>]{30}");
    whim_ids end = encode(h.tok, "<E>", 3, (whim_encode_opts){.parse_special = true});
    whim_job_cfg cfg = job_cfg(0, 20, 58);
    cfg.grammar = h.grammar;
    cfg.vocab = h.vocab;
    cfg.think_open = true;
    cfg.think_budget = 2;
    cfg.think_end = "<E>";
    read_all(submit(&cfg), &a);
    assert_false(a.failed);
    int64_t at = 0;
    while (at + end.n <= a.n[0] &&
           memcmp(a.ids[0] + at, end.ids, (size_t)end.n * sizeof(int32_t)) != 0) {
        at++;
    }
    assert_in_range(at, 3, a.n[0] - end.n);
    let_go(&h);
    whim_ids_deinit(&end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_grammar_may_not_fit_the_vocabulary),
        cmocka_unit_test(a_grammar_may_not_fit_a_list_of_tokens),
        cmocka_unit_test(reasoning_has_a_budget),
        cmocka_unit_test(the_budget_counts_from_the_tag),
        cmocka_unit_test(the_tag_may_be_several_tokens),
        cmocka_unit_test(the_budget_waits_for_the_grammar),
        cmocka_unit_test(a_choice_that_fails_is_alone),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
