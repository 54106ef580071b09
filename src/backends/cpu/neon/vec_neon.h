/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of plain Arm SIMD for the shared kernels (tmpl/): VF float lanes, and int8 dots. */
#ifndef WHIM_BACKENDS_CPU_NEON_VEC_NEON_H
#define WHIM_BACKENDS_CPU_NEON_VEC_NEON_H

#include <arm_neon.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef float32x4_t vf;
enum { VF = 4 };

static inline vf vf_zero(void)
{
    return vdupq_n_f32(0.0f);
}
static inline vf vf_set1(float x)
{
    return vdupq_n_f32(x);
}
static inline vf vf_load(const float *p)
{
    return vld1q_f32(p);
}
static inline vf vf_load_bf16(const uint16_t *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}
static inline vf vf_load_f16(const uint16_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
/* 16 codes e4m3 as BF16, which holds each exactly. Bytes are made apart: of the codes below 16 by
 * table, subnormal ones among them, of the others by moving exponent and mantissa to their
 * places. */
static inline uint16x8x2_t bf16_of_e4m3(const uint8_t *codes)
{
    static const uint8_t high_below[16] = {0,    0x3b, 0x3b, 0x3b, 0x3c, 0x3c, 0x3c, 0x3c,
                                           0x3c, 0x3c, 0x3c, 0x3c, 0x3c, 0x3c, 0x3c, 0x3c};
    static const uint8_t low_below[16] = {0,    0,    0x80, 0xc0, 0,    0x20, 0x40, 0x60,
                                          0x80, 0x90, 0xa0, 0xb0, 0xc0, 0xd0, 0xe0, 0xf0};
    uint8x16_t code = vld1q_u8(codes), mag = vandq_u8(code, vdupq_n_u8(0x7f));
    uint8x16_t high = vaddq_u8(vshrq_n_u8(mag, 4), vdupq_n_u8(0x3c));
    high = vqtbx1q_u8(high, vld1q_u8(high_below), mag);
    uint8x16_t low = vqtbx1q_u8(vshlq_n_u8(mag, 4), vld1q_u8(low_below), mag);
    uint8x16_t nan = vceqq_u8(mag, vdupq_n_u8(0x7f));
    high = vorrq_u8(high, vandq_u8(nan, vdupq_n_u8(0x7f)));
    high = vbslq_u8(vdupq_n_u8(0x80), code, high);
    return (uint16x8x2_t){
        {vreinterpretq_u16_u8(vzip1q_u8(low, high)), vreinterpretq_u16_u8(vzip2q_u8(low, high))}};
}
/* 16 codes e4m3. */
static inline void vf_load_e4m3(const uint8_t *p, vf out[4])
{
    uint16x8x2_t half = bf16_of_e4m3(p);
    for (int i = 0; i < 2; i++) {
        out[2 * i] = vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(half.val[i]), 16));
        out[2 * i + 1] = vreinterpretq_f32_u32(vshll_high_n_u16(half.val[i], 16));
    }
}
static inline void vf_store(float *p, vf x)
{
    vst1q_f32(p, x);
}
static inline vf vf_load_i8(const int8_t *p)
{
    int32_t word;
    __builtin_memcpy(&word, p, sizeof word);
    int16x8_t half = vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(word)));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(half)));
}
/* a * b + c, rounded once. */
static inline vf vf_fma(vf a, vf b, vf c)
{
    return vfmaq_f32(c, a, b);
}
/* The same with one a for all lanes. */
static inline vf vf_fma1(float a, vf b, vf c)
{
    return vfmaq_n_f32(c, b, a);
}

/* The larger of both; acc where x is a NaN. */
static inline vf vf_max_over(vf acc, vf x)
{
    return vmaxnmq_f32(acc, x);
}
/* The largest lane; none is a NaN. */
static inline float vf_max_lanes(vf x)
{
    return vmaxvq_f32(x);
}
/* x limited to [lo, hi]; a NaN stays a NaN. */
static inline vf vf_clamp(vf x, vf lo, vf hi)
{
    return vminq_f32(vmaxq_f32(x, lo), hi);
}

/* Attention keeps ATTN_PAIRS x ATTN_VECS sums in registers, of 32. */
#define ATTN_PAIRS 4
#define ATTN_VECS 4

static inline vf vf_mul(vf a, vf b)
{
    return vmulq_f32(a, b);
}

/* int32 lanes, and the bytes of four k for each of them. */
typedef int32x4_t vi;
typedef uint8x16_t vb;

static inline vi vi_set1(int32_t x)
{
    return vdupq_n_s32(x);
}
static inline vi vi_load_i8(const int8_t *p)
{
    int32_t four;
    memcpy(&four, p, sizeof four);
    return vmovl_s16(vget_low_s16(vmovl_s8(vcreate_s8((uint32_t)four))));
}
static inline vi vi_load_u8(const uint8_t *p)
{
    uint32_t four;
    memcpy(&four, p, sizeof four);
    return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(four)))));
}
static inline vi vi_mul(vi a, vi b)
{
    return vmulq_s32(a, b);
}
static inline vi vi_add(vi a, vi b)
{
    return vaddq_s32(a, b);
}
static inline vf vi_to_vf(vi x)
{
    return vcvtq_f32_s32(x);
}

static inline vb vb_load(const void *p)
{
    return vld1q_u8(p);
}
static inline void vb_store(void *p, vb x)
{
    vst1q_u8(p, x);
}
static inline vb vb_or(vb a, vb b)
{
    return vorrq_u8(a, b);
}
static inline vb vb_sub1(vb a, uint8_t b)
{
    return vsubq_u8(a, vdupq_n_u8(b));
}
/* The field of `bits` bits at `from` of every byte, moved to `to`, all else 0; constants where this
 * is inlined. */
static inline vb vb_place(vb x, int from, int bits, int to)
{
    vb moved = from != to ? vshlq_u8(x, vdupq_n_s8((int8_t)(to - from))) : x;
    bool alone = (from + bits == 8 && to == 0) || (from == 0 && to + bits == 8);
    return alone ? moved : vandq_u8(moved, vdupq_n_u8((uint8_t)(((1 << bits) - 1) << to)));
}
static inline vb vb_lookup(const int8_t *table, vb index)
{
    return vqtbl1q_u8(vld1q_u8((const uint8_t *)table), index);
}

/* Dots of 4: acc[lane] += w[4 lane ..] * a[0 .. 3], exact. Codes are 0 .. 63, values are int8; the
 * result of a value is too large by VI_VALUE_BIAS * sum(a). */
enum { VI_VALUE_BIAS = 0 };
static inline vi vi_dot4_value(vi acc, vb w, const int8_t *a)
{
    int32_t four;
    memcpy(&four, a, sizeof four);
    int8x16_t x = vreinterpretq_s8_s32(vdupq_n_s32(four)), y = vreinterpretq_s8_u8(w);
#ifdef __ARM_FEATURE_DOTPROD
    return vdotq_s32(acc, y, x);
#else
    int16x8_t lo = vmull_s8(vget_low_s8(x), vget_low_s8(y));
    int16x8_t hi = vmull_s8(vget_high_s8(x), vget_high_s8(y));
    return vaddq_s32(acc, vpaddq_s32(vpaddlq_s16(lo), vpaddlq_s16(hi)));
#endif
}
static inline vi vi_dot4_code(vi acc, vb w, const int8_t *a)
{
    return vi_dot4_value(acc, w, a);
}

/* Rows whose sums stay in registers. */
#ifdef __ARM_FEATURE_MATMUL_INT8
enum { PRODUCT_ROWS = 4 };
#else
enum { PRODUCT_ROWS = 2 };
#endif

/* How far ahead of a product the packed codes are asked for. */
enum { PREFETCH_BYTES = 16384 };

#endif
