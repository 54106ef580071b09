/* SPDX-License-Identifier: Apache-2.0 */
/* The KV types: names, sizes, and the law of 8-bit vectors. */
#include "support/cmocka.h"
#include "tensor/kv_type.h"

#include <float.h>
#include <math.h>

static void names_and_sizes(void **state)
{
    (void)state;
    whim_kv_type type;
    for (int32_t i = 0; i < WHIM_KV_TYPE_COUNT; i++) {
        assert_true(whim_kv_type_from_name(whim_kv_type_name((whim_kv_type)i), &type));
        assert_int_equal(type, i);
    }
    assert_true(whim_kv_type_from_name("q8", &type));
    assert_int_equal(type, WHIM_KV_Q8);
    assert_false(whim_kv_type_from_name("q8_0", &type));
    assert_false(whim_kv_type_from_name("", &type));
    assert_int_equal(whim_kv_vector_bytes(WHIM_KV_F32, 33), 132);
    assert_int_equal(whim_kv_vector_bytes(WHIM_KV_BF16, 64), 128);
    assert_int_equal(whim_kv_vector_bytes(WHIM_KV_F16, 1), 2);
    assert_int_equal(whim_kv_vector_bytes(WHIM_KV_Q8, 64), 68);
}

static void q8_rounds_half_to_even(void **state)
{
    (void)state;
    const float x[] = {127.0f, -127.0f, 0.5f, 1.5f, -2.5f, 0.0f, 63.49f};
    const int8_t want[] = {127, -127, 0, 2, -2, 0, 63};
    int8_t q[7];
    assert_true(whim_kv_q8_scale(x, 7) == 1.0f);
    whim_kv_q8_round(x, 7, 1.0f, q);
    assert_memory_equal(q, want, sizeof want);
}

static void q8_is_always_finite(void **state)
{
    (void)state;
    const float wild[] = {INFINITY, -INFINITY, NAN, FLT_MAX, 1.0f};
    const int8_t want[] = {127, -127, 0, 127, 0};
    int8_t q[5];
    float s = whim_kv_q8_scale(wild, 5);
    whim_kv_q8_round(wild, 5, s, q);
    assert_memory_equal(q, want, sizeof want);
    assert_true(isfinite(127.0f * s));
    const float tiny[] = {0x1p-140f, -0x1p-126f, 0.0f};
    s = whim_kv_q8_scale(tiny, 3);
    assert_true(s == 0.0f);
    whim_kv_q8_round(tiny, 3, s, q);
    assert_int_equal(q[0] | q[1] | q[2], 0);
    const float nothing[] = {NAN, NAN};
    assert_true(whim_kv_q8_scale(nothing, 2) == 0.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_sizes),
        cmocka_unit_test(q8_rounds_half_to_even),
        cmocka_unit_test(q8_is_always_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
