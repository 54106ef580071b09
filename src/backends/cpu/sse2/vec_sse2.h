/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of the x86-64 baseline for the shared kernels (tmpl/). There is no fused multiply-add, so it
 * is done exactly in double: this level is for machines that have nothing else. */
#ifndef WHIM_BACKENDS_CPU_SSE2_VEC_SSE2_H
#define WHIM_BACKENDS_CPU_SSE2_VEC_SSE2_H

#include "base/fmath.h"
#include "tensor/half.h"

#include <emmintrin.h>
#include <stdint.h>

typedef __m128 vf;
enum { VF = 4 };

static inline vf vf_zero(void)
{
    return _mm_setzero_ps();
}
static inline vf vf_set1(float x)
{
    return _mm_set1_ps(x);
}
static inline vf vf_load(const float *p)
{
    return _mm_loadu_ps(p);
}
static inline vf vf_load_bf16(const uint16_t *p)
{
    __m128i h = _mm_loadl_epi64((const __m128i *)p);
    return _mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), h));
}
static inline vf vf_load_f16(const uint16_t *p)
{
    return _mm_setr_ps(whim_f16_to_f32(p[0]), whim_f16_to_f32(p[1]), whim_f16_to_f32(p[2]),
                       whim_f16_to_f32(p[3]));
}
static inline void vf_store(float *p, vf x)
{
    _mm_storeu_ps(p, x);
}

/* Two lanes of whim_fmaf_soft: the sum rounded to odd in double, then rounded to float. */
static inline __m128 fma_pair(__m128d a, __m128d b, __m128d z)
{
    const __m128i one = _mm_set1_epi64x(1);
    __m128d p = _mm_mul_pd(a, b);
    __m128d s = _mm_add_pd(p, z);
    __m128d t = _mm_sub_pd(s, p);
    __m128d err = _mm_add_pd(_mm_sub_pd(p, _mm_sub_pd(s, t)), _mm_sub_pd(z, t));
    __m128i u = _mm_castpd_si128(s);
    __m128i inward = _mm_srli_epi64(_mm_xor_si128(_mm_castpd_si128(err), u), 63);
    __m128d zero = _mm_setzero_pd();
    __m128d nonzero = _mm_or_pd(_mm_cmpgt_pd(err, zero), _mm_cmplt_pd(err, zero));
    __m128i even = _mm_sub_epi64(_mm_setzero_si128(), _mm_andnot_si128(u, one));
    __m128i step = _mm_sub_epi64(one, _mm_add_epi64(inward, inward));
    step = _mm_and_si128(step, _mm_and_si128(_mm_castpd_si128(nonzero), even));
    return _mm_cvtpd_ps(_mm_castsi128_pd(_mm_add_epi64(u, step)));
}
static inline vf vf_fma(vf a, vf b, vf c)
{
    __m128 lo = fma_pair(_mm_cvtps_pd(a), _mm_cvtps_pd(b), _mm_cvtps_pd(c));
    __m128 hi = fma_pair(_mm_cvtps_pd(_mm_movehl_ps(a, a)), _mm_cvtps_pd(_mm_movehl_ps(b, b)),
                         _mm_cvtps_pd(_mm_movehl_ps(c, c)));
    return _mm_movelh_ps(lo, hi);
}

/* Sum of a[i] * b[i] over 16 int8 pairs, in lanes. */
static inline __m128i vi_dot16_lanes(const int8_t *a, const int8_t *b)
{
    __m128i x = _mm_loadu_si128((const __m128i *)a);
    __m128i y = _mm_loadu_si128((const __m128i *)b);
    __m128i x_lo = _mm_srai_epi16(_mm_unpacklo_epi8(x, x), 8);
    __m128i x_hi = _mm_srai_epi16(_mm_unpackhi_epi8(x, x), 8);
    __m128i y_lo = _mm_srai_epi16(_mm_unpacklo_epi8(y, y), 8);
    __m128i y_hi = _mm_srai_epi16(_mm_unpackhi_epi8(y, y), 8);
    return _mm_add_epi32(_mm_madd_epi16(x_lo, y_lo), _mm_madd_epi16(x_hi, y_hi));
}
static inline int32_t vi_sum(__m128i v)
{
    v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4e));
    v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0xb1));
    return _mm_cvtsi128_si32(v);
}
static inline int32_t vi_dot16(const int8_t *a, const int8_t *b)
{
    return vi_sum(vi_dot16_lanes(a, b));
}
static inline int32_t vi_dot32(const int8_t *a, const int8_t *b)
{
    return vi_sum(_mm_add_epi32(vi_dot16_lanes(a, b), vi_dot16_lanes(a + 16, b + 16)));
}

#endif
