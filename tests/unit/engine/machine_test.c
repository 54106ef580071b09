/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring the machine: figures that a machine of today can have, in about the time that was given. */
#include "engine/machine.h"
#include "support/cmocka.h"

#include "base/clock.h"

#include <stdint.h>

static void reading_is_measured(void **state)
{
    (void)state;
    whim_diag diag;
    for (int32_t n_thread = 1; n_thread <= 3; n_thread += 2) {
        double gbs = 0;
        assert_int_equal(whim_machine_read_gbs(n_thread, 0.02, &gbs, &diag), WHIM_ERR_OK);
        assert_true(gbs > 0.05 && gbs < 20000);
    }
}

static void multiply_adds_are_measured(void **state)
{
    (void)state;
    whim_diag diag;
    for (int32_t n_thread = 1; n_thread <= 3; n_thread += 2) {
        double gflops = 0;
        int64_t start = whim_clock_ns();
        assert_int_equal(whim_machine_peak_gflops(n_thread, 0.02, &gflops, &diag), WHIM_ERR_OK);
        assert_true(gflops > 0.01 && gflops < 200000);
        assert_true(whim_clock_ns() - start >= 20 * WHIM_NS_PER_MS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading_is_measured),
        cmocka_unit_test(multiply_adds_are_measured),
    };
    return cmocka_run_group_tests_name("machine", tests, NULL, NULL);
}
