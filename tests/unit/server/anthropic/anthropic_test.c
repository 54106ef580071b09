/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of /v1/messages: what becomes of their turns, tools and other fields, and what is
 * refused. */
#include "unit/server/read_body.h"

#include "server/anthropic/anthropic.h"

#define USER(content) "{\"messages\":[{\"role\":\"user\",\"content\":" content "}]}"
#define USER_HI "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define PLACEHOLDER "[image left out: this model reads text only]"

static void messages(const char *body, const char *want)
{
    assert_messages(whim_anthropic_read, body, want);
}

static void refused(const char *body, const char *param, const char *why)
{
    assert_refused(whim_anthropic_read, body, param, why);
}

static void takes_plain_turns(void **state)
{
    (void)state;
    messages(USER("\"hi\""), "[{\"role\":\"user\",\"content\":\"hi\"}]");
    messages(USER("[]"), "[{\"role\":\"user\",\"content\":\"\"}]");
    messages(USER("[{\"type\":\"text\",\"text\":\"a\",\"cache_control\":{\"type\":\"ephemeral\"}},"
                  "{\"type\":\"text\",\"text\":\"\"},{\"type\":\"text\",\"text\":\"b\\u0000c\"}]"),
             "[{\"role\":\"user\",\"content\":\"a\\nb\\u0000c\"}]");
    /* Consecutive turns of a role are one; a final assistant turn stays the last. */
    messages("{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"
             "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"b\"}]},"
             "{\"role\":\"assistant\",\"content\":\"c\"},"
             "{\"role\":\"assistant\",\"content\":\"d \"}]}",
             "[{\"role\":\"user\",\"content\":\"a\\nb\"},"
             "{\"role\":\"assistant\",\"content\":\"c\\nd \"}]");
    messages("{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"
             "{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"s\"}]},"
             "{\"role\":\"user\",\"content\":\"b\"}]}",
             "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"system\",\"content\":\"s\"},"
             "{\"role\":\"user\",\"content\":\"b\"}]");
}

static void takes_a_system_text(void **state)
{
    (void)state;
    messages("{\"system\":\"be kind\"," USER_HI "}",
             "[{\"role\":\"system\",\"content\":\"be kind\"},"
             "{\"role\":\"user\",\"content\":\"hi\"}]");
    messages("{\"system\":[{\"type\":\"text\",\"text\":\"x-anthropic-billing-header: v=1; c=ab\"},"
             "{\"type\":\"text\",\"text\":\"one\"},{\"type\":\"text\",\"text\":\"two\"}]," USER_HI
             "}",
             "[{\"role\":\"system\",\"content\":\"one\\ntwo\"},"
             "{\"role\":\"user\",\"content\":\"hi\"}]");
    messages("{\"system\":\"x-anthropic-billing-header: v=1\\nthe rest\"," USER_HI "}",
             "[{\"role\":\"system\",\"content\":\"the rest\"},"
             "{\"role\":\"user\",\"content\":\"hi\"}]");
    /* Nothing left: as if there were none. */
    messages("{\"system\":\"x-anthropic-billing-header: v=1\"," USER_HI "}",
             "[{\"role\":\"user\",\"content\":\"hi\"}]");
    messages("{\"system\":null," USER_HI "}", "[{\"role\":\"user\",\"content\":\"hi\"}]");
    refused("{\"system\":7," USER_HI "}", "system", "string or a list");
    refused("{\"system\":[{\"type\":\"image\"}]," USER_HI "}", "system[0]", "text block");
}

static void takes_calls_and_results(void **state)
{
    (void)state;
    messages(
        "{\"messages\":[{\"role\":\"user\",\"content\":\"go\"},"
        "{\"role\":\"assistant\",\"content\":["
        "{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"abc\"},"
        "{\"type\":\"redacted_thinking\",\"data\":\"xyz\"},"
        "{\"type\":\"text\",\"text\":\"ok\"},"
        "{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"f\",\"input\":{\"z\":1,\"a\":2}},"
        "{\"type\":\"tool_use\",\"id\":\"toolu_2\",\"name\":\"g\",\"input\":{}}]},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"before\"},"
        "{\"type\":\"tool_result\",\"tool_use_id\":\"toolu_1\",\"content\":\"one\"},"
        "{\"type\":\"tool_result\",\"tool_use_id\":\"toolu_2\",\"is_error\":true,"
        "\"content\":[{\"type\":\"text\",\"text\":\"no\"},{\"type\":\"image\",\"source\":{}},"
        "{\"type\":\"tool_reference\",\"tool_name\":\"h\"},{\"type\":\"new_kind\"}]},"
        "{\"type\":\"text\",\"text\":\"after\"}]},"
        "{\"role\":\"user\",\"content\":\"and\"}]}",
        "[{\"role\":\"user\",\"content\":\"go\"},"
        "{\"role\":\"assistant\",\"content\":\"ok\",\"reasoning_content\":\"hm\",\"tool_calls\":["
        "{\"id\":\"toolu_1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":"
        "{\"z\":1,\"a\":2}}},"
        "{\"id\":\"toolu_2\",\"type\":\"function\",\"function\":{\"name\":\"g\",\"arguments\":"
        "{}}}]},"
        "{\"role\":\"user\",\"content\":\"before\"},"
        "{\"role\":\"tool\",\"tool_call_id\":\"toolu_1\",\"content\":\"one\"},"
        "{\"role\":\"tool\",\"tool_call_id\":\"toolu_2\",\"content\":\"Error: no\\n" PLACEHOLDER
        "\\nh\\n[block left out: this model reads text only]\"},"
        "{\"role\":\"user\",\"content\":\"after\\nand\"}]");
    messages(USER("[{\"type\":\"tool_result\",\"tool_use_id\":\"t\"}]"),
             "[{\"role\":\"tool\",\"tool_call_id\":\"t\",\"content\":\"\"}]");
}

static void takes_documents(void **state)
{
    (void)state;
    messages(USER("[{\"type\":\"document\",\"title\":\"T\",\"context\":\"C\",\"source\":{\"type\":"
                  "\"text\",\"media_type\":\"text/plain\",\"data\":\"D\"}},"
                  "{\"type\":\"document\",\"source\":{\"type\":\"content\",\"content\":["
                  "{\"type\":\"text\",\"text\":\"E\"}]}},"
                  "{\"type\":\"search_result\",\"title\":\"S\",\"source\":\"u\",\"content\":["
                  "{\"type\":\"text\",\"text\":\"F\"}]}]"),
             "[{\"role\":\"user\",\"content\":\"T\\nC\\nD\\nE\\nS\\nu\\nF\"}]");
#define PDF "{\"type\":\"document\",\"source\":{\"type\":\"base64\",\"data\":\"\"}}"
    refused(USER("[" PDF "]"), "messages[0].content[0]", "reads text only");
    refused(USER("[{\"type\":\"document\",\"title\":5,\"source\":{\"type\":\"url\"}}]"),
            "messages[0].content[0].title", "string");
    messages(USER("[{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":[" PDF "]}]"),
             "[{\"role\":\"tool\",\"tool_call_id\":\"t\",\"content\":\"" PLACEHOLDER "\"}]");
}

static void refuses_wrong_turns(void **state)
{
    (void)state;
    refused("{}", "messages", "at least one");
    refused("{\"messages\":[]}", "messages", "at least one");
    refused("{\"messages\":\"hi\"}", "messages", "at least one");
    refused("{\"messages\":[5]}", "messages[0].role", "must be");
    refused("{\"messages\":[{\"role\":\"tool\",\"content\":\"\"}]}", "messages[0].role", "must be");
    refused(USER("null"), "messages[0].content", "string or a list");
    refused(USER("{}"), "messages[0].content", "string or a list");
    refused(USER("[3]"), "messages[0].content[0]", "\"type\"");
    refused(USER("[{\"type\":\"text\"}]"), "messages[0].content[0].text", "string");
    refused(USER("[{\"type\":\"text\",\"text\":\"\"},{\"type\":\"image\",\"source\":{}}]"),
            "messages[0].content[1]", "reads text only");
    refused(USER("[{\"type\":\"tool_use\",\"id\":\"\",\"name\":\"f\",\"input\":{}}]"),
            "messages[0].content[0].type", "tool_use");
    refused(USER("[{\"type\":\"tool_result\"}]"), "messages[0].content[0].tool_use_id", "string");
    refused(USER("[{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"is_error\":1}]"),
            "messages[0].content[0].is_error", "true or false");
    refused(
        USER(
            "[{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":[{\"type\":\"text\"}]}]"),
        "messages[0].content[0].content[0].text", "string");
    refused(
        "{\"messages\":[{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"a\","
        "\"name\":\"f\",\"input\":\"{}\"}]}]}",
        "messages[0].content[0].input", "object");
    refused("{\"messages\":[{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_result\"}]}]}",
            "messages[0].content[0].type", "assistant");
}

#define TOOLS                                                                                 \
    "\"tools\":[{\"name\":\"f\",\"description\":\"F\",\"input_schema\":{\"properties\":{}}}," \
    "{\"type\":\"web_search_20250305\",\"name\":\"web_search\"},"                             \
    "{\"type\":\"custom\",\"name\":\"g\",\"input_schema\":{\"type\":\"object\"},\"strict\":true}]"

static void takes_tools(void **state)
{
    (void)state;
    whim_task *task = read_body(whim_anthropic_read, "{" USER_HI "," TOOLS "}");
    assert_json(task->tools,
                "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"F\","
                "\"parameters\":{\"type\":\"object\",\"properties\":{}}}},"
                "{\"type\":\"function\",\"function\":{\"name\":\"g\",\"parameters\":{\"type\":"
                "\"object\"},\"strict\":true}}]");
    assert_string_equal(whim_str_text(&task->left_out), "web_search_20250305");
    assert_int_equal(task->choice, WHIM_CHOICE_AUTO);
    assert_false(task->ask.one_call);
    whim_task_destroy(task);
    task = read_good(whim_anthropic_read,
                     "{" USER_HI ",\"tools\":[{\"type\":\"bash_20250124\",\"name\":\"bash\"}]}");
    assert_null(task->tools);
    assert_int_equal(task->choice, WHIM_CHOICE_NONE);
    whim_task_destroy(task);
    refused("{" USER_HI ",\"tools\":{}}", "tools", "array");
    refused("{" USER_HI ",\"tools\":[1]}", "tools[0].name", "not empty");
    refused("{" USER_HI ",\"tools\":[{\"name\":\"f\",\"input_schema\":[]}]}",
            "tools[0].input_schema", "object");
    refused("{" USER_HI ",\"tools\":[{\"type\":1}]}", "tools[0].type", "string");
}

static void choice(const char *field, whim_tool_choice want, const char *name, bool one_call)
{
    char body[1024];
    snprintf(body, sizeof body, "{%s,%s,\"tool_choice\":%s}", USER_HI, TOOLS, field);
    whim_task *task = read_good(whim_anthropic_read, body);
    assert_int_equal(task->choice, want);
    assert_int_equal(task->ask.one_call, one_call);
    if (name == NULL) {
        assert_null(task->ask.tool_name);
    } else {
        assert_string_equal(task->ask.tool_name, name);
    }
    whim_task_destroy(task);
}

static void takes_a_choice(void **state)
{
    (void)state;
    choice("null", WHIM_CHOICE_AUTO, NULL, false);
    choice("{\"type\":\"auto\",\"disable_parallel_tool_use\":true}", WHIM_CHOICE_AUTO, NULL, true);
    choice("{\"type\":\"any\"}", WHIM_CHOICE_REQUIRED, NULL, false);
    choice("{\"type\":\"tool\",\"name\":\"g\",\"disable_parallel_tool_use\":true}",
           WHIM_CHOICE_REQUIRED, "g", true);
    choice("{\"type\":\"none\"}", WHIM_CHOICE_NONE, NULL, false);
    refused("{" USER_HI ",\"tool_choice\":{\"type\":\"any\"}}", "tool_choice", "none that can");
    refused("{" USER_HI "," TOOLS ",\"tool_choice\":\"auto\"}", "tool_choice", "object");
    refused("{" USER_HI "," TOOLS ",\"tool_choice\":{\"type\":\"x\"}}", "tool_choice.type", "must");
    refused("{" USER_HI "," TOOLS ",\"tool_choice\":{\"type\":\"tool\",\"name\":\"web_search\"}}",
            "tool_choice.name", "one of");
}

static void thinking(const char *fields, int32_t want, int64_t budget, const char *effort)
{
    char body[512];
    snprintf(body, sizeof body, "{%s%s}", USER_HI, fields);
    whim_task *task = read_good(whim_anthropic_read, body);
    assert_int_equal((int32_t)task->ask.thinking - 1, want);
    assert_int_equal(task->ask.think_budget, budget);
    assert_string_equal(task->ask.effort == NULL ? "" : task->ask.effort, effort);
    whim_task_destroy(task);
}

static void takes_thinking_and_effort(void **state)
{
    (void)state;
    thinking("", 0, 0, "");
    thinking(",\"thinking\":{\"type\":\"disabled\"}", 0, 0, "");
    thinking(",\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":2000.0}", 1, 2000, "");
    thinking(",\"thinking\":{\"type\":\"adaptive\",\"display\":\"summarized\"}", 1, 0, "");
    thinking(",\"thinking\":{\"type\":\"between_tools\"}", 1, 0, "");
    /* An effort goes to the template; it does not turn thinking on. */
    thinking(",\"output_config\":{\"effort\":\"high\"}", 0, 0, "high");
    thinking(",\"output_config\":{\"effort\":\"max\"},\"thinking\":{\"type\":\"adaptive\"}", 1, 0,
             "max");
    refused("{" USER_HI ",\"thinking\":true}", "thinking", "object");
    refused("{" USER_HI ",\"thinking\":{\"type\":\"on\"}}", "thinking.type", "must be");
    refused("{" USER_HI ",\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":0}}",
            "thinking.budget_tokens", "from 1");
    refused("{" USER_HI ",\"output_config\":{\"effort\":\"huge\"}}", "output_config.effort",
            "huge");
}

static void takes_a_schema(void **state)
{
    (void)state;
#define FORMAT "{\"type\":\"json_schema\",\"schema\":{\"type\":\"object\"}}"
    whim_task *task =
        read_good(whim_anthropic_read, "{" USER_HI ",\"output_config\":{\"format\":" FORMAT "}}");
    assert_json(task->schema, "{\"type\":\"object\"}");
    whim_task_destroy(task);
    task = read_good(whim_anthropic_read, "{" USER_HI ",\"output_format\":" FORMAT "}");
    assert_json(task->schema, "{\"type\":\"object\"}");
    whim_task_destroy(task);
    refused("{" USER_HI ",\"output_config\":{\"format\":{\"type\":\"text\"}}}",
            "output_config.format", "json_schema");
}

static void takes_sampling_and_stops(void **state)
{
    (void)state;
    whim_task *task = read_good(whim_anthropic_read,
                                "{" USER_HI ",\"model\":\"any\",\"metadata\":{\"user_id\":1},"
                                "\"temperature\":0,\"top_k\":3,\"stream\":true,"
                                "\"stop_sequences\":[\"a\",\"b\"],\"service_tier\":\"auto\"}");
    assert_true(task->stream);
    assert_true(task->sampling.temperature == 0.0f);
    assert_int_equal(task->sampling.top_k, 3);
    assert_int_equal(task->ask.n_stop, 2);
    assert_string_equal(task->ask.stops[1], "b");
    whim_task_destroy(task);
    refused("{" USER_HI ",\"stop_sequences\":[\"\"]}", "stop_sequences", "1 to");
    refused("{" USER_HI ",\"stream\":\"yes\"}", "stream", "true or false");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_plain_turns),       cmocka_unit_test(takes_a_system_text),
        cmocka_unit_test(takes_calls_and_results), cmocka_unit_test(takes_documents),
        cmocka_unit_test(refuses_wrong_turns),     cmocka_unit_test(takes_tools),
        cmocka_unit_test(takes_a_choice),          cmocka_unit_test(takes_thinking_and_effort),
        cmocka_unit_test(takes_a_schema),          cmocka_unit_test(takes_sampling_and_stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
