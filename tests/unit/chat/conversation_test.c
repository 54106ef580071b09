/* SPDX-License-Identifier: Apache-2.0 */
/* A conversation: changes, the way to JSON and back, and files that are refused. */
#include <stdint.h>

#include "chat/conversation.h"
#include "support/cmocka.h"

#include <string.h>

static void fill(json_t *conv)
{
    assert_int_equal(whim_conversation_push(conv, "system", "Be \"brief\".", NULL), WHIM_ERR_OK);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(whim_conversation_push(conv, "user", "ñandú\n", NULL), WHIM_ERR_OK);
        assert_int_equal(whim_conversation_push(conv, "assistant", "", "why"), WHIM_ERR_OK);
    }
}

static void pushes_and_cuts(void **state)
{
    (void)state;
    json_t *conv = json_array();
    whim_conversation_cut(conv, 0);
    fill(conv);
    assert_int_equal(json_array_size(conv), 21);
    whim_conversation_cut(conv, 20);
    whim_conversation_cut(conv, 30);
    assert_int_equal(json_array_size(conv), 20);
    assert_string_equal(whim_message_text(conv, 19, "role"), "user");
    assert_null(whim_message_text(conv, 19, "reasoning_content"));
    assert_null(whim_message_text(conv, 20, "role"));
    whim_conversation_cut(conv, 0);
    assert_int_equal(json_array_size(conv), 0);
    json_decref(conv);
}

static void survives_a_file(void **state)
{
    (void)state;
    json_t *conv = json_array(), *back = json_array();
    whim_str text = {0};
    whim_diag diag = {{0}};
    fill(conv);
    assert_int_equal(whim_conversation_dump(conv, &text, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_conversation_push(back, "user", "old", NULL), WHIM_ERR_OK);
    assert_int_equal(whim_conversation_parse(&back, text.text, text.len, "f.json", &diag),
                     WHIM_ERR_OK);
    assert_true(json_equal(back, conv));
    assert_int_equal(json_object_size(json_array_get(conv, 0)), 2);
    assert_string_equal(whim_message_text(conv, 2, "reasoning_content"), "why");
    whim_str_deinit(&text);
    json_decref(conv);
    json_decref(back);
}

static void refuses_other_files(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"[]", "f.json"},
        {"{}", "messages"},
        {"{\"messages\": 5}", "messages"},
        {"{\"messages\": [5]}", "messages[0]"},
        {"{\"messages\": [{\"role\": \"user\"}, {\"content\": \"x\"}]}", "messages[1].role"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [1]}]}", "messages[0].content"},
    };
    json_t *conv = json_array();
    assert_int_equal(whim_conversation_push(conv, "user", "kept", NULL), WHIM_ERR_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        whim_diag diag = {{0}};
        assert_int_equal(whim_conversation_parse(&conv, rows[i][0], (int64_t)strlen(rows[i][0]),
                                                 "f.json", &diag),
                         WHIM_ERR_CORRUPT);
        if (strstr(diag.text, rows[i][1]) == NULL) {
            fail_msg("%s: %s", rows[i][0], diag.text);
        }
        assert_int_equal(json_array_size(conv), 1);
    }
    static const char null_content[] =
        "{\"messages\": [{\"role\": \"assistant\", \"content\": null}]}";
    assert_int_equal(
        whim_conversation_parse(&conv, null_content, sizeof null_content - 1, "f", NULL),
        WHIM_ERR_OK);
    assert_string_equal(whim_message_text(conv, 0, "content"), "");
    json_decref(conv);
}

static void refuses_what_is_not_utf8(void **state)
{
    (void)state;
    json_t *conv = json_array();
    assert_int_equal(whim_conversation_push(conv, "user", "\xff", NULL), WHIM_ERR_NO_MEMORY);
    assert_int_equal(whim_conversation_push(NULL, "user", "text", "why"), WHIM_ERR_NO_MEMORY);
    assert_int_equal(json_array_size(conv), 0);
    json_decref(conv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushes_and_cuts),
        cmocka_unit_test(survives_a_file),
        cmocka_unit_test(refuses_other_files),
        cmocka_unit_test(refuses_what_is_not_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
