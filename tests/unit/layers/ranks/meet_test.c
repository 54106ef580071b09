/* SPDX-License-Identifier: Apache-2.0 */
/* Sums that are owed: who reads rows before they are added up is refused. */
#include "layers/ranks/meet.h"
#include "support/cmocka.h"

static void owed_rows_are_not_read(void **state)
{
    (void)state;
    float x[1] = {1};
    const float *read;
    assert_int_equal(whim_rows_get(&(whim_rows){x, WHIM_OWED_NOTHING}, &read), WHIM_ERR_OK);
    assert_ptr_equal(read, x);
    assert_int_equal(whim_rows_get(&(whim_rows){x, WHIM_OWED_GROUP}, &read), WHIM_ERR_INVALID);
    assert_int_equal(whim_rows_get(&(whim_rows){x, WHIM_OWED_ALL}, &read), WHIM_ERR_INVALID);
}

/* Before anything is queued: a sum that was made already would be made twice. */
static void sums_are_made_once(void **state)
{
    (void)state;
    whim_meet meet = {.n_rank = 4, .n_group = 2, .span = 2, .d_model = 32};
    whim_rows rows = {.owed = WHIM_OWED_NOTHING}, y = {0};
    assert_int_equal(whim_meet_gather(&meet, NULL, &rows, 1, 1, NULL, NULL, NULL),
                     WHIM_ERR_INVALID);
    rows.owed = WHIM_OWED_GROUP;
    assert_int_equal(whim_meet_scatter(&meet, NULL, &rows, 1, NULL, &y), WHIM_ERR_INVALID);
}

static void columns_are_shared_out_in_each_group(void **state)
{
    (void)state;
    whim_binder binder;
    whim_binder_init(&binder);
    assert_null(whim_meet_make(80, &binder));
    binder.n_rank = 2;
    binder.rank = 1;
    binder.n_wide = 4;
    binder.wide_rank = 3;
    const whim_meet *meet = whim_meet_make(80, &binder);
    static const int64_t cols[] = {48, 32, 48, 32};
    assert_non_null(meet);
    assert_int_equal(meet->group, 1);
    assert_int_equal(meet->n_group, 2);
    assert_int_equal(meet->own.at, 48);
    assert_int_equal(meet->own.n, 32);
    assert_memory_equal(meet->cols, cols, sizeof cols);
    whim_binder_deinit(&binder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(owed_rows_are_not_read),
        cmocka_unit_test(sums_are_made_once),
        cmocka_unit_test(columns_are_shared_out_in_each_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
