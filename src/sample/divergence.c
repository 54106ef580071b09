/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing distributions. Sums are in double: the differences of good models are small. */
#include "sample/divergence.h"

#include "base/math/fmath.h"

/* The logarithm of the sum of exponentials; where the largest is. */
static double log_sum(const float *logits, int32_t n, int32_t *best)
{
    *best = 0;
    for (int32_t i = 1; i < n; i++) {
        *best = logits[i] > logits[*best] ? i : *best;
    }
    double most = (double)logits[*best], sum = 0.0;
    for (int32_t i = 0; i < n; i++) {
        sum += whim_exp((double)logits[i] - most);
    }
    return most + whim_ln(sum);
}

void whim_divergence_add(whim_divergence *d, const float *p, const float *q, int32_t n_vocab,
                         int32_t next)
{
    int32_t best_p, best_q;
    double norm_p = log_sum(p, n_vocab, &best_p), norm_q = log_sum(q, n_vocab, &best_q);
    double kl = 0.0;
    for (int32_t i = 0; i < n_vocab; i++) {
        double log_p = (double)p[i] - norm_p, log_q = (double)q[i] - norm_q;
        double share = whim_exp(log_p);
        kl += share > 0.0 ? share * (log_p - log_q) : 0.0;
    }
    kl = kl < 0.0 ? 0.0 : kl; /* rounding of equal rows */
    d->n_row++;
    d->n_same += best_p == best_q;
    d->kl_sum += kl;
    d->kl_max = kl > d->kl_max ? kl : d->kl_max;
    if (next >= 0) {
        d->n_token++;
        d->nll_p -= (double)p[next] - norm_p;
        d->nll_q -= (double)q[next] - norm_q;
    }
}
