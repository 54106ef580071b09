/* SPDX-License-Identifier: Apache-2.0 */
/* Which tools of a /v1/messages body are offered, and in which order, as the conversation goes
 * on. */
#include "unit/server/read_body.h"

#include "server/anthropic/anthropic.h"

#define HI "{\"role\":\"user\",\"content\":\"hi\"}"
#define TOOL(name) "{\"name\":\"" name "\"}"
#define LATER(name) "{\"name\":\"" name "\",\"defer_loading\":true}"
#define TOOLS "\"tools\":[" TOOL("a") "," LATER("x") "," TOOL("b") "," LATER("y") "," TOOL("c") "]"
#define FOUND(name)                                                                    \
    "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t\"," \
    "\"content\":[{\"type\":\"tool_reference\",\"tool_name\":\"" name "\"}]}]}"
#define CHANGE(type, name) \
    "{\"type\":\"" type "\",\"tool\":{\"type\":\"tool_reference\",\"name\":\"" name "\"}}"
#define SYSTEM(blocks) "{\"role\":\"system\",\"content\":[" blocks "]}"
#define BODY(turns) "{" TOOLS ",\"messages\":[" turns "]}"

/* The names in the order of the prompt, and where each stands in the request. */
static void offers(const char *body, const char *want)
{
    whim_task *task = read_good(whim_anthropic_read, body);
    whim_str names = {0};
    for (size_t i = 0; i < json_array_size(task->tools); i++) {
        const json_t *function = json_object_get(json_array_get(task->tools, i), "function");
        whim_str_printf(&names, "%s%s%d", i > 0 ? " " : "",
                        json_string_value(json_object_get(function, "name")), task->tool_at[i]);
    }
    assert_string_equal(whim_str_text(&names), want);
    assert_int_equal(task->choice == WHIM_CHOICE_NONE, want[0] == '\0');
    whim_str_deinit(&names);
    whim_task_destroy(task);
}

static void refused(const char *body, const char *param, const char *why)
{
    assert_refused(whim_anthropic_read, body, param, why);
}

static void leaves_out_what_waits(void **state)
{
    (void)state;
    offers(BODY(HI), "a0 b2 c4");
    offers("{\"messages\":[" HI "],\"tools\":[" LATER("x") "]}", "");
    offers("{\"messages\":[" HI "],\"tools\":[{\"type\":\"web_search_20250305\"}," TOOL(
               "a") ",{\"name\":\"b\",\"defer_loading\":false}]}",
           "a1 b2");
    refused("{\"messages\":[" HI "],\"tools\":[{\"name\":\"a\",\"defer_loading\":1}]}",
            "tools[0].defer_loading", "true or false");
}

static void puts_what_is_found_behind_the_others(void **state)
{
    (void)state;
    offers(BODY(HI "," FOUND("y")), "a0 b2 c4 y3");
    offers(BODY(HI "," FOUND("y") "," FOUND("x") "," FOUND("y")), "a0 b2 c4 y3 x1");
    offers(BODY(HI "," FOUND("a") "," FOUND("unknown")), "a0 b2 c4");
    /* Only a result finds; the same block elsewhere is refused, a name in a text is a text. */
    offers(BODY("{\"role\":\"user\",\"content\":\"y\"}"), "a0 b2 c4");
    /* Found in turns that were cut off since, or forced now. */
    offers(BODY(HI ",{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"t\","
                   "\"name\":\"y\",\"input\":{}}]}"),
           "a0 b2 c4 y3");
    offers("{" TOOLS ",\"messages\":[" HI "],\"tool_choice\":{\"type\":\"tool\",\"name\":\"x\"}}",
           "a0 b2 c4 x1");
}

static void heeds_changes_inside_the_conversation(void **state)
{
    (void)state;
    offers(BODY(HI "," SYSTEM(CHANGE("tool_removal", "a"))), "b2 c4");
    offers(BODY(HI "," SYSTEM(CHANGE("tool_addition", "x") "," CHANGE("tool_removal", "c"))),
           "a0 b2 x1");
    offers(BODY(HI "," SYSTEM(CHANGE("tool_removal", "a")) "," HI "," SYSTEM(
               CHANGE("tool_addition", "a"))),
           "b2 c4 a0");
    offers("{\"messages\":[" HI
           "," SYSTEM(CHANGE("tool_removal", "a")) "],\"tools\":[" TOOL("a") "]}",
           "");
    /* A change is no turn; with a text beside it the text is one. */
    assert_messages(whim_anthropic_read, BODY(HI "," SYSTEM(CHANGE("tool_removal", "a")) "," HI),
                    "[{\"role\":\"user\",\"content\":\"hi\\nhi\"}]");
    assert_messages(
        whim_anthropic_read,
        BODY(HI "," SYSTEM("{\"type\":\"text\",\"text\":\"s\"}," CHANGE("tool_removal", "a"))),
        "[{\"role\":\"user\",\"content\":\"hi\"},"
        "{\"role\":\"system\",\"content\":\"s\"}]");
}

static void refuses_changes_that_it_cannot_make(void **state)
{
    (void)state;
    refused(BODY(SYSTEM("{\"type\":\"tool_addition\",\"tool\":{\"type\":\"tool_definition\","
                        "\"definition\":{\"name\":\"z\"}}}")),
            "messages[0].content[0].tool.type", "tool_reference");
    refused(BODY(SYSTEM("{\"type\":\"tool_removal\"}")), "messages[0].content[0].tool.type",
            "tool_reference");
    refused(BODY(SYSTEM("{\"type\":\"tool_removal\",\"tool\":{\"type\":\"tool_reference\"}}")),
            "messages[0].content[0].tool.name", "string");
    refused("{\"system\":[" CHANGE("tool_removal", "a") "],\"messages\":[" HI "]}", "system[0]",
            "text block");
    refused(BODY("{\"role\":\"user\",\"content\":[" CHANGE("tool_removal", "a") "]}"),
            "messages[0].content[0].type", "cannot stand here");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaves_out_what_waits),
        cmocka_unit_test(puts_what_is_found_behind_the_others),
        cmocka_unit_test(heeds_changes_inside_the_conversation),
        cmocka_unit_test(refuses_changes_that_it_cannot_make),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
