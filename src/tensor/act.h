/* SPDX-License-Identifier: Apache-2.0 */
/* The types that activations are stored in between ops; all facts come from act.def. Rounding
 * happens where rows are stored and nowhere else. A row of blocks is block after block:
 *   BF16  rounded half to even
 *   Q8    whim_q8_block (tensor/quant.h), 32 elements: int8 and a scale
 *   FP8   as weights of that type (tensor/fp8.h), 128 elements: e4m3 and a scale
 * Threads: stateless. */
#ifndef WHIM_TENSOR_ACT_H
#define WHIM_TENSOR_ACT_H

#include <stdint.h>

typedef enum whim_act {
#define WHIM_ACT(name, text, elems, bytes) WHIM_ACT_##name,
#include "tensor/act.def"
#undef WHIM_ACT
    WHIM_ACT_COUNT
} whim_act;

/* For people: "int8". `type` must be valid, here and below. */
const char *whim_act_name(whim_act type);

/* Elements of a block; rows and strides are multiples of it. */
int64_t whim_act_block(whim_act type);

/* Bytes of n elements, whole blocks. */
int64_t whim_act_bytes(whim_act type, int64_t n);

/* THE LAW of storing n elements, whole blocks. Q8 is whim_q8_quantize32. FP8: d = absmax / 448,
 * codes are x * (1 / d) as e4m3, half to even; a block whose d would be subnormal is all zeros with
 * d = 0; one with an inf or NaN gets d = NaN and codes of 0, so that its results are NaN. */
void whim_act_store(whim_act type, const float *x, void *row, int64_t n);

/* What is stored, as F32: exact for BF16, else code * scale, rounded once. */
void whim_act_load(whim_act type, const void *row, float *x, int64_t n);

#endif
