/* SPDX-License-Identifier: Apache-2.0 */
/* Rank as a number: a value and its index in one 64-bit key. Larger values have larger keys, and of
 * equal values the lower index has the larger one; no two keys of a row are equal, so that its best
 * k in order are one definite list whatever the algorithm. -0 is equal to 0, and a NaN to +inf:
 * broken numbers come first, where everyone sees them. No key is 0.
 * Threads: stateless. */
#ifndef WHIM_TENSOR_RANK_KEY_H
#define WHIM_TENSOR_RANK_KEY_H

#include "base/math/fmath.h"

#include <stdint.h>

/* The value's part of the key; a loop over it vectorises. */
static inline uint32_t whim_rank_order(float x)
{
    uint32_t bits = whim_f32_bits(x + 0.0f); /* -0 becomes 0 */
    uint32_t inf = UINT32_C(0x7f800000), sign = UINT32_C(0x80000000);
    bits = (bits & ~sign) > inf ? inf : bits;
    /* Order of floats as order of unsigned: positive ones above, negative ones reversed below. */
    return (bits & sign) != 0 ? ~bits : bits | sign;
}

static inline uint64_t whim_rank_key(float x, int64_t index)
{
    return (uint64_t)whim_rank_order(x) << 32 | (UINT32_MAX - (uint32_t)index);
}

static inline int32_t whim_rank_id(uint64_t key)
{
    return (int32_t)(UINT32_MAX - (uint32_t)key);
}

/* The best of a row, best first. */
typedef struct whim_ranked {
    const float *values; /* [n] */
    const int32_t *ids;  /* [n] */
    int32_t n;
} whim_ranked;

#endif
