/* SPDX-License-Identifier: Apache-2.0 */
/* Strings with bounds are, for most tokens, like strings without: their masks are copied from those
 * of plain strings, which every vocabulary has, wherever no token is long enough to meet the
 * difference. For that each state that stands inside a string gets the state of the rule for plain
 * strings that the same bytes lead to, and the length of the shortest text that tells the two
 * apart. */
#include "grammar/impl.h"

#include "base/alloc.h"

typedef struct alike {
    whim_grammar *g;
    int32_t *queue;
    int64_t n_queue;
    /* Bytes of which each leads elsewhere than the one before it, in a rule or in plain strings;
     * kept for the rule that was asked for last. */
    int32_t rule;
    int32_t n_first;
    uint8_t first[256];
} alike;

static int32_t next_of(const whim_grammar *g, int32_t state, int32_t byte)
{
    const gstate *s = &g->states[state];
    return s->next[s->class_of[byte]];
}

static void find_first_bytes(alike *a, int32_t state)
{
    const gstate *s = &a->g->states[state];
    if (a->rule == s->rule) {
        return;
    }
    const uint8_t *one = s->class_of, *two = a->g->states[a->g->string_begin].class_of;
    a->rule = s->rule;
    a->n_first = 0;
    for (int32_t c = 0; c < 256; c++) {
        if (c == 0 || one[c] != one[c - 1] || two[c] != two[c - 1]) {
            a->first[a->n_first++] = (uint8_t)c;
        }
    }
}

/* A state met with two different partners has none: -2. */
static void pair_up(alike *a, int32_t state, int32_t partner)
{
    int32_t *old = &a->g->partner[state];
    if (*old == -1) {
        *old = partner;
        a->queue[a->n_queue++] = state;
    } else if (*old != partner) {
        *old = -2;
    }
}

/* The states that bytes lead to from those in the queue. */
static void spread(alike *a)
{
    whim_grammar *g = a->g;
    for (int64_t i = 0; i < a->n_queue; i++) {
        int32_t state = a->queue[i], partner = g->partner[state];
        find_first_bytes(a, state);
        for (int32_t k = 0; k < a->n_first && partner >= 0; k++) {
            int32_t to = next_of(g, state, a->first[k]), other = next_of(g, partner, a->first[k]);
            if (to >= 0 && other >= 0) {
                pair_up(a, to, other);
            }
        }
    }
}

/* The shortest text that tells the state from its partner, as far as the lengths of the states
 * behind it are known. */
static uint16_t length_of(alike *a, int32_t state)
{
    const whim_grammar *g = a->g;
    const gstate *s = &g->states[state];
    int32_t partner = g->partner[state];
    if (partner < 0 || s->n_call > 0 || s->accepts != g->states[partner].accepts) {
        return 0;
    }
    int32_t least = GA_NEVER;
    find_first_bytes(a, state);
    for (int32_t k = 0; k < a->n_first; k++) {
        int32_t to = next_of(g, state, a->first[k]), other = next_of(g, partner, a->first[k]);
        if (to < 0 && other < 0) {
            continue;
        }
        bool same = to >= 0 && other >= 0 && g->partner[to] == other;
        int32_t length = !same ? 1 : g->alike[to] == GA_NEVER ? GA_NEVER : g->alike[to] + 1;
        least = length < least ? length : least;
    }
    return (uint16_t)least;
}

bool whim_grammar_find_alike(whim_grammar_builder *b, whim_grammar *g)
{
    alike a = {.g = g, .rule = -1};
    g->partner = whim_gb_alloc(b, g->n_state, sizeof *g->partner);
    g->alike = whim_gb_alloc(b, g->n_state, sizeof *g->alike);
    a.queue = whim_gb_alloc(b, g->n_state, sizeof *a.queue);
    if (whim_gb_failed(b)) {
        whim_free(a.queue);
        return false;
    }
    for (int64_t s = 0; s < g->n_state; s++) {
        g->partner[s] = -1;
    }
    for (int64_t s = 0; s < g->n_state; s++) {
        /* All that a schema puts between quotes is JSON, so that the plain string never ends before
         * it; the root, with expressions of the caller, and rules that a caller wrote may hold
         * anything. */
        bool first = !b->has_named_rules && g->states[s].rule != g->root_rule &&
                     (s == 0 || g->states[s - 1].rule != g->states[s].rule);
        int32_t to = first ? next_of(g, (int32_t)s, '"') : -1;
        if (to >= 0 && to < g->n_state && s != g->string_begin) {
            pair_up(&a, to, g->string_body);
        }
    }
    spread(&a);
    for (int64_t i = 0; i < a.n_queue; i++) {
        g->alike[a.queue[i]] = GA_NEVER;
    }
    /* Lengths only fall; states were met in order, so that going backwards settles most of them at
     * once. */
    for (bool more = true; more && !whim_gb_late(b);) {
        more = false;
        for (int64_t i = a.n_queue - 1; i >= 0; i--) {
            uint16_t length = length_of(&a, a.queue[i]);
            more = more || length != g->alike[a.queue[i]];
            g->alike[a.queue[i]] = length;
        }
    }
    whim_free(a.queue);
    return !whim_gb_failed(b);
}
