/* SPDX-License-Identifier: Apache-2.0 */
/* base/math/rng.h: moments, independence of neighbouring keys and counters, avalanche, and a few
 * pinned values, because seeds in requests must keep their meaning between versions. */
#include <math.h>
#include <stdint.h>

#include "base/math/rng.h"
#include "support/cmocka.h"

enum { N = 1 << 20 };

/* Uniform in [0, 1) from the upper bits. */
static float uniform_at(uint64_t key, uint64_t counter)
{
    return (float)(int32_t)(whim_rng_at(key, counter) >> 40) * 0x1p-24f;
}

static void uniform_moments(void **state)
{
    (void)state;
    double sum = 0, sq = 0;
    int64_t bucket[16] = {0};
    for (int i = 0; i < N; i++) {
        float x = uniform_at(42, (uint64_t)i);
        assert_true(x >= 0.0f && x < 1.0f);
        sum += x;
        sq += (double)x * x;
        bucket[(int)(x * 16)]++;
    }
    double mean = sum / N;
    assert_true(fabs(mean - 0.5) < 5 * 0.2887 / sqrt(N));
    assert_true(fabs(sq / N - mean * mean - 1.0 / 12) < 5e-4);
    double chi2 = 0;
    for (int i = 0; i < 16; i++) {
        double d = (double)bucket[i] - N / 16.0;
        chi2 += d * d / (N / 16.0);
    }
    assert_true(chi2 > 2 && chi2 < 45); /* 15 degrees of freedom */
}

static void uniform53_has_low_bits(void **state)
{
    (void)state;
    int fine = 0;
    for (uint64_t i = 0; i < 64; i++) {
        double x = whim_rng_uniform53_at(1, i);
        assert_true(x >= 0.0 && x < 1.0);
        fine += x * 0x1p30 != floor(x * 0x1p30);
    }
    assert_true(fine > 60);
}

static void normal_moments(void **state)
{
    (void)state;
    double m1 = 0, m2 = 0, m4 = 0;
    for (int i = 0; i < N; i++) {
        double x = whim_rng_normal_at(7, (uint64_t)i);
        m1 += x;
        m2 += x * x;
        m4 += x * x * x * x;
        assert_true(fabs(x) < 3.4642);
    }
    assert_true(fabs(m1 / N) < 5e-3);
    assert_true(fabs(m2 / N - 1) < 1e-2);
    assert_true(fabs(m4 / N - 2.7) < 0.05); /* four uniforms: 3 - 6/5/4 */
}

/* Correlation of two streams of N uniforms stays below 5 sigma. */
static double correlation(uint64_t key_a, uint64_t step_a, uint64_t key_b, uint64_t off_b)
{
    double dot = 0;
    for (uint64_t i = 0; i < N; i++) {
        double a = (double)uniform_at(key_a, i * step_a) - 0.5;
        double b = (double)uniform_at(key_b, i + off_b) - 0.5;
        dot += a * b;
    }
    return fabs(dot * 12 / N) * sqrt(N);
}

static void neighbours_are_independent(void **state)
{
    (void)state;
    for (uint64_t key = 0; key < 4; key++) {
        assert_true(correlation(key, 1, key + 1, 0) < 5);
        assert_true(correlation(key, 1, key, 1) < 5);
        assert_true(correlation(key, 1, key + 1, 1) < 5);
        assert_true(correlation(key, 2, key, 0) < 5);
        assert_true(correlation(key, 1, key | UINT64_C(1) << 63, 0) < 5);
    }
}

static void every_bit_avalanches(void **state)
{
    (void)state;
    for (int bit = 0; bit < 128; bit++) {
        int64_t flips = 0;
        for (uint64_t i = 0; i < 1024; i++) {
            uint64_t dk = bit < 64 ? UINT64_C(1) << bit : 0;
            uint64_t dc = bit < 64 ? 0 : UINT64_C(1) << (bit - 64);
            uint64_t diff = whim_rng_at(i, 3 * i) ^ whim_rng_at(i ^ dk, (3 * i) ^ dc);
            flips += __builtin_popcountll(diff);
        }
        double mean = (double)flips / 1024;
        assert_true(fabs(mean - 32) < 6 * 4 / sqrt(1024.0));
    }
}

static void values_are_pinned(void **state)
{
    (void)state;
    assert_int_equal(whim_rng_at(0, 0), UINT64_C(0x3330d0b45ee94b9d));
    assert_int_equal(whim_rng_at(1, 2), UINT64_C(0xb77d03c6d4700ddb));
    assert_int_equal(whim_rng_key(1, 2), UINT64_C(0x34ccc24865f1be38));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uniform_moments),      cmocka_unit_test(uniform53_has_low_bits),
        cmocka_unit_test(normal_moments),       cmocka_unit_test(neighbours_are_independent),
        cmocka_unit_test(every_bit_avalanches), cmocka_unit_test(values_are_pinned),
    };
    return cmocka_run_group_tests_name("rng", tests, NULL, NULL);
}
