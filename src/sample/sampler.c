/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing a token. Weights are e^((logit - largest) / temperature) in F32; their sums are in double, in one
 * order: of ids where every token may be drawn, of rank where filters have cut. Ranks come from 64-bit keys
 * (logit, then id) that are all different, so that no algorithm of selection can change a result. */
#include "sample/sampler_impl.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/fmath.h"
#include "base/rng.h"
#include "ops/args/row_args.h"
#include "sample/rank.h"

#include <math.h>

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
    s->counts = whim_alloc_array(n_vocab, (int64_t)sizeof *s->counts);
    s->seen = whim_alloc_array(n_vocab, (int64_t)sizeof *s->seen);
    if (s->logits == NULL || s->weights == NULL || s->keys == NULL || s->counts == NULL ||
        s->seen == NULL) {
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

static whim_err logits_check(const float *logits, int32_t n, whim_diag *diag)
{
    bool any = false;
    for (int32_t i = 0; i < n; i++) {
        if (!(logits[i] < INFINITY)) {
            return broken_logit(i, logits[i], diag);
        }
        any = any || logits[i] > -INFINITY;
    }
    return any ? WHIM_ERR_OK : no_logit(n, diag);
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

static int32_t argmax(const float *x, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++) {
        best = x[i] > x[best] ? i : best;
    }
    return best;
}

/* No filter by rank: every token of at least `least` weight may come, in the order of ids. */
static int32_t draw_by_id(const whim_sampler *s, float least, double u)
{
    double total = 0, sum = 0;
    int32_t last = 0;
    for (int32_t i = 0; i < s->n_vocab; i++) {
        total += s->weights[i] >= least ? (double)s->weights[i] : 0;
    }
    for (int32_t i = 0; i < s->n_vocab; i++) {
        if (s->weights[i] < least || s->weights[i] == 0) {
            continue;
        }
        sum += (double)s->weights[i];
        last = i;
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
            whim_rank_top(s->keys + n_ranked, s->n_vocab - n_ranked, more);
            n_ranked += more;
        }
        sum += (double)s->weights[whim_rank_id(s->keys[i])];
        if (sum >= goal) {
            return i + 1;
        }
    }
    return n;
}

static double total_weight(const whim_sampler *s, int32_t n)
{
    double total = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t id = n == s->n_vocab ? i : whim_rank_id(s->keys[i]);
        total += (double)s->weights[id];
    }
    return total;
}

/* keys[0 .. n_ranked) are the best in order; cut the best n by top-p and min-p, and draw. */
static int32_t draw_ranked(whim_sampler *s, const whim_sample_params *p, int32_t n,
                           int32_t n_ranked, double u)
{
    if (p->top_p < 1.0f) {
        n = nucleus(s, n, n_ranked, p->top_p, total_weight(s, n));
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
    int32_t n = p->top_k > 0 && p->top_k < s->n_vocab ? p->top_k : s->n_vocab;
    int32_t n_ranked = p->top_k > 0 || n < FIRST ? n : FIRST;
    whim_rank_keys(logits, s->n_vocab, s->keys);
    whim_rank_top(s->keys, s->n_vocab, n_ranked);
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
    return whim_expf((logit - largest) / temperature);
}

static int32_t choose(whim_sampler *s, const whim_sample_params *p, const whim_sample_row *row)
{
    const float *logits = whim_sampler_adjust(s, p, row);
    int32_t best = argmax(logits, s->n_vocab);
    if (p->temperature == 0.0f || p->top_k == 1) {
        return best;
    }
    for (int32_t i = 0; i < s->n_vocab; i++) {
        s->weights[i] = weight_of(logits[i], logits[best], p->temperature);
    }
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
        whim_check(n > 0 && n <= row->best.n);
        WHIM_TRY(best_check(&row->best, s->n_vocab, diag));
        out->id = choose_best(s, params, row, n);
        return WHIM_ERR_OK;
    }
    WHIM_TRY(logits_check(row->logits, s->n_vocab, diag));
    out->id = choose(s, params, row);
    if (params->n_logprob > 0) {
        out->n_top = whim_logprobs_top(row->logits, s->n_vocab, params->n_logprob, out->top_id,
                                       out->top_logprob);
    }
    if (params->want_logprob || params->n_logprob > 0) {
        whim_logprobs_at(row->logits, s->n_vocab, &out->id, 1, &out->logprob);
    }
    return WHIM_ERR_OK;
}
