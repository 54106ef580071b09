/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of AVX-512 (F, BW, VL, DQ) for the shared kernels (tmpl/). */
#ifndef WHIM_BACKENDS_CPU_AVX512_VEC_AVX512_H
#define WHIM_BACKENDS_CPU_AVX512_VEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

typedef __m512 vf;
enum { VF = 16 };
/* int32 lanes, and the bytes of four k for each of them. */
typedef __m512i vi;
typedef __m512i vb;
#define VX(name) _mm512_##name
#define VXI(name) _mm512_##name##_si512
#define VX_SHIFT unsigned
#define VX_WIDTH 512
#include "backends/cpu/tmpl/vec_x86.h"

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
static inline vf vf_load_i8(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

/* The largest lane; none is a NaN. */
static inline float vf_max_lanes(vf x)
{
    return _mm512_reduce_max_ps(x);
}

/* Attention keeps ATTN_PAIRS x ATTN_VECS sums in registers, of 32. */
#define ATTN_PAIRS 6
#define ATTN_VECS 2

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

static inline vb vb_lookup(const int8_t *table, vb index)
{
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)table)),
                               index);
}

/* Dots of 4: acc[lane] += w[4 lane ..] * a[0 .. 3], exact. Codes are 0 .. 63, values are int8; the
 * result of a value is too large by VI_VALUE_BIAS * sum(a). */
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
