/* SPDX-License-Identifier: Apache-2.0 */
/* Names, texts and messages of errors. */
#include "base/err.h"
#include "support/cmocka.h"

#include <string.h>

#include <stdint.h>

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(whim_err_name(WHIM_ERR_OK), "OK");
    assert_string_equal(whim_err_name(WHIM_ERR_CORRUPT), "CORRUPT");
    assert_string_equal(whim_err_text(WHIM_ERR_NOT_FOUND), "not found");
    for (whim_err err = 0; err < WHIM_ERR_COUNT; err++) {
        assert_true(strlen(whim_err_name(err)) > 0);
        assert_true(strlen(whim_err_text(err)) > 0);
    }
    assert_string_equal(whim_err_name(-1), "UNKNOWN");
    assert_string_equal(whim_err_name(WHIM_ERR_COUNT), "UNKNOWN");
    assert_string_equal(whim_err_text(WHIM_ERR_COUNT), "unknown error");
}

static void test_fail(void **state)
{
    (void)state;
    whim_diag diag;
    assert_int_equal(whim_fail(&diag, WHIM_ERR_IO, "%s: %d", "file", 7), WHIM_ERR_IO);
    assert_string_equal(diag.text, "file: 7");
    assert_int_equal(whim_fail(NULL, WHIM_ERR_FULL, "%d", 1), WHIM_ERR_FULL);
    whim_diag_prefix(&diag, "reading %s: ", "model");
    assert_string_equal(diag.text, "reading model: file: 7");
    whim_diag_prefix(NULL, "nothing %d", 1);
}

/* What a file or a template says cannot control the terminal that shows it. */
static void test_controls_are_escaped(void **state)
{
    (void)state;
    whim_diag diag;
    (void)!whim_fail(&diag, WHIM_ERR_IO, "%s",
                     "a\x1b[2J\r\x7f\b\xc2\x9b"
                     "1m\xc2\xa0\xc3\xa9\n\tz");
    assert_string_equal(diag.text, "a\\x1b[2J\\x0d\\x7f\\x08\\x9b1m\xc2\xa0\xc3\xa9\n\tz");
    (void)!whim_fail(&diag, WHIM_ERR_IO, "%s", "a\u202eb\u202a\u2066\u2069\u2013\u2070");
    assert_string_equal(diag.text, "a\\u202eb\\u202a\\u2066\\u2069\u2013\u2070");
    (void)!whim_fail(&diag, WHIM_ERR_IO, "%s", "a\x1b[2J");
    whim_diag_prefix(&diag, "\x1b%s: ", "[0m");
    assert_memory_equal(diag.text, "\\x1b[0m: a\\x1b[2J", 17);
    char text[2 * sizeof diag.text];
    memset(text, '\x1b', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    (void)!whim_got(false, &diag, "%s", text);
    assert_null(strchr(diag.text, '\x1b'));
    assert_true(strlen(diag.text) > sizeof diag.text - 8 && strlen(diag.text) < sizeof diag.text);
}

static void test_long_messages_are_cut(void **state)
{
    (void)state;
    whim_diag diag;
    char text[3 * sizeof diag.text];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(whim_fail(&diag, WHIM_ERR_IO, "%s", text), WHIM_ERR_IO);
    assert_int_equal(strlen(diag.text), sizeof diag.text - 1);
    whim_diag_prefix(&diag, "b");
    assert_int_equal(strlen(diag.text), sizeof diag.text - 1);
    assert_int_equal(diag.text[0], 'b');
    whim_diag_prefix(&diag, "%s", text);
    assert_int_equal(strlen(diag.text), sizeof diag.text - 1);
}

static whim_err try_chain(whim_err inner, int *reached)
{
    WHIM_TRY(inner);
    *reached = 1;
    return WHIM_ERR_OK;
}

static whim_err try_out(whim_err inner, int *cleaned)
{
    whim_err err = WHIM_ERR_OK;
    WHIM_TRY_OUT(inner);
out:
    *cleaned = 1;
    return err;
}

static void test_try(void **state)
{
    (void)state;
    int reached = 0;
    assert_int_equal(try_chain(WHIM_ERR_IO, &reached), WHIM_ERR_IO);
    assert_int_equal(reached, 0);
    assert_int_equal(try_chain(WHIM_ERR_OK, &reached), WHIM_ERR_OK);
    assert_int_equal(reached, 1);
    int cleaned = 0;
    assert_int_equal(try_out(WHIM_ERR_FULL, &cleaned), WHIM_ERR_FULL);
    assert_int_equal(cleaned, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_fail),
        cmocka_unit_test(test_controls_are_escaped),
        cmocka_unit_test(test_long_messages_are_cut),
        cmocka_unit_test(test_try),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
