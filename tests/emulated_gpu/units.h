/* SPDX-License-Identifier: Apache-2.0 */
/* What the two matrix units share. */
#ifndef EMULATED_GPU_UNITS_H
#define EMULATED_GPU_UNITS_H

#include "emulated_gpu/inside.h"
#include "tensor/half.h"

enum { GPU_K = 16 };

static inline float gpu_float(uint16_t bits, bool is_f16)
{
    return is_f16 ? whim_f16_to_f32(bits) : whim_bf16_to_f32(bits);
}

/* The first operand, 16 lines of 16 k, from the registers of the lanes. */
void gpu_fragment_a(float (*a)[GPU_K], const uint32_t *const *from, bool is_f16);

/* sum[line][i] for 16 lines and n columns. */
void gpu_add_products(double *sum, const float (*a)[GPU_K], const float *b, int n);

#endif
