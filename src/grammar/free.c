/* SPDX-License-Identifier: Apache-2.0 */
/* States in which any text may come, and in those that it leads to again: inside strings that may
 * be anything or must hold something somewhere, and behind what tells a key from all others. Most
 * tokens are such text, so that masks of these states need not look at them. A state that is free
 * neither ends its rule nor calls another. */
#include "grammar/impl.h"

/* The characters of UTF-8 beyond ASCII: the first byte, the second, and how many follow that. */
static const struct {
    uint8_t lo, hi, second_lo, second_hi;
    int32_t more;
} forms[] = {
    {0xC2, 0xDF, 0x80, 0xBF, 0}, {0xE0, 0xE0, 0xA0, 0xBF, 1}, {0xE1, 0xE1, 0x80, 0xBF, 1},
    {0xE2, 0xE2, 0x81, 0xBF, 1}, {0xE3, 0xEC, 0x80, 0xBF, 1}, {0xED, 0xED, 0x80, 0x9F, 1},
    {0xEE, 0xEF, 0x80, 0xBF, 1}, {0xF0, 0xF0, 0x90, 0xBF, 2}, {0xF1, 0xF3, 0x80, 0xBF, 2},
    {0xF4, 0xF4, 0x80, 0x8F, 2},
};

/* Whether all bytes from lo to hi, and `more` behind each, lead from a state to free ones. */
static bool stay_free(const whim_grammar *g, int32_t from, int32_t lo, int32_t hi, int32_t more)
{
    for (int32_t c = lo, before = -1; c <= hi; c++) {
        int32_t to = whim_grammar_next(g, from, (uint8_t)c);
        if (to < 0 || to >= g->n_state) {
            return false;
        }
        if (to == before) {
            continue;
        }
        const gstate *s = &g->states[to];
        if (more == 0 ? !s->is_free : !s->plain || !stay_free(g, to, 0x80, 0xBF, more - 1)) {
            return false;
        }
        before = to;
    }
    return true;
}

/* The second byte that the table leaves out: behind it stand the two ends of lines that a dot of an
 * expression does not take, and which are no text here therefore. */
static bool is_free_at_lines(const whim_grammar *g, int32_t state)
{
    int32_t first = whim_grammar_next(g, state, 0xE2);
    int32_t to = first < 0 || first >= g->n_state ? -1 : whim_grammar_next(g, first, 0x80);
    return to >= 0 && to < g->n_state && g->states[to].plain && stay_free(g, to, 0x80, 0xA7, 0) &&
           stay_free(g, to, 0xAA, 0xBF, 0);
}

/* As far as it is known which states are. */
static bool is_free(const whim_grammar *g, int32_t state)
{
    bool free = stay_free(g, state, 0x20, 0x21, 0) && stay_free(g, state, 0x23, 0x5B, 0) &&
                stay_free(g, state, 0x5D, 0x7F, 0);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0] && free; i++) {
        for (int32_t c = forms[i].lo, before = -1; c <= forms[i].hi && free; c++) {
            int32_t to = whim_grammar_next(g, state, (uint8_t)c);
            free = to >= 0 && to < g->n_state && g->states[to].plain &&
                   (to == before ||
                    stay_free(g, to, forms[i].second_lo, forms[i].second_hi, forms[i].more));
            before = to;
        }
    }
    return free && is_free_at_lines(g, state);
}

void whim_grammar_find_free(whim_grammar_builder *b, whim_grammar *g)
{
    for (int64_t s = 0; s < g->n_state; s++) {
        g->states[s].is_free = g->states[s].plain;
    }
    /* States were met in order, so that going backwards settles most of them at once. */
    for (bool more = true; more && !whim_gb_late(b);) {
        more = false;
        for (int32_t s = (int32_t)g->n_state - 1; s >= 0; s--) {
            if (g->states[s].is_free && !is_free(g, s)) {
                g->states[s].is_free = false;
                more = true;
            }
        }
    }
}
