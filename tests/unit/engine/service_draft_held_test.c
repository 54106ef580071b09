/* SPDX-License-Identifier: Apache-2.0 */
/* Proposals of answers that are held to something: grammars of every kind, a least length, a budget
 * of reasoning, a list of tokens, what came before. Tokens, log-probabilities and ends are those of a service that proposes nothing. */
#include "engine/service/inner.h"
#include "support/byte_vocab.h"
#include "unit/engine/service_fixture.h"
#include "unit/text/text_fixture.h"

/* --- a vocabulary of the tiny models' size ---------------------------------------------------- */

static const char bytes_known[] = " \",-./0123456789:<>[]_{}abcdefghijklmnopqrstuvwxyz";
static const char *const words_known[] = {"\"a",   "\": ", "\", \"", "{\"",        "\"}",  "ab",
                                          "12",    "na",   "name",   "\"name\": ", "the ", "true",
                                          "false", "null", "ru",     "en",         "[1",   "},",
                                          "</",    "tool", "tool_",  "\\",         "E",    "e ",
                                          "co",    "in",   "0.",     "x1",         "yz"};
static const char *const specials_known[] = {"<|end|>", "<think>", "</think>", "<tool_call>"};
enum {
    N_BYTE = sizeof bytes_known - 1,
    N_KNOWN = sizeof words_known / sizeof words_known[0],
    ID_END = N_BYTE + N_KNOWN,
    N_CASE = 26,
    N_TOP = 3,
};

static whim_tokenizer *tok;
static whim_grammar_vocab *vocab;

static void vocab_open(void)
{
    static const int32_t end = ID_END;
    whim_str json = {0};
    whim_diag diag = {""};
    whim_str_append(&json, "{\"added_tokens\":[");
    for (int32_t i = 0; i < 4; i++) {
        whim_str_printf(&json,
                        "%s{\"id\":%d,\"content\":\"%s\",\"single_word\":false,\"lstrip\":false,"
                        "\"rstrip\":false,\"normalized\":false,\"special\":true}",
                        i > 0 ? "," : "", ID_END + i, specials_known[i]);
    }
    whim_str_append(&json, "],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\","
                           "\"add_prefix_space\":false,\"use_regex\":true},\"post_processor\":null,"
                           "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\","
                           "\"ignore_merges\":true,\"merges\":[],\"vocab\":{");
    for (int32_t i = 0; i < ID_END; i++) {
        const char *bytes = i < N_BYTE ? &bytes_known[i] : words_known[i - N_BYTE];
        whim_str_append(&json, i > 0 ? ",\"" : "\"");
        byte_vocab_token(&json, bytes, i < N_BYTE ? 1 : (int64_t)strlen(bytes));
        whim_str_printf(&json, "\":%d", i);
    }
    whim_str_append(&json, "}}}");
    if (open_text(whim_str_text(&json), json.len, &tok, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    whim_str_deinit(&json);
    assert_int_equal(config->n_vocab, ID_END + 4);
    assert_int_equal(whim_grammar_vocab_create(tok, &end, 1, &vocab), WHIM_ERR_OK);
}

/* --- what answers are held to ----------------------------------------------------------------- */

static whim_grammar_node literal(whim_grammar_builder *b, const char *text)
{
    return whim_grammar_literal(b, text, (int64_t)strlen(text));
}

static whim_grammar_node schema_of(whim_grammar_builder *b, const char *text)
{
    json_t *schema = json_loads(text, 0, NULL);
    assert_non_null(schema);
    whim_grammar_node node = whim_grammar_schema(b, schema, "s");
    json_decref(schema);
    return node;
}

static whim_grammar_node tool_call(whim_grammar_builder *b)
{
    return whim_grammar_seq(
        b,
        (whim_grammar_node[]){
            whim_grammar_until(b, "<tool_call>"), literal(b, "{\"name\": \"run\", \"in\": "),
            schema_of(b, "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"integer\"},"
                         "\"a\":{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},"
                         "\"minItems\":2}},\"required\":[\"name\",\"a\"]}"),
            literal(b, "}</tool_call>")},
        4);
}

enum { REGEX, FORCED, SCHEMA, TOOL, THOUGHT, OPEN_END, N_GRAMMAR, LISTED = 9, LOOKS_BACK = 11 };
static whim_grammar *grammars[N_GRAMMAR];

static whim_grammar_node grammar_node(whim_grammar_builder *b, int32_t kind)
{
    switch (kind) {
    case REGEX:
        return whim_grammar_regex(b, "([a-c]{3}-){4}end", "r");
    case FORCED: /* every token but one is left open at few places */
        return whim_grammar_regex(b, "(z:q:[xw]:q:z:j:){8}", "r");
    case SCHEMA:
        return schema_of(
            b, "{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"name\":"
               "{\"enum\":[\"ab\",\"the end\"]},\"x1\":{\"type\":\"integer\"}},\"required\":"
               "[\"name\",\"x1\"]},\"minItems\":3}");
    case TOOL:
        return tool_call(b);
    case THOUGHT:
        return whim_grammar_seq(b,
                                (whim_grammar_node[]){whim_grammar_until(b, "</think>"),
                                                      whim_grammar_regex(b, "(ab|yz|12)+-E", "r")},
                                2);
    default:
        return whim_grammar_regex(b, "[a-f]*", "r");
    }
}

static void grammars_open(void)
{
    for (int32_t i = 0; i < N_GRAMMAR; i++) {
        whim_diag diag = {""};
        whim_grammar_builder *b;
        whim_grammar_limits limits = {.bytes = whim_grammar_vocab_bytes(vocab)};
        assert_int_equal(whim_grammar_builder_create(&limits, &b), WHIM_ERR_OK);
        if (whim_grammar_build(b, grammar_node(b, i), &grammars[i], &diag) != WHIM_ERR_OK) {
            fail_msg("grammar %d: %s", i, diag.text);
        }
        whim_grammar_builder_destroy(b);
    }
}

static int open_llama(void **state)
{
    open_engine(state);
    vocab_open();
    grammars_open();
    return 0;
}

static int open_gated_delta(void **state)
{
    open_hybrid(state);
    vocab_open();
    grammars_open();
    return 0;
}

/* With a draft that knows nothing of what answers are held to. */
static int open_drafted(void **state)
{
    (void)state;
    fixture_draft = "tests/data/drafts/qwen3-f32-dflash";
    open_model("tests/data/golden/qwen3-f32");
    fixture_draft = NULL;
    vocab_open();
    grammars_open();
    return 0;
}

static int close_held(void **state)
{
    for (int32_t i = 0; i < N_GRAMMAR; i++) {
        whim_grammar_unref(grammars[i]);
    }
    whim_grammar_vocab_destroy(vocab);
    whim_tokenizer_close(tok);
    return close_engine(state);
}

/* Each kind greedy and drawn; every one has a prompt of its own. */
static whim_job_cfg held_cfg(int32_t k)
{
    static int32_t prompts[N_CASE][40], ends[40];
    int32_t kind = k / 2;
    whim_job_cfg cfg = job_cfg(0, 30, MAX_MADE - 2);
    for (int32_t i = 0; i < 40; i++) {
        prompts[k][i] = (i * (k + 5) + k) % config->n_vocab;
        ends[i] = 2 * i;
    }
    cfg.prompt = prompts[k];
    cfg.ignore_eos = false;
    cfg.params.temperature = k % 2 == 0 ? 0 : 1;
    cfg.params.frequency_penalty = k % 4 == 1 ? 0.3f : 0;
    cfg.params.want_logprob = true;
    cfg.params.n_logprob = k % 3 == 0 ? 0 : N_TOP;
    cfg.params.seed = (uint64_t)k;
    if (kind < N_GRAMMAR) {
        cfg.grammar = grammars[kind];
        cfg.vocab = vocab;
    }
    if (kind >= LOOKS_BACK) { /* repetitions; words, with a grammar */
        static const uint32_t breakers[] = {1 << 4 | 1 << 9};
        static const whim_ban bans[] = {{0, 1}, {1, 2}, {3, 2}, {5, 1}};
        static const int32_t banned[] = {22, 24, 25, 26, 24, 30};
        static const whim_history_rules rules[] = {
            {.dry_multiplier = 3,
             .dry_base = 1.75f,
             .dry_allowed = 1,
             .dry_last = -1,
             .dry_breakers = breakers,
             .n_breaker_word = 1},
            {.bans = bans, .n_ban = 4, .ban_ids = banned, .n_ban_id = 6}};
        cfg.params.history = &rules[kind - LOOKS_BACK];
        cfg.ignore_eos = true;
        cfg.grammar = kind == LOOKS_BACK ? NULL : grammars[SCHEMA];
        cfg.vocab = vocab;
    } else if (kind >= LISTED) { /* alone, and with a grammar that leaves more than the list */
        cfg.allowed = &ends[kind == LISTED ? 0 : 3];
        cfg.n_allowed = 37;
        cfg.grammar = kind == LISTED ? NULL : grammars[OPEN_END];
        cfg.vocab = vocab;
        cfg.min_tokens = kind == LISTED ? 0 : 9;
        cfg.ignore_eos = kind == LISTED;
    } else if (kind >= THOUGHT) { /* with and without a grammar */
        cfg.min_tokens = kind == THOUGHT ? 0 : 17;
        cfg.think_open = kind == THOUGHT || kind >= 7;
        cfg.think_budget = 6;
        cfg.think_end = kind >= 7 ? "ab12</think>" : "ab</think>";
        cfg.stop_ids = ends; /* of which "ab" is one */
        cfg.n_stop_id = kind == THOUGHT || kind == 8 ? 0 : 40;
    }
    return cfg;
}

/* --- answers with all that was told ----------------------------------------------------------- */

typedef struct told {
    int32_t ids[MAX_MADE];
    float logprobs[MAX_MADE];
    whim_job_logprob tops[MAX_MADE][N_TOP];
    int32_t n_top[MAX_MADE];
    int64_t n;
    whim_end end;
    bool failed;
} told;

static told plain[N_CASE];

static void read_told(whim_job *job, told *t)
{
    whim_job_event e = {.kind = WHIM_JOB_ADMITTED};
    memset(t, 0, sizeof *t);
    while (e.kind != WHIM_JOB_DONE && e.kind != WHIM_JOB_FAILED) {
        if (!whim_job_next(job, &e)) {
            whim_clock_sleep_ns(WHIM_NS_PER_MS / 5);
            continue;
        }
        if (e.kind == WHIM_JOB_TOKEN) {
            assert_true(t->n < MAX_MADE && e.n_top <= N_TOP && e.has_logprob);
            memcpy(t->tops[t->n], e.top, (size_t)e.n_top * sizeof *e.top);
            t->n_top[t->n] = e.n_top;
            t->logprobs[t->n] = e.logprob;
            t->ids[t->n++] = e.id;
        }
        t->end = e.kind == WHIM_JOB_CHOICE_END ? e.end : t->end;
        t->failed = e.kind == WHIM_JOB_FAILED;
    }
    whim_job_release(job);
}

static void start_held(whim_propose_fn propose, bool proposes)
{
    static const int32_t end = ID_END;
    whim_diag diag = {""};
    whim_service_cfg cfg = service_cfg();
    cfg.tok = tok;
    cfg.stop_ids = &end;
    cfg.n_stop_id = 1;
    cfg.max_waiting = N_CASE;
    cfg.no_lookup = !proposes;
    cfg.propose = propose;
    cfg.propose_all = true;
    assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_OK);
}

/* --- sources ---------------------------------------------------------------------------------- */

static int64_t always_right(void *ctx, const int32_t *tokens, int64_t n, int32_t *out, int64_t max)
{
    (void)ctx;
    for (int32_t k = 0; k < N_CASE; k++) {
        whim_job_cfg cfg = held_cfg(k);
        if (memcmp(tokens, cfg.prompt, (size_t)cfg.n_prompt * sizeof *tokens) == 0) {
            for (int64_t i = 0; i < max; i++) { /* behind the answer, too */
                int64_t at = n - cfg.n_prompt + i;
                out[i] = at < plain[k].n ? plain[k].ids[at] : (int32_t)(at % config->n_vocab);
            }
            return max;
        }
    }
    return 0;
}

static int64_t always_wrong(void *ctx, const int32_t *tokens, int64_t n, int32_t *out, int64_t max)
{
    int64_t m = always_right(ctx, tokens, n, out, max);
    for (int64_t i = 0; i < m; i++) {
        out[i] = (out[i] + 1 + (int32_t)(n % 5)) % config->n_vocab;
    }
    return m;
}

static int64_t half_right(void *ctx, const int32_t *tokens, int64_t n, int32_t *out, int64_t max)
{
    int64_t m = always_right(ctx, tokens, n, out, max);
    out[n % 4] = (out[n % 4] + 1 + (int32_t)(n % 7)) % config->n_vocab;
    return m;
}

static int64_t nothing(void *ctx, const int32_t *tokens, int64_t n, int32_t *out, int64_t max)
{
    (void)ctx, (void)tokens, (void)n, (void)out, (void)max;
    return 0;
}

/* --- tests ------------------------------------------------------------------------------------ */

static void answers_are_plain(void)
{
    static told t;
    whim_job *jobs[N_CASE];
    for (int32_t k = 0; k < N_CASE; k++) {
        whim_job_cfg cfg = held_cfg(k);
        read_told(submit(&cfg), &t);
        assert_memory_equal(&t, &plain[k], sizeof t);
    }
    for (int32_t k = 0; k < N_CASE; k++) {
        whim_job_cfg cfg = held_cfg(k);
        jobs[k] = submit(&cfg);
    }
    for (int32_t k = 0; k < N_CASE; k++) {
        read_told(jobs[k], &t);
        assert_memory_equal(&t, &plain[k], sizeof t);
    }
    pages_come_back();
}

static whim_service_stats with(whim_propose_fn propose)
{
    start_held(propose, true);
    answers_are_plain();
    whim_service_stats stats = whim_service_get_stats(service);
    stop(NULL);
    return stats;
}

static void proposals_change_nothing_that_is_told(void **state)
{
    (void)state;
    int64_t n_ended = 0;
    start_held(NULL, false);
    for (int32_t k = 0; k < N_CASE; k++) {
        whim_job_cfg cfg = held_cfg(k);
        read_told(submit(&cfg), &plain[k]);
        assert_false(plain[k].failed);
        n_ended += plain[k].end == WHIM_END_EOS;
    }
    assert_in_range(n_ended, N_CASE / 3, N_CASE); /* not all are cut off */
    assert_int_equal(whim_service_get_stats(service).n_proposed, 0);
    stop(state);
    whim_service_stats stats = with(always_right);
    assert_true(stats.n_right > 100);
    assert_int_equal(stats.n_right, stats.n_proposed); /* none stands behind an end */
    stats = with(half_right);
    assert_true(stats.n_right > 0 && stats.n_right < stats.n_proposed);
    stats = with(always_wrong);
    assert_true(stats.n_right < stats.n_proposed);
    with(NULL);
}

/* Where nothing is proposed, what the grammar or the budget leaves no choice of still comes. */
static void what_must_come_is_proposed(void **state)
{
    static told t;
    start_held(nothing, true);
    whim_job_cfg cfg = held_cfg(2 * FORCED);
    read_told(submit(&cfg), &t);
    whim_service_stats stats = whim_service_get_stats(service);
    assert_true(stats.n_right == stats.n_proposed && stats.n_right > t.n / 2);
    cfg = held_cfg(16); /* the end of reasoning, but the first token of it */
    read_told(submit(&cfg), &t);
    whim_service_stats more = whim_service_get_stats(service);
    assert_true(more.n_right == more.n_proposed && more.n_right > stats.n_right);
    stop(state);
}

/* --- stop strings ----------------------------------------------------------------------------- */

static told unstopped;

static whim_job_cfg stopped_cfg(const char *const *stop)
{
    whim_job_cfg cfg = held_cfg(0);
    cfg.grammar = NULL;
    cfg.vocab = NULL;
    cfg.ignore_eos = true;
    cfg.max_tokens = 40;
    cfg.stops = stop;
    cfg.n_stop = stop != NULL;
    return cfg;
}

static int64_t right_without_stops(void *ctx, const int32_t *tokens, int64_t n, int32_t *out,
                                   int64_t max)
{
    int64_t at = n - held_cfg(0).n_prompt, m = unstopped.n - at < max ? unstopped.n - at : max;
    (void)ctx, (void)tokens;
    memcpy(out, unstopped.ids + at, (size_t)m * sizeof *out);
    return m;
}

/* The text of two tokens in a row: it is complete with the second, wherever that stands in a
 * block. */
static bool stop_text(int64_t at, char *out, size_t size)
{
    int64_t n[2], used = 0;
    for (int i = 0; i < 2; i++) {
        const char *bytes = whim_tokenizer_bytes(tok, unstopped.ids[at + i], &n[i]);
        if (bytes == NULL || n[i] == 0 || unstopped.ids[at + i] >= ID_END ||
            used + n[i] >= (int64_t)size) {
            return false;
        }
        memcpy(out + used, bytes, (size_t)n[i]);
        used += n[i];
    }
    out[used] = '\0';
    return true;
}

/* With each stop string what a service without proposals says. */
static void stop_strings_fall_inside_a_block(void **state)
{
    static told plainly, t;
    char text[64];
    const char *stop_at = text;
    int32_t n_stopped = 0;
    start_held(NULL, false);
    whim_job_cfg cfg = stopped_cfg(NULL);
    read_told(submit(&cfg), &unstopped);
    assert_int_equal(unstopped.n, 40);
    stop(state);
    for (int64_t at = 1; at < 30; at++) {
        if (!stop_text(at, text, sizeof text)) {
            continue;
        }
        cfg = stopped_cfg(&stop_at);
        start_held(NULL, false);
        read_told(submit(&cfg), &plainly);
        stop(state);
        start_held(right_without_stops, true);
        read_told(submit(&cfg), &t);
        pages_come_back();
        assert_true(whim_service_get_stats(service).n_right > 0 || plainly.n <= 3);
        stop(state);
        assert_memory_equal(&t, &plainly, sizeof t);
        n_stopped += t.end == WHIM_END_STOP && t.n <= at + 2;
    }
    assert_true(n_stopped >= 3);
}

/* --- a draft that is asked in vain ------------------------------------------------------------ */

/* What it says may not come, and is never tried: it counts as wrong, or it would be asked for ever. */
static void asked_in_vain_is_wrong(void **state)
{
    static told t;
    start_held(NULL, false);
    whim_job_cfg cfg = held_cfg(0);
    cfg.grammar = grammars[OPEN_END];
    cfg.ignore_eos = true;
    cfg.min_tokens = cfg.max_tokens = 40;
    read_told(submit(&cfg), &t);
    pages_come_back();
    assert_int_equal(t.n, 40);
    assert_true(whim_service_get_stats(service).n_proposed < 20);
    assert_true(service->drafts.draft_hits.chance[0] < 0.4); /* of 0.6 where nothing is known */
    stop(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proposals_change_nothing_that_is_told),
        cmocka_unit_test(what_must_come_is_proposed),
        cmocka_unit_test(stop_strings_fall_inside_a_block),
    };
    int failed = cmocka_run_group_tests_name("llama", tests, open_llama, close_held);
    const struct CMUnitTest drafted[] = {cmocka_unit_test(asked_in_vain_is_wrong)};
    failed += cmocka_run_group_tests_name("drafted", drafted, open_drafted, close_held);
    return failed + cmocka_run_group_tests_name("hybrid", tests, open_gated_delta, close_held);
}
