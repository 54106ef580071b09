/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of AVX-512 (F, BW, VL, DQ) for the shared kernels (tmpl/). */
#ifndef WHIM_BACKENDS_CPU_AVX512_VEC_AVX512_H
#define WHIM_BACKENDS_CPU_AVX512_VEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>

typedef __m512 vf;
enum { VF = 16 };

static inline vf vf_zero(void)
{
    return _mm512_setzero_ps();
}
static inline vf vf_set1(float x)
{
    return _mm512_set1_ps(x);
}
static inline vf vf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
static inline vf vf_load_bf16(const uint16_t *p)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
static inline vf vf_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
static inline void vf_store(float *p, vf x)
{
    _mm512_storeu_ps(p, x);
}
/* a * b + c, rounded once. */
static inline vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* Sum of a[i] * b[i] over 16 int8 pairs, in lanes. Halves of a group are loaded as they were stored: a
 * wider load would wait for both stores to reach the cache. */
static inline __m256i vi_dot16_lanes(const int8_t *a, const int8_t *b)
{
    __m256i x = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)a));
    __m256i y = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)b));
    return _mm256_madd_epi16(x, y);
}
static inline int32_t vi_sum(__m256i wide)
{
    __m128i v = _mm_add_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
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
    return vi_sum(_mm256_add_epi32(vi_dot16_lanes(a, b), vi_dot16_lanes(a + 16, b + 16)));
}

#endif
