/* SPDX-License-Identifier: Apache-2.0 */
/* FP8 weights: blocks of 128 along k, one F32 scale d @0 and 128 codes e4m3 @4. A code has a sign,
 * 4 bits of exponent (bias 7) and 3 of mantissa; there is no infinity, 0x7f and 0xff are NaN, the
 * largest value is 448, the smallest 2^-9. A weight is value * d. Inline, because matrix kernels
 * use these at their own instruction-set level. Rows need no alignment.
 * Threads: stateless. */
#ifndef WHIM_TENSOR_FP8_H
#define WHIM_TENSOR_FP8_H

#include <string.h>

#include "tensor/half.h"

enum { WHIM_FP8_BLOCK = 128, WHIM_FP8_BLOCK_BYTES = 132, WHIM_FP8_CODES_AT = 4 };

/* Exact. Integer operations and selects, so that a loop over it vectorises. */
static inline float whim_e4m3_to_f32(uint8_t code)
{
    uint32_t mag = code & 0x7fu;
    uint32_t normal = (mag << 20) + (120u << 23); /* exponent bias 127 - 7 */
    /* Floats from 2^14 to 2^15 are spaced 2^-9, as subnormal codes are: put the bits there. */
    uint32_t subnormal = whim_f32_bits(whim_f32_from_bits(0x46800000u + mag) - 0x1p14f);
    uint32_t out = whim_select_below(mag, 0x08u, subnormal, normal);
    out = whim_select_below(mag, 0x7fu, out, 0x7fc00000u);
    return whim_f32_from_bits(out | (uint32_t)(code & 0x80u) << 24);
}

static inline float whim_fp8_scale(const void *block)
{
    float d;
    memcpy(&d, block, sizeof d);
    return d;
}

static inline void whim_fp8_widen(const void *block, float *dst)
{
    const uint8_t *codes = (const uint8_t *)block + WHIM_FP8_CODES_AT;
    float d = whim_fp8_scale(block);
    for (int i = 0; i < WHIM_FP8_BLOCK; i++) {
        dst[i] = whim_e4m3_to_f32(codes[i]) * d;
    }
}

/* THE LAW of one block of a dot product: the products of the values in order, then the scale
 * once. */
static inline float whim_fp8_dot_step(float acc, const void *block, const float *x)
{
    const uint8_t *codes = (const uint8_t *)block + WHIM_FP8_CODES_AT;
    float part = 0.0f;
    for (int i = 0; i < WHIM_FP8_BLOCK; i++) {
        part = whim_fmaf(whim_e4m3_to_f32(codes[i]), x[i], part);
    }
    return whim_fmaf(part, whim_fp8_scale(block), acc);
}

#endif
