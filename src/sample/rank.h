/* SPDX-License-Identifier: Apache-2.0 */
/* Ranking by selection: a token and its logit in one 64-bit key. Larger logits have larger keys, and of equal
 * logits the lower id has the larger one; no two keys are equal, so that the best k in order are one definite
 * list whatever the algorithm.
 * Threads: stateless. */
#ifndef WHIM_SAMPLE_RANK_H
#define WHIM_SAMPLE_RANK_H

#include <stdint.h>

/* Keys of n logits, none of which is NaN; -0 ranks as 0. */
void whim_rank_keys(const float *logits, int32_t n, uint64_t *keys);

static inline int32_t whim_rank_id(uint64_t key)
{
    return (int32_t)(UINT32_MAX - (uint32_t)key);
}

/* Bring the k largest of n keys to the front, largest first; the order of the others is any. 0 <= k <= n. */
void whim_rank_top(uint64_t *keys, int32_t n, int32_t k);

#endif
