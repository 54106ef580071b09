/* SPDX-License-Identifier: Apache-2.0 */
/* Log-probabilities of a row of logits as the model gave them. */
#include "base/math/fmath.h"
#include "base/math/max16.h"
#include "ops/ref/sample_ref.h"

enum { TILE = 1024 };

/* The largest logit plus the logarithm of the sum of e^(logit - largest): exponentials in F32, tile
 * by tile, added in double in the order of ids. */
static double log_sum(const float *logits, int32_t n)
{
    float e[TILE];
    float largest = whim_max16(logits, n);
    double total = 0;
    for (int32_t at = 0; at < n; at += TILE) {
        int32_t end = n - at < TILE ? n - at : TILE;
        double sum = 0;
        for (int32_t i = 0; i < end; i++) {
            e[i] = whim_expf(logits[at + i] - largest);
        }
        for (int32_t i = 0; i < end; i++) {
            sum += (double)e[i];
        }
        total += sum;
    }
    return (double)largest + whim_ln(total);
}

void whim_sample_logprobs_at(const float *logits, int32_t n_vocab, const int32_t *ids, int32_t n,
                             float *out)
{
    double shift = log_sum(logits, n_vocab);
    for (int32_t i = 0; i < n; i++) {
        out[i] = (float)((double)logits[ids[i]] - shift);
    }
}

int32_t whim_sample_logprobs_top(const float *logits, int32_t n_vocab, int32_t k, int32_t *ids,
                                 float *logprobs)
{
    int32_t n = 0;
    k = k < n_vocab ? k : n_vocab;
    /* Insertion: ids come in order, so that of equals the first stays in front. */
    for (int32_t i = 0; i < n_vocab && k > 0; i++) {
        if (n == k && !(logits[i] > logits[ids[n - 1]])) {
            continue;
        }
        int32_t at = n < k ? n++ : n - 1;
        for (; at > 0 && logits[i] > logits[ids[at - 1]]; at--) {
            ids[at] = ids[at - 1];
        }
        ids[at] = i;
    }
    whim_sample_logprobs_at(logits, n_vocab, ids, n, logprobs);
    return n;
}
