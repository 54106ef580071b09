/* SPDX-License-Identifier: Apache-2.0 */
/* What two parts both take, or one takes and the other does not: their tables walked side by side.
 * Neither part may call rules. */
#include "grammar/impl.h"

#include "base/alloc.h"

#include <string.h>

typedef struct product {
    gnfa *nfa;
    gdfa one, two;
    bool negate;    /* the second must not take the text */
    int64_t *pairs; /* one * (n2 + 1) + two + 1: two is -1 when it has died */
    int64_t n_pair, cap_pair;
    int32_t *states; /* of the automaton, for each pair */
    int64_t cap_states;
    int32_t *table; /* open addressing: pair + 1 */
    int64_t cap_table;
} product;

static int64_t slot_of(const product *p, int64_t pair)
{
    uint64_t h = (uint64_t)pair * 0x9E3779B97F4A7C15u;
    int64_t at = (int64_t)(h >> 20) & (p->cap_table - 1);
    while (p->table[at] != 0 && p->pairs[p->table[at] - 1] != pair) {
        at = (at + 1) & (p->cap_table - 1);
    }
    return at;
}

static bool table_grow(product *p)
{
    int64_t cap = p->cap_table > 0 ? p->cap_table * 2 : 256;
    int32_t *table = whim_alloc_array(cap, sizeof *table);
    if (table == NULL) {
        whim_gb_fail(p->nfa->b, WHIM_ERR_NO_MEMORY, "no memory for the grammar");
        return false;
    }
    whim_free(p->table);
    p->table = table;
    p->cap_table = cap;
    for (int64_t i = 0; i < p->n_pair; i++) {
        p->table[slot_of(p, p->pairs[i])] = (int32_t)i + 1;
    }
    return true;
}

/* The state of a pair, made when it is new. */
static int32_t state_of(product *p, int32_t one, int32_t two)
{
    whim_grammar_builder *b = p->nfa->b;
    int64_t pair = one * (p->two.n_state + 1) + two + 1;
    if (2 * (p->n_pair + 1) > p->cap_table && !table_grow(p)) {
        return -1;
    }
    int64_t at = slot_of(p, pair);
    if (p->table[at] != 0) {
        return p->states[p->table[at] - 1];
    }
    if (!whim_gb_grow(b, (void **)&p->pairs, p->n_pair, &p->cap_pair, sizeof *p->pairs) ||
        !whim_gb_grow(b, (void **)&p->states, p->n_pair, &p->cap_states, sizeof *p->states)) {
        return -1;
    }
    p->pairs[p->n_pair] = pair;
    p->states[p->n_pair] = whim_nfa_state(p->nfa);
    p->table[at] = (int32_t)++p->n_pair;
    return p->states[p->n_pair - 1];
}

static void emit_pair(product *p, int64_t index, int32_t end)
{
    int32_t one = (int32_t)(p->pairs[index] / (p->two.n_state + 1));
    int32_t two = (int32_t)(p->pairs[index] % (p->two.n_state + 1)) - 1;
    int32_t from = p->states[index];
    bool second = two >= 0 && p->two.accepts[two];
    if (p->one.accepts[one] && second != p->negate) {
        whim_nfa_free_move(p->nfa, from, end);
    }
    for (int32_t c = 0, run_to = -1, run = 0; c <= 256; c++) {
        int32_t to = -1;
        if (c < 256) {
            int32_t next = p->one.next[one * (int64_t)p->one.n_class + p->one.class_of[c]];
            int32_t other =
                two < 0 ? -1 : p->two.next[two * (int64_t)p->two.n_class + p->two.class_of[c]];
            to = next < 0 || (other < 0 && !p->negate) ? -1 : state_of(p, next, other);
        }
        if (to != run_to) {
            if (run_to >= 0) {
                whim_nfa_edge(p->nfa, from, GE_BYTES, (uint8_t)run, (uint8_t)(c - 1), 0, run_to);
            }
            run_to = to;
            run = c;
        }
    }
}

int32_t whim_nfa_emit_product(gnfa *nfa, const gnode *node, int32_t from)
{
    product p = {.nfa = nfa, .negate = node->kind == GN_BUT_NOT};
    int32_t end = -1;
    bool ok =
        whim_dfa_of_node(nfa->b, node->a, &p.one) && whim_dfa_of_node(nfa->b, node->b, &p.two);
    if (ok && p.one.n_call + p.two.n_call > 0) {
        whim_gb_fail(nfa->b, WHIM_ERR_INVALID, "the names of free keys are not simple enough");
    } else if (ok) {
        end = whim_nfa_state(nfa);
        if (p.one.n_state > 0 && (p.two.n_state > 0 || p.negate)) {
            whim_nfa_free_move(nfa, from, state_of(&p, 0, p.two.n_state > 0 ? 0 : -1));
        }
        for (int64_t i = 0; i < p.n_pair && !whim_gb_failed(nfa->b); i++) {
            emit_pair(&p, i, end);
        }
    }
    whim_dfa_deinit(&p.one);
    whim_dfa_deinit(&p.two);
    whim_free(p.pairs);
    whim_free(p.states);
    whim_free(p.table);
    return whim_gb_failed(nfa->b) ? -1 : end;
}
