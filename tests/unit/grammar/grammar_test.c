/* SPDX-License-Identifier: Apache-2.0 */
/* Grammars from parts, and the masks: a token is in the mask exactly when it is taken, an end token
 * exactly when the answer may end, and every answer can be finished. */
#include "unit/grammar/grammar_fixture.h"

/* The mask of the answer so far against taking each token in turn. */
static void check_masks(whim_grammar *g, const int32_t *ids, int64_t n)
{
    uint32_t mask[N_FIXTURE_WORD];
    whim_grammar_state *s = fixture_state(g);
    for (int64_t i = 0; i <= n; i++) {
        assert_true(whim_grammar_mask(s, mask, N_FIXTURE_WORD));
        bool only_end = true;
        for (int32_t id = 0; id < N_FIXTURE; id++) {
            whim_grammar_state *other = fixture_state(g);
            for (int64_t k = 0; k < i; k++) {
                assert_true(whim_grammar_accept(other, ids[k]));
            }
            bool taken = whim_grammar_accept(other, id);
            if (taken != fixture_bit(mask, id)) {
                fail_msg("token %d after %lld: taken %d, in the mask %d", id, (long long)i, taken,
                         !taken);
            }
            only_end = only_end && (!taken || id == ID_END);
            whim_grammar_state_destroy(other);
        }
        assert_true(fixture_bit(mask, ID_END) == whim_grammar_may_end(s));
        assert_true(whim_grammar_must_end(s) == (only_end && whim_grammar_may_end(s)));
        assert_false(fixture_bit(mask, ID_OTHER));
        if (i < n) {
            assert_true(whim_grammar_accept(s, ids[i]));
        }
    }
    whim_grammar_state_destroy(s);
}

/* Random answers, and the masks along them. */
static void check_grammar(whim_grammar *g)
{
    for (uint64_t key = 1; key <= 4; key++) {
        whim_str text = {0};
        whim_grammar_state *s = fixture_state(g);
        assert_true(fixture_walk(s, fixture_tok, ID_END, key * 77, 6, &text));
        whim_grammar_state_destroy(s);
        int32_t ids[24];
        int64_t n = text.len < 24 ? text.len : 24;
        for (int64_t i = 0; i < n; i++) {
            ids[i] = (uint8_t)text.text[i];
        }
        size_t len = text.len > 0 ? (size_t)text.len : 0;
        if (memmem(whim_str_text(&text), len, "</think>", 8) == NULL ||
            n < text.len) { /* the special token's bytes are not text */
            check_masks(g, ids, n);
        }
        whim_str_deinit(&text);
    }
}

static void masks_are_exact(void **state)
{
    (void)state;
    static const char *const schemas[] = {
        "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"a\":{\"type\":"
        "\"integer\"}},\"required\":[\"name\"]}",
        "{\"type\":\"array\",\"items\":{\"type\":\"number\",\"minimum\":-1,\"maximum\":12}}",
        "true",
        "{\"type\":\"string\",\"minLength\":2,\"maxLength\":4}",
        "{\"$ref\":\"#/$defs/n\",\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"a\":{"
        "\"anyOf\":[{\"$ref\":\"#/$defs/n\"},{\"$ref\":\"#/$defs/m\"},{\"type\":\"null\"}]}},"
        "\"required\":[\"a\"]},\"m\":{\"type\":\"object\",\"properties\":{\"a\":{\"anyOf\":[{"
        "\"$ref\":\"#/$defs/n\"},{\"$ref\":\"#/$defs/m\"}]},\"b\":{\"type\":\"boolean\"}}}}}",
        "{\"enum\":[\"the\",\"the end\",12,1.5,null,[1,{\"a\":[]}]]}",
        "{\"type\":\"string\",\"pattern\":\"^[a-c\\u00e9]+$\",\"maxLength\":5}",
    };
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++) {
        whim_diag diag = {{0}};
        whim_grammar *g = fixture_schema(schemas[i], &diag);
        assert_non_null(g);
        check_grammar(g);
        whim_grammar_unref(g);
    }
}

static void parts_make_grammars(void **state)
{
    (void)state;
    whim_diag diag = {{0}};
    whim_grammar_builder *b = fixture_builder();
    whim_grammar_node yes = whim_grammar_literal(b, "yes", 3),
                      no = whim_grammar_literal(b, "no", 2);
    whim_grammar_node word = whim_grammar_any_of(b, (whim_grammar_node[]){yes, no}, 2);
    whim_grammar_node bang = whim_grammar_repeat(b, whim_grammar_literal(b, "!", 1), 1, 3);
    whim_grammar *g =
        fixture_build(b, whim_grammar_seq(b, (whim_grammar_node[]){word, bang}, 2), &diag);
    assert_non_null(g);
    assert_true(fixture_takes(g, "yes!"));
    assert_true(fixture_takes(g, "no!!!"));
    assert_false(fixture_takes(g, "no"));
    assert_false(fixture_takes(g, "no!!!!"));
    assert_false(fixture_takes(g, "yesno!"));
    check_grammar(g);
    whim_grammar_unref(g);
}

static void text_ends_at_its_mark(void **state)
{
    (void)state;
    whim_diag diag = {{0}};
    whim_grammar_builder *b = fixture_builder();
    whim_grammar_node think = whim_grammar_until(b, "</think>");
    whim_grammar_node answer = whim_grammar_literal(b, "ok", 2);
    whim_grammar *g =
        fixture_build(b, whim_grammar_seq(b, (whim_grammar_node[]){think, answer}, 2), &diag);
    assert_non_null(g);
    assert_true(fixture_takes(g, "</think>ok"));
    assert_true(fixture_takes(g, "a <</think \xE4\xB8\xAD\xF0\x9F\x98\x80</</think>ok"));
    assert_false(fixture_takes(g, "a</think>b</think>ok"));
    assert_false(fixture_takes(g, "\xE4\xB8</think>ok"));     /* half a character */
    assert_false(fixture_takes(g, "\xED\xA0\x80</think>ok")); /* a surrogate */
    check_grammar(g);
    /* The mark as a special token: taken in the text, not behind it, and no other special token. */
    uint32_t mask[N_FIXTURE_WORD];
    whim_grammar_state *s = fixture_state(g);
    assert_true(whim_grammar_accept(s, 'x'));
    assert_true(whim_grammar_mask(s, mask, N_FIXTURE_WORD));
    assert_true(fixture_bit(mask, ID_THINK) && fixture_bit(mask, ID_CALL));
    assert_true(whim_grammar_accept(s, ID_THINK));
    assert_false(whim_grammar_accept(s, ID_THINK));
    assert_true(whim_grammar_accept(s, 'o') && whim_grammar_accept(s, 'k'));
    assert_true(whim_grammar_must_end(s) && whim_grammar_accept(s, ID_END));
    whim_grammar_state_destroy(s);
    whim_grammar_unref(g);
}

static void text_without_marks(void **state)
{
    (void)state;
    static const char *const marks[] = {"<tool_call>", "aba", "ab\xC3\xA9"};
    whim_diag diag = {{0}};
    whim_grammar_builder *b = fixture_builder();
    whim_grammar_node text = whim_grammar_text_without(b, marks, 3);
    whim_grammar_node calls = whim_grammar_repeat(
        b,
        whim_grammar_seq(b,
                         (whim_grammar_node[]){whim_grammar_literal(b, "<tool_call>", 11),
                                               whim_grammar_json_object(b)},
                         2),
        0, -1);
    whim_grammar *g =
        fixture_build(b, whim_grammar_seq(b, (whim_grammar_node[]){text, calls}, 2), &diag);
    assert_non_null(g);
    assert_true(fixture_takes(g, ""));
    assert_true(fixture_takes(g, "abbaab <tool_cal\xC3\xA9"));
    assert_true(fixture_takes(g, "x<tool_call>{\"a\":[1,{}]}<tool_call>{}"));
    assert_false(fixture_takes(g, "xaba"));
    assert_false(fixture_takes(g, "xaab\xC3\xA9"));
    assert_false(fixture_takes(g, "x<tool_call>y"));
    whim_grammar_state *s = fixture_state(g);
    assert_true(whim_grammar_accept(s, ID_CALL)); /* its bytes are the literal */
    assert_true(whim_grammar_accept(s, '{'));
    assert_false(whim_grammar_may_end(s));
    assert_true(whim_grammar_accept(s, '"'));
    assert_false(whim_grammar_accept(s, ID_THINK)); /* no special token inside JSON */
    whim_grammar_state_destroy(s);
    check_grammar(g);
    whim_grammar_unref(g);
}

static void failures_are_told(void **state)
{
    (void)state;
    whim_diag diag = {{0}};
    whim_grammar_builder *b = fixture_builder();
    whim_grammar_node bad = whim_grammar_regex(b, "(", "here");
    assert_int_equal(bad, -1);
    whim_grammar_node more = whim_grammar_literal(b, "x", 1);
    assert_int_equal(more, -1);
    assert_null(fixture_build(b, more, &diag));
    assert_non_null(strstr(diag.text, "here"));
    b = fixture_builder();
    assert_int_equal(whim_grammar_until(b, ""), -1);
    assert_null(fixture_build(b, -1, &diag));
    b = fixture_builder();
    assert_null(fixture_build(b, -1, &diag));
    b = fixture_builder();
    assert_int_equal(whim_grammar_repeat(b, whim_grammar_literal(b, "x", 1), 3, 2), -1);
    assert_null(fixture_build(b, -1, &diag));
}

/* A vocabulary without all bytes: where the grammar wants one that is not there, the state says
 * so. */
static void a_vocabulary_may_be_too_small(void **state)
{
    static const int32_t end = 3;
    whim_tokenizer *tok;
    whim_grammar_vocab *vocab;
    whim_grammar_state *s;
    whim_diag diag = {{0}};
    (void)state;
    if (open_text(ABC_VOCAB, sizeof ABC_VOCAB - 1, &tok, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    assert_int_equal(whim_grammar_vocab_create(tok, &end, 1, &vocab), WHIM_ERR_OK);
    whim_grammar_builder *b = fixture_builder();
    whim_grammar *g = fixture_build(b, whim_grammar_regex(b, "ab(|c\xF1\x90\x80\x80)", "r"), &diag);
    assert_non_null(g);
    assert_int_equal(whim_grammar_state_create(g, vocab, &s), WHIM_ERR_OK);
    for (int32_t id = 0; id < 4; id++) {
        uint32_t mask = 0;
        assert_true(whim_grammar_mask(s, &mask, 1));
        assert_int_equal(mask, id < 2 ? 1u << id : id == 2 ? 1u << 2 | 1u << end : 1u << end);
        assert_int_equal(whim_grammar_is_stuck(s), id == 3);
        assert_int_equal(whim_grammar_accept(s, id), id < 3);
    }
    whim_grammar_state_destroy(s);
    whim_grammar_unref(g);
    /* Built for the bytes of the vocabulary, it does not lead there; one that leads nowhere else is
     * refused. */
    const whim_grammar_limits limits = {.bytes = whim_grammar_vocab_bytes(vocab)};
    assert_non_null(limits.bytes);
    assert_int_equal(whim_grammar_builder_create(&limits, &b), WHIM_ERR_OK);
    g = fixture_build(b, whim_grammar_regex(b, "ab(|c\xF1\x90\x80\x80)", "r"), &diag);
    assert_non_null(g);
    assert_int_equal(whim_grammar_state_create(g, vocab, &s), WHIM_ERR_OK);
    for (int32_t id = 0; id < 3; id++) {
        uint32_t mask = 0;
        assert_true(whim_grammar_mask(s, &mask, 1));
        assert_int_equal(mask, id < 2 ? 1u << id : 1u << end);
        assert_false(whim_grammar_is_stuck(s));
        assert_int_equal(whim_grammar_accept(s, id), id < 2);
    }
    whim_grammar_state_destroy(s);
    whim_grammar_unref(g);
    assert_int_equal(whim_grammar_builder_create(&limits, &b), WHIM_ERR_OK);
    assert_null(fixture_build(b, whim_grammar_regex(b, "abc\xF1\x90\x80\x80", "r"), &diag));
    assert_non_null(strstr(diag.text, "tokens can write"));
    whim_grammar_vocab_destroy(vocab);
    whim_tokenizer_close(tok);
}

/* Every allocation of building and walking may fail: told or taken as dead, never a crash or a
 * leak. */
static void no_memory_is_told(void **state)
{
    (void)state;
    json_t *schema = json_loads("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\","
                                "\"maxLength\":3},\"b\":{\"items\":{\"type\":\"integer\"}}}}",
                                0, NULL);
    bool done = false;
    for (int64_t n = 0; !done; n++) {
        whim_grammar_builder *b = NULL;
        whim_grammar *g = NULL;
        whim_grammar_state *s = NULL;
        whim_alloc_fail_after(n);
        done =
            whim_grammar_builder_create(NULL, &b) == WHIM_ERR_OK &&
            whim_grammar_build(b, whim_grammar_schema(b, schema, "s"), &g, NULL) == WHIM_ERR_OK &&
            whim_grammar_state_create(g, fixture_vocab, &s) == WHIM_ERR_OK &&
            whim_grammar_accept(s, '{') && whim_grammar_accept(s, '"');
        whim_alloc_fail_after(-1);
        whim_grammar_state_destroy(s);
        whim_grammar_unref(g);
        whim_grammar_builder_destroy(b);
    }
    json_decref(schema);
}

/* Tokens on trial leave no trace: masks, ends and what follows are those of a walk without them. */
static void a_walk_goes_back(void **state)
{
    (void)state;
    whim_diag diag = {{0}};
    whim_grammar *g = fixture_schema("{\"type\":\"array\",\"items\":{\"type\":\"object\","
                                     "\"additionalProperties\":{\"type\":\"array\"}}}",
                                     &diag);
    whim_grammar_state *s = fixture_state(g), *same = fixture_state(g);
    uint32_t mask[N_FIXTURE_WORD], other[N_FIXTURE_WORD];
    for (uint64_t i = 0; i < 300; i++) {
        assert_true(whim_grammar_keep(s));
        for (uint64_t k = 0; k < i % 9; k++) {
            whim_grammar_mask(s, mask, N_FIXTURE_WORD);
            assert_true(
                whim_grammar_accept(s, fixture_pick(mask, N_FIXTURE_WORD, whim_rng_at(i, k))));
        }
        whim_grammar_go_back(s);
        whim_grammar_mask(s, mask, N_FIXTURE_WORD);
        whim_grammar_mask(same, other, N_FIXTURE_WORD);
        assert_memory_equal(mask, other, sizeof mask);
        assert_int_equal(whim_grammar_may_end(s), whim_grammar_may_end(same));
        assert_int_equal(whim_grammar_must_end(s), whim_grammar_must_end(same));
        int32_t id = fixture_pick(mask, N_FIXTURE_WORD, whim_rng_at(i, 77));
        assert_true(whim_grammar_accept(s, id) && whim_grammar_accept(same, id));
    }
    whim_grammar_state_destroy(s);
    whim_grammar_state_destroy(same);
    whim_grammar_unref(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_are_exact),
        cmocka_unit_test(parts_make_grammars),
        cmocka_unit_test(text_ends_at_its_mark),
        cmocka_unit_test(text_without_marks),
        cmocka_unit_test(failures_are_told),
        cmocka_unit_test(no_memory_is_told),
        cmocka_unit_test(a_vocabulary_may_be_too_small),
        cmocka_unit_test(a_walk_goes_back),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
