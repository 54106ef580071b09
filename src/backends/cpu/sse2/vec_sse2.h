/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of the x86-64 baseline for the shared kernels (tmpl/). There is no fused multiply-add, so
 * it is done exactly in double: this level is for machines that have nothing else. */
#ifndef WHIM_BACKENDS_CPU_SSE2_VEC_SSE2_H
#define WHIM_BACKENDS_CPU_SSE2_VEC_SSE2_H

#include "base/math/fmath.h"
#include "tensor/half.h"

#include <emmintrin.h>
#include <stdint.h>
#include <string.h>

typedef __m128 vf;
enum { VF = 4 };
/* int32 lanes, and the bytes of four k for each of them. */
typedef __m128i vi;
typedef __m128i vb;
#define VX(name) _mm_##name
#define VXI(name) _mm_##name##_si128
#define VX_SHIFT int
#define VX_WIDTH 128
#include "backends/cpu/tmpl/vec_x86.h"

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
/* Four codes e4m3, each in the top byte of its lane: whim_e4m3_to_f32. */
static inline vf vf_of_e4m3(__m128i top)
{
    __m128i mag = _mm_srli_epi32(_mm_slli_epi32(top, 1), 5),
            sign = _mm_slli_epi32(_mm_srli_epi32(top, 31), 31);
    /* A subnormal code is put where floats from 2^-6 on are spaced as it is, which is then taken
     * away. */
    __m128i below = _mm_cmplt_epi32(mag, _mm_set1_epi32(1 << 23));
    __m128i bits = _mm_add_epi32(mag, _mm_set1_epi32(120 << 23));
    bits = _mm_add_epi32(bits, _mm_and_si128(below, _mm_set1_epi32(1 << 23)));
    __m128 too_much = _mm_and_ps(_mm_castsi128_ps(below), _mm_set1_ps(0x1p-6f));
    __m128 value = _mm_sub_ps(_mm_castsi128_ps(bits), too_much);
    __m128i nan = _mm_cmpeq_epi32(mag, _mm_set1_epi32(0x7f << 20));
    __m128i marks = _mm_or_si128(sign, _mm_and_si128(nan, _mm_set1_epi32(0x7fc00000)));
    return _mm_or_ps(value, _mm_castsi128_ps(marks));
}
/* 16 codes e4m3. */
static inline void vf_load_e4m3(const uint8_t *p, vf out[4])
{
    __m128i zero = _mm_setzero_si128(), codes = _mm_loadu_si128((const __m128i *)p);
    __m128i low = _mm_unpacklo_epi8(zero, codes), high = _mm_unpackhi_epi8(zero, codes);
    out[0] = vf_of_e4m3(_mm_unpacklo_epi16(zero, low));
    out[1] = vf_of_e4m3(_mm_unpackhi_epi16(zero, low));
    out[2] = vf_of_e4m3(_mm_unpacklo_epi16(zero, high));
    out[3] = vf_of_e4m3(_mm_unpackhi_epi16(zero, high));
}
static inline vf vf_load_i8(const int8_t *p)
{
    return _mm_setr_ps((float)p[0], (float)p[1], (float)p[2], (float)p[3]);
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
/* The same with one a for all lanes. */
static inline vf vf_fma1(float a, vf b, vf c)
{
    return vf_fma(_mm_set1_ps(a), b, c);
}

/* The largest lane; none is a NaN. */
static inline float vf_max_lanes(vf x)
{
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_shuffle_ps(x, x, 1)));
}

/* Attention keeps ATTN_PAIRS x ATTN_VECS sums in registers, of 16. */
#define ATTN_PAIRS 4
#define ATTN_VECS 2

static inline vi vi_load_i8(const int8_t *p)
{
    return _mm_setr_epi32(p[0], p[1], p[2], p[3]);
}
static inline vi vi_load_u8(const uint8_t *p)
{
    return _mm_setr_epi32(p[0], p[1], p[2], p[3]);
}
/* The low halves of the products: even lanes, odd lanes, then both in their places. */
static inline vi vi_mul(vi a, vi b)
{
    __m128i even = _mm_mul_epu32(a, b);
    __m128i odd = _mm_mul_epu32(_mm_srli_epi64(a, 32), _mm_srli_epi64(b, 32));
    return _mm_unpacklo_epi32(_mm_shuffle_epi32(even, 0x08), _mm_shuffle_epi32(odd, 0x08));
}

static inline vb vb_lookup(const int8_t *table, vb index)
{
    uint8_t bytes[16];
    vb_store(bytes, index);
    for (int i = 0; i < 16; i++) {
        bytes[i] = (uint8_t)table[bytes[i]];
    }
    return vb_load(bytes);
}

/* Dots of 4: acc[lane] += w[4 lane ..] * a[0 .. 3], exact. Codes are 0 .. 63, values are int8; the
 * result of a value is too large by VI_VALUE_BIAS * sum(a). */
enum { VI_VALUE_BIAS = 0 };
static inline vi vi_dot4_value(vi acc, vb w, const int8_t *a)
{
    int32_t four;
    memcpy(&four, a, sizeof four);
    /* Bytes 0 and 2 of each lane as int16, and bytes 1 and 3. */
    __m128i x = _mm_set1_epi32(four);
    __m128i x_even = _mm_srai_epi16(_mm_slli_epi16(x, 8), 8), x_odd = _mm_srai_epi16(x, 8);
    __m128i w_even = _mm_srai_epi16(_mm_slli_epi16(w, 8), 8), w_odd = _mm_srai_epi16(w, 8);
    __m128i sum = _mm_add_epi32(_mm_madd_epi16(w_even, x_even), _mm_madd_epi16(w_odd, x_odd));
    return _mm_add_epi32(acc, sum);
}
static inline vi vi_dot4_code(vi acc, vb w, const int8_t *a)
{
    return vi_dot4_value(acc, w, a);
}

enum { PRODUCT_ROWS = 2 }; /* rows whose sums stay in registers */

/* How far ahead of a product the packed codes are asked for. */
enum { PREFETCH_BYTES = 0 };

#endif
