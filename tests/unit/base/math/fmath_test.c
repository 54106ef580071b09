/* SPDX-License-Identifier: Apache-2.0 */
/* base/math/fmath.h and fmath.c: accuracy against the C library in a wider type, special values,
 * the software fma against the real one bit for bit, and the written order of the lane
 * reductions. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/math/fmath.h"
#include "base/math/max16.h"
#include "base/math/rng.h"
#include "support/cmocka.h"

static int same_f32(float a, float b)
{
    return (a != a && b != b) || whim_f32_bits(a) == whim_f32_bits(b);
}

/* |got - want| in units of the last place of a double near want. */
static double ulps64(double got, long double want)
{
    if (isinf((double)want) || isinf(got)) {
        return got == (double)want ? 0 : INFINITY;
    }
    int e;
    frexpl(want, &e);
    int ulp_exp = e - 53 < -1074 ? -1074 : e - 53;
    return (double)fabsl(ldexpl((long double)got - want, -ulp_exp));
}

static void expf_every_997th_float(void **state)
{
    (void)state;
    double worst = 0;
    for (uint64_t u = 0; u < UINT64_C(1) << 32; u += 997) {
        float x = whim_f32_from_bits((uint32_t)u);
        float y = whim_expf(x);
        double want = exp((double)x); /* exact enough: its error is 2^-29 of a float's ulp */
        if (x != x) {
            assert_true(y != y);
        } else if (want >= 0x1.ffffffp127) {
            assert_true(y == INFINITY);
        } else {
            int e;
            frexp(want, &e);
            double d = fabs(ldexp((double)y - want, e - 24 < -149 ? 149 : 24 - e));
            worst = d > worst ? d : worst;
        }
    }
    printf("expf: worst error %.4f ulp\n", worst);
    assert_true(worst < 0.8);
}

static void expf_special_values(void **state)
{
    (void)state;
    assert_true(whim_expf(0.0f) == 1.0f && whim_expf(-0.0f) == 1.0f);
    assert_true(whim_expf(INFINITY) == INFINITY);
    assert_true(whim_f32_bits(whim_expf(-INFINITY)) == 0);
    assert_true(isnan(whim_expf(NAN)) && isnan(whim_expf(-NAN)));
    assert_true(whim_expf(0x1.62e42ep+6f) < INFINITY && whim_expf(0x1.62e43p+6f) == INFINITY);
    assert_true(whim_expf(-103.9f) == 0x1p-149f && whim_expf(-104.0f) == 0.0f);
    assert_true(whim_expf(3e38f) == INFINITY && whim_expf(-3e38f) == 0.0f);
}

/* A loop that the compiler may vectorise gives the bits of the single call. */
static void expf_loop_equals_single(void **state)
{
    (void)state;
    enum { N = 4099 };
    static float x[N], y[N];
    for (int i = 0; i < N; i++) {
        x[i] = whim_f32_from_bits((uint32_t)whim_rng_at(5, (uint64_t)i));
        x[i] = i % 2 ? x[i] : whim_rng_normal_at(6, (uint64_t)i) * 40.0f;
    }
    for (int i = 0; i < N; i++) {
        y[i] = whim_expf(x[i]);
    }
    for (int i = 0; i < N; i++) {
        volatile float one = x[i];
        assert_true(same_f32(whim_expf(one), y[i]));
    }
}

static void check_fma(float a, float b, float c)
{
    float want = __builtin_fmaf(a, b, c);
    float got = whim_fmaf_soft(a, b, c);
    if (!same_f32(got, want) || !same_f32(whim_fmaf(a, b, c), want)) {
        fail_msg("fma(%a, %a, %a) = %a, expected %a", (double)a, (double)b, (double)c, (double)got,
                 (double)want);
    }
}

static void soft_fma_random(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 20000000; i++) {
        uint64_t r = whim_rng_at(11, i);
        uint64_t s = whim_rng_at(12, i);
        float a = whim_f32_from_bits((uint32_t)r);
        float b = whim_f32_from_bits((uint32_t)(r >> 32));
        float c = whim_f32_from_bits((uint32_t)s);
        check_fma(a, b, c);
        /* c close to -a b, so that the sum cancels, is halfway, or just off halfway. */
        uint32_t near = whim_f32_bits(-(a * b)) + (uint32_t)(s >> 32 & 3) - 1;
        near -= s >> 36 & 1 ? (uint32_t)(s >> 40 & 63) << 23 : 0;
        check_fma(a, b, whim_f32_from_bits(near));
    }
}

/* Few mantissa bits and exponents that line up: exact halves, subnormal results, signed zeros. */
static void soft_fma_hostile(void **state)
{
    (void)state;
    static const float list[] = {
        0.0f,
        1.0f,
        0x1.000002p0f,
        0x1.fffffep0f,
        0x1.8p0f,
        0x1p-24f,
        0x1p-25f,
        0x1.000002p-24f,
        0x1.fffffep-25f,
        0x1p-126f,
        0x1.fffffcp-127f,
        0x1p-149f,
        0x1.8p-148f,
        0x1p-75f,
        0x1.000002p-75f,
        0x1p-74f,
        0x1p127f,
        0x1.fffffep127f,
        0x1p64f,
        0x1.fffffep63f,
        0x1p103f,
        0x1p102f,
        INFINITY,
        NAN,
        0x1.555556p0f,
        0x1.aaaaaap-1f,
        0x1p24f,
        0x1.000002p24f,
        0x1p48f,
        0x1p-48f,
    };
    enum { N = sizeof(list) / sizeof(list[0]) };
    for (int i = 0; i < N * N * N; i++) {
        for (int sign = 0; sign < 8; sign++) {
            float a = sign & 1 ? -list[i % N] : list[i % N];
            float b = sign & 2 ? -list[i / N % N] : list[i / N % N];
            float c = sign & 4 ? -list[i / N / N] : list[i / N / N];
            check_fma(a, b, c);
        }
    }
    for (uint64_t i = 0; i < 20000000; i++) {
        uint64_t r = whim_rng_at(13, i);
        float a = (float)(r & 0xffffff) * 0x1p-75f;
        float b = (float)(r >> 24 & 0xfff) * 0x1p-75f;
        float c = (float)(int32_t)((int64_t)(r >> 36 & 0xffff) - 0x8000) * 0x1p-149f;
        check_fma(a, b, c);
        check_fma(a * 0x1p75f, b * 0x1p40f, ldexpf(c, (int)(149 + (r >> 52 & 63))));
    }
}

static double random_double(uint64_t i, double low, double high)
{
    return low + (high - low) * whim_rng_uniform53_at(21, i);
}

static void double_functions(void **state)
{
    (void)state;
    double worst[4] = {0};
    for (uint64_t i = 0; i < 20000; i++) {
        double x = random_double(4 * i, -746, 710);
        x = i % 3 ? x : x * 1e-3;
        double d = ulps64(whim_exp(x), expl((long double)x));
        worst[0] = d > worst[0] ? d : worst[0];
        double y = i % 2 ? whim_f64_from_bits(whim_rng_at(22, i) % UINT64_C(0x7ff0000000000000))
                         : random_double(4 * i + 1, 0.5, 2.0);
        d = ulps64(whim_ln(y), logl((long double)y));
        worst[1] = d > worst[1] ? d : worst[1];
        double z = i % 2 ? ldexp(random_double(4 * i + 2, -1, 1), -(int)(i % 60)) : y;
        d = ulps64(whim_log1p(z), log1pl((long double)z));
        worst[2] = d > worst[2] ? d : worst[2];
        double p = random_double(4 * i + 3, -4, 4);
        p = i % 3 ? p : p * 75; /* also results near the ends of the range */
        double base = i % 2 ? 1e4 : random_double(4 * i + 2, 1e-3, 1e7);
        d = ulps64(whim_pow(base, p), powl((long double)base, (long double)p));
        worst[3] = d > worst[3] ? d : worst[3];
    }
    printf("exp %.3f log %.3f log1p %.3f pow %.3f ulp\n", worst[0], worst[1], worst[2], worst[3]);
    for (int i = 0; i < 4; i++) {
        assert_true(worst[i] < 1.0);
    }
}

static double sine(double x)
{
    double s, c;
    whim_sincos(x, &s, &c);
    return s;
}

static double cosine(double x)
{
    double s, c;
    whim_sincos(x, &s, &c);
    return c;
}

static void double_special_values(void **state)
{
    (void)state;
    assert_true(whim_exp(0.0) == 1.0 && whim_exp(INFINITY) == INFINITY);
    assert_true(whim_exp(-INFINITY) == 0.0 && isnan(whim_exp(NAN)));
    assert_true(whim_ln(1.0) == 0.0 && whim_ln(0.0) == -INFINITY);
    assert_true(whim_ln(INFINITY) == INFINITY && isnan(whim_ln(-1.0)) && isnan(whim_ln(NAN)));
    assert_true(whim_log1p(0.0) == 0.0 && whim_log1p(-1.0) == -INFINITY);
    assert_true(whim_log1p(0x1p-1074) == 0x1p-1074 && whim_log1p(1e-300) == 1e-300);
    assert_true(whim_log1p(INFINITY) == INFINITY && isnan(whim_log1p(-2.0)));
    assert_true(whim_pow(2.0, 10.0) == 1024.0 && whim_pow(10.0, -0.0) == 1.0);
    assert_true(whim_pow(0.0, 2.0) == 0.0 && whim_pow(0.0, -2.0) == INFINITY);
    assert_true(whim_pow(2.0, 1e300) == INFINITY && whim_pow(0.5, 1e300) == 0.0);
    assert_true(whim_pow(2.0, -INFINITY) == 0.0 && whim_pow(INFINITY, 1.0) == INFINITY);
    assert_true(isnan(whim_pow(-2.0, 0.5)) && isnan(whim_pow(NAN, 1.0)));
    assert_true(isnan(sine(INFINITY)) && isnan(cosine(NAN)) && isnan(sine(0x1p32)));
    assert_true(sine(0.0) == 0.0 && cosine(0.0) == 1.0);
}

static void check_sincos(double x, double *worst)
{
    double s, c;
    whim_sincos(x, &s, &c);
    double d = fmax(ulps64(s, sinl((long double)x)), ulps64(c, cosl((long double)x)));
    *worst = d > *worst ? d : *worst;
}

static void sincos_accuracy(void **state)
{
    (void)state;
    double worst = 0;
    for (uint64_t i = 0; i < 10000; i++) {
        check_sincos(random_double(i, -10, 10), &worst);
        check_sincos(random_double(i, -0x1p31, 0x1p31), &worst);
        check_sincos((double)(whim_rng_at(23, i) >> 33), &worst);
        check_sincos(ldexp(random_double(i, 0.5, 1), -(int)(i % 40)), &worst);
        /* The doubles nearest to multiples of pi/2 cancel most. */
        check_sincos((double)(whim_rng_at(24, i) >> 34) * 0x1.921fb54442d18p+0, &worst);
    }
    check_sincos(0x1p31, &worst);
    check_sincos(-0x1p31, &worst);
    printf("sincos: worst error %.3f ulp\n", worst);
    assert_true(worst < 1.0);
}

/* The reductions against their definition, written out naively. */
static void lane_reductions(void **state)
{
    (void)state;
    static float x[200];
    for (int i = 0; i < 200; i++) {
        x[i] = whim_rng_normal_at(31, (uint64_t)i) * (i % 7 ? 1.0f : 1000.0f);
    }
    for (int n = 0; n <= 200; n++) {
        float sum[16] = {0}, sq[16] = {0};
        float top = -INFINITY;
        for (int i = 0; i < n; i++) {
            sum[i % 16] += x[i];
            sq[i % 16] = __builtin_fmaf(x[i], x[i], sq[i % 16]);
            top = x[i] > top ? x[i] : top;
        }
        for (int half = 8; half > 0; half /= 2) {
            for (int j = 0; j < half; j++) {
                sum[j] += sum[j + half];
                sq[j] += sq[j + half];
            }
        }
        assert_true(same_f32(whim_sum16(x, n), sum[0]));
        assert_true(same_f32(whim_sumsq16(x, n), sq[0]));
        assert_true(same_f32(whim_max16(x, n), top));
    }
    x[3] = NAN;
    x[40] = 5000.0f;
    assert_true(whim_max16(x, 50) == 5000.0f && isnan(whim_sum16(x, 50)));
}

static void rint_half_to_even(void **state)
{
    (void)state;
    assert_true(whim_rintf_small(0.5f) == 0.0f && whim_rintf_small(1.5f) == 2.0f);
    assert_true(whim_rintf_small(-2.5f) == -2.0f && whim_rintf_small(126.5f) == 126.0f);
    assert_true(whim_rintf_small(0x1.fffffep-2f) == 0.0f && whim_rintf_small(-0.75f) == -1.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expf_every_997th_float),  cmocka_unit_test(expf_special_values),
        cmocka_unit_test(expf_loop_equals_single), cmocka_unit_test(soft_fma_random),
        cmocka_unit_test(soft_fma_hostile),        cmocka_unit_test(double_functions),
        cmocka_unit_test(double_special_values),   cmocka_unit_test(sincos_accuracy),
        cmocka_unit_test(lane_reductions),         cmocka_unit_test(rint_half_to_even),
    };
    return cmocka_run_group_tests_name("fmath", tests, NULL, NULL);
}
