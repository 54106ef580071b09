/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing a token. Weights are e^((logit - largest) / temperature) in F32; their sums are in double, in one
 * order: of ids where every token may be drawn, of rank where filters have cut. Ranks come from 64-bit keys
 * (logit, then id) that are all different, so that no algorithm of selection can change a result. */
#include "sample/sampler.h"

#include "base/alloc.h"
#include "base/fmath.h"
#include "base/rng.h"
#include "sample/rank.h"

#include <math.h>

struct whim_sampler {
    int32_t n_vocab;
    float *logits;   /* [n_vocab] after bias and penalties */
    float *weights;  /* [n_vocab] */
    uint64_t *keys;  /* [n_vocab] for ranking */
    int32_t *counts; /* [n_vocab] in the output; all zero between picks */
    uint8_t *seen;   /* [n_vocab] in prompt or output; all zero between picks */
};

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

static whim_err logits_check(const float *logits, int32_t n, whim_diag *diag)
{
    bool any = false;
    for (int32_t i = 0; i < n; i++) {
        if (!(logits[i] < INFINITY)) {
            return whim_fail(diag, WHIM_ERR_CORRUPT,
                             "logit %d is not a number (%f): the weights must be broken", i,
                             (double)logits[i]);
        }
        any = any || logits[i] > -INFINITY;
    }
    if (!any) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "all %d logits are -inf: the weights must be broken", n);
    }
    return WHIM_ERR_OK;
}

/* --- bias and penalties -------------------------------------------------------------------------- */

static bool has_penalty(const whim_sample_params *p)
{
    return p->repetition_penalty != 1.0f || p->presence_penalty != 0.0f ||
           p->frequency_penalty != 0.0f;
}

static void repetition_apply(whim_sampler *s, float penalty, const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int32_t id = ids[i];
        if (id < 0 || id >= s->n_vocab || s->seen[id]) {
            continue;
        }
        s->seen[id] = 1;
        s->logits[id] = s->logits[id] > 0 ? s->logits[id] / penalty : s->logits[id] * penalty;
    }
}

static void seen_clear(whim_sampler *s, const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] >= 0 && ids[i] < s->n_vocab) {
            s->seen[ids[i]] = 0;
            s->counts[ids[i]] = 0;
        }
    }
}

static void penalties_apply(whim_sampler *s, const whim_sample_params *p,
                            const whim_sample_row *row)
{
    if (p->repetition_penalty != 1.0f) {
        repetition_apply(s, p->repetition_penalty, row->prompt, row->n_prompt);
        repetition_apply(s, p->repetition_penalty, row->output, row->n_output);
    }
    for (int64_t i = 0; i < row->n_output; i++) {
        if (row->output[i] >= 0 && row->output[i] < s->n_vocab) {
            s->counts[row->output[i]]++;
        }
    }
    for (int64_t i = 0; i < row->n_output; i++) {
        int32_t id = row->output[i];
        if (id >= 0 && id < s->n_vocab && s->counts[id] > 0) {
            s->logits[id] -= p->presence_penalty + p->frequency_penalty * (float)s->counts[id];
            s->counts[id] = 0; /* once for each token */
        }
    }
    seen_clear(s, row->prompt, row->n_prompt);
    seen_clear(s, row->output, row->n_output);
}

/* The logits that the choice is made from: the row itself when nothing changes it. */
static const float *logits_adjust(whim_sampler *s, const whim_sample_params *p,
                                  const whim_sample_row *row)
{
    if (p->n_bias == 0 && !has_penalty(p)) {
        return row->logits;
    }
    memcpy(s->logits, row->logits, (size_t)s->n_vocab * sizeof *s->logits);
    for (int32_t i = 0; i < p->n_bias; i++) {
        if (p->bias[i].id >= 0 && p->bias[i].id < s->n_vocab) {
            s->logits[p->bias[i].id] += p->bias[i].bias;
        }
    }
    if (has_penalty(p)) {
        penalties_apply(s, p, row);
    }
    return s->logits;
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

static int32_t draw_filtered(whim_sampler *s, const whim_sample_params *p, const float *logits,
                             double u)
{
    enum { FIRST = 256 };
    int32_t n = p->top_k > 0 && p->top_k < s->n_vocab ? p->top_k : s->n_vocab;
    int32_t n_ranked = p->top_k > 0 || n < FIRST ? n : FIRST;
    whim_rank_keys(logits, s->n_vocab, s->keys);
    whim_rank_top(s->keys, s->n_vocab, n_ranked);
    if (p->top_p < 1.0f) {
        double total = 0;
        if (n == s->n_vocab) {
            for (int32_t i = 0; i < n; i++) {
                total += (double)s->weights[i];
            }
        } else {
            for (int32_t i = 0; i < n; i++) {
                total += (double)s->weights[whim_rank_id(s->keys[i])];
            }
        }
        n = nucleus(s, n, n_ranked, p->top_p, total);
    }
    int32_t kept = 1;
    while (kept < n && s->weights[whim_rank_id(s->keys[kept])] >= p->min_p) {
        kept++;
    }
    return draw_by_rank(s, kept, u);
}

static int32_t choose(whim_sampler *s, const whim_sample_params *p, const whim_sample_row *row)
{
    const float *logits = logits_adjust(s, p, row);
    int32_t best = argmax(logits, s->n_vocab);
    if (p->temperature == 0.0f || p->top_k == 1) {
        return best;
    }
    /* A bias of +-100 cannot overflow; the difference is at most 0 and -inf gives weight 0. */
    float largest = logits[best], temperature = p->temperature;
    for (int32_t i = 0; i < s->n_vocab; i++) {
        s->weights[i] = whim_expf((logits[i] - largest) / temperature);
    }
    uint64_t key = whim_rng_key(p->seed, (uint64_t)row->choice);
    double u = whim_rng_uniform53_at(key, (uint64_t)(row->n_prompt + row->n_output));
    if (p->top_k == 0 && p->top_p >= 1.0f) {
        return draw_by_id(s, p->min_p, u);
    }
    return draw_filtered(s, p, logits, u);
}

whim_err whim_sampler_pick(whim_sampler *s, const whim_sample_params *params,
                           const whim_sample_row *row, whim_sampled *out, whim_diag *diag)
{
    WHIM_TRY(logits_check(row->logits, s->n_vocab, diag));
    out->id = choose(s, params, row);
    out->logprob = 0;
    out->n_top = 0;
    if (params->n_logprob > 0) {
        out->n_top = whim_logprobs_top(row->logits, s->n_vocab, params->n_logprob, out->top_id,
                                       out->top_logprob);
    }
    if (params->want_logprob || params->n_logprob > 0) {
        whim_logprobs_at(row->logits, s->n_vocab, &out->id, 1, &out->logprob);
    }
    return WHIM_ERR_OK;
}
