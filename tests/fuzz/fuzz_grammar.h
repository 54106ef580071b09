/* SPDX-License-Identifier: Apache-2.0 */
/* What the targets of grammars share: limits, a vocabulary of bytes, and a walk whose choices come
 * from the input. */
#ifndef WHIM_TESTS_FUZZ_GRAMMAR_H
#define WHIM_TESTS_FUZZ_GRAMMAR_H

#include "base/clock.h"
#include "base/math/rng.h"
#include "fuzz_tokenizer.h"
#include "grammar/grammar.h"
#include "support/byte_vocab.h"

enum { FUZZ_WORDS = 6, FUZZ_END = 256 + FUZZ_WORDS, FUZZ_N = FUZZ_END + 4 };

static inline const whim_grammar_vocab *fuzz_vocab(void)
{
    static const char *const words[FUZZ_WORDS] = {"\":", "{\"", "\", ", "12", "ab", "\xC3\xA9"};
    static const int32_t end = FUZZ_END;
    static whim_grammar_vocab *vocab;
    if (vocab == NULL) {
        whim_str json = {0};
        whim_diag diag = {{0}};
        byte_vocab_json(&json, words, FUZZ_WORDS);
        whim_tokenizer *tok = fuzz_tokenizer(json.text, json.len, "bytes", &diag);
        FUZZ_CHECK(tok != NULL && whim_grammar_vocab_create(tok, &end, 1, &vocab) == WHIM_ERR_OK);
        whim_str_deinit(&json);
    }
    return vocab;
}

/* Build within small limits; NULL when it is refused, which has a reason. */
static inline whim_grammar *fuzz_build(whim_grammar_builder *b, whim_grammar_node root)
{
    whim_grammar *g = NULL;
    whim_diag diag = {{0}};
    whim_err err = whim_grammar_build(b, root, &g, &diag);
    FUZZ_CHECK(err == WHIM_ERR_OK || err == WHIM_ERR_INVALID);
    FUZZ_CHECK(err == WHIM_ERR_OK || diag.text[0] != '\0');
    whim_grammar_builder_destroy(b);
    return g;
}

/* For inputs of an odd size the vocabulary is as if it had no token with some bytes. */
static inline bool fuzz_lacks(size_t n, int32_t byte)
{
    return n % 2 == 1 && (byte == 'x' || byte == 'y' || byte == 4 || byte == 0xF1 || byte == 0x81);
}

static inline whim_grammar_builder *fuzz_builder(size_t n)
{
    static bool bytes[256];
    whim_grammar_limits limits = {
        .max_nodes = 5000, .max_depth = 32, .max_ns = WHIM_NS_PER_S, .bytes = bytes};
    for (int32_t i = 0; i < 256; i++) {
        bytes[i] = !fuzz_lacks(n, i);
    }
    whim_grammar_builder *b;
    FUZZ_CHECK(whim_grammar_builder_create(&limits, &b) == WHIM_ERR_OK);
    return b;
}

/* Every mask has a token, its tokens are taken, and its end is where the answer may end. */
static inline void fuzz_walk(whim_grammar *g, size_t n_input, uint64_t key)
{
    whim_grammar_state *s;
    FUZZ_CHECK(whim_grammar_state_create(g, fuzz_vocab(), &s) == WHIM_ERR_OK);
    for (uint64_t i = 0; i < 48 && !whim_grammar_must_end(s); i++) {
        uint32_t mask[FUZZ_N / 32 + 1];
        int32_t ids[FUZZ_N], n = 0;
        FUZZ_CHECK(whim_grammar_mask(s, mask, FUZZ_N / 32 + 1));
        for (int32_t id = 0; id < FUZZ_N; id++) {
            if ((mask[id >> 5] >> (id & 31) & 1) != 0 && id != FUZZ_END &&
                !fuzz_lacks(n_input, id)) {
                ids[n++] = id;
            }
        }
        bool end = (mask[FUZZ_END >> 5] >> (FUZZ_END & 31) & 1) != 0;
        FUZZ_CHECK(end == whim_grammar_may_end(s) && (n > 0 || end));
        if (n == 0) {
            break;
        }
        FUZZ_CHECK(whim_grammar_accept(s, ids[whim_rng_at(key, i) % (uint64_t)n]));
    }
    whim_grammar_state_destroy(s);
}

#endif
