/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacking of every block-quantised type into whim_quant_group, the int8 quantisation of
 * activations, and the step of a dot product between the two. Inline, because matrix kernels use
 * these at their own instruction-set level; straight-line with fixed trip counts, so that they
 * vectorise there. Rows need no alignment. Files are little endian, and so is every host we build
 * for. Layouts: GGUF, one comment per type below; h = half, u8/i8 = bytes, @ = offset in the block
 * (INT8 is ours).
 * Threads: stateless. */
#ifndef WHIM_TENSOR_UNPACK_H
#define WHIM_TENSOR_UNPACK_H

#include <string.h>

#include "tensor/half.h"
#include "tensor/quant.h"

#define WHIM_BYTES(b) (UINT64_C(0x0101010101010101) * (b)) /* the byte b in all eight places */

static inline float whim_load_f16(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof(h));
    return whim_f16_to_f32(h);
}

static inline void whim_group_scales(whim_quant_group *g, float d, int sc0, int sc1)
{
    g->d = d;
    g->m = 0.0f;
    g->sc[0] = (int16_t)sc0;
    g->sc[1] = (int16_t)sc1;
    g->mn[0] = 0;
    g->mn[1] = 0;
}

static inline void whim_group_mins(whim_quant_group *g, float m, int mn0, int mn1)
{
    g->m = m;
    g->mn[0] = (int16_t)mn0;
    g->mn[1] = (int16_t)mn1;
}

/* Sixteen bytes as two words: shifts, masks and adds of whole words stay inside their bytes by the
 * choice of constants, and values stay in a vector register on every CPU. */
typedef uint64_t whim_u64x2 __attribute__((vector_size(16)));

static inline whim_u64x2 whim_load16(const void *p)
{
    whim_u64x2 v;
    memcpy(&v, p, 16);
    return v;
}

static inline void whim_store16(void *p, whim_u64x2 v)
{
    memcpy(p, &v, 16);
}

/* q[i] = low nibbles of qs[16], then its high nibbles. */
static inline void whim_nibbles16(const uint8_t *restrict qs, int8_t *restrict q)
{
    whim_u64x2 v = whim_load16(qs);
    whim_store16(q, v & WHIM_BYTES(15));
    whim_store16(q + 16, (v >> 4) & WHIM_BYTES(15));
}

/* q[i] = ((src[i] >> shift) & mask), mask within one byte's low bits. */
static inline void whim_bits32(const uint8_t *restrict src, int shift, uint8_t mask,
                               int8_t *restrict q)
{
    for (int i = 0; i < 32; i += 16) {
        whim_store16(q + i, (whim_load16(src + i) >> shift) & WHIM_BYTES(mask));
    }
}

/* q[i] |= ((src[i] >> shift) & mask) << up. */
static inline void whim_bits32_or(const uint8_t *restrict src, int shift, uint8_t mask, int up,
                                  int8_t *restrict q)
{
    for (int i = 0; i < 32; i += 16) {
        whim_u64x2 high = (whim_load16(src + i) >> shift) & WHIM_BYTES(mask);
        whim_store16(q + i, whim_load16(q + i) | high << up);
    }
}

/* q[i] |= bit i of the 32 bits at qh, as 16: a byte is copied eight times and each copy keeps its
 * own bit; adding 127 carries any kept bit into the top of its byte. */
static inline void whim_fifth_bits(const uint8_t *restrict qh, int8_t *restrict q)
{
    for (int i = 0; i < 2; i++) {
        whim_u64x2 own = {WHIM_BYTES(qh[2 * i]), WHIM_BYTES(qh[2 * i + 1])};
        own &= UINT64_C(0x8040201008040201);
        own = ((own + WHIM_BYTES(0x7f)) & WHIM_BYTES(0x80)) >> 3;
        whim_store16(q + 16 * i, whim_load16(q + 16 * i) | own);
    }
}

static inline void whim_sub32(int8_t *q, int8_t offset)
{
    typedef int8_t i8x16 __attribute__((vector_size(16)));
    for (int i = 0; i < 32; i += 16) {
        i8x16 v;
        memcpy(&v, q + i, 16);
        v -= offset;
        memcpy(q + i, &v, 16);
    }
}

/* Codes 0..15 to the values of a table. */
static inline void whim_lookup32(const int8_t table[16], int8_t *q)
{
#ifdef __clang__ /* has no shuffle by variable */
    for (int i = 0; i < 32; i++) {
        q[i] = table[q[i]];
    }
#else
    typedef int8_t i8x16 __attribute__((vector_size(16)));
    i8x16 t, lo, hi;
    memcpy(&t, table, 16);
    memcpy(&lo, q, 16);
    memcpy(&hi, q + 16, 16);
    lo = __builtin_shuffle(t, lo);
    hi = __builtin_shuffle(t, hi);
    memcpy(q, &lo, 16);
    memcpy(q + 16, &hi, 16);
#endif
}

static const int8_t whim_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                           1,    13,   25,  38,  53,  69,  89,  113};
static const int8_t whim_fp4_values[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                           0, -1, -2, -3, -4, -6, -8, -12}; /* twice e2m1 */

/* Weights of code books (unpack_iq.h): magnitudes, then the same with a minus. */
static const int8_t whim_iq2_values[16] = {8, 25, 43, 0, -8, -25, -43, 0};
static const int8_t whim_iq3_xxs_values[16] = {4,  12,  20,  28,  36,  44,  52,  62,
                                               -4, -12, -20, -28, -36, -44, -52, -62};
static const int8_t whim_iq3_s_values[16] = {1,  3,  5,  7,  9,  11,  13,  15,
                                             -1, -3, -5, -7, -9, -11, -13, -15};

/* d h@0, u8 qs[16]@2 */
static inline void whim_unpack_q4_0(const void *row, int64_t group, whim_quant_group *out)
{
    const uint8_t *b = (const uint8_t *)row + group * 18;
    whim_group_scales(out, whim_load_f16(b), 1, 1);
    whim_nibbles16(b + 2, out->q);
    whim_sub32(out->q, 8);
}

/* d h@0, m h@2, u8 qs[16]@4 */
static inline void whim_unpack_q4_1(const void *row, int64_t group, whim_quant_group *out)
{
    const uint8_t *b = (const uint8_t *)row + group * 20;
    whim_group_scales(out, whim_load_f16(b), 1, 1);
    whim_group_mins(out, whim_load_f16(b + 2), 1, 1);
    whim_nibbles16(b + 4, out->q);
}

/* d h@0, fifth bits u32@2, u8 qs[16]@6 */
static inline void whim_unpack_q5_0(const void *row, int64_t group, whim_quant_group *out)
{
    const uint8_t *b = (const uint8_t *)row + group * 22;
    whim_group_scales(out, whim_load_f16(b), 1, 1);
    whim_nibbles16(b + 6, out->q);
    whim_fifth_bits(b + 2, out->q);
    whim_sub32(out->q, 16);
}

/* d h@0, m h@2, fifth bits u32@4, u8 qs[16]@8 */
static inline void whim_unpack_q5_1(const void *row, int64_t group, whim_quant_group *out)
{
    const uint8_t *b = (const uint8_t *)row + group * 24;
    whim_group_scales(out, whim_load_f16(b), 1, 1);
    whim_group_mins(out, whim_load_f16(b + 2), 1, 1);
    whim_nibbles16(b + 8, out->q);
    whim_fifth_bits(b + 4, out->q);
}

/* d h@0, i8 qs[32]@2 */
static inline void whim_unpack_q8_0(const void *row, int64_t group, whim_quant_group *out)
{
    const uint8_t *b = (const uint8_t *)row + group * 34;
    whim_group_scales(out, whim_load_f16(b), 1, 1);
    memcpy(out->q, b + 2, 32);
}

/* Blocks of 256 = 8 groups. u8 (min << 4 | scale)[16]@0, u8 qs[64]@16, d h@80, dmin h@82 */
static inline void whim_unpack_q2_k(const void *row, int64_t group, whim_quant_group *out)
{
    const uint8_t *b = (const uint8_t *)row + group / 8 * 84;
    int j = (int)(group % 8);
    const uint8_t *s = b + 2 * j;
    whim_group_scales(out, whim_load_f16(b + 80), s[0] & 15, s[1] & 15);
    whim_group_mins(out, -whim_load_f16(b + 82), s[0] >> 4, s[1] >> 4);
    whim_bits32(b + 16 + 32 * (j / 4), 2 * (j % 4), 3, out->q);
}

/* Scale j of 16 of a Q3_K block: 4 low bits and 2 high bits from 12 bytes, less 32. */
static inline int whim_q3_k_scale(const uint8_t *s, int j)
{
    int low = s[j % 8] >> 4 * (j / 8) & 15;
    int high = s[8 + j % 4] >> 2 * (j / 4) & 3;
    return (low | high << 4) - 32;
}

/* u8 third bits[32]@0, u8 qs[64]@32, u8 scales[12]@96, d h@108 */
static inline void whim_unpack_q3_k(const void *row, int64_t group, whim_quant_group *out)
{
    const uint8_t *b = (const uint8_t *)row + group / 8 * 110;
    int j = (int)(group % 8);
    int sc0 = whim_q3_k_scale(b + 96, 2 * j);
    int sc1 = whim_q3_k_scale(b + 96, 2 * j + 1);
    whim_group_scales(out, whim_load_f16(b + 108), sc0, sc1);
    whim_bits32(b + 32 + 32 * (j / 4), 2 * (j % 4), 3, out->q);
    whim_bits32_or(b, j, 1, 2, out->q);
    whim_sub32(out->q, 4);
}

/* d h@0, dmin h@2 and the 6-bit scale and minimum j of 8 from 12 bytes @4 (Q4_K and Q5_K). */
static inline void whim_k_scale_min(const uint8_t *b, int j, whim_quant_group *out)
{
    const uint8_t *s = b + 4;
    int k = j % 4;
    int sc_low = s[k] & 63;
    int mn_low = s[k + 4] & 63;
    int sc_high = (s[k + 8] & 15) | s[k] >> 6 << 4;
    int mn_high = s[k + 8] >> 4 | s[k + 4] >> 6 << 4;
    int sc = j < 4 ? sc_low : sc_high;
    int mn = j < 4 ? mn_low : mn_high;
    whim_group_scales(out, whim_load_f16(b), sc, sc);
    whim_group_mins(out, -whim_load_f16(b + 2), mn, mn);
}

/* scales as above, u8 qs[128]@16 */
static inline void whim_unpack_q4_k(const void *row, int64_t group, whim_quant_group *out)
{
    const uint8_t *b = (const uint8_t *)row + group / 8 * 144;
    int j = (int)(group % 8);
    whim_k_scale_min(b, j, out);
    whim_bits32(b + 16 + 32 * (j / 2), 4 * (j % 2), 15, out->q);
}

/* scales as above, u8 fifth bits[32]@16, u8 qs[128]@48 */
static inline void whim_unpack_q5_k(const void *row, int64_t group, whim_quant_group *out)
{
    const uint8_t *b = (const uint8_t *)row + group / 8 * 176;
    int j = (int)(group % 8);
    whim_k_scale_min(b, j, out);
    whim_bits32(b + 48 + 32 * (j / 2), 4 * (j % 2), 15, out->q);
    whim_bits32_or(b + 16, j, 1, 4, out->q);
}

/* u8 ql[128]@0, u8 qh[64]@128, i8 scales[16]@192, d h@208 */
static inline void whim_unpack_q6_k(const void *row, int64_t group, whim_quant_group *out)
{
    const uint8_t *b = (const uint8_t *)row + group / 8 * 210;
    int half = (int)(group % 8) / 4;
    int j = (int)(group % 4);
    const uint8_t *s = b + 192 + 2 * (group % 8);
    whim_group_scales(out, whim_load_f16(b + 208), (int8_t)s[0], (int8_t)s[1]);
    whim_bits32(b + 64 * half + 32 * (j % 2), 4 * (j / 2), 15, out->q);
    whim_bits32_or(b + 128 + 32 * half, 2 * j, 3, 4, out->q);
    whim_sub32(out->q, 32);
}

/* d h@0, u8 qs[16]@2 */
static inline void whim_unpack_iq4_nl(const void *row, int64_t group, whim_quant_group *out)
{
    const uint8_t *b = (const uint8_t *)row + group * 18;
    whim_group_scales(out, whim_load_f16(b), 1, 1);
    whim_nibbles16(b + 2, out->q);
    whim_lookup32(whim_iq4_values, out->q);
}

/* d h@0, high 2 bits of the scales u16@2, low nibbles u8[4]@4, u8 qs[128]@8 */
static inline void whim_unpack_iq4_xs(const void *row, int64_t group, whim_quant_group *out)
{
    const uint8_t *b = (const uint8_t *)row + group / 8 * 136;
    int j = (int)(group % 8);
    int low = b[4 + j / 2] >> 4 * (j % 2) & 15;
    int high = (b[2] | b[3] << 8) >> 2 * j & 3;
    int sc = (low | high << 4) - 32;
    whim_group_scales(out, whim_load_f16(b), sc, sc);
    whim_nibbles16(b + 8 + 16 * j, out->q);
    whim_lookup32(whim_iq4_values, out->q);
}

/* u8 e@0, u8 qs[16]@1; d = 2^(e - 128), which is subnormal for e = 0 and 1. e = 255 means 2^127 as
 * in GGUF's own reader (the OCP format would call it NaN; no quantiser writes it). */
static inline void whim_unpack_mxfp4(const void *row, int64_t group, whim_quant_group *out)
{
    const uint8_t *b = (const uint8_t *)row + group * 17;
    uint32_t e = b[0];
    uint32_t bits = e < 2 ? UINT32_C(0x00200000) << e : (e - 1) << 23;
    whim_group_scales(out, whim_f32_from_bits(bits), 1, 1);
    whim_nibbles16(b + 1, out->q);
    whim_lookup32(whim_fp4_values, out->q);
}

/* Blocks of 128 = 4 groups. d f32@0, i8 qs[128]@4 */
static inline void whim_unpack_int8(const void *row, int64_t group, whim_quant_group *out)
{
    const uint8_t *b = (const uint8_t *)row + group / 4 * 132;
    float d;
    memcpy(&d, b, sizeof d);
    whim_group_scales(out, d, 1, 1);
    memcpy(out->q, b + 4 + group % 4 * 32, 32);
}

/* The pragmas keep GCC's -O3 from unrolling these into scalars before it vectorises. */
static inline int32_t whim_sum_i8x16(const int8_t *x)
{
    int32_t sum = 0;
#pragma GCC unroll 1
    for (int i = 0; i < 16; i++) {
        sum += x[i];
    }
    return sum;
}

static inline int32_t whim_dot_i8x16(const int8_t *x, const int8_t *y)
{
    int32_t dot = 0;
#pragma GCC unroll 1
    for (int i = 0; i < 16; i++) {
        dot += (int32_t)x[i] * y[i];
    }
    return dot;
}

/* THE LAW of activation quantisation: s = absmax / 127, q = x * (1 / s) rounded half to even. It
 * needs no clamp: |x| / s exceeds 127 by a few parts in 2^24 at most. A block whose s would be
 * subnormal is all zeros with s = 0; one with an inf or NaN gets s = NaN and q = 0, so that its
 * results are NaN. */
static inline void whim_q8_quantize32(const float *restrict x, whim_q8_block *restrict out)
{
    int32_t top = 0; /* bits of the largest magnitude; as integers they are ordered */
    for (int i = 0; i < 32; i++) {
        int32_t mag = (int32_t)(whim_f32_bits(x[i]) & 0x7fffffffu);
        top = mag > top ? mag : top;
    }
    float s = whim_f32_from_bits((uint32_t)top) / 127.0f;
    bool finite = top < 0x7f800000;
    bool usable = finite && s >= 0x1p-126f;
    float inv = usable ? 1.0f / s : 0.0f;
    uint32_t keep = usable ? ~0u : 0u;
    for (int i = 0; i < 32; i++) {
        out->q[i] = (int8_t)(whim_f32_bits(x[i] * inv + 0x1.8p23f) & keep);
    }
    out->s = usable ? s : finite ? 0.0f : NAN;
    out->sum[0] = whim_sum_i8x16(out->q);
    out->sum[1] = whim_sum_i8x16(out->q + 16);
}

/* THE LAW of one block of a dot product: what every kernel adds per output and group. */
static inline float whim_group_dot_step(float acc, const whim_quant_group *g,
                                        const whim_q8_block *a, bool has_min)
{
    int32_t dot =
        g->sc[0] * whim_dot_i8x16(g->q, a->q) + g->sc[1] * whim_dot_i8x16(g->q + 16, a->q + 16);
    acc = whim_fmaf((float)dot, g->d * a->s, acc);
    if (has_min) {
        int32_t sum = g->mn[0] * a->sum[0] + g->mn[1] * a->sum[1];
        acc = whim_fmaf(g->m, a->s * (float)sum, acc);
    }
    return acc;
}

#endif
