/* SPDX-License-Identifier: Apache-2.0 */
/* Products of BF16 rows with BF16 tiles in order FOUR by bfmmla, which adds 2 outputs x 4 k by 2
 * rows x 4 k to four sums: four k a step, in order, for every number of rows; one row runs beside
 * itself. Included after codes_tmpl.h. */
#ifndef WHIM_BACKENDS_CPU_BF16_BF16_MMLA_H
#define WHIM_BACKENDS_CPU_BF16_BF16_MMLA_H

#include <arm_neon.h>

#define PRODUCT_BF16
#define PRODUCT_BF16_ORDER WHIM_CPU_BF16_FOUR

enum {
    BF16_PAIRS = WHIM_CPU_TILE / 2,
    BF16_ROWS = 4, /* rows whose sums stay in registers */
};

/* 8 k of rows r and r2 as two vectors of 2 rows x 4 k. */
ALWAYS_INLINE void bf16_pair(const uint16_t *a, int r, int r2, bfloat16x8_t out[2])
{
    uint64x2_t first = vreinterpretq_u64_u16(vld1q_u16(a + r * 32));
    uint64x2_t second = vreinterpretq_u64_u16(vld1q_u16(a + r2 * 32));
    out[0] = vreinterpretq_bf16_u64(vzip1q_u64(first, second));
    out[1] = vreinterpretq_bf16_u64(vzip2q_u64(first, second));
}

/* `rows` (a constant: 1, 2 or 4) rows from `a` on, whose steps lie a_step elements apart; out
 * [rows][16]. */
ALWAYS_INLINE void bf16_rows(int rows, const uint16_t *a, int64_t a_step, const uint16_t *w,
                             int64_t n_step, float *out)
{
    const int blocks = (rows + 1) / 2;
    float32x4_t acc[BF16_PAIRS][BF16_ROWS / 2];
    for (int p = 0; p < BF16_PAIRS; p++) {
        for (int b = 0; b < blocks; b++) {
            acc[p][b] = vdupq_n_f32(0.0f);
        }
    }
    for (int64_t s = 0; s < n_step; s++, a += a_step) {
        for (int i = 0; i < 32; i += 8, w += 8 * WHIM_CPU_TILE) {
            bfloat16x8_t x[BF16_ROWS / 2][2];
            for (int b = 0; b < blocks; b++) {
                bf16_pair(a + i, 2 * b, rows > 1 ? 2 * b + 1 : 0, x[b]);
            }
            for (int h = 0; h < 2; h++) {
                for (int p = 0; p < BF16_PAIRS; p++) {
                    const uint16_t *at = w + (h * WHIM_CPU_TILE + 2 * p) * 4;
                    bfloat16x8_t weights = vreinterpretq_bf16_u16(vld1q_u16(at));
                    for (int b = 0; b < blocks; b++) {
                        acc[p][b] = vbfmmlaq_f32(acc[p][b], weights, x[b][h]);
                    }
                }
            }
        }
    }
    for (int r = 0; r < rows; r++) {
        for (int p = 0; p < BF16_PAIRS; p++) {
            out[r * WHIM_CPU_TILE + 2 * p] = acc[p][r / 2][r % 2];
            out[r * WHIM_CPU_TILE + 2 * p + 1] = acc[p][r / 2][2 + r % 2];
        }
    }
}

static inline void bf16_open(const uint8_t *codes, uint16_t *out)
{
    uint16x8x2_t open = bf16_of_e4m3(codes);
    vst1q_u16(out, open.val[0]);
    vst1q_u16(out + 8, open.val[1]);
}
#define FP8_OPEN bf16_open
#define FP8_OPEN_CODES 16

#define BF16_ROW_COUNTS(TAKE) TAKE(4) TAKE(2) TAKE(1)
#include "backends/cpu/tmpl/bf16_tmpl.h"

#endif
