/* SPDX-License-Identifier: Apache-2.0 */
/* Masks of strings that are held to lengths: a token of a plain string may come where it begins no
 * more characters than are left, and closes the string where there are enough. How many it begins
 * is the same for all of them, and is found once for a vocabulary. */
#include "grammar/mask.h"

#include "base/alloc.h"

#include <string.h>

/* Where the bytes down to a node lead to. */
typedef struct reached {
    int32_t state, n_char;
} reached;

/* The walk over all tokens that the pops of the entry were found by. */
static void find(whim_grammar_vocab *v, reached *at)
{
    const whim_grammar *g = v->string;
    int64_t n_pop = 0;
    at[0] = (reached){.state = g->string_body};
    for (int32_t i = 0; i < v->n_node;) {
        const gtrie_node *node = &v->nodes[i];
        reached from = at[node->depth - 1];
        int32_t to = whim_grammar_next(g, from.state, node->byte);
        if (to < 0) {
            i = node->skip;
            continue;
        }
        bool closed = g->states[to].accepts;
        int32_t n_char = from.n_char + (from.state == g->string_body && !closed);
        at[node->depth] = (reached){to, n_char};
        for (int32_t k = node->first_tok; k < v->nodes[i + 1].first_tok; k++) {
            int32_t id = v->tokens[k];
            v->n_char[id] = (uint16_t)n_char;
            v->closes[id >> 5] |= (uint32_t)closed << (id & 31);
        }
        if (closed && node->skip > i + 1) {
            v->pop_n_char[n_pop++] = (uint16_t)n_char;
        }
        i++;
    }
}

whim_err whim_vocab_find_lengths(whim_grammar_vocab *v)
{
    const whim_grammar *g = v->string;
    const gentry *body = v->string_entries[g->string_body - g->string_begin];
    reached *at = whim_alloc_array(v->max_bytes + 1, sizeof *at);
    v->n_char = whim_alloc_array(32 * v->n_word, sizeof *v->n_char);
    v->closes = whim_alloc_array(v->n_word, sizeof *v->closes);
    v->pop_n_char = whim_alloc_array(body->n_pop, sizeof *v->pop_n_char);
    bool ok = at != NULL && v->n_char != NULL && v->closes != NULL && v->pop_n_char != NULL;
    if (ok) {
        find(v, at);
    }
    whim_free(at);
    return ok ? WHIM_ERR_OK : WHIM_ERR_NO_MEMORY;
}

/* The tokens of a word that begin at most so many characters. */
static uint32_t with_at_most(const uint16_t *n_char, uint16_t most)
{
    uint32_t word = 0;
    for (int32_t i = 0; i < 32; i++) {
        word |= (uint32_t)(n_char[i] <= most) << i;
    }
    return word;
}

/* The tokens of a word that close the string before it has `need` more characters. */
static uint32_t too_early(const uint16_t *n_char, uint32_t closes, int64_t need)
{
    uint32_t early = 0;
    for (; closes != 0; closes &= closes - 1) {
        int32_t i = __builtin_ctz(closes);
        early |= (uint32_t)(n_char[i] < need) << i;
    }
    return early;
}

bool whim_mask_of_length(const whim_grammar *g, const whim_grammar_vocab *v, int32_t state,
                         gentry *e)
{
    int64_t count;
    int32_t body;
    const gcounted *rule = whim_counted_find(g, state, &count, &body);
    const gentry *plain = v->string_entries[body - g->string_begin];
    int64_t left = rule->hi < 0 || rule->hi - count > UINT16_MAX ? UINT16_MAX : rule->hi - count;
    int64_t need = rule->lo - count;
    for (int64_t w = 0; w < v->n_word; w++) {
        const uint16_t *n_char = v->n_char + 32 * w;
        uint32_t bits = plain->bits[w] & with_at_most(n_char, (uint16_t)left);
        e->bits[w] = bits & ~(need > 0 ? too_early(n_char, v->closes[w] & bits, need) : 0);
    }
    if (!whim_grow(&e->pops, plain->n_pop, &e->cap_pop, sizeof *e->pops)) {
        return false;
    }
    e->n_pop = 0;
    for (int64_t i = 0; i < plain->n_pop; i++) {
        if (v->pop_n_char[i] <= left && v->pop_n_char[i] >= need) {
            e->pops[e->n_pop++] = plain->pops[i];
        }
    }
    return true;
}
