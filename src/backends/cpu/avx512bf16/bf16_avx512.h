/* SPDX-License-Identifier: Apache-2.0 */
/* Products of BF16 rows with BF16 tiles: two k a step, in order, for every number of rows. Included
 * after codes_tmpl.h. */
#ifndef WHIM_BACKENDS_CPU_AVX512BF16_BF16_AVX512_H
#define WHIM_BACKENDS_CPU_AVX512BF16_BF16_AVX512_H

#include <immintrin.h>

#define PRODUCT_BF16
#define PRODUCT_BF16_ORDER WHIM_CPU_BF16_TWO

enum { BF16_STEP = 16 * 32 }; /* elements of 32 k of a tile */

/* `rows` (a constant, at most 8) rows from `a` on, a step of 32 k a_step elements on. */
ALWAYS_INLINE void bf16_rows(int rows, const uint16_t *a, int64_t a_step, const uint16_t *w,
                             int64_t n_step, float *out)
{
    __m512 acc[8];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        acc[r] = _mm512_setzero_ps();
    }
    for (int64_t s = 0; s < n_step; s++, a += a_step, w += BF16_STEP) {
        for (int i = 0; i < 16; i++) {
            __m512bh weights = (__m512bh)_mm512_loadu_si512(w + i * 32);
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++) {
                int32_t two;
                memcpy(&two, a + r * 32 + i * 2, sizeof two);
                acc[r] = _mm512_dpbf16_ps(acc[r], weights, (__m512bh)_mm512_set1_epi32(two));
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        _mm512_storeu_ps(out + r * WHIM_CPU_TILE, acc[r]);
    }
}

#define BF16_ROW_COUNTS(TAKE) TAKE(8) TAKE(1)
#include "backends/cpu/tmpl/bf16_tmpl.h"

#endif
