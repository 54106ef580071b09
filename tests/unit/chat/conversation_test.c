/* SPDX-License-Identifier: Apache-2.0 */
/* A conversation: changes, the way to JSON and back, and files that are refused. */
#include <stdint.h>

#include "base/alloc.h"
#include "chat/conversation.h"
#include "support/cmocka.h"

#include <string.h>

static void fill(whim_conversation *conv)
{
    assert_int_equal(whim_conversation_push(conv, "system", "Be \"brief\".", NULL), WHIM_ERR_OK);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(whim_conversation_push(conv, "user", "ñandú\n", NULL), WHIM_ERR_OK);
        assert_int_equal(whim_conversation_push(conv, "assistant", "", "why"), WHIM_ERR_OK);
    }
}

static void pushes_pops_clears(void **state)
{
    (void)state;
    whim_conversation conv = {0};
    whim_conversation_pop(&conv);
    fill(&conv);
    assert_int_equal(conv.n, 21);
    whim_conversation_pop(&conv);
    assert_int_equal(conv.n, 20);
    assert_string_equal(conv.messages[19].role, "user");
    assert_null(conv.messages[19].reasoning);
    whim_conversation_clear(&conv);
    assert_int_equal(conv.n, 0);
    fill(&conv);
    whim_conversation_deinit(&conv);
    assert_null(conv.messages);
}

static void survives_a_file(void **state)
{
    (void)state;
    whim_conversation conv = {0}, back = {0};
    whim_str text = {0};
    whim_diag diag = {{0}};
    fill(&conv);
    assert_int_equal(whim_conversation_dump(&conv, &text, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_conversation_push(&back, "user", "old", NULL), WHIM_ERR_OK);
    assert_int_equal(whim_conversation_parse(&back, text.text, text.len, "f.json", &diag),
                     WHIM_ERR_OK);
    assert_int_equal(back.n, conv.n);
    for (int64_t i = 0; i < conv.n; i++) {
        const whim_message *a = &conv.messages[i], *b = &back.messages[i];
        assert_string_equal(a->role, b->role);
        assert_string_equal(a->content, b->content);
        assert_int_equal(a->reasoning == NULL, b->reasoning == NULL);
        assert_true(a->reasoning == NULL || strcmp(a->reasoning, b->reasoning) == 0);
    }
    json_t *list = whim_conversation_messages(&conv);
    assert_int_equal(json_array_size(list), 21);
    assert_int_equal(json_object_size(json_array_get(list, 0)), 2);
    assert_string_equal(
        json_string_value(json_object_get(json_array_get(list, 2), "reasoning_content")), "why");
    json_decref(list);
    whim_str_deinit(&text);
    whim_conversation_deinit(&conv);
    whim_conversation_deinit(&back);
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
    whim_conversation conv = {0};
    assert_int_equal(whim_conversation_push(&conv, "user", "kept", NULL), WHIM_ERR_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        whim_diag diag = {{0}};
        assert_int_equal(whim_conversation_parse(&conv, rows[i][0], (int64_t)strlen(rows[i][0]),
                                                 "f.json", &diag),
                         WHIM_ERR_CORRUPT);
        if (strstr(diag.text, rows[i][1]) == NULL) {
            fail_msg("%s: %s", rows[i][0], diag.text);
        }
        assert_int_equal(conv.n, 1);
    }
    static const char null_content[] =
        "{\"messages\": [{\"role\": \"assistant\", \"content\": null}]}";
    assert_int_equal(
        whim_conversation_parse(&conv, null_content, sizeof null_content - 1, "f", NULL),
        WHIM_ERR_OK);
    assert_string_equal(conv.messages[0].content, "");
    whim_conversation_deinit(&conv);
}

static void memory_may_run_out(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 4; n++) {
        whim_conversation conv = {0};
        whim_alloc_fail_after(n);
        whim_err err = whim_conversation_push(&conv, "user", "text", "why");
        whim_alloc_fail_after(-1);
        assert_int_equal(err, WHIM_ERR_NO_MEMORY);
        assert_int_equal(conv.n, 0);
        whim_conversation_deinit(&conv);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushes_pops_clears),
        cmocka_unit_test(survives_a_file),
        cmocka_unit_test(refuses_other_files),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
