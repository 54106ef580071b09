/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table of runs with chains through the text: the newest place first. */
#include "draft/lookup.h"

#include "base/alloc.h"
#include "base/math/rng.h"

#include <string.h>

enum { RUN = WHIM_LOOKUP_RUN, FIRST_SLOTS = 256, MOST_PLACES = 8 };

static int64_t slot_of(const whim_lookup *l, const int32_t *run)
{
    uint64_t hash = 0;
    for (int i = 0; i < RUN; i++) {
        hash = whim_rng_at(hash, (uint64_t)(uint32_t)run[i]);
    }
    return (int64_t)(hash & (uint64_t)(l->n_slot - 1));
}

/* A token follows the run before `place`. */
static void enter(whim_lookup *l, const int32_t *text, int64_t place)
{
    int64_t slot = slot_of(l, text + place - RUN);
    l->before[place] = l->last[slot];
    l->last[slot] = (int32_t)place;
}

/* Twice as many slots as places, all entered anew. */
static bool slots_grow(whim_lookup *l, const int32_t *text, int64_t n)
{
    int64_t n_slot = l->n_slot > 0 ? l->n_slot : FIRST_SLOTS;
    while (n_slot < 2 * n) {
        n_slot *= 2;
    }
    if (n_slot == l->n_slot) {
        return true;
    }
    int32_t *last = whim_alloc(n_slot * (int64_t)sizeof *last);
    if (last == NULL) {
        return false;
    }
    memset(last, 0, (size_t)n_slot * sizeof *last);
    whim_free(l->last);
    l->last = last;
    l->n_slot = n_slot;
    for (int64_t place = RUN; place < l->n; place++) {
        enter(l, text, place);
    }
    return true;
}

void whim_lookup_deinit(whim_lookup *l)
{
    whim_free(l->last);
    whim_free(l->before);
    *l = (whim_lookup){0};
}

bool whim_lookup_grow(whim_lookup *l, const int32_t *text, int64_t n)
{
    if (n > INT32_MAX || !whim_grow(&l->before, n, &l->cap, sizeof *l->before) ||
        !slots_grow(l, text, n)) {
        return false;
    }
    for (int64_t place = l->n > RUN ? l->n : RUN; place < n; place++) {
        enter(l, text, place);
    }
    l->n = n > l->n ? n : l->n;
    return true;
}

/* How many tokens before a place are those of the tail's end. */
static int64_t same_before(const int32_t *text, int64_t place, const int32_t *tail, int64_t n_tail)
{
    int64_t most = place < n_tail ? place : n_tail, n = 0;
    most = most < WHIM_LOOKUP_LONGEST ? most : WHIM_LOOKUP_LONGEST;
    while (n < most && text[place - 1 - n] == tail[n_tail - 1 - n]) {
        n++;
    }
    return n;
}

int64_t whim_lookup_place(const whim_lookup *l, const int32_t *text, const int32_t *tail,
                          int64_t n_tail)
{
    int64_t best = 0, longest = RUN - 1;
    if (n_tail < RUN || l->n_slot == 0) {
        return 0;
    }
    int64_t place = l->last[slot_of(l, tail + n_tail - RUN)];
    for (int i = 0; place > 0 && i < MOST_PLACES; i++) {
        int64_t same = same_before(text, place, tail, n_tail);
        if (same > longest) {
            longest = same;
            best = place;
        }
        place = l->before[place];
    }
    return best;
}

int64_t whim_lookup_find(const whim_lookup *l, const int32_t *text, const int32_t *tail,
                         int64_t n_tail, int32_t *out, int64_t max)
{
    int64_t best = whim_lookup_place(l, text, tail, n_tail);
    if (best == 0) {
        return 0;
    }
    bool is_own = tail + n_tail == text + l->n;
    int64_t known = l->n - best, n = is_own || max < known ? max : known;
    for (int64_t i = 0; i < n; i++) {
        out[i] = i < known ? text[best + i] : out[i - known];
    }
    return n;
}
