/* SPDX-License-Identifier: Apache-2.0 */
/* FP8 codes as BF16, for the levels of AVX-512 with a BF16 unit (tmpl/fp8_tmpl.h). */
#ifndef WHIM_BACKENDS_CPU_AVX512_FP8_AVX512_H
#define WHIM_BACKENDS_CPU_AVX512_FP8_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#define FP8_OPEN bf16_of_e4m3
#define FP8_OPEN_CODES 32

/* Exponent and mantissa move to their places; the codes below 8, which are subnormal, come from a
 * table. */
static inline void bf16_of_e4m3(const uint8_t *codes, uint16_t *out)
{
    static const uint16_t below[32] = {0,      0x3b00, 0x3b80, 0x3bc0,
                                       0x3c00, 0x3c20, 0x3c40, 0x3c60}; /* times 2^-9 */
    __m512i code = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)codes));
    __m512i mag = _mm512_and_si512(code, _mm512_set1_epi16(0x7f));
    __m512i bits = _mm512_add_epi16(_mm512_slli_epi16(mag, 4), _mm512_set1_epi16(0x3c00));
    __mmask32 small = _mm512_cmplt_epu16_mask(mag, _mm512_set1_epi16(8));
    bits = _mm512_mask_permutexvar_epi16(bits, small, mag, _mm512_loadu_si512(below));
    __mmask32 nan = _mm512_cmpeq_epi16_mask(mag, _mm512_set1_epi16(0x7f));
    bits = _mm512_mask_mov_epi16(bits, nan, _mm512_set1_epi16(0x7fc0));
    __m512i sign = _mm512_slli_epi16(_mm512_xor_si512(code, mag), 8);
    _mm512_storeu_si512(out, _mm512_or_si512(bits, sign));
}

#endif
