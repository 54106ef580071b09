/* SPDX-License-Identifier: Apache-2.0 */
/* How long a text may be that leads on from a state whatever it says, as long as its characters are
 * of some kinds. Masks need not look at tokens that add no more than that. An expression that looks
 * for something in a text, or counts its characters, has a few states behind each character: all of
 * them are followed, so that the shortest text which ends somewhere is found. */
#include "grammar/mask.h"

/* More states than these are not followed. */
enum { MOST_STATES = 192, SLOT_BITS = 9, N_SLOT = 1 << SLOT_BITS };

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

/* States that were met, in their order, and found by a hash. */
typedef struct gmet {
    int32_t states[MOST_STATES];
    int32_t n;
    uint8_t slots[N_SLOT]; /* place + 1 */
} gmet;

/* False: there is no room for it. */
static bool met_add(gmet *met, int32_t state)
{
    uint32_t at = (uint32_t)state * 0x9E3779B9u >> (32 - SLOT_BITS);
    for (; met->slots[at] != 0; at = (at + 1) % N_SLOT) {
        if (met->states[met->slots[at] - 1] == state) {
            return true;
        }
    }
    if (met->n == MOST_STATES) {
        return false;
    }
    met->states[met->n++] = state;
    met->slots[at] = (uint8_t)met->n;
    return true;
}

/* Add what a character of these kinds leads to from a state; false: not all of them lead on, or
 * there are too many states. */
static bool add_next(gwalk *w, int32_t state, uint32_t kinds, gmet *met)
{
    for (; kinds != 0; kinds &= kinds - 1) {
        int32_t kind = __builtin_ctz(kinds);
        const gleads *leads = leads_of(w, state, kind);
        if (leads->n[kind] == 0) {
            return false;
        }
        for (int32_t i = 0; i < leads->n[kind]; i++) {
            if (!met_add(met, leads->to[kind][i])) {
                return false;
            }
        }
    }
    return true;
}

/* `length`, or less where texts lead no further. */
static int32_t find_far(gwalk *w, int32_t state, uint8_t kinds, int32_t length)
{
    gmet met = {.n = 0};
    met_add(&met, state);
    for (int32_t far = 0, begin = 0; far < length; far++) {
        int32_t end = met.n;
        for (; begin < end; begin++) {
            if (!add_next(w, met.states[begin], kinds, &met)) {
                return far;
            }
        }
        if (met.n == end) {
            return GAHEAD_EVER;
        }
    }
    return length;
}

bool whim_walk_leads_on(gwalk *w, int32_t state, uint8_t kinds, int32_t length)
{
    gahead *known = &w->ahead[((uint32_t)state * 31 + kinds) % GAHEAD_ROOM];
    bool is_known = known->state == state + 1 && known->kinds == kinds;
    if (!is_known || (known->far < length && !known->is_all)) {
        int32_t far = find_far(w, state, kinds, length);
        *known = (gahead){state + 1, kinds, (uint8_t)far, far != length};
    }
    return known->far >= length;
}
