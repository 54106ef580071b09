/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing a token. Weights are e^((logit - largest) / temperature) in F32, and 0 below e^-28, which is a chance of one
 * in 10^12: most tokens need no second look then. Sums of weights are in double, in one order: of ids where every token may be drawn, of rank where filters have cut. Ranks come from 64-bit keys
 * (logit, then id) that are all different, so that no algorithm of selection can change a result. */
#include "sample/sampler_impl.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/math/fmath.h"
#include "base/math/rng.h"
#include "ops/args/row_args.h"
#include "sample/rank.h"

#include <math.h>

static const float LEAST_EXPONENT = -28.0f;

whim_err whim_sampler_create(int32_t n_vocab, whim_sampler **out)
{
    whim_sampler *s = whim_alloc(sizeof *s);
    if (s == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    s->n_vocab = n_vocab;
    s->logits = whim_alloc_array(n_vocab, (int64_t)sizeof *s->logits);
    s->weights = whim_alloc_array(n_vocab, (int64_t)sizeof *s->weights);
    s->keys = whim_alloc_array(n_vocab, (int64_t)sizeof *s->keys);
    s->cands = whim_alloc_array(n_vocab, (int64_t)sizeof *s->cands);
    s->counts = whim_alloc_array(n_vocab, (int64_t)sizeof *s->counts);
    s->seen = whim_alloc_array(n_vocab, (int64_t)sizeof *s->seen);
    if (s->logits == NULL || s->weights == NULL || s->keys == NULL || s->cands == NULL ||
        s->counts == NULL || s->seen == NULL) {
        whim_sampler_destroy(s);
        return WHIM_ERR_NO_MEMORY;
    }
    *out = s;
    return WHIM_ERR_OK;
}

void whim_sampler_destroy(whim_sampler *s)
{
    if (s == NULL) {
        return;
    }
    whim_free(s->logits);
    whim_free(s->weights);
    whim_free(s->keys);
    whim_free(s->cands);
    whim_free(s->counts);
    whim_free(s->seen);
    whim_free(s);
}

static whim_err broken_logit(int32_t id, float logit, whim_diag *diag)
{
    return whim_fail(diag, WHIM_ERR_CORRUPT,
                     "logit %d is not a number (%f): the weights must be broken", id,
                     (double)logit);
}

static whim_err no_logit(int32_t n, whim_diag *diag)
{
    return whim_fail(diag, WHIM_ERR_CORRUPT, "all %d logits are -inf: the weights must be broken",
                     n);
}

/* The largest of x, -inf of nothing; NaN or +inf make it +inf. In lanes, so that a compiler can take them together. */
static float largest_of(const float *x, int32_t n)
{
    enum { LANES = 16 };
    float lane[LANES];
    int32_t i = 0;
    for (int32_t k = 0; k < LANES; k++) {
        lane[k] = -INFINITY;
    }
    for (; i + LANES <= n; i += LANES) {
        for (int32_t k = 0; k < LANES; k++) {
            lane[k] = x[i + k] <= lane[k] ? lane[k] : x[i + k] < INFINITY ? x[i + k] : INFINITY;
        }
    }
    for (; i < n; i++) {
        lane[0] = x[i] <= lane[0] ? lane[0] : x[i] < INFINITY ? x[i] : INFINITY;
    }
    for (int32_t k = 1; k < LANES; k++) {
        lane[0] = lane[k] > lane[0] ? lane[k] : lane[0];
    }
    return lane[0];
}

static whim_err logits_check(const float *logits, int32_t n, whim_diag *diag)
{
    float largest = largest_of(logits, n);
    for (int32_t i = 0; i < n && largest == INFINITY; i++) {
        if (!(logits[i] < INFINITY)) {
            return broken_logit(i, logits[i], diag);
        }
    }
    return largest > -INFINITY ? WHIM_ERR_OK : no_logit(n, diag);
}

/* The first of the best tells all: NaN ranks as +inf, and of those the lowest id comes first. */
static whim_err best_check(const whim_ranked *best, int32_t n_vocab, whim_diag *diag)
{
    if (!(best->values[0] < INFINITY)) {
        return broken_logit(best->ids[0], best->values[0], diag);
    }
    return best->values[0] > -INFINITY ? WHIM_ERR_OK : no_logit(n_vocab, diag);
}

/* --- the draw ------------------------------------------------------------------------------------ */

/* The lowest id of the largest. */
static int32_t argmax(const float *x, int32_t n)
{
    float largest = largest_of(x, n);
    int32_t best = 0;
    while (x[best] < largest) {
        best++;
    }
    return best;
}

/* No filter by rank: every token of at least `least` weight may come, in the order of ids. */
static int32_t draw_by_id(const whim_sampler *s, float least, double u)
{
    double total = 0, sum = 0;
    int32_t last = 0;
    for (int32_t i = 0; i < s->n_cand; i++) {
        float weight = s->weights[s->cands[i]];
        total += weight >= least ? (double)weight : 0;
    }
    for (int32_t i = 0; i < s->n_cand; i++) {
        float weight = s->weights[s->cands[i]];
        if (weight < least || weight == 0) {
            continue;
        }
        sum += (double)weight;
        last = s->cands[i];
        if (sum > u * total) {
            break;
        }
    }
    return last;
}

/* The candidates are keys[0 .. n), best first; draw among them. */
static int32_t draw_by_rank(const whim_sampler *s, int32_t n, double u)
{
    double total = 0, sum = 0;
    int32_t last = whim_rank_id(s->keys[0]);
    for (int32_t i = 0; i < n; i++) {
        total += (double)s->weights[whim_rank_id(s->keys[i])];
    }
    for (int32_t i = 0; i < n; i++) {
        double weight = (double)s->weights[whim_rank_id(s->keys[i])];
        if (weight == 0) {
            break;
        }
        sum += weight;
        last = whim_rank_id(s->keys[i]);
        if (sum > u * total) {
            break;
        }
    }
    return last;
}

/* How many of the best `n` tokens (already ranked: `*n_ranked`, more are ranked when needed) it takes to
 * reach the share `top_p` of `total`. */
static int32_t nucleus(whim_sampler *s, int32_t n, int32_t n_ranked, float top_p, double total)
{
    double sum = 0, goal = (double)top_p * total;
    for (int32_t i = 0; i < n; i++) {
        if (i == n_ranked) {
            int32_t more = n - n_ranked < 3 * n_ranked ? n - n_ranked : 3 * n_ranked;
            whim_rank_top(s->keys + n_ranked, s->n_cand - n_ranked, more);
            n_ranked += more;
        }
        sum += (double)s->weights[whim_rank_id(s->keys[i])];
        if (sum >= goal) {
            return i + 1;
        }
    }
    return n;
}

/* Of the best n, by rank; of all candidates, by id. */
static double total_weight(const whim_sampler *s, int32_t n, bool all)
{
    double total = 0;
    for (int32_t i = 0; i < n; i++) {
        total += (double)s->weights[all ? s->cands[i] : whim_rank_id(s->keys[i])];
    }
    return total;
}

/* keys[0 .. n_ranked) are the best in order; cut the best n by top-p and min-p, and draw. */
static int32_t draw_ranked(whim_sampler *s, const whim_sample_params *p, int32_t n,
                           int32_t n_ranked, double u)
{
    if (p->top_p < 1.0f) {
        bool all = p->top_k == 0 || p->top_k >= s->n_vocab;
        n = nucleus(s, n, n_ranked, p->top_p, total_weight(s, n, all));
    }
    int32_t kept = 1;
    while (kept < n && s->weights[whim_rank_id(s->keys[kept])] >= p->min_p) {
        kept++;
    }
    return draw_by_rank(s, kept, u);
}

static int32_t draw_filtered(whim_sampler *s, const whim_sample_params *p, const float *logits,
                             double u)
{
    enum { FIRST = 256 };
    int32_t n = p->top_k > 0 && p->top_k < s->n_cand ? p->top_k : s->n_cand;
    int32_t n_ranked = p->top_k > 0 || n < FIRST ? n : FIRST;
    for (int32_t i = 0; i < s->n_cand; i++) {
        s->keys[i] = whim_rank_key(logits[s->cands[i]], s->cands[i]);
    }
    whim_rank_top(s->keys, s->n_cand, n_ranked);
    return draw_ranked(s, p, n, n_ranked, u);
}

/* The place of the draw on the line from 0 to 1. */
static double draw_point(const whim_sample_params *p, const whim_sample_row *row)
{
    uint64_t key = whim_rng_key(p->seed, (uint64_t)row->choice);
    return whim_rng_uniform53_at(key, (uint64_t)(row->n_prompt + row->n_output));
}

/* A bias of +-100 cannot overflow; the difference is at most 0 and -inf gives weight 0. */
static float weight_of(float logit, float largest, float temperature)
{
    float x = (logit - largest) / temperature;
    return x < LEAST_EXPONENT ? 0.0f : whim_expf(x);
}

/* Find the tokens that can have weight, and weigh them. The bound is on the safe side of weight_of's. */
static void candidates_find(whim_sampler *s, const float *logits, float largest, float temperature)
{
    float bound = largest + 1.01f * LEAST_EXPONENT * temperature;
    int32_t n = 0;
    for (int32_t i = 0; i < s->n_vocab; i++) {
        if (logits[i] >= bound) {
            s->cands[n++] = i;
        }
    }
    for (int32_t i = 0; i < n; i++) {
        s->weights[s->cands[i]] = weight_of(logits[s->cands[i]], largest, temperature);
    }
    s->n_cand = n;
}

/* -1: the mask leaves nothing. */
static int32_t choose(whim_sampler *s, const whim_sample_params *p, const whim_sample_row *row)
{
    const float *logits = whim_sampler_adjust(s, p, row);
    int32_t best = argmax(logits, s->n_vocab);
    if (logits[best] == -INFINITY) {
        return -1;
    }
    if (p->temperature == 0.0f || p->top_k == 1) {
        return best;
    }
    candidates_find(s, logits, logits[best], p->temperature);
    double u = draw_point(p, row);
    if (p->top_k == 0 && p->top_p >= 1.0f) {
        return draw_by_id(s, p->min_p, u);
    }
    return draw_filtered(s, p, logits, u);
}

/* The same from the best alone, of which there are enough. */
static int32_t choose_best(whim_sampler *s, const whim_sample_params *p, const whim_sample_row *row,
                           int32_t n)
{
    const whim_ranked *best = &row->best;
    if (n == 1) {
        return best->ids[0];
    }
    for (int32_t i = 0; i < n; i++) {
        s->keys[i] = whim_rank_key(best->values[i], best->ids[i]);
        s->weights[best->ids[i]] = weight_of(best->values[i], best->values[0], p->temperature);
    }
    return draw_ranked(s, p, n, n, draw_point(p, row));
}

int32_t whim_sample_best_needed(const whim_sample_params *p, int32_t n_vocab)
{
    if (p->n_bias > 0 || whim_sample_has_penalty(p) || p->want_logprob || p->n_logprob > 0) {
        return 0;
    }
    if (p->temperature == 0.0f || p->top_k == 1) {
        return 1;
    }
    /* A top_k of the whole vocabulary adds weights in another order. */
    return p->top_k <= WHIM_TOPK_MAX && p->top_k < n_vocab ? p->top_k : 0;
}

whim_err whim_sampler_pick(whim_sampler *s, const whim_sample_params *params,
                           const whim_sample_row *row, whim_sampled *out, whim_diag *diag)
{
    out->logprob = 0;
    out->n_top = 0;
    if (row->logits == NULL) {
        int32_t n = whim_sample_best_needed(params, s->n_vocab);
        whim_check(n > 0 && n <= row->best.n && row->mask == NULL);
        WHIM_TRY(best_check(&row->best, s->n_vocab, diag));
        out->id = choose_best(s, params, row, n);
        return WHIM_ERR_OK;
    }
    WHIM_TRY(logits_check(row->logits, s->n_vocab, diag));
    out->id = choose(s, params, row);
    if (out->id < 0) {
        return whim_fail(diag, WHIM_ERR_INVALID, "no token that the answer may go on with is left");
    }
    if (params->n_logprob > 0) {
        out->n_top = whim_logprobs_top(row->logits, s->n_vocab, params->n_logprob, out->top_id,
                                       out->top_logprob);
    }
    if (params->want_logprob || params->n_logprob > 0) {
        whim_logprobs_at(row->logits, s->n_vocab, &out->id, 1, &out->logprob);
    }
    return WHIM_ERR_OK;
}
