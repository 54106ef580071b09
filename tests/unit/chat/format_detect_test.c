/* SPDX-License-Identifier: Apache-2.0 */
/* What is read out of the templates of tests/data/chat. */
#include <stdint.h>

#include "chat/format.h"
#include "support/cmocka.h"

static void templates_tell_their_form(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        whim_chat_format format;
    } rows[] = {
        {"qwen3", {WHIM_TOOLS_HERMES, true, true, true}},
        {"qwen35", {WHIM_TOOLS_XML, true, true, true}},
        {"qwen3coder", {WHIM_TOOLS_XML, true, false, false}},
        {"minimax", {WHIM_TOOLS_INVOKE, true, true, false}},
        {"smollm2", {WHIM_TOOLS_HERMES, false, false, false}},
        /* They print tools, in forms that are not read here. */
        {"llama3", {WHIM_TOOLS_HERMES, false, false, false}},
        {"mistral", {WHIM_TOOLS_HERMES, false, false, false}},
        {NULL, {WHIM_TOOLS_HERMES, false, false, false}},
    };
    json_t *file = json_load_file("tests/data/chat/conversations.json", JSON_ALLOW_NUL, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *source = rows[i].name == NULL
                                 ? NULL
                                 : json_string_value(json_object_get(
                                       json_object_get(file, "templates"), rows[i].name));
        assert_true(source != NULL || rows[i].name == NULL);
        const whim_chat_format is = whim_chat_format_detect(source), *want = &rows[i].format;
        if (is.tools != want->tools || is.native_tools != want->native_tools ||
            is.reasons != want->reasons || is.thinking_switch != want->thinking_switch) {
            fail_msg("%s: %d %d %d %d", rows[i].name, is.tools, is.native_tools, is.reasons,
                     is.thinking_switch);
        }
    }
    json_decref(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(templates_tell_their_form)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
