/* SPDX-License-Identifier: Apache-2.0 */
/* States in which any text may come, and in those that it leads to again: inside strings that may
 * be anything or must hold something somewhere, and behind what tells a key from all others. Most
 * tokens are such text, so that masks of these states need not look at them. A state that is free
 * neither ends its rule nor calls another. And the few states that all characters of a kind lead
 * to: most expressions are about letters, digits and the like. */
#include "grammar/impl.h"

/* Characters beyond ASCII: the first byte, the second, and how many follow that. Left out are the
 * blocks that hold spaces and ends of lines, which expressions tell from other text. */
static const struct {
    uint8_t lo, hi, second_lo, second_hi;
    int32_t more;
} forms[] = {
    {0xC3, 0xDF, 0x80, 0xBF, 0}, {0xE0, 0xE0, 0xA0, 0xBF, 1}, {0xE1, 0xE1, 0x80, 0x99, 1},
    {0xE1, 0xE1, 0x9B, 0xBF, 1}, {0xE2, 0xE2, 0x82, 0xBF, 1}, {0xE3, 0xE3, 0x81, 0xBF, 1},
    {0xE4, 0xEC, 0x80, 0xBF, 1}, {0xED, 0xED, 0x80, 0x9F, 1}, {0xEE, 0xEE, 0x80, 0xBF, 1},
    {0xEF, 0xEF, 0x80, 0xBA, 1}, {0xEF, 0xEF, 0xBC, 0xBF, 1}, {0xF0, 0xF0, 0x90, 0xBF, 2},
    {0xF1, 0xF3, 0x80, 0xBF, 2}, {0xF4, 0xF4, 0x80, 0x8F, 2},
};

/* Bytes of ASCII of each kind. */
static const struct {
    uint8_t lo, hi, kind;
} ascii[] = {
    {'a', 'z', GK_LOWER}, {'A', 'Z', GK_UPPER}, {'0', '9', GK_DIGIT}, {' ', ' ', GK_SPACE},
    {'-', '.', GK_NAME},  {'_', '_', GK_NAME},  {'!', '!', GK_SIGN},  {'#', ',', GK_SIGN},
    {'/', '/', GK_SIGN},  {':', '@', GK_SIGN},  {'[', '[', GK_SIGN},  {']', '^', GK_SIGN},
    {'`', '`', GK_SIGN},  {'{', '~', GK_SIGN},
};

uint8_t whim_text_kind(const char *bytes, int64_t n)
{
    uint8_t c = (uint8_t)bytes[0], second = n > 1 ? (uint8_t)bytes[1] : 0;
    for (size_t i = 0; i < sizeof ascii / sizeof ascii[0] && n == 1; i++) {
        if (c >= ascii[i].lo && c <= ascii[i].hi) {
            return ascii[i].kind;
        }
    }
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (c >= forms[i].lo && c <= forms[i].hi && second >= forms[i].second_lo &&
            second <= forms[i].second_hi && n == forms[i].more + 2) {
            return GK_BEYOND;
        }
    }
    return GK_ELSE;
}

/* What is asked of where characters lead: a free state, or one of a few. */
typedef struct target {
    int32_t *list; /* [GLEADS_MOST] those met so far; NULL: free ones are asked for */
    int32_t n;
} target;

static bool reaches(const whim_grammar *g, int32_t to, target *goal)
{
    if (goal->list == NULL) {
        return g->states[to].is_free;
    }
    for (int32_t i = 0; i < goal->n; i++) {
        if (goal->list[i] == to) {
            return true;
        }
    }
    if (!g->states[to].plain || goal->n == GLEADS_MOST) {
        return false;
    }
    goal->list[goal->n++] = to;
    return true;
}

/* Whether all bytes from lo to hi, and `more` behind each, lead from a state to where they should.
 * Bytes of a class stand together, and classes are in their order. */
static bool all_reach(const whim_grammar *g, int32_t from, int32_t lo, int32_t hi, int32_t more,
                      target *goal)
{
    const gstate *s = &g->states[from];
    int32_t before = -1;
    for (int32_t c = s->class_of[lo]; c <= s->class_of[hi]; c++) {
        int32_t to = s->next[c];
        if (to < 0 || to >= g->n_state) {
            return false;
        }
        if (to != before &&
            !(more == 0 ? reaches(g, to, goal)
                        : g->states[to].plain && all_reach(g, to, 0x80, 0xBF, more - 1, goal))) {
            return false;
        }
        before = to;
    }
    return true;
}

/* The same of all characters of some kinds. */
static bool kinds_reach(const whim_grammar *g, int32_t state, uint8_t kinds, target *goal)
{
    bool all = true;
    for (size_t i = 0; i < sizeof ascii / sizeof ascii[0] && all; i++) {
        all = !(ascii[i].kind & kinds) || all_reach(g, state, ascii[i].lo, ascii[i].hi, 0, goal);
    }
    for (size_t i = 0; i < sizeof forms / sizeof forms[0] && all && (kinds & GK_BEYOND); i++) {
        const gstate *s = &g->states[state];
        int32_t before = -1;
        for (int32_t c = s->class_of[forms[i].lo]; c <= s->class_of[forms[i].hi] && all; c++) {
            int32_t to = s->next[c];
            all = to >= 0 && to < g->n_state && g->states[to].plain &&
                  (to == before ||
                   all_reach(g, to, forms[i].second_lo, forms[i].second_hi, forms[i].more, goal));
            before = to;
        }
    }
    return all;
}

int32_t whim_grammar_kind_next(const whim_grammar *g, int32_t state, uint8_t kind, int32_t *list)
{
    target goal = {.list = list};
    return kinds_reach(g, state, kind, &goal) ? goal.n : 0;
}

/* As far as it is known which states are. */
static bool is_free(const whim_grammar *g, int32_t state)
{
    target goal = {.list = NULL};
    return kinds_reach(g, state, GK_TEXT, &goal);
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
