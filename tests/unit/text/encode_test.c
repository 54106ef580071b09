/* SPDX-License-Identifier: Apache-2.0 */
/* Spans, round trips, refusals and work of encoding. */
#include "unit/text/text_fixture.h"

#include "base/turn.h"
#include "base/utf8.h"

static const char *const tiny = "cat tests/data/text/tiny/flags.json";

static void expect_ids(const whim_ids *got, const int32_t *want, int64_t n)
{
    assert_int_equal(got->n, n);
    assert_memory_equal(got->ids, want, (size_t)n * sizeof *want);
}

/* A text in parts, [trusted] and (untrusted), against the ids that the parts must give. */
static whim_ids encode_parts(const whim_tokenizer *tok, const char *parts)
{
    char text[512];
    whim_text_span spans[32];
    int64_t n = 0, n_span = 0;
    for (const char *p = parts; *p != '\0'; p++) {
        if (*p == '[' || *p == '(') {
            spans[n_span] = (whim_text_span){.begin = n, .trusted = *p == '['};
        } else if (*p == ']' || *p == ')') {
            spans[n_span++].end = n;
        } else {
            text[n++] = *p;
        }
    }
    return encode(tok, text, n, (whim_encode_opts){.spans = spans, .n_span = n_span});
}

static void special_tokens_need_trust(void **state)
{
    (void)state;
    whim_tokenizer *tok = open_file(tiny);
    int32_t plain = whim_tokenizer_find(tok, "<plain>");
    int32_t soft = whim_tokenizer_find(tok, "<soft>");
    static const struct {
        const char *parts;
        int n_special;
    } cases[] = {
        {"[<plain>]", 1},
        {"(<plain>)", 0},
        {"[<pl](ain>)", 0},
        {"(<pl)[ain>]", 0},
        {"[<pl][ain>]", 1},
        {"[<plain>](<plain>)[<plain>]", 2},
        {"[<](plain)[>]", 0},
        {"[<soft>](<soft>)", 1},
        {"(<so)[ft>]", 0},
        {"[<pl]()[ain>]", 1},
        {"()[<soft>]()", 1},
        /* ordinary text is found anywhere, marks beside it are not */
        {"[Soft]( )[Word]", 1},
        {"(Soft Word<soft><plain>)", 1},
        {"(Soft)[ Word<plain>]", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        whim_ids ids = encode_parts(tok, cases[i].parts);
        int n = 0;
        for (int64_t k = 0; k < ids.n; k++) {
            n += ids.ids[k] == plain || ids.ids[k] == soft ||
                 (tok->vocab.tokens[ids.ids[k]].flags & WHIM_TOKEN_ADDED) != 0;
        }
        if (n != cases[i].n_special) {
            fail_msg("%s: %d added tokens, expected %d", cases[i].parts, n, cases[i].n_special);
        }
        whim_str text = decode(tok, &ids, true);
        char want[512], *w = want;
        for (const char *p = cases[i].parts; *p != '\0'; p++) {
            if (strchr("[]()", *p) == NULL) {
                *w++ = *p;
            }
        }
        *w = '\0';
        assert_string_equal(whim_str_text(&text), want);
        whim_str_deinit(&text);
        whim_ids_deinit(&ids);
    }
    whim_tokenizer_close(tok);
}

/* Without trust at all, ordinary text is still what it is. */
static void plain_tokens_need_no_trust(void **state)
{
    (void)state;
    whim_tokenizer *tok = open_file(tiny);
    static const char text[] = "Soft Word";
    const int32_t words = whim_tokenizer_find(tok, text);
    whim_ids ids = encode(tok, text, 9, (whim_encode_opts){.parse_special = false});
    expect_ids(&ids, &words, 1);
    whim_ids_deinit(&ids);
    ids = encode(tok, "<soft>", 6, (whim_encode_opts){.parse_special = false});
    assert_true(ids.n > 1);
    whim_ids_deinit(&ids);
    whim_tokenizer_close(tok);
    static const struct {
        const char *content;
        bool special, plain;
    } rows[] = {{"ü", false, true},           {"   ", false, true},       {"\n\n", false, true},
                {"ü", true, false},           {"<think>", false, false},  {"[INST]", false, false},
                {"<｜User｜>", false, false}, {"｜User｜", false, false}, {"a|b", false, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(whim_added_is_plain(rows[i].content, rows[i].special), rows[i].plain);
    }
}

/* Trust after normalising: the token shows only there, and a mark of the user's must not make
 * it. */
static void trust_survives_normalising(void **state)
{
    (void)state;
    whim_tokenizer *tok = open_file("cat tests/data/text/tiny/flags-lower.json");
    int32_t soft = whim_tokenizer_find(tok, "<soft>");
    whim_ids ids = encode_parts(tok, "[<SOFT>]");
    expect_ids(&ids, &soft, 1);
    whim_ids_deinit(&ids);
    ids = encode_parts(tok, "(<SOFT>)[<SOFT>\xE4\xB8\xAD](\xE4\xB8\xAD<)[SOFT>]");
    int n = 0;
    for (int64_t i = 0; i < ids.n; i++) {
        n += ids.ids[i] == soft;
    }
    assert_int_equal(n, 1);
    whim_ids_deinit(&ids);
    int32_t words = whim_tokenizer_find(tok, "Soft Word");
    ids = encode_parts(tok, "(SOFT word)");
    expect_ids(&ids, &words, 1);
    whim_ids_deinit(&ids);
    whim_tokenizer_close(tok);
}

/* Where no special token is found, spans change nothing. */
static void spans_do_not_split(void **state)
{
    (void)state;
    whim_tokenizer *tok = open_file("cat tests/data/text/tiny/llama3.json");
    whim_ids whole = encode(tok, "hello world", 11, (whim_encode_opts){0});
    whim_ids parts = encode_parts(tok, "[hel](lo)[ wo](rl)[d]");
    expect_ids(&parts, whole.ids, whole.n);
    assert_int_equal(whole.n, 2);
    whim_ids_deinit(&whole);
    whim_ids_deinit(&parts);
    whim_tokenizer_close(tok);
}

static void bad_spans_and_texts_are_refused(void **state)
{
    (void)state;
    whim_tokenizer *tok = open_file(tiny);
    static const whim_text_span bad[][2] = {
        {{0, 2, true}, {3, 5, true}}, {{0, 3, true}, {2, 5, true}},  {{0, 2, true}, {2, 4, true}},
        {{0, 2, true}, {2, 6, true}}, {{-1, 2, true}, {2, 5, true}}, {{0, 3, true}, {3, 2, true}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        whim_ids ids = {0};
        whim_diag diag = {{0}};
        whim_encode_opts opts = {.spans = bad[i], .n_span = 2};
        assert_int_equal(whim_tokenizer_encode(tok, "hello", 5, &opts, &ids, &diag),
                         WHIM_ERR_INVALID);
        assert_non_null(strstr(diag.text, "span"));
        whim_ids_deinit(&ids);
    }
    static const char *const texts[] = {"ab\xFF",         "ab\xC0\x80",         "ab\xE4\xB8",
                                        "ab\xED\xA0\x80", "ab\xF4\x90\x80\x80", "ab\x80"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        whim_ids ids = {0};
        whim_diag diag = {{0}};
        whim_encode_opts opts = {0};
        assert_int_equal(
            whim_tokenizer_encode(tok, texts[i], (int64_t)strlen(texts[i]), &opts, &ids, &diag),
            WHIM_ERR_INVALID);
        assert_non_null(strstr(diag.text, "byte 2 "));
        assert_int_equal(ids.n, 0);
    }
    whim_tokenizer_close(tok);
}

/* The work for one megabyte may not exceed that for a tenth of it by more than a logarithm. */
static void work_is_linear(void **state)
{
    (void)state;
    whim_tokenizer *tok = open_file("xz -dc tests/data/text/qwen3.json.xz");
    static const char *const units[] = {"a",          " ",
                                        "A",          "!",
                                        "ab",         "\xE4\xB8\xAD",
                                        "\n ",        "the tide of Oslo, 12 ",
                                        "<|im_start", "e\xCC\x81\xCC\x96"};
    enum { SMALL = 100000, LARGE = 1000000 };
    char *text = malloc(LARGE);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        int64_t len = (int64_t)strlen(units[i]);
        for (int64_t k = 0; k < LARGE; k++) {
            text[k] = units[i][k % len];
        }
        int64_t steps[2];
        for (int size = 0; size < 2; size++) {
            int64_t n = (size == 0 ? SMALL : LARGE) / len * len;
            /* The merges alone, on the text as one piece, are the part that could be quadratic. */
            whim_pieces pieces = {0};
            whim_matcher *matcher;
            assert_int_equal(whim_matcher_create(&matcher), WHIM_ERR_OK);
            whim_diag diag = {{0}};
            assert_int_equal(whim_pretokenize(&tok->pre, text, n, true, matcher, &pieces, &diag),
                             WHIM_ERR_OK);
            whim_bpe_scratch scratch = {0};
            whim_ids ids = {0};
            assert_int_equal(
                whim_bpe_encode(&tok->bpe, pieces.text.text, pieces.text.len, &scratch, &ids),
                WHIM_ERR_OK);
            steps[size] = scratch.steps;
            whim_bpe_scratch_deinit(&scratch);
            whim_pieces_deinit(&pieces);
            whim_matcher_free(matcher);
            whim_ids_deinit(&ids);
            ids = encode(tok, text, n, (whim_encode_opts){.parse_special = true});
            assert_true(ids.n > 0);
            whim_ids_deinit(&ids);
        }
        if (steps[1] > 15 * steps[0]) {
            fail_msg("\"%s\": %lld steps for %d bytes, %lld for %d", units[i], (long long)steps[0],
                     SMALL, (long long)steps[1], LARGE);
        }
    }
    free(text);
    whim_tokenizer_close(tok);
}

static void count_turn(void *ctx)
{
    (*(int64_t *)ctx)++;
}

/* Long work gives turns, in each of its parts: where a text is cut into words, while words are
 * merged, and inside one long word. */
static void long_texts_give_turns(void **state)
{
    (void)state;
    enum { WORDS = 100000, LONG = 1000000, MOST_BETWEEN = 1 << 16 };
    static const char unit[] = "tide ";
    const int64_t n = WORDS * (int64_t)(sizeof unit - 1);
    whim_tokenizer *tok = open_file("xz -dc tests/data/text/qwen3.json.xz");
    int64_t n_turn = 0, n_cut;
    char *text = malloc(n > LONG ? (size_t)n : LONG);
    for (int64_t i = 0; i < n; i++) {
        text[i] = unit[i % (int64_t)(sizeof unit - 1)];
    }
    whim_pieces pieces = {0};
    whim_matcher *matcher;
    whim_diag diag = {{0}};
    assert_int_equal(whim_matcher_create(&matcher), WHIM_ERR_OK);
    whim_turn_set(count_turn, &n_turn);
    assert_int_equal(whim_pretokenize(&tok->pre, text, n, true, matcher, &pieces, &diag),
                     WHIM_ERR_OK);
    n_cut = n_turn;
    assert_true(pieces.n >= WORDS && n_cut >= pieces.n / MOST_BETWEEN);
    whim_ids ids = encode(tok, text, n, (whim_encode_opts){.parse_special = true});
    assert_true(n_turn - 2 * n_cut >= pieces.n / MOST_BETWEEN);
    whim_ids_deinit(&ids);
    whim_bpe_scratch scratch = {0};
    for (int64_t i = 0; i < LONG; i++) {
        text[i] = "ab"[i % 2];
    }
    n_turn = 0;
    assert_int_equal(whim_bpe_encode(&tok->bpe, text, LONG, &scratch, &ids), WHIM_ERR_OK);
    assert_true(n_turn >= 2 * (LONG / MOST_BETWEEN)); /* as it is read, and as it is merged */
    whim_turn_set(NULL, NULL);
    whim_bpe_scratch_deinit(&scratch);
    whim_ids_deinit(&ids);
    whim_pieces_deinit(&pieces);
    whim_matcher_free(matcher);
    free(text);
    whim_tokenizer_close(tok);
}

/* No text becomes fewer ids than are told beforehand: not one of the longest token over and over,
 * and not one that the normaliser makes shorter. */
static void length_tells_the_least(void **state)
{
    (void)state;
    static const struct {
        const char *command;
        bool is_known;
    } files[] = {{"xz -dc tests/data/text/qwen3.json.xz", true},
                 {"cat tests/data/text/tiny/llama3.json", true},
                 {"cat tests/data/text/tiny/llama2.json", true},
                 {"cat tests/data/text/tiny/deepseek.json", true},
                 {"cat tests/data/text/tiny/fuse-unk.json", false},
                 {"cat tests/data/text/tiny/split-removed.json", false},
                 {"cat tests/data/text/tiny/strip.json", false},
                 {"cat tests/data/text/tiny/nfkd.json", false},
                 {"cat tests/data/text/tiny/flags.json", false}};
    enum { TIMES = 8 };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        whim_tokenizer *tok = open_file(files[i].command);
        whim_tokenizer_find_most_bytes(tok);
        assert_int_equal(whim_tokenizer_least_ids(tok, "e", 1), files[i].is_known);
        for (int32_t id = -3; id < whim_tokenizer_count(tok); id++) {
            /* The Kelvin sign, three Hangul letters, an iota with two marks. */
            static const char *const shrinking[] = {"\xE2\x84\xAA",
                                                    "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB",
                                                    "\xE1\xBE\xBE\xCC\x88\xCC\x81"};
            int64_t n = 0;
            const char *unit = id < 0 ? shrinking[id + 3] : whim_tokenizer_bytes(tok, id, &n);
            n = id < 0 ? (int64_t)strlen(unit) : n;
            whim_str text = {0};
            for (int k = 0; k < TIMES; k++) {
                whim_str_append_n(&text, unit, n);
            }
            if (whim_utf8_valid_prefix(whim_str_text(&text), text.len) == text.len) {
                whim_ids ids = encode(tok, whim_str_text(&text), text.len,
                                      (whim_encode_opts){.parse_special = true});
                assert_true(ids.n >= whim_tokenizer_least_ids(tok, whim_str_text(&text), text.len));
                whim_ids_deinit(&ids);
            }
            whim_str_deinit(&text);
        }
        whim_tokenizer_close(tok);
    }
}

static void too_long_is_refused_unread(void **state)
{
    (void)state;
    whim_tokenizer *tok = open_file("xz -dc tests/data/text/qwen3.json.xz");
    whim_tokenizer_find_most_bytes(tok);
    enum { N = 1 << 20 };
    char *text = malloc(N);
    memset(text, 0x80, N); /* whoever reads it says that it is no UTF-8 */
    whim_ids ids = {0};
    whim_diag diag = {{0}};
    const whim_encode_opts few = {.most = 10}, any = {.most = N};
    assert_int_equal(whim_tokenizer_encode(tok, text, N, &few, &ids, &diag), WHIM_ERR_NO_FIT);
    assert_non_null(strstr(diag.text, "> 10 maximum"));
    assert_int_equal(whim_tokenizer_encode(tok, text, N, &any, &ids, &diag), WHIM_ERR_INVALID);
    free(text);
    whim_tokenizer_close(tok);
}

/* A pattern that backtracks without end is stopped with an error. */
static void hostile_patterns_end(void **state)
{
    (void)state;
    whim_tokenizer *tok = open_file(tiny);
    whim_pretokenizer_deinit(&tok->pre);
    whim_diag diag = {{0}};
    assert_int_equal(
        whim_pre_add_regex(&tok->pre, "(a+)+(a+)+$|(a|aa)+b", WHIM_SPLIT_ISOLATED, false, &diag),
        WHIM_ERR_OK);
    char text[64];
    memset(text, 'a', sizeof text);
    text[63] = 'c';
    whim_ids ids = {0};
    whim_encode_opts opts = {0};
    assert_int_equal(whim_tokenizer_encode(tok, text, 64, &opts, &ids, &diag),
                     WHIM_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "regular expression"));
    assert_int_equal(ids.n, 0);
    whim_ids_deinit(&ids);
    whim_tokenizer_close(tok);
}

/* Without memory at any point: an error, and nothing left behind. */
static void memory_may_run_out(void **state)
{
    (void)state;
    int64_t n;
    char *json = command_output("cat tests/data/text/tiny/flags-lower.json", &n);
    assert_non_null(json);
    static const char text[] = "hello <SOFT> <left> e\xCC\x81 world";
    whim_text_span spans[] = {{0, 14, true}, {14, sizeof text - 1, false}};
    whim_encode_opts opts = {.spans = spans, .n_span = 2, .add_special = true};
    bool done = false;
    for (int64_t k = 0; !done && k < 5000; k++) {
        whim_alloc_fail_after(k);
        whim_tokenizer *tok = NULL;
        whim_diag diag = {{0}};
        whim_ids ids = {0};
        whim_err err = open_text(json, n, &tok, &diag);
        if (err == WHIM_ERR_OK) {
            err = whim_tokenizer_encode(tok, text, sizeof text - 1, &opts, &ids, &diag);
        }
        done = err == WHIM_ERR_OK;
        assert_true(done || err == WHIM_ERR_NO_MEMORY);
        whim_alloc_fail_after(-1);
        whim_ids_deinit(&ids);
        whim_tokenizer_close(tok);
    }
    assert_true(done);
    free(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(special_tokens_need_trust),
        cmocka_unit_test(plain_tokens_need_no_trust),
        cmocka_unit_test(trust_survives_normalising),
        cmocka_unit_test(spans_do_not_split),
        cmocka_unit_test(bad_spans_and_texts_are_refused),
        cmocka_unit_test(work_is_linear),
        cmocka_unit_test(long_texts_give_turns),
        cmocka_unit_test(length_tells_the_least),
        cmocka_unit_test(too_long_is_refused_unread),
        cmocka_unit_test(hostile_patterns_end),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
