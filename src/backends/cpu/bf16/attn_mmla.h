/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of attention over BF16 pages by bfmmla, which adds 2 pairs x 4 by 2 keys (or 2
 * dimensions) x 4 to four sums. A pair is a query row and head; an odd one runs beside itself.
 * Every sum has one accumulator and is walked in order, four a step, so how many pairs go together
 * changes no bit. attn_matrix_tmpl.h uses them, kv_tmpl.h the places. Included after
 * codes_tmpl.h. */
#ifndef WHIM_BACKENDS_CPU_BF16_ATTN_MMLA_H
#define WHIM_BACKENDS_CPU_BF16_ATTN_MMLA_H

#include <arm_neon.h>

#define ATTN_MATRIX

enum {
    MATRIX_PAIRS = 6, /* pairs that go together */
    MATRIX_TWOS = MATRIX_PAIRS / 2,
    MATRIX_KEYS = 16, /* keys of a block of scores */
    MATRIX_DIMS = 16, /* dimensions of a block of sums over values */
    MATRIX_SUMS = 8,  /* twos of keys or dimensions: with MATRIX_TWOS of pairs 24 of 32 registers */
};

/* Pages that these loops read; others lie as kv_tmpl.h says. */
static inline bool matrix_takes(const whim_kv_view *kv)
{
    return kv->type == WHIM_KV_BF16 && kv->d_head % MATRIX_DIMS == 0;
}

/* Where element i of the vector at a place of the page lies: keys [d / 4][32][4], values [32 /
 * 4][d][4]. */
static inline int64_t matrix_key_place(int64_t place, int64_t i)
{
    return (i / 4 * WHIM_CPU_PAGE + place) * 4 + i % 4;
}
static inline int64_t matrix_value_place(int64_t d, int64_t place, int64_t i)
{
    return (place / 4 * d + i) * 4 + place % 4;
}

/* Four elements of two rows of floats, which are BF16 already. */
ALWAYS_INLINE bfloat16x8_t matrix_two(const float *a, const float *b)
{
    return vreinterpretq_bf16_u16(
        vuzp2q_u16(vreinterpretq_u16_f32(vld1q_f32(a)), vreinterpretq_u16_f32(vld1q_f32(b))));
}

ALWAYS_INLINE bfloat16x8_t matrix_load(const uint16_t *at)
{
    return vreinterpretq_bf16_u16(vld1q_u16(at));
}

/* Sums of two pairs as the unit has them, from and to the pairs' rows. */
ALWAYS_INLINE float32x4_t matrix_join(float32x4_t a, float32x4_t b, bool second)
{
    uint64x2_t x = vreinterpretq_u64_f32(a), y = vreinterpretq_u64_f32(b);
    return vreinterpretq_f32_u64(second ? vzip2q_u64(x, y) : vzip1q_u64(x, y));
}

/* The second row of two, for an odd last pair its own. */
ALWAYS_INLINE int64_t matrix_second(int two, int64_t n)
{
    return 2 * two + 1 < n ? 2 * two + 1 : 2 * two;
}

/* `twos`: a constant, (n + 1) / 2. Scores of n pairs with the 16 keys from `keys` on. */
ALWAYS_INLINE void matrix_score_block(int twos, const uint16_t *keys, int64_t d, const float *q,
                                      int64_t n, float *p, int64_t p_stride)
{
    float32x4_t acc[MATRIX_TWOS][MATRIX_SUMS];
    const float *first[MATRIX_TWOS], *second[MATRIX_TWOS];
    for (int b = 0; b < twos; b++) {
        first[b] = q + 2 * b * d;
        second[b] = q + matrix_second(b, n) * d;
        for (int t = 0; t < MATRIX_SUMS; t++) {
            acc[b][t] = vdupq_n_f32(0.0f);
        }
    }
    for (int64_t i = 0; i < d; i += 4, keys += 4 * WHIM_CPU_PAGE) {
        bfloat16x8_t x[MATRIX_TWOS];
        for (int b = 0; b < twos; b++) {
            x[b] = matrix_two(first[b] + i, second[b] + i);
        }
        for (int t = 0; t < MATRIX_SUMS; t++) {
            bfloat16x8_t k = matrix_load(keys + 8 * t);
            for (int b = 0; b < twos; b++) {
                acc[b][t] = vbfmmlaq_f32(acc[b][t], x[b], k);
            }
        }
    }
    for (int b = 0; b < twos; b++) {
        float *row = p + 2 * b * p_stride, *row2 = p + matrix_second(b, n) * p_stride;
        for (int t = 0; t < MATRIX_SUMS; t += 2) {
            vst1q_f32(row + 2 * t, matrix_join(acc[b][t], acc[b][t + 1], false));
            vst1q_f32(row2 + 2 * t, matrix_join(acc[b][t], acc[b][t + 1], true));
        }
    }
}

/* `twos` as above. o[r] += p[r] * values over the fours of keys begin .. end - 1, for 16
 * dimensions. */
ALWAYS_INLINE void matrix_value_block(int twos, const uint16_t *values, int64_t d, const float *p,
                                      int64_t p_stride, int64_t n, int64_t begin, int64_t end,
                                      float *const *o, int64_t dim)
{
    float32x4_t acc[MATRIX_TWOS][MATRIX_SUMS];
    const float *first[MATRIX_TWOS], *second[MATRIX_TWOS];
    for (int b = 0; b < twos; b++) {
        const float *row = o[2 * b] + dim, *row2 = o[matrix_second(b, n)] + dim;
        first[b] = p + 2 * b * p_stride;
        second[b] = p + matrix_second(b, n) * p_stride;
        for (int t = 0; t < MATRIX_SUMS; t++) {
            acc[b][t] = matrix_join(vld1q_f32(row + t / 2 * 4), vld1q_f32(row2 + t / 2 * 4), t % 2);
        }
    }
    for (int64_t four = begin; four < end; four++) {
        const uint16_t *at = values + (four * d + dim) * 4;
        bfloat16x8_t x[MATRIX_TWOS];
        for (int b = 0; b < twos; b++) {
            x[b] = matrix_two(first[b] + four * 4, second[b] + four * 4);
        }
        for (int t = 0; t < MATRIX_SUMS; t++) {
            bfloat16x8_t v = matrix_load(at + 8 * t);
            for (int b = 0; b < twos; b++) {
                acc[b][t] = vbfmmlaq_f32(acc[b][t], x[b], v);
            }
        }
    }
    for (int b = 0; b < twos; b++) {
        float *row = o[2 * b] + dim, *row2 = o[matrix_second(b, n)] + dim;
        for (int t = 0; t < MATRIX_SUMS; t += 2) {
            vst1q_f32(row + 2 * t, matrix_join(acc[b][t], acc[b][t + 1], false));
            vst1q_f32(row2 + 2 * t, matrix_join(acc[b][t], acc[b][t + 1], true));
        }
    }
}

#define MATRIX_FOR_TWOS(n, CALL) (n) > 4 ? CALL(3) : (n) > 2 ? CALL(2) : CALL(1)

/* Scores of n pairs (at most MATRIX_PAIRS) with the places [begin, end) of a page, in blocks of
 * 16. */
static void matrix_scores(const uint16_t *page, int64_t d, const float *q, int64_t n, int64_t begin,
                          int64_t end, float *p, int64_t p_stride)
{
    for (int64_t j = begin; j < end; j += MATRIX_KEYS) {
#define CALL(twos) matrix_score_block(twos, page + j * 4, d, q, n, p + j, p_stride)
        MATRIX_FOR_TWOS(n, CALL);
#undef CALL
    }
}

/* o[r] += p[r] * values over the places [begin, end) of a page, multiples of 4. */
static void matrix_values(const uint16_t *page, int64_t d, const float *p, int64_t p_stride,
                          int64_t n, int64_t begin, int64_t end, float *const *o)
{
    for (int64_t dim = 0; dim < d; dim += MATRIX_DIMS) {
#define CALL(twos) matrix_value_block(twos, page, d, p, p_stride, n, begin / 4, end / 4, o, dim)
        MATRIX_FOR_TWOS(n, CALL);
#undef CALL
    }
}

#endif
