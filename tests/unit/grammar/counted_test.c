/* SPDX-License-Identifier: Apache-2.0 */
/* Strings of some lengths take what the same strings written out take, token by token. */
#include "unit/grammar/grammar_fixture.h"

#include "grammar/impl.h"

/* Lists of the same strings, with the characters written one behind the other. */
static whim_grammar *written_out(int64_t lo, int64_t hi)
{
    whim_diag diag = {{0}};
    whim_grammar_builder *b = fixture_builder();
    int32_t item = whim_gb_quoted(b, whim_grammar_repeat(b, whim_gb_json_any_char(b), lo, hi));
    int32_t more = whim_grammar_repeat(b, whim_gb_seq(b, whim_gb_comma(b), item), 0, -1);
    int32_t items = whim_gb_optional(b, whim_gb_seq(b, item, more));
    int32_t list = whim_gb_seq(b, whim_gb_text(b, "["), items, whim_gb_text(b, "]"));
    whim_grammar *g = fixture_build(b, list, &diag);
    assert_non_null(g);
    return g;
}

static whim_grammar *counted(int64_t lo, int64_t hi, bool list)
{
    whim_diag diag = {{0}};
    json_t *schema = json_pack("{s:s,s:I}", "type", "string", "minLength", (json_int_t)lo);
    assert_non_null(schema);
    assert_true(hi < 0 || json_object_set_new(schema, "maxLength", json_integer(hi)) == 0);
    schema = list ? json_pack("{s:s,s:o}", "type", "array", "items", schema) : schema;
    whim_grammar *g = fixture_schema_json(schema, &diag);
    if (g == NULL) {
        fail_msg("%lld to %lld: %s", (long long)lo, (long long)hi, diag.text);
    }
    json_decref(schema);
    return g;
}

/* Both walk the same random tokens, and have the same masks before each. */
static void walk_both(whim_grammar *one, whim_grammar *two, uint64_t seed)
{
    uint32_t mask[N_FIXTURE_WORD], other[N_FIXTURE_WORD];
    whim_grammar_state *s = fixture_state(one), *t = fixture_state(two);
    for (int32_t i = 0; i < 200; i++) {
        assert_true(whim_grammar_mask(s, mask, N_FIXTURE_WORD));
        assert_true(whim_grammar_mask(t, other, N_FIXTURE_WORD));
        assert_memory_equal(mask, other, sizeof mask);
        assert_int_equal(whim_grammar_may_end(s), whim_grammar_may_end(t));
        int32_t id = fixture_pick(mask, N_FIXTURE_WORD, whim_rng_at(seed, (uint64_t)i));
        if (id == ID_END) {
            break;
        }
        assert_true(whim_grammar_accept(s, id) && whim_grammar_accept(t, id));
    }
    whim_grammar_state_destroy(s);
    whim_grammar_state_destroy(t);
}

static void masks_are_those_of_strings_written_out(void **state)
{
    (void)state;
    static const int64_t rows[][2] = {{0, 0}, {0, 1},  {1, 1},  {2, 3},  {0, 7},
                                      {5, 5}, {3, 40}, {1, -1}, {17, -1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        whim_grammar *one = counted(rows[i][0], rows[i][1], true);
        whim_grammar *two = written_out(rows[i][0], rows[i][1]);
        for (uint64_t seed = 1; seed <= 60; seed++) {
            walk_both(one, two, seed);
        }
        whim_grammar_unref(one);
        whim_grammar_unref(two);
    }
}

/* A long string has no more states than a short one, and ends where it must. */
static void lengths_cost_no_states(void **state)
{
    (void)state;
    enum { LONG = 70000 };
    whim_grammar *small = counted(0, 3, false), *large = counted(0, LONG, false);
    assert_int_equal(small->n_state, large->n_state);
    char *text = malloc(LONG + 4);
    assert_non_null(text);
    memset(text, 'x', LONG + 2);
    text[0] = text[LONG + 1] = '"';
    text[LONG + 2] = '\0';
    assert_true(fixture_takes(large, text));
    memcpy(text + LONG + 1, "x\"", 3);
    assert_false(fixture_takes(large, text));
    free(text);
    whim_grammar_unref(small);
    whim_grammar_unref(large);
}

/* Where no token can write a character, only the empty string is left. */
static void bytes_of_the_model_are_kept_to(void **state)
{
    (void)state;
    bool bytes[256] = {['"'] = true};
    whim_grammar_limits limits = {.bytes = bytes};
    for (int64_t lo = 0; lo < 2; lo++) {
        whim_grammar_builder *b;
        whim_diag diag = {{0}};
        json_t *schema = json_pack("{s:s,s:I,s:I}", "type", "string", "minLength", (json_int_t)lo,
                                   "maxLength", (json_int_t)9);
        assert_int_equal(whim_grammar_builder_create(&limits, &b), WHIM_ERR_OK);
        whim_grammar *g = fixture_build(b, whim_grammar_schema(b, schema, "s"), &diag);
        assert_int_equal(g != NULL, lo == 0);
        assert_true(g == NULL || fixture_takes(g, "\"\""));
        whim_grammar_unref(g);
        json_decref(schema);
    }
}

static void a_bound_beyond_any_answer_is_none(void **state)
{
    (void)state;
    whim_grammar *g = counted(2, INT64_C(9007199254740991), false);
    assert_true(fixture_takes(g, "\"ab\""));
    assert_false(fixture_takes(g, "\"a\""));
    whim_grammar_unref(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_are_those_of_strings_written_out),
        cmocka_unit_test(lengths_cost_no_states),
        cmocka_unit_test(bytes_of_the_model_are_kept_to),
        cmocka_unit_test(a_bound_beyond_any_answer_is_none),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
