/* SPDX-License-Identifier: Apache-2.0 */
/* How far one model's predictions are from another's, row of logits by row of logits, on one text.
 * Threads: plain data. */
#ifndef WHIM_SAMPLE_DIVERGENCE_H
#define WHIM_SAMPLE_DIVERGENCE_H

#include <stdint.h>

/* Sums over rows; {0} to begin with. */
typedef struct whim_divergence {
    int64_t n_row;         /* rows compared */
    int64_t n_same;        /* with the same likeliest token; the lower id where two are alike */
    double kl_sum, kl_max; /* of the Kullback-Leibler divergence of q from p, in nats */
    int64_t n_token;       /* rows whose next token is known */
    double nll_p, nll_q;   /* its negative log-likelihoods, summed */
} whim_divergence;

/* One more row: logits of the first model and of the second, and the token that the text continues
 * with (-1: none). */
void whim_divergence_add(whim_divergence *d, const float *p, const float *q, int32_t n_vocab,
                         int32_t next);

#endif
