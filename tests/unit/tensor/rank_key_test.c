/* SPDX-License-Identifier: Apache-2.0 */
/* tensor/rank_key.h: keys order as values do, index decides among equals, broken numbers come
 * first. */
#include <math.h>
#include <stdint.h>

#include "support/cmocka.h"
#include "tensor/rank_key.h"

/* Rising; neighbours differ. */
static const float rising[] = {-INFINITY, -0x1.fffffep127f, -2.0f,     -0x1p-126f, -0x1p-149f,
                               0.0f,      0x1p-149f,        0x1p-126f, 1.0f,       1.5f,
                               3.4e38f,   INFINITY};
enum { N = sizeof rising / sizeof rising[0] };

static void keys_rise_with_values(void **state)
{
    (void)state;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < i; j++) {
            assert_true(whim_rank_key(rising[i], INT32_MAX) > whim_rank_key(rising[j], 0));
        }
        assert_true(whim_rank_key(rising[i], 7) > whim_rank_key(rising[i], 8));
        assert_int_equal(whim_rank_id(whim_rank_key(rising[i], 123456789)), 123456789);
        assert_int_equal(whim_rank_id(whim_rank_key(rising[i], 0)), 0);
    }
    assert_true(whim_rank_key(-INFINITY, INT32_MAX) > 0);
}

static void zeros_and_broken_numbers(void **state)
{
    (void)state;
    assert_int_equal(whim_rank_order(-0.0f), whim_rank_order(0.0f));
    assert_int_equal(whim_rank_order(NAN), whim_rank_order(INFINITY));
    assert_int_equal(whim_rank_order(-NAN), whim_rank_order(INFINITY));
    assert_int_equal(whim_rank_order(whim_f32_from_bits(0xff800001u)), whim_rank_order(INFINITY));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_rise_with_values),
        cmocka_unit_test(zeros_and_broken_numbers),
    };
    return cmocka_run_group_tests_name("rank_key", tests, NULL, NULL);
}
