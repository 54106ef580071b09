/* SPDX-License-Identifier: Apache-2.0 */
/* Floats to codes with a scale, for writing checkpoints: symmetric integers in groups, and e4m3 in
 * tiles. Every code is the nearest one for its scale, half to even. Weights are finite; whoever has
 * others asks whim_absmax first.
 * Threads: stateless. */
#ifndef WHIM_TENSOR_QUANT_ENCODE_H
#define WHIM_TENSOR_QUANT_ENCODE_H

#include "tensor/quant.h"

#include <stdint.h>

/* The largest magnitude of n weights; NaN or infinity where one of them is that. */
float whim_absmax(const float *w, int64_t n);

/* Above this magnitude the scale of such a group would not fit in F16 with all its codes. */
float whim_encode_int_limit(int32_t bits);

/* A group of weights to codes of 4 or 8 bits, -2^(bits-1) .. 2^(bits-1) - 1; returns the scale. It
 * is exact in `scale_type` (F32, F16 or BF16) and in F16, so that every reader decodes the same. 8
 * bits: the largest weight is the largest code. 4 bits: the scale with the least squared error of a
 * few, and of what refitting them to their codes gives; it is negative where that puts the largest
 * weight on the side that has a code more. */
float whim_encode_int(const float w[WHIM_GROUP], int32_t bits, whim_dtype scale_type,
                      int8_t codes[WHIM_GROUP]);

/* One value to e4m3; beyond its range the largest one. */
uint8_t whim_f32_to_e4m3(float x);

/* The scale that brings weights up to this magnitude into the range of e4m3, and n weights to codes
 * by it. */
float whim_fp8_scale_for(float absmax);
void whim_encode_fp8(const float *w, int64_t n, float scale, uint8_t *codes);

#endif
