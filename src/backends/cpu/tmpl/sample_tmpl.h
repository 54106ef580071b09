/* SPDX-License-Identifier: Apache-2.0 */
/* `sample` at every level. Workers take rows. Sums have the law's order, which is one after the other, so that
 * what is saved is elsewhere: exponentials come in vectors, tokens too unlikely to have weight are passed over by
 * blocks, a draw looks again only at the tile in which it falls, and ranking begins with the likeliest. Included once
 * per level after exp_tmpl.h and store_tmpl.h. */
#include "backends/cpu/tmpl/sample_rank_tmpl.h"
#include "base/math/rng.h"

enum { SAMPLE_TILES = 256 };

/* No filter by rank: every token of at least `min_p` weight may come, in the order of ids. The running sums of
 * tiles tell where the draw falls: they never fall, and are those of a sum over all. */
static int32_t sample_by_id(sample_weigh *w, float min_p, double u)
{
    double ends[SAMPLE_TILES], sum = 0;
    int64_t tile = (w->n + SAMPLE_TILES - 1) / SAMPLE_TILES, n_tile = 0, at = 0;
    tile = (tile + SAMPLE_BLOCK - 1) / SAMPLE_BLOCK * SAMPLE_BLOCK;
    w->least = min_p;
    for (; at < w->n; at += tile) {
        sum = sample_sum(w, at, w->n - at < tile ? w->n : at + tile, sum);
        ends[n_tile++] = sum;
    }
    double goal = u * sum;
    for (int64_t t = 0; t < n_tile; t++) {
        if (ends[t] > goal) {
            sum = t > 0 ? ends[t - 1] : 0;
            for (at = t * tile;; at++) {
                float weight = sample_weight(w, w->x[at]);
                sum += weight >= min_p ? (double)weight : 0;
                if (sum > goal) {
                    return (int32_t)at;
                }
            }
        }
    }
    /* Rounding: the last that may come at all. */
    for (at = w->n - 1; at > 0; at--) {
        float weight = sample_weight(w, w->x[at]);
        if (!(weight < min_p) && weight != 0) {
            break;
        }
    }
    return (int32_t)at;
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
    sample_weigh w = sample_weigh_of(x, s->n, largest, p->temperature);
    double u =
        whim_rng_uniform53_at(whim_rng_key(p->seed, (uint64_t)p->choice), (uint64_t)p->position);
    if (p->top_k == 0 && p->top_p >= 1.0f) {
        return sample_by_id(&w, p->min_p, u);
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
    const whim_sample_args *a = args;
    whim_cpu_worker w = *worker;
    w.count = w.count < a->n_slot ? w.count : (int32_t)a->n_slot;
    if (w.index >= w.count) {
        return; /* there is no slot for it */
    }
    sample_slot slot = sample_slot_of(a, w.index);
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
