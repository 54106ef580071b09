/* SPDX-License-Identifier: Apache-2.0 */
/* Block-quantised rows in one canonical form. Every quantised weight type unpacks to groups of 32
 * elements of small integers with two integer sub-scales, so that all of them share one law:
 *   value(i) = float(sc[i/16] * q[i]) * d + m * float(mn[i/16])       (dequantised)
 *   dot step = whim_group_dot_step() in unpack.h                      (against int8 activations)
 * Invariant: |sum of sc * q * a| over a group is below 2^24 for every type and all int8 activations
 * a in [-127, 127], so the integer dot is exact also as a float.
 * Threads: stateless. */
#ifndef WHIM_TENSOR_QUANT_H
#define WHIM_TENSOR_QUANT_H

#include <stdbool.h>
#include <stdint.h>

#include "tensor/dtype.h"

#define WHIM_GROUP 32

/* The quantised types: X(NAME, name of the unpacking function, has a minimum). */
#define WHIM_QUANT_TYPES(X)    \
    X(Q4_0, q4_0, false)       \
    X(Q4_1, q4_1, true)        \
    X(Q5_0, q5_0, false)       \
    X(Q5_1, q5_1, true)        \
    X(Q8_0, q8_0, false)       \
    X(Q2_K, q2_k, true)        \
    X(Q3_K, q3_k, false)       \
    X(Q4_K, q4_k, true)        \
    X(Q5_K, q5_k, true)        \
    X(Q6_K, q6_k, false)       \
    X(IQ4_NL, iq4_nl, false)   \
    X(IQ4_XS, iq4_xs, false)   \
    X(IQ2_XXS, iq2_xxs, false) \
    X(IQ2_XS, iq2_xs, false)   \
    X(IQ2_S, iq2_s, false)     \
    X(IQ3_XXS, iq3_xxs, false) \
    X(IQ3_S, iq3_s, false)     \
    X(MXFP4, mxfp4, false)     \
    X(INT8, int8, false)

/* 32 consecutive weights. Types without a minimum have m = 0 and mn = {0, 0}. */
typedef struct whim_quant_group {
    float d;
    float m;
    int16_t sc[2];
    int16_t mn[2];
    int8_t q[WHIM_GROUP];
} whim_quant_group;

/* 32 consecutive activations: x(i) = s * q[i], sum[h] = q[16h] + ... + q[16h + 15]. */
typedef struct whim_q8_block {
    float s;
    int32_t sum[2];
    int8_t q[WHIM_GROUP];
} whim_q8_block;

/* Whether a type's groups have a minimum. False for types that are not quantised. */
bool whim_dtype_has_min(whim_dtype dtype);

/* Unpack group `group` (elements 32 group ... 32 group + 31) of a row of a QUANT type. */
void whim_quant_unpack(whim_dtype dtype, const void *row, int64_t group, whim_quant_group *out);

/* The 32 weights of a group as F32: the law of dequantisation. */
void whim_quant_widen(const whim_quant_group *g, float *dst);

/* Widen n elements of any weight type to F32; n is a multiple of the type's block. */
void whim_dequant_row(whim_dtype dtype, const void *src, float *dst, int64_t n);

#endif
