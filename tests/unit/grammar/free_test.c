/* SPDX-License-Identifier: Apache-2.0 */
/* States in which any text may come: which ones are found, and that masks are not changed by it. */
#include "unit/grammar/grammar_fixture.h"

#include "grammar/mask.h"

static whim_grammar *grammar_of(const char *schema)
{
    whim_diag diag = {{0}};
    whim_grammar *g = fixture_schema(schema, &diag);
    if (g == NULL) {
        fail_msg("%s: %s", schema, diag.text);
    }
    return g;
}

/* Whether a state besides those of plain strings is free. */
static bool has_free(const whim_grammar *g)
{
    bool found = false;
    for (int64_t s = 0; s < g->n_state; s++) {
        bool in_string = s >= g->string_begin && s < g->string_begin + g->n_string;
        found = found || (!in_string && g->states[s].is_free);
    }
    return found;
}

static const struct {
    const char *schema;
    bool free;
} rows[] = {
    {"{\"type\":\"string\",\"pattern\":\"name\"}", true},
    {"{\"type\":\"string\",\"pattern\":\"^a.*\"}", true},
    {"{\"type\":\"string\",\"pattern\":\"^.+@.+$\"}", true},
    {"{\"type\":\"string\",\"pattern\":\"^[^\\u2027]*$\"}", true}, /* its block is not text */
    {"{\"type\":\"string\",\"pattern\":\"^[^\\u2C27]*$\"}", false},
    {"{\"type\":\"string\",\"pattern\":\"^[a-z]*$\"}", false},
    {"{\"type\":\"string\",\"pattern\":\"^[^x]*$\"}", false},
    {"{\"type\":\"string\",\"pattern\":\"^[^\\u00E9]*$\"}", false},
    {"{\"type\":\"string\",\"pattern\":\"^[^\\uD83D\\uDE00]*$\"}", false},
    {"{\"type\":\"string\",\"pattern\":\"^.{0,9}$\"}", false},
    {"{\"type\":\"string\",\"pattern\":\"^a.*\",\"maxLength\":6}", false},
    /* All characters of a kind lead to one state, but for those of other kinds. */
    {"{\"type\":\"string\",\"pattern\":\"^[a-z0-9]{1,4}$\"}", false},
    {"{\"type\":\"string\",\"pattern\":\"^[^/]{2,6}$\"}", false},
    {"{\"type\":\"string\",\"pattern\":\"[a-f0-3]\",\"minLength\":3,\"maxLength\":5}", false},
    {"{\"type\":\"string\",\"pattern\":\"^([a-y]+|[A-Z]+[0-9]|[ .x]+)$\"}", false},
    {"{\"type\":\"string\",\"pattern\":\"^\\\\S+( \\\\S+)?$\"}", false},
    {"{\"properties\":{\"name\":{\"const\":1}},\"additionalProperties\":true}", true},
};

static void free_states_are_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        whim_grammar *g = grammar_of(rows[i].schema);
        if (has_free(g) != rows[i].free) {
            fail_msg("%s", rows[i].schema);
        }
        whim_grammar_unref(g);
    }
}

/* A token is in the mask when it is taken, and only then. */
static void check_mask(whim_grammar_state *s, const uint32_t *mask, const char *schema)
{
    assert_true(whim_grammar_keep(s));
    for (int32_t id = 0; id < ID_END; id++) {
        bool taken = whim_grammar_accept(s, id);
        if (taken != fixture_bit(mask, id)) {
            fail_msg("%s: token %d is %staken", schema, id, taken ? "" : "not ");
        }
        whim_grammar_go_back(s);
    }
}

static void masks_hold_what_is_taken(void **state)
{
    (void)state;
    uint32_t mask[N_FIXTURE_WORD];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        whim_grammar *g = grammar_of(rows[i].schema);
        for (uint64_t seed = 1; seed <= 8; seed++) {
            whim_grammar_state *s = fixture_state(g);
            for (uint64_t k = 0; k < 24; k++) {
                assert_true(whim_grammar_mask(s, mask, N_FIXTURE_WORD));
                check_mask(s, mask, rows[i].schema);
                int32_t id = fixture_pick(mask, N_FIXTURE_WORD, whim_rng_at(seed, k));
                if (id == ID_END || !whim_grammar_accept(s, id)) {
                    break;
                }
            }
            whim_grammar_state_destroy(s);
        }
        whim_grammar_unref(g);
    }
}

/* How far any text of some kinds leads on behind the quote. */
static void text_ahead_is_known(void **state)
{
    (void)state;
    static const struct {
        const char *rule;
        uint8_t kinds;
        int32_t far;
    } known[] = {
        {"\"pattern\":\"name\"", GK_TEXT, GAHEAD_EVER},
        {"\"pattern\":\"^[^\\u00E9]*$\"", GK_TEXT & ~GK_BEYOND, GAHEAD_EVER},
        {"\"pattern\":\"^[^\\u00E9]*$\"", GK_BEYOND, 0},
        {"\"pattern\":\"^.{0,9}$\"", GK_TEXT, 9},
        {"\"pattern\":\"^[a-z0-9]{1,4}$\"", GK_LOWER | GK_DIGIT, 4},
        {"\"pattern\":\"^[a-z0-9]{1,4}$\"", GK_LOWER | GK_UPPER, 0},
        {"\"pattern\":\"^([a-m]+|[n-z])*$\"", GK_LOWER, GAHEAD_EVER},
        /* The last of the characters must be one of six where none was before. */
        {"\"pattern\":\"[a-f]\",\"minLength\":4,\"maxLength\":4", GK_LOWER, 3},
        {"\"pattern\":\"[a-f]\",\"minLength\":4,\"maxLength\":4", GK_TEXT, 3},
        /* Two words of four with different letters must not come, nor end. */
        {"\"oneOf\":[{\"pattern\":\"cat\"},{\"pattern\":\"dog\"},{\"pattern\":\"emu\"},"
         "{\"pattern\":\"fig\"}]",
         GK_LOWER, 5},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        char schema[160];
        snprintf(schema, sizeof schema, "{\"type\":\"string\",%s}", known[i].rule);
        whim_grammar *g = grammar_of(schema);
        gwalk w;
        assert_int_equal(whim_walk_init(&w, g, 8), WHIM_ERR_OK);
        whim_walk_many(&w, &(gconfig){g->start, w.frames[FRAME_ROOT].self}, 1);
        assert_true(whim_walk_step(&w, 0, '"') && w.levels[1].n == 1);
        int32_t from = w.configs[w.levels[1].begin].state;
        int32_t far = known[i].far;
        for (int32_t again = 0; again < 2; again++) {
            bool is_less = far > 1 && !whim_walk_leads_on(&w, from, known[i].kinds, far / 2);
            bool is_more = far < GAHEAD_EVER &&
                           whim_walk_leads_on(&w, from, known[i].kinds, again == 0 ? far + 1 : 255);
            if (is_less || is_more || !whim_walk_leads_on(&w, from, known[i].kinds, far)) {
                fail_msg("%s, kinds %d: not %d", schema, known[i].kinds, far);
            }
        }
        whim_walk_deinit(&w);
        whim_grammar_unref(g);
    }
}

/* Characters that a token adds behind its first `from` bytes. */
static int32_t chars_behind(const whim_tokenizer *tok, int32_t id, int64_t from)
{
    int64_t n;
    const char *bytes = whim_tokenizer_bytes(tok, id, &n);
    int32_t n_char = 0;
    for (int64_t i = from; i < n; i++) {
        n_char += (bytes[i] & 0xC0) != 0x80;
    }
    return n_char;
}

/* As many as the longest text below a node has, whatever their bytes: that of a published
 * vocabulary, which has texts of many scripts. */
static void characters_are_counted(void **state)
{
    (void)state;
    whim_tokenizer *tok = open_file("xz -dc tests/data/text/qwen3.json.xz");
    whim_grammar_vocab *v;
    int32_t n_text = 0, n_shorter = 0;
    assert_int_equal(whim_grammar_vocab_create(tok, NULL, 0, &v), WHIM_ERR_OK);
    for (int32_t i = 0; i < v->n_node; i++) {
        const gtrie_node *node = &v->nodes[i];
        int32_t most = 0;
        if (node->below & GK_ELSE) {
            continue;
        }
        for (int32_t k = node[1].first_tok; k < v->nodes[node->skip].first_tok; k++) {
            int32_t n_char = chars_behind(tok, v->tokens[k], node->depth);
            most = n_char > most ? n_char : most;
        }
        if (node->n_char != most) {
            fail_msg("node %d: %d, not %d", i, node->n_char, most);
        }
        n_text++;
        n_shorter += node->n_char < node->height;
    }
    assert_true(n_shorter > n_text / 20);
    whim_grammar_vocab_destroy(v);
    whim_tokenizer_close(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(free_states_are_found),
        cmocka_unit_test(characters_are_counted),
        cmocka_unit_test(masks_hold_what_is_taken),
        cmocka_unit_test(text_ahead_is_known),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
