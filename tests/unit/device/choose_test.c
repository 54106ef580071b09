/* SPDX-License-Identifier: Apache-2.0 */
/* Devices by name and number. */
#include "device/choose.h"
#include "support/cmocka.h"

static void a_name_or_a_name_and_a_number(void **state)
{
    (void)state;
    int32_t index = -1;
    assert_ptr_equal(whim_backend_choose("guard", &index), whim_backend_find("guard"));
    assert_int_equal(index, 0);
    assert_ptr_equal(whim_backend_choose("guard:17", &index), whim_backend_find("guard"));
    assert_int_equal(index, 17);
}

static void nothing_else(void **state)
{
    static const char *const wrong[] = {
        "",
        "guard:",
        "guard:x",
        "guard:0x",
        "guard:-1",
        "guard:00001",
        "guar:0",
        ":0",
        "guard0",
        "guard:0:0",
        "a name that is longer than any backend has",
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        int32_t index;
        assert_null(whim_backend_choose(wrong[i], &index));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_or_a_name_and_a_number),
        cmocka_unit_test(nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
