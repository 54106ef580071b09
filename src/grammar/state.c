/* SPDX-License-Identifier: Apache-2.0 */
/* One answer's walk: masks, and taking tokens. Frames live as long as the state: an answer makes a
 * few of them for each value that it writes. */
#include "grammar/mask.h"

#include "base/alloc.h"

#include <string.h>

/* What keep remembers: frames and lists are only ever added behind those of a place. */
typedef struct gkept {
    gconfig *cur;
    int64_t n_cur, cap_cur;
    int64_t n_frame, n_list;
    bool ended, stuck, no_memory;
} gkept;

struct whim_grammar_state {
    whim_grammar *g;
    const whim_grammar_vocab *v;
    gwalk walk;
    gconfig *cur; /* where the answer stands */
    int64_t n_cur, cap_cur;
    gconfig *root; /* those of it that are outside of JSON */
    int64_t n_root;
    bool ended;     /* it may end here */
    bool stuck;     /* it may not, and no token fits */
    bool no_memory; /* which is why it is stuck, or the last token was not taken */
    gkept kept;
    int32_t *specials; /* special tokens that are part of marks and literals */
    int32_t n_special;
    uint32_t *bits; /* [n_word of the vocabulary] */
    gentry scratch;
};

/* The answer stands in n places, for which there is room. */
static void stand(whim_grammar_state *s, const gconfig *places, int64_t n)
{
    s->n_cur = n;
    s->n_root = 0;
    memcpy(s->cur, places, (size_t)n * sizeof *s->cur);
    for (int64_t i = 0; i < n; i++) {
        if (whim_grammar_at(s->g, s->cur[i].state)->rule == s->g->root_rule) {
            s->root[s->n_root++] = s->cur[i];
        }
    }
}

/* Where the walk's level stands becomes where the answer stands. */
static bool take_level(whim_grammar_state *s, int64_t level)
{
    const glevel *set = &s->walk.levels[level];
    int64_t cap = s->cap_cur;
    if (!whim_grow(&s->cur, set->n, &cap, sizeof *s->cur) ||
        !whim_grow(&s->root, set->n, &s->cap_cur, sizeof *s->root)) {
        return false;
    }
    stand(s, s->walk.configs + set->begin, set->n);
    s->ended = set->ended;
    s->walk.base_frame = set->n_frame;
    s->walk.base_list = set->n_list;
    return true;
}

/* The special tokens that marks and literals of the grammar hold. */
static bool find_specials(whim_grammar_state *s)
{
    const whim_grammar_vocab *v = s->v;
    s->specials = whim_alloc_array(v->n_special, sizeof *s->specials);
    for (int32_t i = 0; i < v->n_special && s->specials != NULL; i++) {
        int64_t n;
        const char *bytes = whim_tokenizer_bytes(v->tok, v->specials[i], &n);
        bool found = false;
        for (int64_t k = 0; k < s->g->n_mark && !found; k++) {
            const char *mark = s->g->marks[k];
            found = memmem(mark, strlen(mark), bytes, (size_t)n) != NULL;
        }
        if (found) {
            s->specials[s->n_special++] = v->specials[i];
        }
    }
    return s->specials != NULL;
}

whim_err whim_grammar_state_create(whim_grammar *g, const whim_grammar_vocab *v,
                                   whim_grammar_state **out)
{
    whim_grammar_state *s = whim_alloc(sizeof *s);
    if (s == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    s->g = whim_grammar_ref(g);
    s->v = v;
    s->bits = whim_alloc_array(v->n_word, sizeof *s->bits);
    whim_err err = whim_walk_init(&s->walk, g, v->max_bytes);
    if (err == WHIM_ERR_OK && s->bits != NULL && find_specials(s)) {
        gconfig start = {g->start, s->walk.frames[FRAME_ROOT].self};
        whim_walk_many(&s->walk, &start, 1);
        if (!s->walk.failed && take_level(s, 0)) {
            *out = s;
            return WHIM_ERR_OK;
        }
    }
    whim_grammar_state_destroy(s);
    return WHIM_ERR_NO_MEMORY;
}

void whim_grammar_state_destroy(whim_grammar_state *s)
{
    if (s == NULL) {
        return;
    }
    whim_walk_deinit(&s->walk);
    whim_grammar_unref(s->g);
    whim_free(s->cur);
    whim_free(s->root);
    whim_free(s->kept.cur);
    whim_free(s->specials);
    whim_free(s->bits);
    whim_free(s->scratch.bits);
    whim_free(s->scratch.pops);
    whim_free(s);
}

static void bit_set(uint32_t *bits, int32_t id)
{
    bits[id >> 5] |= UINT32_C(1) << (id & 31);
}

/* The tokens that may follow one place. */
static void mask_place(whim_grammar_state *s, gconfig place)
{
    const gentry *e = whim_mask_entry(&s->walk, s->g, s->v, place.state, &s->scratch);
    if (e == NULL) {
        return;
    }
    for (int64_t i = 0; i < s->v->n_word; i++) {
        s->bits[i] |= e->bits[i];
    }
    if (e->n_pop > 0 && whim_walk_return(&s->walk, place.list)) {
        for (int64_t i = 0; i < e->n_pop; i++) {
            whim_mask_below(&s->walk, s->v, e->pops[i], s->bits, NULL, NULL);
        }
    }
}

static void mask_specials(whim_grammar_state *s)
{
    for (int32_t i = 0; i < s->n_special && s->n_root > 0; i++) {
        int64_t n;
        const char *bytes = whim_tokenizer_bytes(s->v->tok, s->specials[i], &n);
        whim_walk_many(&s->walk, s->root, s->n_root);
        if (whim_walk_bytes(&s->walk, bytes, n)) {
            bit_set(s->bits, s->specials[i]);
        }
    }
}

bool whim_grammar_mask(whim_grammar_state *s, uint32_t *mask, int64_t n_word)
{
    const whim_grammar_vocab *v = s->v;
    memset(s->bits, 0, (size_t)v->n_word * sizeof *s->bits);
    whim_walk_begin(&s->walk);
    for (int64_t i = 0; i < s->n_cur; i++) {
        if (whim_grammar_at(s->g, s->cur[i].state)->moves) {
            mask_place(s, s->cur[i]);
        }
    }
    mask_specials(s);
    uint32_t any = 0;
    for (int64_t i = 0; i < v->n_word; i++) {
        any |= s->bits[i];
    }
    s->no_memory = s->walk.no_memory; /* even where it may end, it need not */
    s->stuck = s->no_memory || ((any == 0 || s->walk.failed) && !s->ended);
    if (s->walk.failed) { /* what was found is not all, and may not be taken */
        memset(s->bits, 0, (size_t)v->n_word * sizeof *s->bits);
    }
    for (int32_t i = 0; i < v->n_end && (s->ended || s->stuck); i++) {
        bit_set(s->bits, v->ends[i]);
    }
    int64_t n = n_word < v->n_word ? n_word : v->n_word;
    memcpy(mask, s->bits, (size_t)n * sizeof *mask);
    memset(mask + n, 0, (size_t)(n_word - n) * sizeof *mask);
    return true;
}

bool whim_ids_have(const int32_t *list, int32_t n, int32_t id)
{
    for (int32_t i = 0; i < n; i++) {
        if (list[i] == id) {
            return true;
        }
    }
    return false;
}

bool whim_grammar_accept(whim_grammar_state *s, int32_t id)
{
    const whim_grammar_vocab *v = s->v;
    if (whim_ids_have(v->ends, v->n_end, id)) {
        return s->ended;
    }
    int64_t n = 0;
    const char *bytes = id >= 0 && id < v->n_id ? whim_tokenizer_bytes(v->tok, id, &n) : NULL;
    bool special = n > 0 && whim_tokenizer_is_special(v->tok, id);
    if (n == 0 || (special && !whim_ids_have(s->specials, s->n_special, id))) {
        return false;
    }
    whim_walk_begin(&s->walk);
    whim_walk_many(&s->walk, special ? s->root : s->cur, special ? s->n_root : s->n_cur);
    bool fits = whim_walk_bytes(&s->walk, bytes, n), taken = fits && take_level(s, n);
    s->no_memory = s->walk.no_memory || (fits && !taken);
    return taken;
}

bool whim_grammar_keep(whim_grammar_state *s)
{
    gkept *k = &s->kept;
    if (!whim_grow(&k->cur, s->n_cur, &k->cap_cur, sizeof *k->cur)) {
        return false;
    }
    memcpy(k->cur, s->cur, (size_t)s->n_cur * sizeof *k->cur);
    k->n_cur = s->n_cur;
    k->n_frame = s->walk.base_frame;
    k->n_list = s->walk.base_list;
    k->ended = s->ended;
    k->stuck = s->stuck;
    k->no_memory = s->no_memory;
    return true;
}

void whim_grammar_go_back(whim_grammar_state *s)
{
    const gkept *k = &s->kept;
    stand(s, k->cur, k->n_cur); /* it stood there: there is room */
    s->walk.base_frame = k->n_frame;
    s->walk.base_list = k->n_list;
    s->ended = k->ended;
    s->stuck = k->stuck;
    s->no_memory = k->no_memory;
}

bool whim_grammar_is_stuck(const whim_grammar_state *s)
{
    return s->stuck;
}

bool whim_grammar_lacks_memory(const whim_grammar_state *s)
{
    return s->no_memory;
}

bool whim_grammar_may_end(const whim_grammar_state *s)
{
    return s->ended;
}

bool whim_grammar_must_end(const whim_grammar_state *s)
{
    bool moves = false;
    for (int64_t i = 0; i < s->n_cur; i++) {
        moves = moves || whim_grammar_at(s->g, s->cur[i].state)->moves;
    }
    return s->ended && !moves;
}
