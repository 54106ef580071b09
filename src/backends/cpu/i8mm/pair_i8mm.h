/* SPDX-License-Identifier: Apache-2.0 */
/* Products of int8 rows with tiles in PAIR order by smmla, which multiplies 2 rows x 8 k with 2
 * outputs x 8 k; lanes are (output 0, row 0), (output 0, row 1), (output 1, row 0), (output 1, row
 * 1). One row runs on sdot with the same packing. Included after codes_tmpl.h; the sums over k
 * follow whim_group_dot_step. */
#ifndef WHIM_BACKENDS_CPU_I8MM_PAIR_I8MM_H
#define WHIM_BACKENDS_CPU_I8MM_PAIR_I8MM_H

#include "backends/cpu/i8mm/rows4_i8mm.h"

#define PRODUCT_ORDER WHIM_CPU_ORDER_PAIR
#define PRODUCT_TAIL 2
enum { PAIRS = WHIM_CPU_TILE / 2 };

/* Integer sub-scales of four lanes. */
typedef struct pair_subs {
    int32x4_t sc[2], mn[2];
} pair_subs;

/* Dots of one group, 4 vectors of rows by 4 of outputs; the halves apart (`low`, and `high` from
 * start[1]) only where they have scales of their own. */
ALWAYS_INLINE void pair_dot(const whim_cpu_form form, const int32x4_t start[2],
                            const int8x16_t a[4], const int8x16_t w[4], int32x4_t *low,
                            int32x4_t *high)
{
    *low = vmmlaq_s32(vmmlaq_s32(start[0], w[0], a[0]), w[1], a[1]);
    *high = vmmlaq_s32(form.subs == 2 ? start[1] : *low, w[2], a[2]);
    *high = vmmlaq_s32(*high, w[3], a[3]);
}

ALWAYS_INLINE int32x4_t pair_scaled(const whim_cpu_form form, int32x4_t low, int32x4_t high,
                                    const pair_subs *subs)
{
    if (form.subs == 2) {
        return vmlaq_s32(vmulq_s32(low, subs->sc[0]), high, subs->sc[1]);
    }
    return form.subs == 1 ? vmulq_s32(high, subs->sc[0]) : high;
}

/* acc + the group's part: s, t and half in the lanes of acc. */
ALWAYS_INLINE vf pair_step(const whim_cpu_form form, vf acc, int32x4_t dot, vf d, vf m, vf s, vf t,
                           const int32x4_t half[2], const pair_subs *subs)
{
    acc = vfmaq_f32(acc, vcvtq_f32_s32(dot), vmulq_f32(d, s));
    if (form.has_min && form.subs == 0) {
        acc = vfmaq_f32(acc, m, t);
    } else if (form.has_min) {
        int32x4_t sum = form.subs == 1
                            ? vmulq_s32(subs->mn[0], vaddq_s32(half[0], half[1]))
                            : vmlaq_s32(vmulq_s32(subs->mn[0], half[0]), subs->mn[1], half[1]);
        acc = vfmaq_f32(acc, m, vmulq_f32(s, vcvtq_f32_s32(sum)));
    }
    return acc;
}

/* What the dots start at so that codes count as codes - offset. */
ALWAYS_INLINE void pair_start(const whim_cpu_form form, int offset, const int32x4_t half[2],
                              int32x4_t start[2])
{
    if (form.subs == 2) {
        start[0] = vmulq_n_s32(half[0], -offset);
        start[1] = vmulq_n_s32(half[1], -offset);
    } else {
        start[0] = vmulq_n_s32(vaddq_s32(half[0], half[1]), -offset);
    }
}

/* Bytes 4v .. 4v+3 as lanes. */
ALWAYS_INLINE int32x4_t widen_i8(int8x16_t x, int v)
{
    int16x8_t half = v < 2 ? vmovl_s8(vget_low_s8(x)) : vmovl_high_s8(x);
    return v % 2 == 0 ? vmovl_s16(vget_low_s16(half)) : vmovl_high_s16(half);
}
ALWAYS_INLINE int32x4_t widen_u8(int8x16_t x, int v)
{
    uint8x16_t u = vreinterpretq_u8_s8(x);
    uint16x8_t half = v < 2 ? vmovl_u8(vget_low_u8(u)) : vmovl_high_u8(u);
    return vreinterpretq_s32_u32(v % 2 == 0 ? vmovl_u16(vget_low_u16(half)) : vmovl_high_u16(half));
}

/* Dots of one row with a pair of outputs. The row stands twice in its block, so that a vector of 8
 * k for two outputs meets the same 8 k twice; lanes are partial sums (output 0 twice, output 1
 * twice). */
ALWAYS_INLINE int32x4_t pair_dot_one(const whim_cpu_form form, const int8x16_t *a,
                                     const uint8_t *codes, int pair, int first, int last)
{
    int32x4_t sum = vdupq_n_s32(0);
    for (int i = first; i < last; i++) {
        vb w = form_has_codes(form) ? codes_at(form, codes, pair, i * 16)
                                    : values_at(form, codes, pair, i * 16);
        sum = vdotq_s32(sum, vreinterpretq_s8_u8(w), a[i]);
    }
    return sum;
}

/* The dots of four outputs, started at what their offset adds. */
ALWAYS_INLINE int32x4_t pair_dots_one(const whim_cpu_form form, int32x4_t start, const int8x16_t *a,
                                      const uint8_t *codes, int v, int first, int last)
{
    int32x4_t dots = vpaddq_s32(pair_dot_one(form, a, codes, 2 * v, first, last),
                                pair_dot_one(form, a, codes, 2 * v + 1, first, last));
    return form_has_codes(form) && form.offset > 0 ? vaddq_s32(dots, start) : dots;
}

/* The dots of all outputs of a group, in order of k: chains that do not wait for each other. */
ALWAYS_INLINE void pair_dots_all(const whim_cpu_form form, int32x4_t start, const int8x16_t *a,
                                 const uint8_t *codes, int32x4_t dots[TILE_VECS])
{
    int32x4_t sum[PAIRS];
    for (int p = 0; p < PAIRS; p++) {
        sum[p] = vdupq_n_s32(0);
    }
    for (int i = 0; i < 4; i++) {
        for (int p = 0; p < PAIRS; p++) {
            vb w = form_has_codes(form) ? codes_at(form, codes, p, i * 16)
                                        : values_at(form, codes, p, i * 16);
            sum[p] = vdotq_s32(sum[p], vreinterpretq_s8_u8(w), a[i]);
        }
    }
    for (int v = 0; v < TILE_VECS; v++) {
        dots[v] = vpaddq_s32(sum[2 * v], sum[2 * v + 1]);
        if (form_has_codes(form) && form.offset > 0) {
            dots[v] = vaddq_s32(dots[v], start);
        }
    }
}

/* One row straight from the packed codes: lanes are four outputs. */
ALWAYS_INLINE void product_one(const whim_cpu_form form, const char *tile, int64_t k,
                               const int8_t *q, const whim_cpu_act_meta *meta, float *out)
{
    vf acc[TILE_VECS];
    for (int v = 0; v < TILE_VECS; v++) {
        acc[v] = vf_set1(0.0f);
    }
    for (int64_t g = 0; g < k / WHIM_GROUP; g++) {
        const uint8_t *codes = (const uint8_t *)tile + whim_cpu_group_at(&form, g);
        const char *scales = tile + whim_cpu_scales_at(&form, g);
        codes_prefetch(form, codes);
        const char *subs = (const char *)codes + WHIM_CPU_CODE_BYTES(form.bits);
        const whim_cpu_act_meta *row = meta + g * 2;
        int32x4_t half[2] = {vdupq_n_s32(row->half[0]), vdupq_n_s32(row->half[1])}, start[2];
        pair_start(form, form.offset, half, start);
        int8x16_t a[4], sc[2], mn[2];
        for (int i = 0; i < 4; i++) {
            a[i] = vld1q_s8(q + g * 64 + i * 16);
        }
        for (int h = 0; h < form.subs; h++) {
            sc[h] = vld1q_s8((const int8_t *)subs + h * WHIM_CPU_TILE);
            mn[h] = form.has_min ? vld1q_s8((const int8_t *)subs + (form.subs + h) * WHIM_CPU_TILE)
                                 : sc[h];
        }
        int32x4_t dots[TILE_VECS];
        if (form.subs < 2) {
            pair_dots_all(form, start[0], a, codes, dots);
        }
        for (int v = 0; v < TILE_VECS; v++) {
            pair_subs ps;
            for (int h = 0; h < form.subs; h++) {
                ps.sc[h] = widen_i8(sc[h], v);
                ps.mn[h] = form.has_min ? widen_u8(mn[h], v) : ps.sc[h];
            }
            int32x4_t low = vdupq_n_s32(0), high;
            if (form.subs == 2) {
                low = pair_dots_one(form, start[0], a, codes, v, 0, 2);
                high = pair_dots_one(form, start[1], a, codes, v, 2, 4);
            } else {
                high = dots[v];
            }
            vf m = form.has_min ? scale_at(WHIM_DTYPE_F16, scales + WHIM_CPU_TILE * 2, v * VF)
                                : vf_set1(0.0f);
            acc[v] = pair_step(form, acc[v], pair_scaled(form, low, high, &ps),
                               scale_at(form.d, scales, v * VF), m, vf_set1(row->s),
                               vf_set1(row->t), half, &ps);
        }
    }
    for (int v = 0; v < TILE_VECS; v++) {
        vf_store(out + v * VF, acc[v]);
    }
}

/* The lower (0) or upper (1) two lanes twice. */
ALWAYS_INLINE vf pair_twice(vf x, int upper)
{
    float32x2_t two = upper ? vget_high_f32(x) : vget_low_f32(x);
    return vcombine_f32(two, two);
}

/* Two rows from an opened tile; out [2][16] is added to. */
ALWAYS_INLINE void rows2(const whim_cpu_form form, const open_tile *tile, int64_t n_group,
                         const int8_t *q, const whim_cpu_act_meta *meta, float *out)
{
    vf acc[PAIRS];
    for (int p = 0; p < PAIRS; p++) {
        float32x2_t row0 = vld1_f32(out + 2 * p), row1 = vld1_f32(out + WHIM_CPU_TILE + 2 * p);
        acc[p] = vcombine_f32(vzip1_f32(row0, row1), vzip2_f32(row0, row1));
    }
    for (int64_t g = 0; g < n_group; g++) {
        int8x16_t a[4];
        for (int i = 0; i < 4; i++) {
            a[i] = vld1q_s8(q + g * 64 + i * 16);
        }
        /* (s, t, half, half) of two rows: (row 0, row 1, row 0, row 1) of each. */
        const float *pair = (const float *)(meta + g * 2);
        vf row0 = vld1q_f32(pair), row1 = vld1q_f32(pair + 4);
        vf st = vzip1q_f32(row0, row1), halves = vzip2q_f32(row0, row1);
        vf s = pair_twice(st, 0), t = pair_twice(st, 1);
        int32x4_t half[2] = {vreinterpretq_s32_f32(pair_twice(halves, 0)),
                             vreinterpretq_s32_f32(pair_twice(halves, 1))};
        const char *subs = open_tile_subs(form, tile, g);
        for (int p = 0; p < PAIRS; p++) {
            int8x16_t w[4];
            for (int i = 0; i < 4; i++) {
                w[i] =
                    vld1q_s8(tile->values + g * tile->value_stride + p * WHIM_CPU_BLOCK + i * 16);
            }
            pair_subs ps;
            for (int h = 0; h < form.subs; h++) {
                const int8_t *sc = (const int8_t *)subs + h * WHIM_CPU_TILE + 2 * p;
                ps.sc[h] = (int32x4_t){sc[0], sc[0], sc[1], sc[1]};
                if (form.has_min) {
                    const uint8_t *mn = (const uint8_t *)sc + form.subs * WHIM_CPU_TILE;
                    ps.mn[h] = (int32x4_t){mn[0], mn[0], mn[1], mn[1]};
                }
            }
            const int32x4_t zero[2] = {vdupq_n_s32(0), vdupq_n_s32(0)};
            int32x4_t low, high;
            pair_dot(form, zero, a, w, &low, &high);
            acc[p] = pair_step(form, acc[p], pair_scaled(form, low, high, &ps),
                               vld1q_f32(tile->d + g * OPEN_SCALES + 4 * p),
                               form.has_min ? vld1q_f32(tile->m + g * OPEN_SCALES + 4 * p) : row0,
                               s, t, half, &ps);
        }
    }
    for (int p = 0; p < PAIRS; p++) {
        float32x2_t out0 = vget_low_f32(acc[p]), out1 = vget_high_f32(acc[p]);
        vst1_f32(out + 2 * p, vzip1_f32(out0, out1));
        vst1_f32(out + WHIM_CPU_TILE + 2 * p, vzip2_f32(out0, out1));
    }
}

#include "backends/cpu/i8mm/few_i8mm.h"

/* Few rows of a type that few_product does not know are opened like many. */
ALWAYS_INLINE bool product_reads_codes(const whim_cpu_form form, int64_t rows)
{
    (void)form;
    (void)rows;
    return false;
}

/* `rows` (2 or 4, a constant) rows from an opened tile; out [rows][16] is added to. */
ALWAYS_INLINE void product_rows(const whim_cpu_form form, int rows, const open_tile *tile,
                                int64_t n_group, const int8_t *q, const whim_cpu_act_meta *meta,
                                int64_t k, float *out)
{
    if (rows == 4 && (form.subs < 2 || !form.has_min)) {
        rows4_kernel *rows4 = form.subs == 2   ? rows4_halves
                              : form.subs == 1 ? (form.has_min ? rows4_sub_min : rows4_sub)
                                               : (form.has_min ? rows4_min : rows4_plain);
        rows4(tile, tile->values, tile->value_stride - WHIM_CPU_CODES, n_group, q, meta, k, out);
        return;
    }
    for (int b = 0; b < rows / 2; b++) {
        rows2(form, tile, n_group, q + b * 2 * k, meta + b * 2 * (k / WHIM_GROUP),
              out + b * 2 * WHIM_CPU_TILE);
    }
}

#endif
