/* SPDX-License-Identifier: Apache-2.0 */
/* The memory plan adds up, and what does not fit is refused with numbers. */
#include "engine/memory_plan.h"
#include "support/cmocka.h"

#include "support/death.h"

#include <stdint.h>
#include <string.h>

static const int64_t GIB = INT64_C(1) << 30;

static void make(whim_memory_plan *plan, int64_t weights, int64_t kv, int64_t available)
{
    *plan = (whim_memory_plan){.available = available};
    whim_memory_plan_add(plan, WHIM_MEMORY_WEIGHTS, "weights", weights, "%d tensors", 272);
    whim_memory_plan_add(plan, WHIM_MEMORY_KV, "KV pages", kv, "%s", "8192 tokens");
    whim_memory_plan_add(plan, WHIM_MEMORY_OTHER, "workspace", 0, "none");
}

static void parts_add_up(void **state)
{
    (void)state;
    whim_memory_plan plan;
    make(&plan, 5 * GIB, 2 * GIB, 8 * GIB);
    assert_int_equal(plan.n_part, 3);
    assert_int_equal(plan.total, 7 * GIB);
    assert_string_equal(plan.parts[0].detail, "272 tensors");
    assert_int_equal(plan.parts[1].bytes, 2 * GIB);
}

static void loading_counts(void **state)
{
    (void)state;
    whim_memory_plan plan;
    whim_diag diag = {{0}};
    make(&plan, 5 * GIB, 2 * GIB, 8 * GIB);
    assert_int_equal(whim_memory_plan_check(&plan, &diag), WHIM_ERR_OK);
    plan.loading = GIB;
    assert_int_equal(whim_memory_plan_check(&plan, &diag), WHIM_ERR_OK);
    plan.loading = GIB + 1;
    assert_int_equal(whim_memory_plan_check(&plan, &diag), WHIM_ERR_NO_FIT);
}

/* A device with memory of its own: what stays with the host is counted and refused there. */
static void host_and_device_apart(void **state)
{
    (void)state;
    whim_memory_plan plan;
    whim_diag diag = {{0}};
    make(&plan, 5 * GIB, 2 * GIB, 8 * GIB);
    whim_memory_plan_add(&plan, WHIM_MEMORY_HOST, "tables", GIB / 2, "one place");
    assert_int_equal(plan.total, 7 * GIB + GIB / 2);
    assert_int_equal(whim_memory_plan_host_needed(&plan), 0);
    make(&plan, 5 * GIB, 2 * GIB, 7 * GIB);
    plan.apart = true;
    plan.loading = GIB;
    plan.host_available = 2 * GIB;
    whim_memory_plan_add(&plan, WHIM_MEMORY_HOST, "tables", GIB, "the host's");
    assert_int_equal(plan.total, 7 * GIB);
    assert_int_equal(whim_memory_plan_needed(&plan), 7 * GIB);
    assert_int_equal(whim_memory_plan_host_needed(&plan), 2 * GIB);
    assert_int_equal(whim_memory_plan_check(&plan, &diag), WHIM_ERR_OK);
    plan.available -= 1;
    assert_int_equal(whim_memory_plan_check(&plan, &diag), WHIM_ERR_NO_FIT);
    assert_non_null(strstr(diag.text, "on the device"));
    plan.available += 1;
    plan.host_available -= 1;
    assert_int_equal(whim_memory_plan_check(&plan, &diag), WHIM_ERR_NO_FIT);
    assert_non_null(strstr(diag.text, "of the host's"));
}

static void expect_text(const whim_diag *diag, const char *text)
{
    if (strstr(diag->text, text) == NULL) {
        fail_msg("the message lacks \"%s\": %s", text, diag->text);
    }
}

static void the_message_has_numbers_and_help(void **state)
{
    (void)state;
    whim_memory_plan plan;
    whim_diag diag = {{0}};
    make(&plan, 5 * GIB, 6 * GIB, 8 * GIB);
    assert_int_equal(whim_memory_plan_check(&plan, &diag), WHIM_ERR_NO_FIT);
    static const char *const numbers[] = {"needs 11.0", "weights 5.0", "KV 6.0", "8.00 GiB",
                                          "shorter context"};
    for (int i = 0; i < 5; i++) {
        expect_text(&diag, numbers[i]);
    }
    /* A smaller KV part does not help where the weights alone are too large. */
    make(&plan, 20 * GIB, GIB, 8 * GIB);
    assert_int_equal(whim_memory_plan_check(&plan, &diag), WHIM_ERR_NO_FIT);
    expect_text(&diag, "smaller model");
    assert_null(strstr(diag.text, "shorter context"));
}

static void add_parts(void *ctx)
{
    whim_memory_plan plan = {0};
    for (int i = 0; i < *(int *)ctx; i++) {
        whim_memory_plan_add(&plan, WHIM_MEMORY_OTHER, "part", 1, "x");
    }
}

static void too_many_parts_end_the_process(void **state)
{
    (void)state;
    int n = WHIM_PLAN_MAX_PARTS;
    assert_int_equal(death_signal(add_parts, &n), 0);
    n++;
    assert_int_equal(death_signal(add_parts, &n), SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_add_up),
        cmocka_unit_test(loading_counts),
        cmocka_unit_test(host_and_device_apart),
        cmocka_unit_test(the_message_has_numbers_and_help),
        cmocka_unit_test(too_many_parts_end_the_process),
    };
    return cmocka_run_group_tests_name("memory_plan", tests, NULL, NULL);
}
