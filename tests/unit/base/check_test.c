/* SPDX-License-Identifier: Apache-2.0 */
/* A broken invariant ends the process; one that holds does nothing. */
#include "base/check.h"
#include "support/cmocka.h"
#include "support/death.h"

#include <stdint.h>

static void check_value(void *ctx)
{
    whim_check(*(int *)ctx == 1);
}

static void assert_value(void *ctx)
{
    (void)ctx; /* unused where asserts are off */
    whim_assert(*(int *)ctx == 1);
}

static void test_check(void **state)
{
    (void)state;
    int value = 1;
    assert_int_equal(death_signal(check_value, &value), 0);
    assert_int_equal(death_signal(assert_value, &value), 0);
    value = 2;
    assert_int_equal(death_signal(check_value, &value), SIGABRT);
#ifdef WHIM_DEBUG
    assert_int_equal(death_signal(assert_value, &value), SIGABRT);
#else
    assert_int_equal(death_signal(assert_value, &value), 0);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
