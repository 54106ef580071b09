/* SPDX-License-Identifier: Apache-2.0 */
/* How long a text may be that leads on from a state whatever it says, as long as its characters are
 * of some kinds. Masks need not look at tokens that add no more than that. An expression that looks
 * for something in a text, or counts its characters, has a few states behind each character: all of
 * them are followed, so that the shortest text which ends somewhere is found. */
#include "grammar/mask.h"

/* More states than these are not followed. */
enum { MOST_STATES = 64 };

static const gleads *leads_of(gwalk *w, int32_t state, int32_t kind)
{
    gleads *leads = &w->leads[state % GLEADS_ROOM];
    if (leads->state != state + 1) {
        leads->state = state + 1;
        leads->known = 0;
    }
    if (!(leads->known >> kind & 1)) {
        leads->n[kind] =
            (uint8_t)whim_grammar_kind_next(w->g, state, (uint8_t)(1 << kind), leads->to[kind]);
        leads->known |= (uint8_t)(1 << kind);
    }
    return leads;
}

/* Add what a character of these kinds leads to from a state; false: not all of them lead on, or
 * there are too many states. */
static bool add_next(gwalk *w, int32_t state, uint32_t kinds, int32_t *states, int32_t *n)
{
    for (; kinds != 0; kinds &= kinds - 1) {
        int32_t kind = __builtin_ctz(kinds);
        const gleads *leads = leads_of(w, state, kind);
        for (int32_t i = 0; i < leads->n[kind]; i++) {
            int32_t k = 0;
            while (k < *n && states[k] != leads->to[kind][i]) {
                k++;
            }
            if (k == MOST_STATES) {
                return false;
            }
            states[k] = leads->to[kind][i];
            *n += k == *n;
        }
        if (leads->n[kind] == 0) {
            return false;
        }
    }
    return true;
}

static uint8_t find_far(gwalk *w, int32_t state, uint8_t kinds)
{
    int32_t states[MOST_STATES] = {state}, begin = 0, n = 1;
    for (uint8_t far = 0; far < GAHEAD_EVER - 1; far++) {
        int32_t end = n;
        for (; begin < end; begin++) {
            if (!add_next(w, states[begin], kinds, states, &n)) {
                return far;
            }
        }
        if (n == end) {
            return GAHEAD_EVER;
        }
    }
    return GAHEAD_EVER - 1;
}

int32_t whim_walk_ahead(gwalk *w, int32_t state, uint8_t kinds)
{
    gahead *known = &w->ahead[((uint32_t)state * 31 + kinds) % GAHEAD_ROOM];
    if (known->state != state + 1 || known->kinds != kinds) {
        *known = (gahead){state + 1, kinds, find_far(w, state, kinds)};
    }
    return known->far;
}
