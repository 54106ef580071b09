/* SPDX-License-Identifier: Apache-2.0 */
/* Dummy weights: a row is a function of name, type and number alone, and its values are of the size
 * that a network wants. */
#include "support/cmocka.h"
#include "weights/dummy.h"

#include "tensor/quant.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { K = 512, ROWS = 40, ROW_MAX = K * 4 };

static bool is_weight(int type)
{
    return whim_dtype_get((whim_dtype)type)->kind != WHIM_DTYPE_KIND_INT;
}

static void rows_do_not_depend_on_slabs(void **state)
{
    (void)state;
    static uint8_t whole[ROWS * ROW_MAX], parts[ROWS * ROW_MAX];
    for (int type = 0; type < WHIM_DTYPE_COUNT; type++) {
        if (!is_weight(type)) {
            continue;
        }
        size_t row = (size_t)whim_dtype_row_bytes((whim_dtype)type, K);
        whim_dummy_rows("layers.1.mlp.up_proj.weight", (whim_dtype)type, K, 0, ROWS, whole);
        /* Other slabs, from the end. */
        for (int64_t at = ROWS; at > 0;) {
            int64_t n = at < 7 ? at : 7;
            at -= n;
            whim_dummy_rows("layers.1.mlp.up_proj.weight", (whim_dtype)type, K, at, n,
                            parts + (size_t)at * row);
        }
        assert_memory_equal(whole, parts, ROWS * row);
        for (size_t r = 1; r < ROWS; r++) {
            assert_true(memcmp(whole, whole + r * row, row) != 0);
        }
        whim_dummy_rows("layers.2.mlp.up_proj.weight", (whim_dtype)type, K, 0, 1, parts);
        assert_true(memcmp(whole, parts, row) != 0); /* another name, other values */
    }
}

static void values_have_the_size_of_a_fresh_network(void **state)
{
    (void)state;
    static uint8_t rows[ROWS * ROW_MAX];
    static float values[K];
    for (int type = 0; type < WHIM_DTYPE_COUNT; type++) {
        if (!is_weight(type)) {
            continue;
        }
        double sum = 0, squares = 0;
        int64_t row = whim_dtype_row_bytes((whim_dtype)type, K);
        whim_dummy_rows("w", (whim_dtype)type, K, 0, ROWS, rows);
        for (int64_t r = 0; r < ROWS; r++) {
            whim_dequant_row((whim_dtype)type, rows + r * row, values, K);
            for (int i = 0; i < K; i++) {
                assert_true(isfinite(values[i]));
                sum += values[i];
                squares += (double)values[i] * values[i];
            }
        }
        double deviation = sqrt(squares / (ROWS * K) * K); /* in units of 1 / sqrt(K) */
        double mean = sum / (ROWS * K) * sqrt(K);
        if (!(deviation > 0.5 && deviation < 2.0 && fabs(mean) < 0.06)) {
            fail_msg("%s: deviation %.3f, mean %.3f", whim_dtype_get((whim_dtype)type)->name,
                     deviation, mean);
        }
    }
}

static void vectors_are_around_one(void **state)
{
    (void)state;
    float a[300], b[300];
    double sum = 0;
    whim_dummy_vector("norm.weight", 300, a);
    whim_dummy_vector("norm.weight", 200, b);
    assert_memory_equal(a, b, 200 * sizeof(float));
    for (int i = 0; i < 300; i++) {
        assert_true(a[i] > 0.5f && a[i] < 1.5f);
        sum += a[i];
    }
    assert_true(fabs(sum / 300 - 1) < 0.05);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_do_not_depend_on_slabs),
        cmocka_unit_test(values_have_the_size_of_a_fresh_network),
        cmocka_unit_test(vectors_are_around_one),
    };
    return cmocka_run_group_tests_name("dummy", tests, NULL, NULL);
}
