/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring the machine: figures that a machine of today can have, in about the time that was
 * given. */
#include "engine/machine.h"
#include "support/cmocka.h"

#include "base/clock.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void reading_is_measured(void **state)
{
    (void)state;
    whim_diag diag;
    for (int32_t n_thread = 1; n_thread <= 3; n_thread += 2) {
        double gbs = 0;
        assert_int_equal(whim_machine_read_gbs(n_thread, 0.02, &gbs, &diag), WHIM_ERR_OK);
        assert_true(gbs > 0 && gbs < 20000);
    }
}

static void multiply_adds_are_measured(void **state)
{
    (void)state;
    for (int32_t n_thread = 1; n_thread <= 3; n_thread += 2) {
        double gflops = 0;
        int64_t start = whim_clock_ns();
        assert_int_equal(whim_machine_peak_gflops(NULL, WHIM_DTYPE_F32, n_thread, 0.02, &gflops),
                         WHIM_ERR_OK);
        assert_true(gflops > 0 && gflops < 200000);
        assert_true(whim_clock_ns() - start >= 20 * WHIM_NS_PER_MS);
    }
}

/* Each level has a peak for each kind of type. */
static void levels_tell_their_peaks(void **state)
{
    (void)state;
    whim_diag diag = {{0}};
    whim_device_cfg cfg = {.n_thread = 1};
    whim_device *device;
    char levels[128], *save = NULL;
    assert_int_equal(whim_backend_find("cpu")->device_open(0, &cfg, &device, &diag), WHIM_ERR_OK);
    snprintf(levels, sizeof levels, "%s", device->caps.levels);
    whim_device_close(device);
    for (char *level = strtok_r(levels, " ", &save); level != NULL;
         level = strtok_r(NULL, " ", &save)) {
        static const whim_dtype types[] = {WHIM_DTYPE_F32, WHIM_DTYPE_BF16, WHIM_DTYPE_Q4_0};
        double gflops[3] = {0};
        cfg.isa = level;
        assert_int_equal(whim_backend_find("cpu")->device_open(0, &cfg, &device, &diag),
                         WHIM_ERR_OK);
        assert_non_null(device->caps.peak_macs);
        for (int i = 0; i < 3; i++) {
            assert_true(device->caps.peak_macs(types[i], 7) > 0);
            assert_int_equal(device->caps.peak_macs(types[i], 0), 0);
            assert_int_equal(whim_machine_peak_gflops(&device->caps, types[i], 1, 0.01, &gflops[i]),
                             WHIM_ERR_OK);
            assert_true(gflops[i] > 0 && gflops[i] < 200000);
        }
        whim_device_close(device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading_is_measured),
        cmocka_unit_test(multiply_adds_are_measured),
        cmocka_unit_test(levels_tell_their_peaks),
    };
    return cmocka_run_group_tests_name("machine", tests, NULL, NULL);
}
