/* SPDX-License-Identifier: Apache-2.0 */
/* Floating-point functions that give the same bits on every CPU, whatever the C library and the
 * instruction set. Invariants:
 *  1. Everything is built from IEEE + - * / sqrt, exact fused multiply-add, integer operations and
 *     selects, in one written order; the build sets -ffp-contract=off so that nothing else fuses.
 *  2. The inline float functions are straight-line, so that a loop over them vectorises, and a
 *     vectorised loop gives the bits of the scalar one.
 *  3. Subnormals are kept: no code runs with flush-to-zero.
 * The one freedom left is the sign and payload of a NaN, which differ between CPU families.
 * Threads: stateless. */
#ifndef WHIM_BASE_MATH_FMATH_H
#define WHIM_BASE_MATH_FMATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t whim_f32_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof(u));
    return u;
}

static inline float whim_f32_from_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof(x));
    return x;
}

static inline uint64_t whim_f64_bits(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof(u));
    return u;
}

static inline double whim_f64_from_bits(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof(x));
    return x;
}

/* Exact fmaf without fused hardware. The product of two floats is exact in double; the sum with c
 * is rounded to odd (an inexact sum gets an odd last bit), after which rounding 53 bits to 24 gives
 * what one single rounding would have given. Compiled everywhere so that it is tested everywhere;
 * without comparisons, because GCC will not vectorise comparisons that could trap. */
static inline float whim_fmaf_soft(float a, float b, float c)
{
    double p = (double)a * (double)b;
    double z = (double)c;
    double s = p + z;
    double t = s - p;
    double err = (p - (s - t)) + (z - t); /* s + err = p + z exactly; NaN when s is not finite */
    uint64_t u = whim_f64_bits(s);
    uint64_t mag = whim_f64_bits(err) & INT64_MAX;
    uint64_t inward = (whim_f64_bits(err) ^ u) >> 63; /* 1: the exact sum is nearer to 0 than s */
    uint64_t inexact = (0 - mag) >> 63 & (mag - UINT64_C(0x7ff0000000000000)) >> 63;
    uint64_t step = inexact & ~u;
    u += step - ((inward & step) << 1);
    return (float)whim_f64_from_bits(u);
}

/* a * b + c with one rounding. */
static inline float whim_fmaf(float a, float b, float c)
{
#if defined(__aarch64__) || defined(__FMA__)
    return __builtin_fmaf(a, b, c);
#else
    return whim_fmaf_soft(a, b, c);
#endif
}

/* The same in double; the library's fma is exact where the instruction is missing. */
static inline double whim_fma(double a, double b, double c)
{
    return __builtin_fma(a, b, c);
}

/* x rounded to the nearest integer, half to even, for |x| < 2^22. */
static inline float whim_rintf_small(float x)
{
    const float magic = 0x1.8p23f; /* above 2^23 the spacing of floats is 1 */
    return (x + magic) - magic;
}

/* e^x, error below 0.8 ulp (also of subnormal results); 0 and inf beyond the range, NaN stays NaN.
 * x = n ln2 + r with |r| <= ln2/2; e^r by a polynomial of least error (relative 2^-28.2); then half
 * of n is added to the exponent and the other half multiplied in: only the last step rounds. */
static inline float whim_expf(float x)
{
    const float magic = 0x1.8p23f;
    /* Limit x to [-104, 89] as integers: one minimum each, where float ones would cost four. */
    uint32_t u = whim_f32_bits(x);
    uint32_t low = u < 0xc2d00000u ? u : 0xc2d00000u;
    int32_t both = (int32_t)low < 0x42b20000 ? (int32_t)low : 0x42b20000;
    float t = whim_f32_from_bits((uint32_t)both);
    float shifted = whim_fmaf(t, 0x1.715476p+0f, magic); /* n in the low bits */
    float n = shifted - magic;
    float r = whim_fmaf(n, -0x1.62e43p-1f, t);
    r = whim_fmaf(n, 0x1.05c61p-29f, r);
    float q = 0x1.6a4002p-10f;
    q = whim_fmaf(q, r, 0x1.1239ecp-7f);
    q = whim_fmaf(q, r, 0x1.5558bep-5f);
    q = whim_fmaf(q, r, 0x1.555492p-3f);
    q = whim_fmaf(q, r, 0x1.fffffcp-2f);
    float head = 1.0f + r;
    float head_lo = (1.0f - head) + r; /* exact; without it the error would be 1.003 ulp */
    float y = head + whim_fmaf(q, r * r, head_lo);
    uint32_t k = whim_f32_bits(shifted); /* n plus a multiple of 2^22, which the shifts drop */
    uint32_t k1 = k >> 1;
    float y1 = whim_f32_from_bits(whim_f32_bits(y) + (k1 << 23));
    y = y1 * whim_f32_from_bits((k - k1 + 127u) << 23);
    uint32_t nan = 0u - ((0x7f800000u - (u & 0x7fffffffu)) >> 31);
    return whim_f32_from_bits(whim_f32_bits(y) | nan);
}

/* The house's order of a reduction over floats: lane j of 16 takes elements j, j + 16, ... in
 * order, then lane i takes lane i + half for half = 8, 4, 2, 1. */
#define WHIM_LANES 16

static inline float whim_fold16_add(float *lane)
{
    for (int half = WHIM_LANES / 2; half > 0; half /= 2) {
        for (int j = 0; j < half; j++) {
            lane[j] += lane[j + half];
        }
    }
    return lane[0];
}

/* Sum of x[0..n). */
static inline float whim_sum16(const float *x, int64_t n)
{
    float lane[WHIM_LANES] = {0};
    int64_t whole = n - n % WHIM_LANES;
    for (int64_t i = 0; i < whole; i += WHIM_LANES) {
        for (int j = 0; j < WHIM_LANES; j++) {
            lane[j] += x[i + j];
        }
    }
    for (int64_t i = whole; i < n; i++) {
        lane[i - whole] += x[i];
    }
    return whim_fold16_add(lane);
}

/* Sum of the squares of x[0..n), each added by fma. */
static inline float whim_sumsq16(const float *x, int64_t n)
{
    float lane[WHIM_LANES] = {0};
    int64_t whole = n - n % WHIM_LANES;
    for (int64_t i = 0; i < whole; i += WHIM_LANES) {
        for (int j = 0; j < WHIM_LANES; j++) {
            lane[j] = whim_fmaf(x[i + j], x[i + j], lane[j]);
        }
    }
    for (int64_t i = whole; i < n; i++) {
        lane[i - whole] = whim_fmaf(x[i], x[i], lane[i - whole]);
    }
    return whim_fold16_add(lane);
}

/* Sum of a[i] * b[i], or (a[i] * gate[i]) * b[i] unless gate is NULL, each added by fma. */
static inline float whim_dot16(const float *a, const float *gate, const float *b, int64_t n)
{
    float lane[WHIM_LANES] = {0};
    for (int64_t at = 0; at < n; at += WHIM_LANES) {
        int64_t here = n - at < WHIM_LANES ? n - at : WHIM_LANES;
        for (int64_t j = 0; j < here; j++) {
            float x = gate != NULL ? a[at + j] * gate[at + j] : a[at + j];
            lane[j] = whim_fmaf(x, b[at + j], lane[j]);
        }
    }
    return whim_fold16_add(lane);
}

/* cap * tanh(x / cap): x, but never beyond cap. A cap of 0: x itself. */
static inline float whim_softcap(float x, float cap)
{
    if (cap == 0.0f) {
        return x;
    }
    float size = whim_f32_from_bits(whim_f32_bits(x / cap) & 0x7fffffffu);
    float e = whim_expf(-2.0f * size);
    float y = cap * ((1.0f - e) / (1.0f + e));
    return x < 0.0f ? -y : y;
}

/* Double functions for cold paths (rotary tables, log-sum-exp, log-probabilities), not inline.
 * Each is within 1 ulp; results at the edges of the domain are those of C (log(0) = -inf, ...). */
double whim_exp(double x);
double whim_ln(double x);
double whim_log1p(double x);

/* x^y for x >= 0. */
double whim_pow(double x, double y);

/* sin and cos together for |x| <= 2^31; NaN for both beyond: no inaccurate angle is ever used. */
void whim_sincos(double x, double *sin_out, double *cos_out);

#endif
