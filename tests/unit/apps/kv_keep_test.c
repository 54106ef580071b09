/* SPDX-License-Identifier: Apache-2.0 */
/* Whether pages are kept where nobody has said so. */
#include "serve/kv_keep.h"
#include "support/cmocka.h"

#include <string.h>

#define GIB (INT64_C(1) << 30)

static void from_1_gib_on(void **state)
{
    (void)state;
    assert_null(kv_keep_reason(1, GIB));
    assert_null(kv_keep_reason(1, 100 * GIB));
    assert_non_null(strstr(kv_keep_reason(1, GIB - 1), "less than 1 GiB"));
    assert_non_null(strstr(kv_keep_reason(1, 0), "--kv-dir"));
}

static void on_one_machine(void **state)
{
    (void)state;
    assert_non_null(strstr(kv_keep_reason(2, 100 * GIB), "each machine"));
    assert_non_null(strstr(kv_keep_reason(2, 0), "each machine"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(from_1_gib_on),
                                       cmocka_unit_test(on_one_machine)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
