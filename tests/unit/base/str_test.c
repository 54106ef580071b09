/* SPDX-License-Identifier: Apache-2.0 */
/* Text building; sizes to and from text. */
#include "base/alloc.h"
#include "base/str.h"
#include "support/cmocka.h"

#include <string.h>

#include <stdint.h>

static void test_append(void **state)
{
    (void)state;
    whim_str str = {0};
    assert_string_equal(whim_str_text(&str), "");
    whim_str_append(&str, "ab");
    whim_str_append_char(&str, 'c');
    whim_str_append_n(&str, "defg", 2);
    whim_str_append(&str, "");
    whim_str_printf(&str, "-%d-%s", 42, "x");
    assert_string_equal(whim_str_text(&str), "abcde-42-x");
    assert_int_equal(str.len, 10);
    whim_str_clear(&str);
    assert_string_equal(whim_str_text(&str), "");
    for (int i = 0; i < 1000; i++) {
        whim_str_printf(&str, "%04d", i);
    }
    assert_int_equal(str.len, 4000);
    assert_memory_equal(str.text + 3996, "0999", 5);
    whim_str_append_n(&str, "\0z", 2);
    assert_int_equal(str.len, 4002);
    assert_int_equal(str.text[4001], 'z');
    char *text = whim_str_take(&str);
    assert_memory_equal(text, "0000000100020003", 16);
    assert_null(str.text);
    whim_free(text);
    text = whim_str_take(&str);
    assert_string_equal(text, "");
    whim_free(text);
    whim_str_deinit(&str);
}

static void test_failure_is_remembered(void **state)
{
    (void)state;
    whim_str str = {0};
    whim_str_append(&str, "kept");
    char big[500];
    memset(big, 'x', sizeof big);
    whim_alloc_fail_after(0);
    whim_str_append_n(&str, big, sizeof big);
    whim_alloc_fail_after(-1);
    assert_true(str.failed);
    whim_str_append(&str, "no");
    whim_str_printf(&str, "%d", 1);
    assert_string_equal(whim_str_text(&str), "kept");
    assert_null(whim_str_take(&str));
    assert_false(str.failed);
    whim_str_append(&str, "again");
    assert_string_equal(whim_str_text(&str), "again");
    whim_str_deinit(&str);
}

static const char *bytes_text(int64_t bytes)
{
    static char buf[32];
    whim_format_bytes(buf, sizeof buf, bytes);
    return buf;
}

static void test_format_bytes(void **state)
{
    (void)state;
    assert_string_equal(bytes_text(0), "0 B");
    assert_string_equal(bytes_text(1023), "1023 B");
    assert_string_equal(bytes_text(1024), "1.00 KiB");
    assert_string_equal(bytes_text(1280 * INT64_C(1048576)), "1.25 GiB");
    assert_string_equal(bytes_text(1048575), "1.00 MiB");
    assert_string_equal(bytes_text(INT64_MAX), "8.00 EiB");
    assert_string_equal(bytes_text(-2048), "-2.00 KiB");
}

static void test_parse_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes;
    } good[] = {
        {"0", 0},
        {"17", 17},
        {"17B", 17},
        {"512M", INT64_C(512) << 20},
        {"512m", INT64_C(512) << 20},
        {"2GiB", INT64_C(2) << 30},
        {"2 Gi", INT64_C(2) << 30},
        {" 2GB", 2000000000},
        {"1.5K", 1536},
        {".5k", 512},
        {"3.K", 3072},
        {"1T", INT64_C(1) << 40},
        {"1kb", 1000},
        {"9223372036854775807", INT64_MAX},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        int64_t bytes = -1;
        assert_int_equal(whim_parse_bytes(good[i].text, &bytes, NULL), WHIM_ERR_OK);
        assert_int_equal(bytes, good[i].bytes);
    }
    static const char *const bad[] = {"",      "G",     "-1",   "1X",       "1 G x",
                                      "1..5G", "1.5.5", "0x10", "1e9",      "KiB1",
                                      "1KiX",  "1KiBB", ".",    "8388608T", "9223372036854775808"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int64_t bytes = -1;
        whim_diag diag = {""};
        assert_int_equal(whim_parse_bytes(bad[i], &bytes, &diag), WHIM_ERR_INVALID);
        assert_int_equal(bytes, -1);
        assert_non_null(strstr(diag.text, bad[i]));
    }
}

static void test_edit_distance(void **state)
{
    static const struct {
        const char *a, *b;
        int32_t want;
    } cases[] = {
        {"", "", 0},         {"", "abc", 3},         {"chat", "chat", 0},
        {"chat", "caht", 1}, {"serve", "server", 1}, {"models", "modles/", 2},
    };
    char longer[WHIM_EDIT_FAR + 2] = "";
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(whim_edit_distance(cases[i].a, cases[i].b), cases[i].want);
        assert_int_equal(whim_edit_distance(cases[i].b, cases[i].a), cases[i].want);
    }
    memset(longer, 'x', WHIM_EDIT_FAR + 1);
    assert_int_equal(whim_edit_distance(longer, longer), WHIM_EDIT_FAR);
}

static void test_hex_value(void **state)
{
    (void)state;
    const char digits[] = "0123456789abcdefABCDEF";
    for (int i = 0; digits[i] != '\0'; i++) {
        assert_int_equal(whim_hex_value(digits[i]), i < 16 ? i : i - 6);
    }
    const char others[] = "/:@G`g \xff";
    for (size_t i = 0; i < sizeof others; i++) {
        assert_int_equal(whim_hex_value(others[i]), -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_append),       cmocka_unit_test(test_failure_is_remembered),
        cmocka_unit_test(test_format_bytes), cmocka_unit_test(test_parse_bytes),
        cmocka_unit_test(test_hex_value),    cmocka_unit_test(test_edit_distance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
