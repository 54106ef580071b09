/* SPDX-License-Identifier: Apache-2.0 */
/* `sample` at every level. Workers take rows. Sums have the law's order, which is one after the
 * other, so that what is saved is elsewhere: exponentials come in vectors, tokens too unlikely to
 * have weight are passed over by blocks, a draw looks again only at the tile in which it falls, and
 * ranking begins with the likeliest. Included once per level after exp_tmpl.h and store_tmpl.h. */
#include "backends/cpu/tmpl/sample_rank_tmpl.h"
#include "base/math/rng.h"

enum { SAMPLE_TILES = 256 };
_Static_assert(SAMPLE_BLOCK <= 8 * EXP_LANES, "sample_about is less exact than it says");

/* Where a draw by id falls. */
typedef struct sample_found {
    int64_t id;           /* -1: nowhere */
    double before, after; /* the sums without it and with it */
} sample_found;

/* The first token at which the running sum is above `goal`; ends[] are the sums after each tile. */
static sample_found sample_find(const sample_weigh *w, const double *ends, int64_t tile,
                                double goal)
{
    int64_t n_tile = (w->n + tile - 1) / tile, t = 0;
    while (t < n_tile && !(ends[t] > goal)) {
        t++;
    }
    sample_found found = {.id = -1, .after = t > 0 ? ends[t - 1] : 0};
    for (int64_t i = t * tile; i < w->n && !(found.after > goal); i++) {
        float weight = sample_weight(w, w->x[i]);
        found.id = i;
        found.before = found.after;
        found.after += weight >= w->least ? (double)weight : 0;
    }
    return found;
}

/* The law's way: sums over all that came before, tile after tile. */
static int32_t sample_by_id_exact(const sample_weigh *w, int64_t tile, double u)
{
    double ends[SAMPLE_TILES] = {0}, sum = 0;
    for (int64_t t = 0; t * tile < w->n; t++) {
        int64_t end = (t + 1) * tile < w->n ? (t + 1) * tile : w->n;
        ends[t] = sum = sample_sum(w, t * tile, end, sum);
    }
    sample_found found = sample_find(w, ends, tile, u * sum);
    if (found.id >= 0 && found.after > u * sum) {
        return (int32_t)found.id;
    }
    int64_t last = w->n - 1; /* rounding: the last that may come at all */
    while (sample_weight(w, w->x[last]) < w->least || sample_weight(w, w->x[last]) == 0) {
        last--;
    }
    return (int32_t)last;
}

/* No filter by rank: every token of at least `least` weight may come, in the order of ids. Sums of
 * tiles in lanes are off the law's by less than 2^-20 of the total, goal and running sum together.
 * Where the draw falls is farther than twice that from the ends of a token's part of the line, but
 * for one draw in thousands: then it is sure to be the law's token, and the law's own sums are not
 * needed. */
static int32_t sample_by_id(const sample_weigh *w, double u)
{
    enum { MOST = 1 << 26 }; /* beyond, sums in double are no longer that exact */
    double ends[SAMPLE_TILES] = {0}, sum = 0;
    bool plain = w->temperature == 1.0f && w->least == 0.0f;
    int64_t tile = (w->n + SAMPLE_TILES - 1) / SAMPLE_TILES;
    tile = (tile + SAMPLE_BLOCK - 1) / SAMPLE_BLOCK * SAMPLE_BLOCK;
    for (int64_t t = 0; t * tile < w->n; t++) {
        int64_t end = (t + 1) * tile < w->n ? (t + 1) * tile : w->n;
        sum += plain ? sample_about(w, t * tile, end, true) : sample_about(w, t * tile, end, false);
        ends[t] = sum;
    }
    double goal = u * sum, margin = 0x1p-19 * sum;
    sample_found found = sample_find(w, ends, tile, goal);
    bool sure = found.id >= 0 && w->n <= MOST && found.after > goal + margin &&
                (found.before == 0 || found.before < goal - margin);
    return sure ? (int32_t)found.id : sample_by_id_exact(w, tile, u);
}

static int32_t sample_choose(const whim_sample_want *p, const int32_t *lists, const float *row,
                             sample_slot *s)
{
    const float *x = sample_adjust(p, lists, row, s);
    bool whole;
    float largest = sample_largest(x, s->n, &whole);
    largest = whole ? largest : INFINITY; /* a penalty below 1 can make +inf */
    if (largest == -INFINITY) {
        return -1;
    }
    if (p->temperature == 0.0f || p->top_k == 1) {
        return (int32_t)sample_first(x, s->n, largest);
    }
    bool by_id = p->top_k == 0 && p->top_p >= 1.0f && p->xtc_threshold == 0.0f;
    if (largest ==
        INFINITY) { /* weights are no numbers: the law comes to the last, or to the best */
        int64_t id = by_id ? s->n - 1 : sample_first(x, s->n, largest);
        while (x[id] < largest) {
            id--;
        }
        return (int32_t)id;
    }
    sample_weigh w = sample_weigh_of(x, s->n, largest, p->temperature);
    double u =
        whim_rng_uniform53_at(whim_rng_key(p->seed, (uint64_t)p->choice), (uint64_t)p->position);
    if (by_id) {
        w.least = p->min_p;
        return sample_by_id(&w, u);
    }
    sample_ranks ranks = {.w = &w, .keys = s->keys, .weights = s->weights};
    return sample_by_rank(&ranks, p, u);
}

/* Only the best are known: they are ranked already. */
static int32_t sample_choose_best(const whim_sample_want *p, const float *values,
                                  const int32_t *ids, sample_slot *s)
{
    if (p->temperature == 0.0f || p->top_k == 1) {
        return ids[0];
    }
    sample_weigh w = sample_weigh_of(NULL, s->n, values[0], p->temperature);
    sample_ranks ranks = {.w = &w, .keys = s->keys, .weights = s->weights, .band = SAMPLE_BANDS};
    for (int32_t i = 0; i < p->top_k; i++) {
        s->keys[i] = whim_rank_key(values[i], ids[i]);
        s->weights[i] = sample_weight(&w, values[i]);
    }
    ranks.n_key = ranks.n_ranked = p->top_k;
    double u =
        whim_rng_uniform53_at(whim_rng_key(p->seed, (uint64_t)p->choice), (uint64_t)p->position);
    return sample_by_rank(&ranks, p, u);
}

/* The logarithm of the sum of exponentials, in the law's tiles. */
static double sample_log_sum(const float *x, int64_t n, float largest)
{
    enum { TILE = 1024 };
    double total = 0;
    for (int64_t at = 0; at < n; at += TILE) {
        total += sample_exp_sum(x + at, n - at < TILE ? n - at : TILE, largest);
    }
    return (double)largest + whim_ln(total);
}

static void sample_tell(const whim_sample_want *p, const float *x, int64_t n, float largest,
                        int32_t id, whim_sample_told *told, int32_t *ids, float *logprobs)
{
    whim_cpu_best best[WHIM_MAX_LOGPROBS];
    double shift = sample_log_sum(x, n, largest);
    int64_t k = p->n_logprob < n ? p->n_logprob : n;
    memset(best, 0, sizeof best);
    for (int64_t at = 0; at < n && k > 0; at += TOPK_BLOCK) {
        topk_offer(best, k, x + at, n - at < TOPK_BLOCK ? n - at : TOPK_BLOCK, at);
    }
    for (int64_t i = 0; i < k; i++) {
        ids[i] = whim_rank_id(best[i].key);
        logprobs[i] = (float)((double)best[i].value - shift);
    }
    told->n_top = (int32_t)k;
    told->logprob = (float)((double)x[id] - shift);
}

/* A largest of +inf stands for a NaN, too. */
static void sample_broken(whim_sample_told *told, bool wants_logprob, int64_t id, float value)
{
    bool empty = value == -INFINITY;
    told->state = empty ? WHIM_SAMPLE_EMPTY : WHIM_SAMPLE_BROKEN;
    told->odd_id = empty ? 0 : (int32_t)id;
    told->odd_value = empty ? 0 : value;
    told->logprob = wants_logprob ? NAN : 0;
}

static int32_t sample_row_all(const whim_sample_args *a, int64_t r, sample_slot *s,
                              whim_sample_told *told)
{
    const whim_sample_want *p = &a->wants[r];
    const float *x = a->logits + r * a->logits_stride;
    bool wants_logprob = p->has_logprob != 0 || p->n_logprob > 0, whole;
    float largest = sample_largest(x, s->n, &whole);
    if (!whole || largest == -INFINITY) {
        int64_t id = whole ? 0 : sample_first(x, s->n, INFINITY);
        sample_broken(told, wants_logprob, id, whole ? largest : x[id]);
        return -1;
    }
    int32_t id = p->kind == WHIM_SAMPLE_GIVEN ? p->given : sample_choose(p, a->lists, x, s);
    if (id < 0) {
        told->state = WHIM_SAMPLE_BARRED;
    } else if (wants_logprob) {
        sample_tell(p, x, s->n, largest, id, told, a->top_ids + r * WHIM_MAX_LOGPROBS,
                    a->top_logprobs + r * WHIM_MAX_LOGPROBS);
    }
    return id;
}

static int32_t sample_row_best(const whim_sample_args *a, int64_t r, sample_slot *s,
                               whim_sample_told *told)
{
    const whim_sample_want *p = &a->wants[r];
    const float *values = a->best_values + r * a->k_best;
    const int32_t *ids = a->best_ids + r * a->k_best;
    if (!(values[0] > -INFINITY && values[0] < INFINITY)) {
        sample_broken(told, false, ids[0], values[0]);
        return -1;
    }
    return p->kind == WHIM_SAMPLE_GIVEN ? p->given : sample_choose_best(p, values, ids, s);
}

static void sample_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_cpu_sample_args *m = args;
    const whim_sample_args *a = &m->op;
    whim_cpu_worker w = *worker;
    w.count = w.count < m->n_slot ? w.count : (int32_t)m->n_slot;
    if (w.index >= w.count) {
        return; /* there is no slot for it */
    }
    sample_slot slot = sample_slot_of(m, w.index);
    whim_cpu_claim c = whim_cpu_claim_open(&w, a->n_row);
    while (whim_cpu_claim_next(&c)) {
        for (int64_t r = c.begin; r < c.end; r++) {
            whim_sample_told told = {0};
            a->tokens[r] = a->wants[r].kind == WHIM_SAMPLE_NOTHING ? -1
                           : a->logits != NULL ? sample_row_all(a, r, &slot, &told)
                                               : sample_row_best(a, r, &slot, &told);
            a->told[r] = told;
        }
    }
}
