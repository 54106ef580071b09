/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of AVX-512 (F, BW, VL, DQ) for the shared kernels (tmpl/). */
#ifndef WHIM_BACKENDS_CPU_AVX512_VEC_AVX512_H
#define WHIM_BACKENDS_CPU_AVX512_VEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

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
/* 16 codes e4m3. Moved to the place of a half's exponent and mantissa a code is 2^8 too small; its
 * NaN is set apart. */
static inline void vf_load_e4m3(const uint8_t *p, vf out[1])
{
    __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p));
    __m256i half = _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16((short)0xbf80));
    __m256i top = _mm256_set1_epi16(0x3f80);
    __mmask16 nan = _mm256_cmpeq_epi16_mask(_mm256_and_si256(half, top), top);
    half = _mm256_mask_mov_epi16(half, nan, _mm256_set1_epi16(0x7e00));
    out[0] = _mm512_mul_ps(_mm512_cvtph_ps(half), _mm512_set1_ps(0x1p8f));
}
static inline void vf_store(float *p, vf x)
{
    _mm512_storeu_ps(p, x);
}
static inline vf vf_load_i8(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
/* a * b + c, rounded once. */
static inline vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}
/* The same with one a for all lanes. */
static inline vf vf_fma1(float a, vf b, vf c)
{
    return _mm512_fmadd_ps(_mm512_set1_ps(a), b, c);
}

/* The larger of both; acc where x is a NaN. */
static inline vf vf_max_over(vf acc, vf x)
{
    return _mm512_max_ps(x, acc);
}
/* The largest lane; none is a NaN. */
static inline float vf_max_lanes(vf x)
{
    return _mm512_reduce_max_ps(x);
}
/* x limited to [lo, hi]; a NaN stays a NaN. */
static inline vf vf_clamp(vf x, vf lo, vf hi)
{
    return _mm512_min_ps(hi, _mm512_max_ps(lo, x));
}

/* Attention keeps ATTN_PAIRS x ATTN_VECS sums in registers, of 32. */
#define ATTN_PAIRS 6
#define ATTN_VECS 2

static inline vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}

/* int32 lanes, and the bytes of four k for each of them. */
typedef __m512i vi;
typedef __m512i vb;

static inline vi vi_set1(int32_t x)
{
    return _mm512_set1_epi32(x);
}
static inline vi vi_load_i8(const int8_t *p)
{
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p));
}
static inline vi vi_load_u8(const uint8_t *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}
static inline vi vi_mul(vi a, vi b)
{
    return _mm512_mullo_epi32(a, b);
}
static inline vi vi_add(vi a, vi b)
{
    return _mm512_add_epi32(a, b);
}
static inline vf vi_to_vf(vi x)
{
    return _mm512_cvtepi32_ps(x);
}

static inline vb vb_load(const void *p)
{
    return _mm512_loadu_si512(p);
}
static inline void vb_store(void *p, vb x)
{
    _mm512_storeu_si512(p, x);
}
static inline vb vb_or(vb a, vb b)
{
    return _mm512_or_si512(a, b);
}
static inline vb vb_sub1(vb a, uint8_t b)
{
    return _mm512_sub_epi8(a, _mm512_set1_epi8((char)b));
}
/* The field of `bits` bits at `from` of every byte, moved to `to`, all else 0; constants where this
 * is inlined. */
static inline vb vb_place(vb x, int from, int bits, int to)
{
    vb moved = from > to   ? _mm512_srli_epi16(x, (unsigned)(from - to))
               : from < to ? _mm512_slli_epi16(x, (unsigned)(to - from))
                           : x;
    return _mm512_and_si512(moved, _mm512_set1_epi8((char)(((1 << bits) - 1) << to)));
}
static inline vb vb_lookup(const int8_t *table, vb index)
{
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)table)),
                               index);
}

/* Dots of 4: acc[lane] += w[4 lane ..] * a[0 .. 3], exact. Codes are 0 .. 63, values are int8; the
 * result of a value is too large by VI_VALUE_BIAS * sum(a). */
/* Four activations in every lane. */
static inline vb vb_four(const int8_t *a)
{
    int32_t four;
    memcpy(&four, a, sizeof four);
    return _mm512_set1_epi32(four);
}
#ifdef __AVX512VNNI__
/* Weights are the unsigned operand. */
enum { VI_VALUE_BIAS = 128 };
static inline vi vi_dot4_code(vi acc, vb w, const int8_t *a)
{
    return _mm512_dpbusd_epi32(acc, w, vb_four(a));
}
static inline vi vi_dot4_value(vi acc, vb w, const int8_t *a)
{
    return vi_dot4_code(acc, _mm512_xor_si512(w, _mm512_set1_epi8((char)0x80)), a);
}
#else
enum { VI_VALUE_BIAS = 0 };
/* Two products fit an int16: codes are below 64, magnitudes at most 128, activations never -128. */
static inline vi vi_dot4_small(vi acc, vb w, vb a)
{
    __m512i pairs = _mm512_maddubs_epi16(w, a);
    return _mm512_add_epi32(acc, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}
static inline vi vi_dot4_code(vi acc, vb w, const int8_t *a)
{
    return vi_dot4_small(acc, w, vb_four(a));
}
/* The value's sign goes to the activation. */
static inline vi vi_dot4_value(vi acc, vb w, const int8_t *a)
{
    vb x = vb_four(a);
    x = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(w), _mm512_setzero_si512(), x);
    return vi_dot4_small(acc, _mm512_abs_epi8(w), x);
}
#endif

enum { PRODUCT_ROWS = 8 }; /* rows whose sums stay in registers */
#define PRODUCT_STEPS(STEP) STEP(PRODUCT_ROWS) STEP(4) STEP(PRODUCT_TAIL)

/* How far ahead of a product the packed codes are asked for. */
enum { PREFETCH_BYTES = 8192 };

#endif
