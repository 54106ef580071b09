/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions between F32 and the 16-bit floats. Integer operations, selects and float additions
 * that round as wanted by themselves: the same bits on every CPU, and a loop over any of them
 * vectorises. Narrowing rounds to nearest, half to even. A NaN stays a NaN (quiet, upper payload
 * bits kept), except in the _sat forms, which are for stores that must be finite: a value out of
 * range or infinite becomes the largest finite value of its sign, a NaN becomes 0.
 * Threads: stateless. */
#ifndef WHIM_TENSOR_HALF_H
#define WHIM_TENSOR_HALF_H

#include "base/math/fmath.h"

#include <stdint.h>
#include <string.h>

#ifdef __F16C__
#include <immintrin.h>
#endif

/* Lane select without a comparison: a where mag < limit, else b (both below 2^31). GCC would turn a
 * comparison around the float addition into a branch, and then not vectorise the loop. */
static inline uint32_t whim_select_below(uint32_t mag, uint32_t limit, uint32_t a, uint32_t b)
{
    uint32_t mask = 0u - ((mag - limit) >> 31);
    return b ^ ((a ^ b) & mask);
}

static inline float whim_bf16_to_f32(uint16_t h)
{
    return whim_f32_from_bits((uint32_t)h << 16);
}

static inline uint16_t whim_f32_to_bf16(float x)
{
    uint32_t u = whim_f32_bits(x);
    uint32_t rounded = u + 0x7fffu + ((u >> 16) & 1u);
    uint32_t quiet = u | 0x400000u; /* a payload only in the lower half must not become inf */
    return (uint16_t)(((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded) >> 16);
}

/* Widening without the instruction; compiled everywhere so that it is tested everywhere. */
static inline float whim_f16_to_f32_soft(uint16_t h)
{
    uint32_t mag = h & 0x7fffu;
    uint32_t normal = (mag << 13) + (112u << 23); /* exponent bias 127 - 15 */
    /* Floats from 0.5 to 1 are spaced 2^-24, as subnormal halves are: put the bits there. */
    uint32_t subnormal = whim_f32_bits(whim_f32_from_bits(0x3f000000u + mag) - 0.5f);
    uint32_t special = 0x7f800000u | (mag << 13) | (mag > 0x7c00u ? 0x400000u : 0u);
    uint32_t out = whim_select_below(mag, 0x0400u, subnormal, normal);
    out = whim_select_below(mag, 0x7c00u, out, special);
    return whim_f32_from_bits(out | (uint32_t)(h & 0x8000u) << 16);
}

/* Widening is exact, so the instruction, where there is one, gives the same bits. */
static inline float whim_f16_to_f32(uint16_t h)
{
#if defined(__aarch64__)
    __fp16 half;
    memcpy(&half, &h, sizeof half);
    return (float)half;
#elif defined(__F16C__)
    return _cvtsh_ss(h);
#else
    return whim_f16_to_f32_soft(h);
#endif
}

static inline uint16_t whim_f32_to_f16(float x)
{
    uint32_t u = whim_f32_bits(x);
    uint32_t mag = u & 0x7fffffffu;
    uint32_t normal = (mag + 0xfffu + ((mag >> 13) & 1u) - (112u << 23)) >> 13;
    /* The addition rounds to a multiple of 2^-24, the spacing of subnormal halves. */
    uint32_t subnormal = whim_f32_bits(whim_f32_from_bits(mag) + 0.5f) - 0x3f000000u;
    uint32_t special = mag > 0x7f800000u ? 0x7e00u | ((mag >> 13) & 0x3ffu) : 0x7c00u;
    uint32_t out = whim_select_below(mag, 0x38800000u, subnormal, normal); /* 2^-14 */
    out = whim_select_below(mag, 0x47800000u, out, special);               /* 2^16 */
    return (uint16_t)(out | (u >> 16 & 0x8000u));
}

/* x with its magnitude limited to the float whose bits are max_bits; NaN becomes 0. */
static inline float whim_f32_limit(float x, uint32_t max_bits)
{
    uint32_t u = whim_f32_bits(x);
    uint32_t mag = u & 0x7fffffffu;
    uint32_t limited = whim_select_below(mag, max_bits, mag, max_bits);
    uint32_t out = limited | (u & 0x80000000u);
    return whim_f32_from_bits(whim_select_below(mag, 0x7f800001u, out, 0u));
}

static inline float whim_f32_sat(float x)
{
    return whim_f32_limit(x, 0x7f7fffffu);
}

static inline uint16_t whim_f32_to_f16_sat(float x)
{
    return whim_f32_to_f16(whim_f32_limit(x, 0x477fe000u)); /* 65504 */
}

static inline uint16_t whim_f32_to_bf16_sat(float x)
{
    return whim_f32_to_bf16(whim_f32_limit(x, 0x7f7f0000u));
}

#endif
