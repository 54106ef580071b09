/* SPDX-License-Identifier: Apache-2.0 */
/* The fastest multiply-adds of the instructions that a level is compiled for, for peak_tmpl.h:
 *   PEAK_SUMS                              sums in flight: enough to hide the latency, few enough
 *   for registers PEAK_OPAQUE(x)                         x may have any value from here on, for the
 *   compiler; makes no code pi_acc, pi_op, pi_mac, PI_MACS         int8: one step and its
 *   multiply-adds ph_acc, ph_op, ph_mac, PH_MACS         BF16, only with PEAK_BF16 defined */
#include <stdint.h>

#if defined(__aarch64__)

#include <arm_neon.h>

enum { PEAK_SUMS = 24 };
#define PEAK_OPAQUE(x) __asm__ volatile("" : "+w"(x))
typedef int32x4_t pi_acc;
typedef int8x16_t pi_op;
#if defined(__ARM_FEATURE_MATMUL_INT8)
enum { PI_MACS = 32 };
static inline pi_acc pi_mac(pi_acc acc, pi_op a, pi_op b)
{
    return vmmlaq_s32(acc, a, b);
}
#elif defined(__ARM_FEATURE_DOTPROD)
enum { PI_MACS = 16 };
static inline pi_acc pi_mac(pi_acc acc, pi_op a, pi_op b)
{
    return vdotq_s32(acc, a, b);
}
#else
enum { PI_MACS = 16 };
static inline pi_acc pi_mac(pi_acc acc, pi_op a, pi_op b)
{
    acc = vpadalq_s16(acc, vmull_s8(vget_low_s8(a), vget_low_s8(b)));
    return vpadalq_s16(acc, vmull_high_s8(a, b));
}
#endif
#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#define PEAK_BF16
typedef float32x4_t ph_acc;
typedef bfloat16x8_t ph_op;
enum { PH_MACS = 16 };
static inline ph_acc ph_mac(ph_acc acc, ph_op a, ph_op b)
{
    return vbfmmlaq_f32(acc, a, b);
}
#endif

#else

#include <immintrin.h>

#define PEAK_OPAQUE(x) __asm__ volatile("" : "+v"(x))
#if defined(__AVX512BW__)
enum { PEAK_SUMS = 24, PI_MACS = 64 };
typedef __m512i pi_acc, pi_op;
static inline pi_acc pi_mac(pi_acc acc, pi_op a, pi_op b)
{
#if defined(__AVX512VNNI__)
    return _mm512_dpbusd_epi32(acc, a, b);
#else
    __m512i pairs = _mm512_maddubs_epi16(a, b);
    return _mm512_add_epi32(acc, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
#endif
}
#if defined(__AVX512BF16__)
#define PEAK_BF16
typedef __m512 ph_acc;
typedef __m512bh ph_op;
enum { PH_MACS = 32 };
static inline ph_acc ph_mac(ph_acc acc, ph_op a, ph_op b)
{
    return _mm512_dpbf16_ps(acc, a, b);
}
#endif
#elif defined(__AVX2__)
enum { PEAK_SUMS = 12, PI_MACS = 32 };
typedef __m256i pi_acc, pi_op;
static inline pi_acc pi_mac(pi_acc acc, pi_op a, pi_op b)
{
    __m256i pairs = _mm256_maddubs_epi16(a, b);
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
#else
enum { PEAK_SUMS = 12, PI_MACS = 8 };
typedef __m128i pi_acc, pi_op;
static inline pi_acc pi_mac(pi_acc acc, pi_op a, pi_op b)
{
    return _mm_add_epi32(acc, _mm_madd_epi16(a, b));
}
#endif

#endif
