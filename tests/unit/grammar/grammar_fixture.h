/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of grammars share: a small vocabulary (every byte, some longer tokens, special
 * ones), grammars from texts, walks byte by byte and at random. */
#ifndef WHIM_TESTS_UNIT_GRAMMAR_GRAMMAR_FIXTURE_H
#define WHIM_TESTS_UNIT_GRAMMAR_GRAMMAR_FIXTURE_H

#include "grammar/grammar.h"
#include "support/byte_vocab.h"
#include "unit/text/text_fixture.h"

#include "base/math/rng.h"

static const char *const fixture_words[] = {
    "\", \"",       "\":",   "{\"",  "\"}",      "true", "false", "null",  "ab",        "the ",
    "12",           "1.5",   "-1",   "}]",       "],[",  "\\n",   "\\u00", "\xC3\xA9",  "\xE4\xB8",
    "\xAD\xF0\x9F", "</thi", "nk>x", "\"a",      "a\":", "\": ",  ", ",    "00",        "[]",
    "{}",           "\"\"",  "  ",   "e5",       "\\\"", "\"\\u", "d83d",  "\\ud83d",   "\\ude00",
    "}}",           "]}",    "a\"}", "2024-",    "-0",   "T1",    "name",  "\"name\":", "x</",
    "<tool",        "\n\n",  "AB",   "</think>y"};
enum {
    N_WORD = sizeof fixture_words / sizeof fixture_words[0],
    ID_END = 256 + N_WORD,
    ID_OTHER, /* <|other|>, special */
    ID_THINK, /* </think>, special */
    ID_CALL,  /* <tool_call>, added but not special */
    N_FIXTURE,
    N_FIXTURE_WORD = N_FIXTURE / 32 + 1,
};

static inline whim_tokenizer *fixture_tokenizer(void)
{
    whim_str json = {0};
    byte_vocab_json(&json, fixture_words, N_WORD);
    whim_tokenizer *tok;
    whim_diag diag = {{0}};
    if (open_text(json.text, json.len, &tok, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    whim_str_deinit(&json);
    return tok;
}

static whim_tokenizer *fixture_tok;
static whim_grammar_vocab *fixture_vocab;

static inline int fixture_setup(void **state)
{
    (void)state;
    static const int32_t end = ID_END;
    fixture_tok = fixture_tokenizer();
    return whim_grammar_vocab_create(fixture_tok, &end, 1, &fixture_vocab) == WHIM_ERR_OK ? 0 : -1;
}

static inline int fixture_teardown(void **state)
{
    (void)state;
    whim_grammar_vocab_destroy(fixture_vocab);
    whim_tokenizer_close(fixture_tok);
    return 0;
}

static inline whim_grammar_builder *fixture_builder(void)
{
    whim_grammar_builder *b;
    assert_int_equal(whim_grammar_builder_create(NULL, &b), WHIM_ERR_OK);
    return b;
}

/* Build and destroy the builder; NULL with the message in diag. */
static inline whim_grammar *fixture_build(whim_grammar_builder *b, whim_grammar_node root,
                                          whim_diag *diag)
{
    whim_grammar *g = NULL;
    whim_err err = whim_grammar_build(b, root, &g, diag);
    assert_true(err == WHIM_ERR_OK || err == WHIM_ERR_INVALID);
    assert_true((err == WHIM_ERR_OK) == (g != NULL));
    whim_grammar_builder_destroy(b);
    return g;
}

static inline whim_grammar *fixture_schema_json(const json_t *schema, whim_diag *diag)
{
    whim_grammar_builder *b = fixture_builder();
    return fixture_build(b, whim_grammar_schema(b, schema, "schema"), diag);
}

static inline whim_grammar *fixture_schema(const char *text, whim_diag *diag)
{
    json_error_t error;
    json_t *schema = json_loads(text, JSON_DECODE_ANY, &error);
    if (schema == NULL) {
        fail_msg("%s: %s", text, error.text);
    }
    whim_grammar *g = fixture_schema_json(schema, diag);
    json_decref(schema);
    return g;
}

static inline whim_grammar_state *fixture_state(whim_grammar *g)
{
    whim_grammar_state *s;
    assert_int_equal(whim_grammar_state_create(g, fixture_vocab, &s), WHIM_ERR_OK);
    return s;
}

/* How far the text fits, byte by byte; *ends: whether the answer may end there. */
static inline int64_t fixture_feed(whim_grammar *g, const char *text, bool *ends)
{
    whim_grammar_state *s = fixture_state(g);
    int64_t n = 0;
    while (text[n] != '\0' && whim_grammar_accept(s, (uint8_t)text[n])) {
        n++;
    }
    *ends = whim_grammar_may_end(s);
    whim_grammar_state_destroy(s);
    return n;
}

static inline bool fixture_takes(whim_grammar *g, const char *text)
{
    bool ends;
    return fixture_feed(g, text, &ends) == (int64_t)strlen(text) && ends;
}

static inline bool fixture_bit(const uint32_t *mask, int32_t id)
{
    return (mask[id >> 5] >> (id & 31) & 1) != 0;
}

/* One random token of the mask, -1 when it is empty. */
static inline int32_t fixture_pick(const uint32_t *mask, int64_t n_word, uint64_t r)
{
    int64_t n = 0;
    for (int64_t i = 0; i < n_word; i++) {
        n += __builtin_popcount(mask[i]);
    }
    int64_t want = n > 0 ? (int64_t)(r % (uint64_t)n) : -1;
    for (int32_t id = 0; id < n_word * 32 && n > 0; id++) {
        if (fixture_bit(mask, id) && want-- == 0) {
            return id;
        }
    }
    return -1;
}

/* A random answer: random tokens of the masks, and after `patience` of them such as close things.
 * False when the answer did not end; a token of a mask that is not taken fails the test. */
static inline bool fixture_walk(whim_grammar_state *s, const whim_tokenizer *tok, int32_t end,
                                uint64_t key, int64_t patience, whim_str *out)
{
    int64_t n_word = whim_tokenizer_count(tok) / 32 + 1;
    uint32_t *mask = whim_alloc_array(n_word, sizeof *mask);
    bool done = false;
    for (int64_t i = 0; i < 4000 && !done; i++) {
        assert_true(whim_grammar_mask(s, mask, n_word));
        assert_true(fixture_bit(mask, end) == whim_grammar_may_end(s));
        int32_t id = fixture_pick(mask, n_word, whim_rng_at(key, (uint64_t)(2 * i)));
        for (const char *c = "\"}]0ae1,: lsu:nt5"; i > patience && *c != '\0'; c++) {
            int32_t byte = whim_tokenizer_find(tok, (char[]){*c, '\0'});
            if (byte >= 0 && fixture_bit(mask, byte) &&
                whim_rng_at(key, (uint64_t)(2 * i + 1)) % 8 != 0) {
                id = byte;
                break;
            }
        }
        int32_t mark = whim_tokenizer_find(tok, "</think>");
        bool ends_text = mark >= 0 && whim_tokenizer_is_special(tok, mark);
        id = i > patience && ends_text && fixture_bit(mask, mark) ? mark : id;
        id = i > patience && fixture_bit(mask, end) ? end : id;
        assert_true(id >= 0 && whim_grammar_accept(s, id));
        int64_t n;
        const char *bytes = whim_tokenizer_bytes(tok, id, &n);
        done = id == end;
        whim_str_append_n(out, bytes, done ? 0 : n);
    }
    whim_free(mask);
    return done;
}

#endif
