/* SPDX-License-Identifier: Apache-2.0 */
/* A counter-based random generator: the value is a pure function of (key, counter), so that any
 * element of a stream can be computed by any thread in any order, and a sampled token depends only
 * on its seed and place. Two rounds of a 64-bit mixer with the mixed key entering before each; the
 * constants are the fraction bits of the roots of 7, 11 and 13, made odd. Not for secrets.
 * Threads: stateless. */
#ifndef WHIM_BASE_MATH_RNG_H
#define WHIM_BASE_MATH_RNG_H

#include <stdint.h>

/* A bijection of 64-bit words in which every input bit reaches every output bit. */
static inline uint64_t whim_rng_mix(uint64_t x)
{
    x ^= x >> 32;
    x *= UINT64_C(0xa54ff53a5f1d36f1);
    x ^= x >> 29;
    x *= UINT64_C(0x510e527fade682d1);
    x ^= x >> 32;
    return x;
}

/* A key made of another one and a number, e.g. (seed, choice index). */
static inline uint64_t whim_rng_key(uint64_t key, uint64_t part)
{
    return whim_rng_mix(whim_rng_mix(key + UINT64_C(0x9b05688c2b3e6c1f)) ^ part);
}

/* 64 random bits. For one key all counters give different values. */
static inline uint64_t whim_rng_at(uint64_t key, uint64_t counter)
{
    uint64_t k = whim_rng_mix(key + UINT64_C(0x9b05688c2b3e6c1f));
    return whim_rng_mix(whim_rng_mix(counter ^ k) + k);
}

/* Uniform in [0, 1) with 53 bits, for picking from a distribution over a large vocabulary. */
static inline double whim_rng_uniform53_at(uint64_t key, uint64_t counter)
{
    return (double)(int64_t)(whim_rng_at(key, counter) >> 11) * 0x1p-53;
}

/* Mean 0, variance 1, roughly normal: the centred sum of the four 16-bit parts of one word, hence
 * within +-3.47. Good for dummy weights and test data, not for statistics of tails. */
static inline float whim_rng_normal_at(uint64_t key, uint64_t counter)
{
    uint64_t u = whim_rng_at(key, counter);
    int32_t sum = (int32_t)(u & 0xffff) + (int32_t)(u >> 16 & 0xffff) +
                  (int32_t)(u >> 32 & 0xffff) + (int32_t)(u >> 48);
    return ((float)sum - 131070.0f) * 0x1.bb67aep-16f; /* sqrt(3) / 65536: variance of 4 uniforms */
}

#endif
