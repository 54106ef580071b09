/* SPDX-License-Identifier: Apache-2.0 */
/* tensor/fp8.h: every code against the format's definition in double, and the law of a block
 * against the C library's fma. */
#include <math.h>
#include <string.h>

#include "base/math/rng.h"
#include "support/cmocka.h"
#include "tensor/fp8.h"
#include "tensor/quant.h"

/* Sign, exponent and mantissa by division, as the format's text has it. */
static double code_value(int code)
{
    double sign = code >= 128 ? -1.0 : 1.0;
    int exponent = code % 128 / 8, mantissa = code % 8;
    if (exponent == 15 && mantissa == 7) {
        return NAN;
    }
    return sign * (exponent == 0 ? ldexp(mantissa, -3 - 6) : ldexp(8 + mantissa, exponent - 7 - 3));
}

static void all_codes(void **state)
{
    (void)state;
    for (int code = 0; code < 256; code++) {
        float got = whim_e4m3_to_f32((uint8_t)code);
        double want = code_value(code);
        if (isnan(want) ? !isnan(got) : (double)got != want || !signbit(got) != !signbit(want)) {
            fail_msg("code 0x%02x: %a, expected %a", (unsigned)code, (double)got, want);
        }
    }
    assert_true(whim_e4m3_to_f32(0x7e) == 448.0f && whim_e4m3_to_f32(0x81) == -0x1p-9f);
    assert_true(whim_e4m3_to_f32(0x08) == 0x1p-6f && whim_e4m3_to_f32(0x38) == 1.0f);
}

/* Two blocks of all 256 codes less the NaNs; scales of different size and sign. */
static void row_make(uint8_t row[2 * WHIM_FP8_BLOCK_BYTES], float d[2])
{
    d[0] = 0x1.abcdeep-7f;
    d[1] = -0x1.2p5f;
    for (int i = 0; i < 256; i++) {
        int code = (i * 89 + 5) % 256;
        row[i / 128 * 132 + 4 + i % 128] = (uint8_t)(code % 128 == 127 ? code - 1 : code);
    }
    memcpy(row, &d[0], 4);
    memcpy(row + 132, &d[1], 4);
}

static void rows_widen(void **state)
{
    (void)state;
    uint8_t row[2 * WHIM_FP8_BLOCK_BYTES];
    float d[2], got[256];
    row_make(row, d);
    assert_int_equal(whim_dtype_row_bytes(WHIM_DTYPE_FP8, 256), sizeof row);
    whim_dequant_row(WHIM_DTYPE_FP8, row, got, 256);
    for (int i = 0; i < 256; i++) {
        double exact = code_value(row[i / 128 * 132 + 4 + i % 128]) * (double)d[i / 128];
        assert_true(got[i] == (float)exact);
    }
}

static void dot_follows_its_law(void **state)
{
    (void)state;
    uint8_t row[2 * WHIM_FP8_BLOCK_BYTES];
    float d[2], acc = 0.25f, want = 0.25f;
    double exact = 0.25, size = 0;
    row_make(row, d);
    for (int b = 0; b < 2; b++) {
        float x[128], part = 0.0f;
        for (int i = 0; i < 128; i++) {
            float w = (float)code_value(row[132 * b + 4 + i]);
            x[i] = whim_rng_normal_at(3, (uint64_t)(128 * b + i));
            part = fmaf(w, x[i], part);
            exact += (double)w * x[i] * d[b];
            size += fabs((double)w * x[i] * d[b]);
        }
        want = fmaf(part, d[b], want);
        acc = whim_fp8_dot_step(acc, row + 132 * b, x);
        assert_true(acc == want);
    }
    assert_true(fabs(want - exact) <= 1e-6 * size);
}

static void nan_reaches_the_result(void **state)
{
    (void)state;
    uint8_t row[2 * WHIM_FP8_BLOCK_BYTES];
    float d[2], x[128] = {0};
    row_make(row, d);
    assert_true(whim_fp8_dot_step(2.0f, row, x) == 2.0f);
    row[4 + 77] = 0xff;
    assert_true(isnan(whim_fp8_dot_step(2.0f, row, x)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_codes),
        cmocka_unit_test(rows_widen),
        cmocka_unit_test(dot_follows_its_law),
        cmocka_unit_test(nan_reaches_the_result),
    };
    return cmocka_run_group_tests_name("fp8", tests, NULL, NULL);
}
