/* SPDX-License-Identifier: Apache-2.0 */
/* What two parts both take, or one takes and the other does not: their tables walked side by side.
 * Neither part may call rules. */
#include "grammar/impl.h"

#include "base/alloc.h"

typedef struct product {
    gnfa *nfa;
    gdfa one, two;
    bool negate;     /* the second must not take the text */
    gsets pairs;     /* a state of each; -1 of the second when that has died */
    int32_t *states; /* of the automaton, for each pair */
    int64_t n_state, cap_state;
} product;

/* The state of a pair, made when it is new. */
static int32_t state_of(product *p, int32_t one, int32_t two)
{
    whim_grammar_builder *b = p->nfa->b;
    int32_t pair = whim_sets_place(b, &p->pairs, (int32_t[]){one, two}, 2);
    if (pair < p->n_state) {
        return pair < 0 ? -1 : p->states[pair];
    }
    if (!whim_gb_grow(b, &p->states, p->n_state, &p->cap_state, sizeof *p->states)) {
        return -1;
    }
    return p->states[p->n_state++] = whim_nfa_state(p->nfa);
}

static void emit_pair(product *p, int64_t index, int32_t end)
{
    int32_t one = p->pairs.ints[2 * index], two = p->pairs.ints[2 * index + 1];
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
        for (int64_t i = 0; i < p.n_state && !whim_gb_failed(nfa->b); i++) {
            emit_pair(&p, i, end);
        }
    }
    whim_dfa_deinit(&p.one);
    whim_dfa_deinit(&p.two);
    whim_sets_deinit(&p.pairs);
    whim_free(p.states);
    return whim_gb_failed(nfa->b) ? -1 : end;
}
