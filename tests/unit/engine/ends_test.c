/* SPDX-License-Identifier: Apache-2.0 */
/* Names of ends, and the ids that make one. */
#include "engine/ends.h"
#include "support/cmocka.h"

static void stop_ids_are_a_union(void **state)
{
    (void)state;
    whim_config c = {.eos = {7, 9, 7}, .n_eos = 3};
    int32_t ids[4];
    assert_int_equal(whim_stop_ids(&c, NULL, ids, 4), 2);
    assert_int_equal(ids[0], 7);
    assert_int_equal(ids[1], 9);
    assert_int_equal(whim_stop_ids(&c, NULL, ids, 1), 1);
}

static void ends_have_names(void **state)
{
    (void)state;
    assert_string_equal(whim_end_name(WHIM_END_STOP), "stop");
    assert_string_equal(whim_end_name(WHIM_END_KV), "context");
    assert_string_equal(whim_end_name(WHIM_END_REPETITION), "repetition");
    assert_string_equal(whim_job_reason_name(WHIM_REASON_STOPPING), "the server is stopping");
    assert_string_equal(whim_job_reason_name(WHIM_REASON_RELEASED), "released"); /* the last */
    assert_true(whim_job_reason_is_failure(WHIM_REASON_NO_MEMORY));
    assert_false(whim_job_reason_is_failure(WHIM_REASON_DEADLINE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stop_ids_are_a_union),
        cmocka_unit_test(ends_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
