/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of AVX2 with FMA and F16C for the shared kernels (tmpl/). */
#ifndef WHIM_BACKENDS_CPU_AVX2_VEC_AVX2_H
#define WHIM_BACKENDS_CPU_AVX2_VEC_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

typedef __m256 vf;
enum { VF = 8 };
/* int32 lanes, and the bytes of four k for each of them. */
typedef __m256i vi;
typedef __m256i vb;
#define VX(name) _mm256_##name
#define VXI(name) _mm256_##name##_si256
#define VX_SHIFT int
#define VX_WIDTH 256
#include "backends/cpu/tmpl/vec_x86.h"

static inline vf vf_load_bf16(const uint16_t *p)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
static inline vf vf_load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
/* 16 codes e4m3. Moved to the place of a half's exponent and mantissa a code is 2^8 too small; its
 * NaN is set apart. */
static inline void vf_load_e4m3(const uint8_t *p, vf out[2])
{
    __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p));
    __m256i half = _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16((short)0xbf80));
    __m256i top = _mm256_set1_epi16(0x3f80);
    __m256i nan = _mm256_cmpeq_epi16(_mm256_and_si256(half, top), top);
    half = _mm256_or_si256(half, _mm256_and_si256(nan, _mm256_set1_epi16(0x7c00)));
    __m256 scale = _mm256_set1_ps(0x1p8f);
    out[0] = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(half)), scale);
    out[1] = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(half, 1)), scale);
}
static inline vf vf_load_i8(const int8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

/* The largest lane; none is a NaN. */
static inline float vf_max_lanes(vf x)
{
    __m128 y = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_max_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_max_ss(y, _mm_shuffle_ps(y, y, 1)));
}

/* Attention keeps ATTN_PAIRS x ATTN_VECS sums in registers, of 16. */
#define ATTN_PAIRS 6
#define ATTN_VECS 2

static inline vi vi_load_i8(const int8_t *p)
{
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p));
}
static inline vi vi_load_u8(const uint8_t *p)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}
static inline vi vi_mul(vi a, vi b)
{
    return _mm256_mullo_epi32(a, b);
}

static inline vb vb_lookup(const int8_t *table, vb index)
{
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table)),
                               index);
}

/* Dots of 4: acc[lane] += w[4 lane ..] * a[0 .. 3], exact. Codes are 0 .. 63, values are int8; the
 * result of a value is too large by VI_VALUE_BIAS * sum(a). */
enum { VI_VALUE_BIAS = 0 };
/* The value's sign goes to the activation. */
static inline vi vi_dot4_value(vi acc, vb w, const int8_t *a)
{
    return vi_dot4_small(acc, _mm256_abs_epi8(w), _mm256_sign_epi8(vb_four(a), w));
}

enum { PRODUCT_ROWS = 4 }; /* rows whose sums stay in registers */

/* How far ahead of a product the packed codes are asked for. */
enum { PREFETCH_BYTES = 0 };

#endif
