/* SPDX-License-Identifier: Apache-2.0 */
/* Small files and the numbers in them. */
#include "base/os/procfile.h"
#include "support/cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <stdint.h>

static void test_text(void **state)
{
    (void)state;
    char path[] = "/tmp/whim-procfile-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "hello\nworld\n", 12), 12);
    close(fd);
    char text[32], small[6];
    assert_int_equal(whim_os_file_text(path, text, sizeof text), 12);
    assert_string_equal(text, "hello\nworld\n");
    assert_int_equal(whim_os_file_text(path, small, sizeof small), 5);
    assert_string_equal(small, "hello");
    unlink(path);
    assert_int_equal(whim_os_file_text(path, text, sizeof text), -1);
    assert_int_equal(whim_os_file_text("/", text, sizeof text), -1); /* opens, but does not read */
    assert_string_equal(text, "");
}

static void test_number(void **state)
{
    (void)state;
    const char *text = "XMemTotal: 1\nMemTotal:   123 kB\nMemFree: none\nLast:-9";
    int64_t n = 0;
    assert_true(whim_os_text_number(text, "MemTotal:", &n));
    assert_int_equal(n, 123);
    assert_true(whim_os_text_number(text, "Last:", &n));
    assert_int_equal(n, -9);
    assert_false(whim_os_text_number(text, "MemFree:", &n));
    assert_false(whim_os_text_number(text, "Total:", &n));
    assert_false(whim_os_text_number("", "a", &n));
    assert_true(whim_os_text_number("42\n", "", &n));
    assert_int_equal(n, 42);
    assert_false(whim_os_text_number("max\n", "", &n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
