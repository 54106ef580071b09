/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of plain Arm SIMD for the shared kernels (tmpl/): VF float lanes, and int8 dots. */
#ifndef WHIM_BACKENDS_CPU_NEON_VEC_NEON_H
#define WHIM_BACKENDS_CPU_NEON_VEC_NEON_H

#include <arm_neon.h>
#include <stdint.h>

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
static inline void vf_store(float *p, vf x)
{
    vst1q_f32(p, x);
}
/* a * b + c, rounded once. */
static inline vf vf_fma(vf a, vf b, vf c)
{
    return vfmaq_f32(c, a, b);
}

/* Sum of a[i] * b[i] over 16 int8 pairs, in lanes. */
static inline int32x4_t vi_dot16_lanes(const int8_t *a, const int8_t *b)
{
    int8x16_t x = vld1q_s8(a), y = vld1q_s8(b);
#ifdef __ARM_FEATURE_DOTPROD
    return vdotq_s32(vdupq_n_s32(0), x, y);
#else
    int16x8_t lo = vmull_s8(vget_low_s8(x), vget_low_s8(y));
    int16x8_t hi = vmull_s8(vget_high_s8(x), vget_high_s8(y));
    return vpadalq_s16(vpaddlq_s16(lo), hi);
#endif
}
static inline int32_t vi_dot16(const int8_t *a, const int8_t *b)
{
    return vaddvq_s32(vi_dot16_lanes(a, b));
}
static inline int32_t vi_dot32(const int8_t *a, const int8_t *b)
{
    return vaddvq_s32(vaddq_s32(vi_dot16_lanes(a, b), vi_dot16_lanes(a + 16, b + 16)));
}

#endif
