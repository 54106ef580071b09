/* SPDX-License-Identifier: Apache-2.0 */
/* Which tokens may come next in a state: walks over the tree of tokens, and the masks that are
 * kept. */
#include "grammar/mask.h"

#include "base/alloc.h"
#include "base/heap/budget.h"

#include <string.h>

/* A walk over fewer nodes is not worth keeping; and what a grammar may keep in all. */
enum { CHEAP_NODES = 2000, KEPT_BYTES = 4 << 20, KEPT_PART = 64 };

/* Below fewer nodes than these a walk is the quicker way to find out. */
enum { WORTH_NODES = 2 };

void whim_entry_free(gentry *e)
{
    if (e != NULL) {
        whim_free(e->bits);
        whim_free(e->pops);
        whim_free(e);
    }
}

static void pop_add(gwalk *w, gentry *pops, int32_t node)
{
    if (whim_grow(&pops->pops, pops->n_pop + 1, &pops->cap_pop, sizeof *pops->pops)) {
        pops->pops[pops->n_pop++] = node;
    } else {
        whim_walk_no_memory(w);
    }
}

/* What a plain string's entry says about the tokens below a node. */
static void copy_below(gwalk *w, const whim_grammar_vocab *v, int32_t node, uint32_t *bits,
                       gentry *pops, const gentry *like)
{
    int32_t end = v->nodes[node].skip;
    for (int32_t k = v->nodes[node + 1].first_tok; k < v->nodes[end].first_tok; k++) {
        int32_t id = v->tokens[k];
        bits[id >> 5] |= like->bits[id >> 5] & UINT32_C(1) << (id & 31);
    }
    int64_t lo = 0, hi = like->n_pop; /* nodes are in order */
    while (lo < hi) {
        int64_t mid = (lo + hi) / 2;
        if (like->pops[mid] <= node) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    for (; lo < like->n_pop && like->pops[lo] < end; lo++) {
        pop_add(w, pops, like->pops[lo]);
    }
}

static int32_t partner_of(const whim_grammar *g, int32_t state)
{
    return state < g->n_state ? g->partner[state] : whim_counted_partner(g, state);
}

static int32_t alike_of(const whim_grammar *g, int32_t state)
{
    return state < g->n_state ? g->alike[state] : whim_counted_alike(g, state);
}

static void set_bit(uint32_t *bits, int32_t id)
{
    bits[id >> 5] |= UINT32_C(1) << (id & 31);
}

static void take_below(const whim_grammar_vocab *v, int32_t node, uint32_t *bits)
{
    int32_t end = v->nodes[v->nodes[node].skip].first_tok;
    for (int32_t k = v->nodes[node + 1].first_tok; k < end; k++) {
        set_bit(bits, v->tokens[k]);
    }
}

/* A mask that is being found. */
typedef struct gsearch {
    gwalk *w;
    const whim_grammar_vocab *v;
    int32_t base; /* depth of the node that level 0 stands for */
    uint32_t *bits;
    gentry *pops;
    const gentry *like;
} gsearch;

/* A level that walk.c made: the place to step from, where a look-up does. */
static void note_made(gwalk *w, int32_t level)
{
    glevel *set = &w->levels[level];
    int32_t state = set->n == 1 ? w->configs[set->begin].state : w->g->n_state;
    set->made = true;
    set->only = state < w->g->n_state ? state : -1;
}

/* Make the levels down to this one as walk.c would have. */
static void make_levels(gwalk *w, int32_t level)
{
    int32_t last = level;
    while (!w->levels[last].made) {
        last--;
    }
    for (; last < level; last++) {
        int32_t only = w->levels[last + 1].only;
        whim_walk_plain(w, last, only);
        w->levels[last + 1].only = only;
        w->levels[last + 1].made = true;
    }
}

/* Whether any place of a level takes the byte: all that has to be known where no token goes on. */
static bool takes(const gwalk *w, const glevel *from, uint8_t byte)
{
    bool any = false;
    for (int32_t i = 0; i < from->n && !any; i++) {
        any = whim_grammar_next(w->g, w->configs[from->begin + i].state, byte) >= 0;
    }
    return any;
}

/* The step to a node; false: nothing is left. *only: where the walk stands then, -1 where it is not
 * in one place whose state is written down. */
static bool step_to(gsearch *m, int32_t i, int32_t *only)
{
    gwalk *w = m->w;
    const gtrie_node *node = &m->v->nodes[i];
    int32_t level = node->depth - m->base;
    glevel *from = &w->levels[level - 1], *set = from + 1;
    *only = -1;
    if (from->only >= 0) {
        int32_t to = whim_grammar_next(w->g, from->only, node->byte);
        if (to < 0 || node->skip == i + 1) {
            return to >= 0;
        }
        if (to < w->g->n_state && w->g->states[to].plain) {
            set->made = false;
            *only = set->only = to;
            return true;
        }
    } else if (node->skip == i + 1) {
        return takes(w, from, node->byte);
    }
    make_levels(w, level - 1);
    if (!whim_walk_step(w, level - 1, node->byte)) {
        return false;
    }
    note_made(w, level);
    if (m->pops != NULL && set->popped) {
        pop_add(w, m->pops, i);
    }
    *only = set->popped ? -1 : set->only;
    return true;
}

/* Whether what may come below the node is known without a walk, which is then taken over. A walk
 * that stands in a state of a counted string or in several places knows nothing. */
static bool is_known(gsearch *m, int32_t i, int32_t only)
{
    const whim_grammar *g = m->w->g;
    const gtrie_node *node = &m->v->nodes[i];
    int32_t level = node->depth - m->base;
    const glevel *set = &m->w->levels[level];
    bool is_text = !(node->below & GK_ELSE);
    if (only >= 0 && is_text &&
        (g->states[only].is_free || (node->skip - i > WORTH_NODES &&
                                     whim_walk_leads_on(m->w, only, node->below, node->n_char)))) {
        take_below(m->v, i, m->bits);
        return true;
    }
    if (m->like == NULL) {
        return false;
    }
    if (only < 0 && set->made && set->n == 1 && !set->popped) {
        only = m->w->configs[set->begin].state;
    }
    int32_t length = only < 0 ? 0 : alike_of(g, only);
    if (length == GA_NEVER || (node->height < UINT8_MAX && length > node->height)) {
        copy_below(m->w, m->v, i, m->bits, m->pops, m->like);
        return true;
    }
    return false;
}

/* Whether all that is below the node is below the next one, too, which is the better place to ask
 * what is known. */
static bool is_chain(const whim_grammar_vocab *v, int32_t i)
{
    const gtrie_node *node = &v->nodes[i];
    return node[1].first_tok == node->first_tok && node[1].skip == node->skip;
}

int64_t whim_mask_below(gwalk *w, const whim_grammar_vocab *v, int32_t node, uint32_t *bits,
                        gentry *pops, const gentry *like)
{
    const gtrie_node *nodes = v->nodes;
    int32_t end = node < 0 ? v->n_node : nodes[node].skip;
    gsearch m = {w, v, node < 0 ? 0 : nodes[node].depth, bits, pops, like};
    int64_t n_seen = 0;
    note_made(w, 0);
    for (int32_t i = node + 1; i < end; n_seen++) {
        int32_t only;
        if (!step_to(&m, i, &only)) {
            i = nodes[i].skip;
            continue;
        }
        for (int32_t k = nodes[i].first_tok; k < nodes[i + 1].first_tok; k++) {
            set_bit(bits, v->tokens[k]);
        }
        bool goes_on = nodes[i].skip > i + 1 && (is_chain(v, i) || !is_known(&m, i, only));
        i = goes_on ? i + 1 : nodes[i].skip;
    }
    return n_seen;
}

/* The slot of a state, or the empty one where it would stand; there are some. */
static gkept_entry *slot_of(const whim_grammar *g, int32_t state)
{
    uint64_t at = (uint64_t)(uint32_t)state * 0x9E3779B97F4A7C15u >> 32;
    for (;; at++) {
        gkept_entry *slot = &g->entries[at & (uint64_t)(g->cap_entry - 1)];
        if (slot->entry == NULL || slot->state == state) {
            return slot;
        }
    }
}

/* Room for one more entry. */
static bool slots_grow(whim_grammar *g)
{
    gkept_entry *old = g->entries;
    int64_t n = g->cap_entry;
    if (2 * (g->n_entry + 1) <= n) {
        return true;
    }
    gkept_entry *more = whim_alloc_array(n > 0 ? 2 * n : 64, sizeof *more);
    if (more == NULL) {
        return false;
    }
    g->entries = more;
    g->cap_entry = n > 0 ? 2 * n : 64;
    for (int64_t i = 0; i < n; i++) {
        if (old[i].entry != NULL) {
            *slot_of(g, old[i].state) = old[i];
        }
    }
    whim_free(old);
    return true;
}

/* The kept entry, if any. */
static const gentry *entry_kept(whim_grammar *g, const whim_grammar_vocab *v, int32_t state)
{
    int32_t in_string = state - g->string_begin;
    if (v->string_entries != NULL && in_string >= 0 && in_string < g->n_string) {
        return v->string_entries[in_string];
    }
    pthread_mutex_lock(&g->lock);
    const gentry *kept =
        g->cap_entry > 0 && g->vocab_serial == v->serial ? slot_of(g, state)->entry : NULL;
    pthread_mutex_unlock(&g->lock);
    return kept;
}

/* What a grammar's masks may take: where there is little memory for requests, little of that. */
static int64_t most_kept(void)
{
    int64_t part = whim_budget_bytes() / KEPT_PART;
    return part > 0 && part < KEPT_BYTES ? part : KEPT_BYTES;
}

/* Keep what `e` holds, which is then empty; the kept entry, or NULL when there is no room for
 * it. */
static const gentry *entry_keep(whim_grammar *g, const whim_grammar_vocab *v, int32_t state,
                                gentry *e)
{
    const gentry *kept = NULL;
    int64_t bytes = v->n_word * (int64_t)sizeof *e->bits + e->cap_pop * (int64_t)sizeof *e->pops +
                    (int64_t)sizeof *e;
    pthread_mutex_lock(&g->lock);
    if (g->n_entry == 0) {
        g->vocab_serial = v->serial;
    }
    if (g->vocab_serial == v->serial && g->entry_bytes + bytes <= most_kept() && slots_grow(g) &&
        slot_of(g, state)->entry == NULL) {
        gentry *copy = whim_alloc(sizeof *copy);
        if (copy != NULL) {
            *copy = *e;
            *e = (gentry){0};
            *slot_of(g, state) = (gkept_entry){state, copy};
            g->n_entry++;
            g->entry_bytes += bytes;
            kept = copy;
        }
    }
    pthread_mutex_unlock(&g->lock);
    return kept;
}

const gentry *whim_mask_entry(gwalk *w, whim_grammar *g, const whim_grammar_vocab *v, int32_t state,
                              gentry *scratch)
{
    const gentry *kept = entry_kept(g, v, state), *like = NULL;
    if (kept != NULL) {
        return kept;
    }
    if (partner_of(g, state) >= 0) {
        int32_t alike = alike_of(g, state);
        like = v->string_entries[partner_of(g, state) - g->string_begin];
        if (alike == GA_NEVER || alike > v->max_bytes) {
            return like;
        }
    }
    int64_t bytes = v->n_word * (int64_t)sizeof *scratch->bits;
    if (scratch->bits == NULL) {
        scratch->bits = whim_alloc(bytes);
    } else {
        memset(scratch->bits, 0, (size_t)bytes);
    }
    bool has_length = state >= g->n_state && partner_of(g, state) == g->string_body;
    if (scratch->bits == NULL || (has_length && !whim_mask_of_length(g, v, state, scratch))) {
        whim_walk_no_memory(w); /* a mask without these tokens would be another answer */
        return NULL;
    }
    if (has_length) {
        return scratch;
    }
    scratch->n_pop = 0;
    whim_walk_one(w, state, w->frames[FRAME_BASE].self);
    if (whim_mask_below(w, v, -1, scratch->bits, scratch, like) > CHEAP_NODES && !w->failed) {
        kept = entry_keep(g, v, state, scratch);
    }
    return kept != NULL ? kept : scratch;
}
