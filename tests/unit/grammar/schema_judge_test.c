/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas that others wrote, and answers to them: what is taken, and what it costs.
 *
 * Without arguments: the schemas of tests/data/schemas/core.json. With a folder that holds a
 * tokenizer.json, or "-" for the small vocabulary of the tests, it judges what comes on its
 * standard input, line by line, for the scripts of tests/world:
 *   S<schema>   "ok <microseconds of compiling>" or "error <why not>"
 *   I<answer>   "<0 or 1: taken> <microseconds of the first mask> <of the slowest one> <bytes that
 *               fit> <hash of all masks>"
 *   W<number>   a random answer, or nothing when it did not end */
#include "unit/grammar/grammar_fixture.h"

#include "base/clock.h"

static int64_t microseconds_since(int64_t start)
{
    return (whim_clock_read(CLOCK_THREAD_CPUTIME_ID) - start) / 1000;
}

static whim_grammar *judge_schema(const char *text)
{
    json_error_t error;
    whim_diag diag = {{0}};
    json_t *schema = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (schema == NULL) {
        printf("error no JSON: %s\n", error.text);
        return NULL;
    }
    int64_t start = whim_clock_read(CLOCK_THREAD_CPUTIME_ID);
    whim_grammar *g = fixture_schema_json(schema, &diag);
    int64_t us = microseconds_since(start);
    if (g != NULL) {
        printf("ok %lld\n", (long long)us);
    } else {
        printf("error %s\n", diag.text);
    }
    json_decref(schema);
    return g;
}

/* Tells masks of one build from those of another (FNV-1a). */
static uint64_t hash_of(uint64_t hash, const uint32_t *mask, int64_t n_word)
{
    for (int64_t i = 0; i < n_word; i++) {
        hash = (hash ^ mask[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static void judge_answer(whim_grammar *g, const char *text)
{
    static uint32_t mask[1 << 14];
    whim_diag diag = {{0}};
    whim_ids ids = {0};
    whim_grammar_state *s = fixture_state(g);
    int64_t first = 0, slowest = 0, fitting = 0,
            n_word = whim_tokenizer_count(fixture_tok) / 32 + 1;
    assert_true(n_word <= (int64_t)(sizeof mask / sizeof mask[0]));
    whim_err err = whim_tokenizer_encode(fixture_tok, text, (int64_t)strlen(text),
                                         &(whim_encode_opts){0}, &ids, &diag);
    bool fits = err == WHIM_ERR_OK;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int64_t i = 0; i <= ids.n && fits; i++) {
        int64_t start = whim_clock_read(CLOCK_THREAD_CPUTIME_ID);
        bool held = whim_grammar_mask(s, mask, n_word);
        int64_t us = microseconds_since(start);
        first = i == 0 ? us : first;
        slowest = us > slowest ? us : slowest;
        hash = hash_of(hash, mask, held ? n_word : 0);
        if (i < ids.n) {
            fits = whim_grammar_accept(s, ids.ids[i]);
            assert_true(fits == (!held || fixture_bit(mask, ids.ids[i])));
            int64_t n;
            (void)whim_tokenizer_bytes(fixture_tok, ids.ids[i], &n);
            fitting += fits ? n : 0;
        }
    }
    printf("%d %lld %lld %lld %llu\n", fits && whim_grammar_may_end(s), (long long)first,
           (long long)slowest, (long long)fitting, (unsigned long long)hash);
    whim_grammar_state_destroy(s);
    whim_ids_deinit(&ids);
}

static void judge_walk(whim_grammar *g, const char *number)
{
    whim_str out = {0};
    int32_t end = ID_END;
    whim_grammar_state *s = fixture_state(g);
    uint64_t seed = strtoull(number, NULL, 10);
    bool ended = fixture_walk(s, fixture_tok, end, seed, (int64_t)(seed % 90), &out);
    whim_grammar_state_destroy(s);
    printf("%s\n", ended ? out.text : "");
    whim_str_deinit(&out);
}

static void judge_lines(void)
{
    char *line = NULL;
    size_t cap = 0;
    whim_grammar *g = NULL;
    for (ssize_t n; (n = getline(&line, &cap, stdin)) > 0; fflush(stdout)) {
        line[n - 1] = line[n - 1] == '\n' ? '\0' : line[n - 1];
        if (line[0] == 'S') {
            whim_grammar_unref(g);
            g = judge_schema(line + 1);
        } else if (g == NULL) {
            printf("error no schema\n");
        } else if (line[0] == 'I') {
            judge_answer(g, line + 1);
        } else {
            judge_walk(g, line + 1);
        }
    }
    whim_grammar_unref(g);
    free(line);
}

/* Its vocabulary is that of a folder, or the small one for "-". */
static int judge(const char *folder)
{
    whim_diag diag = {{0}};
    int32_t ends[8], n = 0;
    if (strcmp(folder, "-") == 0) {
        fixture_tok = fixture_tokenizer();
        ends[n++] = ID_END;
    } else if (whim_tokenizer_open(folder, NULL, &fixture_tok, &diag) == WHIM_ERR_OK) {
        n = whim_tokenizer_stop_ids(fixture_tok, ends, 8);
    } else {
        fprintf(stderr, "%s\n", diag.text);
        return 1;
    }
    if (whim_grammar_vocab_create(fixture_tok, ends, n, &fixture_vocab) != WHIM_ERR_OK) {
        return 1;
    }
    judge_lines();
    return fixture_teardown(NULL);
}

static void core_schemas(void **state)
{
    (void)state;
    json_error_t error;
    json_t *core = json_load_file("tests/data/schemas/core.json", 0, &error);
    assert_true(json_array_size(core) > 0);
    for (size_t i = 0; i < json_array_size(core); i++) {
        const json_t *each = json_array_get(core, i), *tests = json_object_get(each, "tests");
        const char *name = json_string_value(json_object_get(each, "description"));
        whim_diag diag = {{0}};
        whim_grammar *g = fixture_schema_json(json_object_get(each, "schema"), &diag);
        if (g == NULL) {
            fail_msg("%s: %s", name, diag.text);
        }
        assert_true(json_array_size(tests) > 1);
        for (size_t k = 0; k < json_array_size(tests); k++) {
            const json_t *test = json_array_get(tests, k);
            bool want = json_is_true(json_object_get(test, "valid"));
            char *text = json_dumps(json_object_get(test, "data"), JSON_ENCODE_ANY);
            assert_non_null(text);
            if (fixture_takes(g, text) != want) {
                fail_msg("%s: %s is %staken", name, text, want ? "not " : "");
            }
            free(text);
        }
        whim_grammar_unref(g);
    }
    json_decref(core);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(core_schemas)};
    return argc > 1 ? judge(argv[1])
                    : cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
