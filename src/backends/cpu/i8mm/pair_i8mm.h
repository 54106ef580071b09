/* SPDX-License-Identifier: Apache-2.0 */
/* Products of int8 rows with tiles in PAIR order by smmla, which multiplies 2 rows x 8 k with 2 outputs x
 * 8 k; its lanes are (row 0, output 0), (row 0, output 1), (row 1, output 0), (row 1, output 1). One row runs
 * on the same unit with zeros as the second row. Included after codes_tmpl.h; the sums over k follow
 * whim_group_dot_step. */
#ifndef WHIM_BACKENDS_CPU_I8MM_PAIR_I8MM_H
#define WHIM_BACKENDS_CPU_I8MM_PAIR_I8MM_H

#define PRODUCT_ORDER WHIM_CPU_ORDER_PAIR
#define PRODUCT_TAIL 2
enum { PAIRS = WHIM_CPU_TILE / 2 };

/* Integer sub-scales of four lanes. */
typedef struct pair_subs {
    int32x4_t sc[2], mn[2];
} pair_subs;

/* Dots of one group, 4 vectors of rows by 4 of outputs; the halves apart (`low`, and `high` from start[1]) only
 * where they have scales of their own. */
ALWAYS_INLINE void pair_dot(const whim_cpu_form form, const int32x4_t start[2],
                            const int8x16_t a[4], const int8x16_t w[4], int32x4_t *low,
                            int32x4_t *high)
{
    *low = vmmlaq_s32(vmmlaq_s32(start[0], a[0], w[0]), a[1], w[1]);
    *high = vmmlaq_s32(form.subs == 2 ? start[1] : *low, a[2], w[2]);
    *high = vmmlaq_s32(*high, a[3], w[3]);
}

ALWAYS_INLINE int32x4_t pair_scaled(const whim_cpu_form form, int32x4_t low, int32x4_t high,
                                    const pair_subs *subs)
{
    if (form.subs == 2) {
        return vmlaq_s32(vmulq_s32(low, subs->sc[0]), high, subs->sc[1]);
    }
    return form.subs == 1 ? vmulq_s32(high, subs->sc[0]) : high;
}

/* The first row's dots of two pairs of outputs as one vector. */
ALWAYS_INLINE int32x4_t pair_join(int32x4_t a, int32x4_t b)
{
    return vcombine_s32(vget_low_s32(a), vget_low_s32(b));
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

/* One row straight from the packed codes: lanes are four outputs. */
ALWAYS_INLINE void product_one(const whim_cpu_form form, const char *tile, int64_t k,
                               const int8_t *q, const whim_cpu_act_meta *meta, float *out)
{
    whim_cpu_tile_shape shape = whim_cpu_tile_shape_of(&form, k);
    const int offset = form_has_codes(form) ? form.offset : 0;
    vf acc[TILE_VECS];
    for (int v = 0; v < TILE_VECS; v++) {
        acc[v] = vf_set1(0.0f);
    }
    for (int64_t g = 0; g < shape.n_group; g++) {
        const uint8_t *codes = (const uint8_t *)tile + g * WHIM_CPU_CODE_BYTES(form.bits);
        const char *scales = tile + shape.scales_at + g / form.span * WHIM_CPU_SCALE_BYTES(form);
        const char *subs = tile + shape.subs_at + g * WHIM_CPU_SUB_BYTES(form);
        const whim_cpu_act_meta *row = meta + g * 2;
        int32x4_t half[2] = {vdupq_n_s32(row->half[0]), vdupq_n_s32(row->half[1])}, start[2];
        pair_start(form, offset, half, start);
        int8x16_t a[4];
        for (int i = 0; i < 4; i++) {
            a[i] = vld1q_s8(q + g * 64 + i * 16);
        }
        for (int v = 0; v < TILE_VECS; v++) {
            /* Two pairs of outputs; sub-scales are applied after they have come together. */
            int32x4_t low[2], high[2];
            for (int p = 0; p < 2; p++) {
                int8x16_t w[4];
                for (int i = 0; i < 4; i++) {
                    vb codes16 = form_has_codes(form) ? codes_at(form, codes, 2 * v + p, i * 16)
                                                      : values_at(form, codes, 2 * v + p, i * 16);
                    w[i] = vreinterpretq_s8_u8(codes16);
                }
                pair_dot(form, start, a, w, &low[p], &high[p]);
            }
            pair_subs ps;
            for (int h = 0; h < form.subs; h++) {
                ps.sc[h] = vi_load_i8((const int8_t *)subs + h * WHIM_CPU_TILE + v * VF);
                if (form.has_min) {
                    const char *mn = subs + (form.subs + h) * WHIM_CPU_TILE + v * VF;
                    ps.mn[h] = vi_load_u8((const uint8_t *)mn);
                }
            }
            int32x4_t dot =
                pair_scaled(form, pair_join(low[0], low[1]), pair_join(high[0], high[1]), &ps);
            vf m = form.has_min ? scale_at(WHIM_DTYPE_F16, scales + WHIM_CPU_TILE * 2, v * VF)
                                : vf_set1(0.0f);
            acc[v] = pair_step(form, acc[v], dot, scale_at(form.d, scales, v * VF), m,
                               vf_set1(row->s), vf_set1(row->t), half, &ps);
        }
    }
    for (int v = 0; v < TILE_VECS; v++) {
        vf_store(out + v * VF, acc[v]);
    }
}

/* Two floats, or two sub-scales, of a pair of outputs in the lanes of both rows. */
ALWAYS_INLINE vf pair_floats(const float *p)
{
    return vreinterpretq_f32_f64(vld1q_dup_f64((const double *)p));
}

/* `rows` (2 or 4, a constant) rows from an opened tile; out [rows][16] is added to. */
ALWAYS_INLINE void product_rows(const whim_cpu_form form, int rows, const open_tile *tile,
                                int64_t n_group, const int8_t *q, const whim_cpu_act_meta *meta,
                                int64_t k, float *out)
{
    enum { MAX_BLOCKS = PRODUCT_ROWS / 2 };
    const int blocks = rows / 2;
    vf acc[PAIRS][MAX_BLOCKS];
    for (int p = 0; p < PAIRS; p++) {
        for (int b = 0; b < blocks; b++) {
            const float *at = out + 2 * b * WHIM_CPU_TILE + 2 * p;
            acc[p][b] = vcombine_f32(vld1_f32(at), vld1_f32(at + WHIM_CPU_TILE));
        }
    }
    for (int64_t g = 0; g < n_group; g++) {
        int8x16_t a[MAX_BLOCKS][4];
        vf s[MAX_BLOCKS], t[MAX_BLOCKS];
        int32x4_t half[MAX_BLOCKS][2];
        for (int b = 0; b < blocks; b++) {
            for (int i = 0; i < 4; i++) {
                a[b][i] = vld1q_s8(q + b * 2 * k + g * 64 + i * 16);
            }
            /* (s, t, low, high) of two rows: lanes twice each. */
            const float *pair = (const float *)(meta + b * 2 * (k / WHIM_GROUP) + g * 2);
            vf row0 = vld1q_f32(pair), row1 = vld1q_f32(pair + 4);
            s[b] = vcombine_f32(vdup_laneq_f32(row0, 0), vdup_laneq_f32(row1, 0));
            t[b] = vcombine_f32(vdup_laneq_f32(row0, 1), vdup_laneq_f32(row1, 1));
            half[b][0] = vreinterpretq_s32_f32(
                vcombine_f32(vdup_laneq_f32(row0, 2), vdup_laneq_f32(row1, 2)));
            half[b][1] = vreinterpretq_s32_f32(
                vcombine_f32(vdup_laneq_f32(row0, 3), vdup_laneq_f32(row1, 3)));
        }
        const char *subs = tile->subs + g * WHIM_CPU_SUB_BYTES(form);
        for (int p = 0; p < PAIRS; p++) {
            int8x16_t w[4];
            for (int i = 0; i < 4; i++) {
                w[i] = vld1q_s8(tile->values + g * WHIM_CPU_CODES + p * WHIM_CPU_BLOCK + i * 16);
            }
            vf d = pair_floats(tile->d + g * WHIM_CPU_TILE + 2 * p);
            vf m = form.has_min ? pair_floats(tile->m + g * WHIM_CPU_TILE + 2 * p) : d;
            pair_subs ps;
            for (int h = 0; h < form.subs; h++) {
                const int8_t *sc = (const int8_t *)subs + h * WHIM_CPU_TILE + 2 * p;
                ps.sc[h] = (int32x4_t){sc[0], sc[1], sc[0], sc[1]};
                if (form.has_min) {
                    const uint8_t *mn = (const uint8_t *)sc + form.subs * WHIM_CPU_TILE;
                    ps.mn[h] = (int32x4_t){mn[0], mn[1], mn[0], mn[1]};
                }
            }
            for (int b = 0; b < blocks; b++) {
                const int32x4_t zero[2] = {vdupq_n_s32(0), vdupq_n_s32(0)};
                int32x4_t low, high;
                pair_dot(form, zero, a[b], w, &low, &high);
                int32x4_t dot = pair_scaled(form, low, high, &ps);
                acc[p][b] = pair_step(form, acc[p][b], dot, d, m, s[b], t[b], half[b], &ps);
            }
        }
    }
    for (int p = 0; p < PAIRS; p++) {
        for (int b = 0; b < blocks; b++) {
            float *at = out + 2 * b * WHIM_CPU_TILE + 2 * p;
            vst1_f32(at, vget_low_f32(acc[p][b]));
            vst1_f32(at + WHIM_CPU_TILE, vget_high_f32(acc[p][b]));
        }
    }
}

#endif
