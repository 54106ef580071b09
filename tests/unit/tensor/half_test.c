/* SPDX-License-Identifier: Apache-2.0 */
/* tensor/half.h: all 65,536 halves, and rounding against independent arithmetic in double. */
#include <stdint.h>

#include "base/math/rng.h"
#include "support/cmocka.h"
#include "tensor/half.h"

/* The value of a finite 16-bit float with the given split of bits. */
static double slow_value(uint32_t h, int frac_bits, int bias)
{
    int exp_bits = 15 - frac_bits;
    uint32_t frac = h & ((1u << frac_bits) - 1);
    int e = (int)(h >> frac_bits & ((1u << exp_bits) - 1));
    double v = e == 0 ? ldexp(frac, 1 - bias - frac_bits)
                      : ldexp(frac + (double)(1u << frac_bits), e - bias - frac_bits);
    return h & 0x8000u ? -v : v;
}

static void f16_exhaustive(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float x = whim_f16_to_f32((uint16_t)h);
        if ((h & 0x7fffu) > 0x7c00u) {
            assert_true(isnan(x));
            assert_int_equal(whim_f32_to_f16(x), h | 0x200u);
            continue;
        }
        if ((h & 0x7fffu) == 0x7c00u) {
            assert_true(isinf(x) && !signbit(x) == !(h & 0x8000u));
        } else {
            assert_true((double)x == slow_value(h, 10, 15) && !signbit(x) == !(h & 0x8000u));
        }
        assert_int_equal(whim_f32_to_f16(x), h);
    }
}

static void bf16_exhaustive(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float x = whim_bf16_to_f32((uint16_t)h);
        if ((h & 0x7fffu) > 0x7f80u) {
            assert_true(isnan(x));
            assert_int_equal(whim_f32_to_bf16(x), h | 0x40u);
            continue;
        }
        if ((h & 0x7fffu) != 0x7f80u) {
            assert_true((double)x == slow_value(h, 7, 127));
        }
        assert_int_equal(whim_f32_to_bf16(x), h);
    }
    assert_true(isnan(whim_bf16_to_f32(whim_f32_to_bf16(whim_f32_from_bits(0x7f800001u)))));
}

/* Between neighbours lo < hi of one sign: the middle goes to the even one, the floats beside the
 * middle to their side. The widest pair ends in inf. */
static void check_midpoint(uint32_t lo, double lo_value, double hi_value, uint16_t (*narrow)(float))
{
    float mid = (float)((lo_value + hi_value) / 2);
    uint16_t even = (uint16_t)(lo + (lo & 1));
    uint32_t u = whim_f32_bits(mid);
    assert_int_equal(narrow(mid), even);
    assert_int_equal(narrow(whim_f32_from_bits(u - 1)), lo);
    assert_int_equal(narrow(whim_f32_from_bits(u + 1)), lo + 1);
    assert_int_equal(narrow(-mid), even | 0x8000u);
}

static void rounding_at_midpoints(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7c00u; h++) {
        check_midpoint(h, slow_value(h, 10, 15), slow_value(h + 1, 10, 15), whim_f32_to_f16);
    }
    for (uint32_t h = 0; h < 0x7f80u; h++) {
        check_midpoint(h, slow_value(h, 7, 127), slow_value(h + 1, 7, 127), whim_f32_to_bf16);
    }
}

static void f16_against_hardware(void **state)
{
    (void)state;
#ifdef __aarch64__
    for (uint64_t i = 0; i < 10000000; i++) {
        uint64_t r = whim_rng_at(3, i);
        float x = whim_f32_from_bits((uint32_t)r);
        x = i % 2 ? x : ldexpf((float)(int32_t)r, -(int)(r >> 32 & 63));
        __fp16 want = (__fp16)x;
        uint16_t bits;
        memcpy(&bits, &want, 2);
        assert_int_equal(whim_f32_to_f16(x), bits);
    }
#else
    skip();
#endif
}

static void saturating_forms(void **state)
{
    (void)state;
    static const float big[] = {INFINITY, 0x1.fffffep127f, 0x1.ffp127f};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(whim_f32_to_f16_sat(big[i]), 0x7bff);
        assert_int_equal(whim_f32_to_f16_sat(-big[i]), 0xfbff);
        assert_int_equal(whim_f32_to_bf16_sat(big[i]), 0x7f7f);
        assert_int_equal(whim_f32_to_bf16_sat(-big[i]), 0xff7f);
    }
    assert_int_equal(whim_f32_to_f16_sat(65520.0f), 0x7bff);
    assert_int_equal(whim_f32_to_f16_sat(65519.0f), 0x7bff);
    assert_int_equal(whim_f32_to_f16_sat(65472.0f), 0x7bfe);
    assert_true(whim_f32_sat(INFINITY) == 0x1.fffffep127f);
    assert_true(whim_f32_sat(-INFINITY) == -0x1.fffffep127f);
    assert_int_equal(whim_f32_to_f16_sat(NAN), 0);
    assert_int_equal(whim_f32_to_bf16_sat(-NAN), 0);
    assert_int_equal(whim_f32_bits(whim_f32_sat(-NAN)), 0);
    for (uint64_t i = 0; i < 1000000; i++) {
        float x = whim_f32_from_bits((uint32_t)whim_rng_at(4, i));
        if (fabsf(x) < 65520.0f) {
            assert_int_equal(whim_f32_to_f16_sat(x), whim_f32_to_f16(x));
        }
        if (fabsf(x) <= 0x1.fep127f) {
            assert_int_equal(whim_f32_to_bf16_sat(x), whim_f32_to_bf16(x));
            assert_int_equal(whim_f32_bits(whim_f32_sat(x)), whim_f32_bits(x));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_exhaustive),        cmocka_unit_test(bf16_exhaustive),
        cmocka_unit_test(rounding_at_midpoints), cmocka_unit_test(f16_against_hardware),
        cmocka_unit_test(saturating_forms),
    };
    return cmocka_run_group_tests_name("half", tests, NULL, NULL);
}
