/* SPDX-License-Identifier: Apache-2.0 */
/* The largest of a row, in the lanes of fmath.h. Apart from it, because compilers of device code
 * know no vector types.
 * Threads: stateless. */
#ifndef WHIM_BASE_MATH_MAX16_H
#define WHIM_BASE_MATH_MAX16_H

#include "base/math/fmath.h"

/* Lane-wise larger of acc and x, acc where x is a NaN. Vector types because GCC 12 makes branches
 * of sixteen scalar maxima; 16 bytes because every baseline has them. */
typedef float whim_f32x4 __attribute__((vector_size(16)));
typedef int32_t whim_i32x4 __attribute__((vector_size(16)));

static inline void whim_max4_step(whim_f32x4 *acc, const float *x)
{
    whim_f32x4 v;
    memcpy(&v, x, sizeof(v));
    whim_i32x4 more = v > *acc;
    *acc = (whim_f32x4)(((whim_i32x4)v & more) | ((whim_i32x4)*acc & ~more));
}

/* Largest of x[0..n); NaNs are passed over; -inf for n = 0. */
static inline float whim_max16(const float *x, int64_t n)
{
    const whim_f32x4 lowest = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    whim_f32x4 acc[4] = {lowest, lowest, lowest, lowest};
    float lane[WHIM_LANES];
    int64_t whole = n - n % WHIM_LANES;
    for (int64_t i = 0; i < whole; i += WHIM_LANES) {
        for (int j = 0; j < 4; j++) {
            whim_max4_step(&acc[j], x + i + 4 * j);
        }
    }
    memcpy(lane, acc, sizeof(lane));
    for (int64_t i = whole; i < n; i++) {
        lane[i - whole] = x[i] > lane[i - whole] ? x[i] : lane[i - whole];
    }
    for (int half = WHIM_LANES / 2; half > 0; half /= 2) {
        for (int j = 0; j < half; j++) {
            lane[j] = lane[j + half] > lane[j] ? lane[j + half] : lane[j];
        }
    }
    return lane[0];
}

#endif
