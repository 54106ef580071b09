/* SPDX-License-Identifier: Apache-2.0 */
/* What is refused: told by name, nothing changed. tests/first refuses calls for real. */
#include "base/os/cpu.h"
#include "base/os/facts.h"
#include "support/cmocka.h"

#include <string.h>

static void test_names(void **state)
{
    (void)state;
    char text[128];
    int32_t before = whim_os_cpu_count(), n = whim_os_refused(text, sizeof text), blanks = 0;
    for (const char *c = text; *c != '\0'; c++) {
        blanks += *c == ' ';
    }
    assert_int_equal(n == 0, text[0] == '\0');
    assert_int_equal(blanks, n > 0 ? n - 1 : 0);
    assert_int_equal(whim_os_cpu_count(), before);
    assert_int_equal(whim_os_refused(text, sizeof text), n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
