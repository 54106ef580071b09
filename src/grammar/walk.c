/* SPDX-License-Identifier: Apache-2.0 */
/* Walking a grammar byte by byte: sets of places and their closure. What a step makes (frames and
 * lists) lies behind what the level before made, so that going back to a level frees it. */
#include "grammar/mask.h"

#include "base/alloc.h"

#include <string.h>

/* What joining lists may take for one token or one mask. Grammars that can be read in many ways
 * have long lists; so many steps are some hundredths of a second. */
enum { MAX_WORK = 8 << 20 };

/* What looking through the places of a set may take for the same, which are thousands where a
 * grammar has as many rules at once; and what all lists may hold. */
enum { MAX_LOOKS = 1 << 28, MAX_LISTED = 16 << 20 };

static bool grow(gwalk *w, void *array, int64_t need, int64_t *cap, int64_t size)
{
    bool ok = whim_grow(array, need, cap, size);
    if (!ok) {
        whim_walk_no_memory(w);
    }
    return ok;
}

static bool room_for(gwalk *w, int64_t n)
{
    w->failed = w->failed || w->n_list + n > MAX_LISTED;
    return !w->failed && grow(w, &w->lists, w->n_list + n, &w->cap_list, sizeof *w->lists);
}

static void count_looks(gwalk *w, int64_t n)
{
    w->looks += n;
    w->failed = w->failed || w->looks > MAX_LOOKS;
}

/* --- lists and frames ------------------------------------------------------------------------- */

static int32_t list_of(gwalk *w, int32_t frame)
{
    if (!room_for(w, 2)) {
        return 0;
    }
    int32_t list = (int32_t)w->n_list;
    w->lists[w->n_list++] = 1;
    w->lists[w->n_list++] = frame;
    return list;
}

static bool list_has(const gwalk *w, int32_t list, int32_t frame)
{
    const int32_t *frames = w->lists + list + 1;
    int32_t lo = 0, hi = w->lists[list];
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (frames[mid] < frame) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo < w->lists[list] && frames[lo] == frame;
}

/* The union; one of the two themselves where it holds the other. */
static int32_t list_join(gwalk *w, int32_t one, int32_t two)
{
    if (one == two || (w->lists[two] == 1 && list_has(w, one, w->lists[two + 1]))) {
        return one;
    }
    int64_t need = (int64_t)w->lists[one] + w->lists[two] + 1;
    w->work += need;
    w->failed = w->failed || w->work > MAX_WORK;
    if (w->failed || !room_for(w, need)) {
        return one;
    }
    const int32_t *a = w->lists + one, *b = w->lists + two;
    int32_t *out = w->lists + w->n_list;
    int32_t n = 0, i = 1, k = 1;
    while (i <= *a || k <= *b) {
        int32_t next = k > *b || (i <= *a && a[i] <= b[k]) ? a[i] : b[k];
        i += i <= *a && a[i] == next;
        k += k <= *b && b[k] == next;
        out[++n] = next;
    }
    if (n == *a) {
        return one;
    }
    if (n == *b) {
        return two;
    }
    out[0] = n;
    int32_t list = (int32_t)w->n_list;
    w->n_list += n + 1;
    return list;
}

/* The frame of this step that goes on in `to`; a second caller joins the first. */
static int32_t frame_of(gwalk *w, int32_t to, int32_t list)
{
    count_looks(w, w->n_frame - w->step_frame);
    for (int64_t f = w->step_frame; f < w->n_frame; f++) {
        if (w->frames[f].to == to) {
            w->frames[f].list = list_join(w, w->frames[f].list, list);
            return (int32_t)f;
        }
    }
    if (!grow(w, &w->frames, w->n_frame + 1, &w->cap_frame, sizeof *w->frames)) {
        return FRAME_ROOT;
    }
    int32_t frame = (int32_t)w->n_frame;
    int32_t self = list_of(w, frame);
    w->frames[w->n_frame++] = (gframe){.to = to, .list = list, .self = self};
    return frame;
}

/* --- sets ------------------------------------------------------------------------------------- */

/* A place has got callers, which are to be looked at. */
static void todo_add(gwalk *w, int32_t place, int32_t list)
{
    if (grow(w, &w->todo, w->n_todo + 1, &w->cap_todo, sizeof *w->todo)) {
        w->todo[w->n_todo++] = (gtodo){place, list};
    }
}

/* Add a place to the set being made; one that is there already gets more callers. */
static void place_add(gwalk *w, glevel *set, int32_t state, int32_t list)
{
    count_looks(w, set->n);
    for (int32_t i = 0; i < set->n; i++) {
        gconfig *c = &w->configs[set->begin + i];
        if (c->state == state) {
            int32_t joined = list_join(w, c->list, list);
            if (joined != c->list) {
                c->list = joined;
                todo_add(w, i, list);
            }
            return;
        }
    }
    if (grow(w, &w->configs, set->begin + set->n + 1, &w->cap_config, sizeof *w->configs)) {
        todo_add(w, set->n, list);
        w->configs[set->begin + set->n++] = (gconfig){state, list};
    }
}

static void list_return(gwalk *w, glevel *set, int32_t list)
{
    for (int32_t i = 1; i <= w->lists[list]; i++) {
        int32_t f = w->lists[list + i];
        if (f == FRAME_ROOT) {
            set->ended = true;
        } else if (f == FRAME_BASE) {
            set->popped = true;
        } else {
            place_add(w, set, w->frames[f].to, w->frames[f].list);
        }
    }
}

/* What follows without a byte: calls, and the ends of rules. No rule takes the empty text, so that
 * a frame of this step is never returned to in it. What the callers of a place lead to is the union
 * of what each does, so that only new ones are looked at. */
static void set_close(gwalk *w, glevel *set)
{
    const whim_grammar *g = w->g;
    for (int64_t at = 0; at < w->n_todo && !w->failed; at++) {
        gconfig c = {w->configs[set->begin + w->todo[at].place].state, w->todo[at].list};
        const gstate *s = whim_grammar_at(g, c.state);
        if (s->accepts) {
            list_return(w, set, c.list);
        }
        for (int32_t k = 0; k < s->n_call; k++) {
            const gcall *call = &g->calls[s->first_call + k];
            if (g->states[call->to].is_last) { /* else rules that end with themselves pile up */
                place_add(w, set, call->rule, c.list);
                continue;
            }
            int32_t frame = frame_of(w, call->to, c.list);
            if (!w->failed) {
                place_add(w, set, call->rule, w->frames[frame].self);
            }
        }
    }
    set->n_frame = w->n_frame;
    set->n_list = w->n_list;
    if (w->failed) {
        set->n = 0;
        set->ended = set->popped = false;
    }
}

static glevel *set_begin(gwalk *w, int32_t level)
{
    glevel *set = &w->levels[level];
    *set = (glevel){.begin = 0};
    if (level == 0) {
        w->n_frame = w->base_frame;
        w->n_list = w->base_list;
    } else {
        const glevel *before = set - 1;
        set->begin = before->begin + before->n;
        w->n_frame = before->n_frame;
        w->n_list = before->n_list;
    }
    w->step_frame = w->n_frame;
    w->n_todo = 0;
    return set;
}

void whim_walk_one(gwalk *w, int32_t state, int32_t list)
{
    glevel *set = set_begin(w, 0);
    place_add(w, set, state, list);
    set->n_frame = w->n_frame;
    set->n_list = w->n_list;
}

void whim_walk_many(gwalk *w, const gconfig *configs, int64_t n)
{
    glevel *set = set_begin(w, 0);
    for (int64_t i = 0; i < n; i++) {
        place_add(w, set, configs[i].state, configs[i].list);
    }
    set_close(w, set);
}

bool whim_walk_return(gwalk *w, int32_t list)
{
    glevel *set = set_begin(w, 0);
    list_return(w, set, list);
    set_close(w, set);
    return set->n > 0;
}

void whim_walk_plain(gwalk *w, int32_t level, int32_t state)
{
    const glevel *from = &w->levels[level];
    glevel *set = &w->levels[level + 1];
    int64_t begin = from->begin + from->n;
    *set = (glevel){.begin = begin, .n_frame = from->n_frame, .n_list = from->n_list};
    if (grow(w, &w->configs, begin + 1, &w->cap_config, sizeof *w->configs)) {
        w->configs[begin] = (gconfig){state, w->configs[from->begin].list};
        set->n = 1;
    }
}

bool whim_walk_step(gwalk *w, int32_t level, uint8_t byte)
{
    const whim_grammar *g = w->g;
    const glevel *from = &w->levels[level];
    if (from->n == 1) { /* most steps: one place before and behind, which neither ends nor calls */
        int32_t to = whim_grammar_next(g, w->configs[from->begin].state, byte);
        if (to < 0 || whim_grammar_at(g, to)->plain) {
            whim_walk_plain(w, level, to);
            return to >= 0 && !w->failed;
        }
    }
    glevel *set = set_begin(w, level + 1);
    for (int32_t i = 0; i < from->n; i++) {
        gconfig c = w->configs[from->begin + i];
        int32_t to = whim_grammar_next(g, c.state, byte);
        if (to >= 0) {
            place_add(w, set, to, c.list);
        }
    }
    set_close(w, set);
    return set->n > 0;
}

bool whim_walk_bytes(gwalk *w, const char *bytes, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (!whim_walk_step(w, (int32_t)i, (uint8_t)bytes[i])) {
            return false;
        }
    }
    return true;
}

whim_err whim_walk_init(gwalk *w, const whim_grammar *g, int64_t max_bytes)
{
    *w = (gwalk){.g = g};
    w->levels = whim_alloc_array(max_bytes + 2, sizeof *w->levels);
    if (w->levels == NULL || !grow(w, &w->frames, 2, &w->cap_frame, sizeof *w->frames)) {
        return WHIM_ERR_NO_MEMORY;
    }
    w->frames[FRAME_ROOT] = (gframe){.to = -1, .self = list_of(w, FRAME_ROOT)};
    w->frames[FRAME_BASE] = (gframe){.to = -1, .self = list_of(w, FRAME_BASE)};
    w->n_frame = w->base_frame = 2;
    w->base_list = w->n_list;
    return w->failed ? WHIM_ERR_NO_MEMORY : WHIM_ERR_OK;
}

void whim_walk_deinit(gwalk *w)
{
    whim_free(w->frames);
    whim_free(w->lists);
    whim_free(w->configs);
    whim_free(w->todo);
    whim_free(w->levels);
}
