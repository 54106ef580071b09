/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of /v1/responses: what becomes of their items, tools and other fields, and what is
 * refused. */
#include "unit/server/read_body.h"

#include "server/responses/responses.h"

#define HI "\"input\":\"hi\""

static void messages(const char *body, const char *want)
{
    assert_messages(whim_responses_read, body, want);
}

static void refused(const char *body, const char *param, const char *why)
{
    assert_refused(whim_responses_read, body, param, why);
}

static void takes_texts(void **state)
{
    (void)state;
    messages("{" HI "}", "[{\"role\":\"user\",\"content\":\"hi\"}]");
    messages("{\"instructions\":\"be kind\",\"input\":["
             "{\"type\":\"message\",\"role\":\"developer\",\"content\":[{\"type\":\"input_text\","
             "\"text\":\"d\"}]},"
             "{\"role\":\"user\",\"content\":\"a\"},"
             "{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"b\"},"
             "{\"type\":\"input_text\",\"text\":\"c\"}]}]}",
             "[{\"role\":\"system\",\"content\":\"be kind\"},"
             "{\"role\":\"developer\",\"content\":\"d\"},"
             "{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"b\\nc\"}]");
    refused("{}", "input", "at least one");
    refused("{\"input\":[]}", "input", "at least one");
    refused("{\"input\":{}}", "input", "at least one");
    refused("{" HI ",\"instructions\":[]}", "instructions", "string");
    refused("{" HI ",\"metadata\":[]}", "metadata", "object");
    refused("{" HI ",\"metadata\":{\"a\":{}}}", "metadata", "\"a\" is an object");
    refused("{\"input\":[1]}", "input[0].type", "must be");
    refused("{\"input\":[{\"role\":\"tool\",\"content\":\"\"}]}", "input[0].role", "must be");
    refused("{\"input\":[{\"role\":\"user\"}]}", "input[0].content", "string or a list");
    refused("{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_image\"}]}]}",
            "input[0].content[0]", "text only");
    refused("{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\"}]}]}",
            "input[0].content[0]", "string");
    refused("{\"input\":[{\"type\":\"item_reference\",\"id\":\"x\"}]}", "input[0].type", "stored");
}

static void joins_the_assistants_items(void **state)
{
    (void)state;
    messages(
        "{\"input\":[{\"role\":\"user\",\"content\":\"go\"},"
        "{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[{\"type\":\"summary_text\","
        "\"text\":\"short\"}],\"content\":[{\"type\":\"reasoning_text\",\"text\":\"hm\"}]},"
        "{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\","
        "\"text\":\"ok\",\"annotations\":[]}]},"
        "{\"type\":\"function_call\",\"call_id\":\"call_1\",\"name\":\"f\",\"arguments\":"
        "\"{\\\"a\\\":1}\"},"
        "{\"type\":\"custom_tool_call\",\"call_id\":\"call_2\",\"name\":\"p\",\"input\":\"x\"},"
        "{\"type\":\"function_call_output\",\"call_id\":\"call_1\",\"output\":\"one\"},"
        "{\"type\":\"function_call_output\",\"call_id\":\"call_2\",\"output\":["
        "{\"type\":\"input_text\",\"text\":\"two\"},{\"type\":\"input_image\"}]},"
        "{\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\",\"text\":\"s\"}],"
        "\"encrypted_content\":\"zzz\"},"
        "{\"type\":\"reasoning\",\"summary\":[]},"
        "{\"role\":\"assistant\",\"content\":\"end\"},{\"role\":\"user\",\"content\":\"u\"}]}",
        "[{\"role\":\"user\",\"content\":\"go\"},"
        "{\"role\":\"assistant\",\"content\":\"ok\",\"reasoning_content\":\"hm\",\"tool_calls\":["
        "{\"id\":\"call_1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":"
        "\"{\\\"a\\\":1}\"}},"
        "{\"id\":\"call_2\",\"type\":\"function\",\"function\":{\"name\":\"p\",\"arguments\":"
        "{\"input\":\"x\"}}}]},"
        "{\"role\":\"tool\",\"tool_call_id\":\"call_1\",\"content\":\"one\"},"
        "{\"role\":\"tool\",\"tool_call_id\":\"call_2\",\"content\":\"two\\n"
        "[image left out: this model reads text only]\"},"
        "{\"role\":\"assistant\",\"content\":\"end\",\"reasoning_content\":\"s\"},"
        "{\"role\":\"user\",\"content\":\"u\"}]");
    refused("{\"input\":[{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\"}]}",
            "input[0].arguments", "string");
    refused("{\"input\":[{\"type\":\"function_call_output\",\"output\":\"\"}]}", "input[0].call_id",
            "string");
    refused("{\"input\":[{\"type\":\"reasoning\",\"content\":[{}]}]}", "input[0].content", "text");
}

#define TOOLS                                                                                \
    "\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"parameters\":{\"type\":\"object\"}," \
    "\"strict\":false},{\"type\":\"web_search\"},{\"type\":\"function\",\"name\":\"g\","     \
    "\"description\":\"G\",\"parameters\":null},{\"type\":\"custom\",\"name\":\"p\"},"       \
    "{\"type\":\"a secret\"}]"

static void takes_tools(void **state)
{
    (void)state;
    whim_task *task = read_body(whim_responses_read, "{" HI "," TOOLS "}");
    assert_json(task->tools,
                "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":"
                "\"object\"},\"strict\":false}},"
                "{\"type\":\"function\",\"function\":{\"name\":\"g\",\"description\":\"G\","
                "\"parameters\":{\"type\":\"object\",\"properties\":{}}}},"
                "{\"type\":\"function\",\"function\":{\"name\":\"p\",\"parameters\":{"
                "\"type\":\"object\",\"properties\":{\"input\":{\"type\":\"string\","
                "\"description\":\"The whole input, as plain text.\"}},"
                "\"required\":[\"input\"]}}}]");
    assert_string_equal(whim_str_text(&task->left_out),
                        "web_search,?"); /* what is no plain word is not logged */
    assert_int_equal(task->choice, WHIM_CHOICE_AUTO);
    whim_task_destroy(task);
    /* A grammar of its input is told to the model; it may be asked for by its name. */
    task = read_good(whim_responses_read,
                     "{" HI ",\"tools\":[{\"type\":\"custom\",\"name\":\"p\",\"description\":"
                     "\"Edits.\",\"format\":{\"type\":\"grammar\",\"syntax\":\"lark\","
                     "\"definition\":\"start: A\"}}],\"tool_choice\":{\"type\":\"custom\","
                     "\"name\":\"p\"}}");
    const json_t *function = json_object_get(json_array_get(task->tools, 0), "function");
    const json_t *input = json_object_get(
        json_object_get(json_object_get(function, "parameters"), "properties"), "input");
    assert_non_null(
        strstr(json_string_value(json_object_get(input, "description")), "(lark):\nstart: A"));
    assert_string_equal(task->ask.tool_name, "p");
    whim_task_destroy(task);
    refused("{" HI ",\"tools\":[{\"type\":\"custom\"}]}", "tools[0].name", "not empty");
    refused("{" HI ",\"tools\":[{\"name\":\"f\"}]}", "tools[0].type", "string");
    refused("{" HI ",\"tools\":[{\"type\":\"function\"}]}", "tools[0].name", "not empty");
}

#define GROUP(rest) "{\"type\":\"namespace\",\"name\":\"mcp__s\"" rest "}"
#define GROUPS                                                                                    \
    "\"tools\":[{\"type\":\"web_search\"}," GROUP(                                                \
        ",\"tools\":[{\"type\":\"custom\",\"name\":\"p\"},{\"type\":\"function\",\"name\":\"f\"}" \
        "]") "]"

static void takes_tools_in_namespaces(void **state)
{
    (void)state;
    whim_task *task = read_body(whim_responses_read, "{" HI "," GROUPS "}");
    assert_json(task->tools, "[{\"type\":\"function\",\"function\":{\"name\":\"mcp__s__f\","
                             "\"parameters\":{\"type\":\"object\",\"properties\":{}}}}]");
    assert_int_equal(task->tool_at[0], 1);
    assert_string_equal(whim_str_text(&task->left_out), "web_search,custom");
    whim_task_destroy(task);
    messages("{\"input\":[{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\","
             "\"namespace\":\"mcp__s\",\"arguments\":\"{}\"}]}",
             "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"c\",\"type\":"
             "\"function\",\"function\":{\"name\":\"mcp__s__f\",\"arguments\":\"{}\"}}]}]");
    refused("{" HI ",\"tools\":[{\"type\":\"namespace\",\"tools\":[]}]}", "tools[0].name",
            "not empty");
    refused("{" HI ",\"tools\":[" GROUP(",\"tools\":{}") "]}", "tools[0].tools", "array");
    refused("{" HI ",\"tools\":[" GROUP(",\"tools\":[{\"type\":\"function\"}]") "]}",
            "tools[0].tools[0].name", "not empty");
    refused("{" HI ",\"tools\":[" GROUP(",\"tools\":[1]") "]}", "tools[0].tools[0].type", "string");
    refused("{\"input\":[{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\","
            "\"namespace\":1,\"arguments\":\"{}\"}]}",
            "input[0].namespace", "string");
}

/* Namespaces of 300 tools each: one is taken, two are too many. */
static void counts_the_tools_of_namespaces(void **state)
{
    (void)state;
    whim_str body = {0};
    for (int n_group = 1; n_group <= 2; n_group++) {
        whim_str_clear(&body);
        whim_str_append(&body, "{" HI ",\"tools\":[");
        for (int i = 0; i < n_group * 300; i++) {
            const char *head = "{\"type\":\"namespace\",\"name\":\"n\",\"tools\":[";
            whim_str_printf(&body, "%s{\"type\":\"function\",\"name\":\"f%d\"}%s",
                            i % 300 == 0 ? head : "", i,
                            i % 300 < 299           ? ","
                            : i < n_group * 300 - 1 ? "]},"
                                                    : "]}");
        }
        whim_str_append(&body, "]}");
        if (n_group == 2) {
            refused(body.text, "tools", "at most 512");
            break;
        }
        whim_task *task = read_good(whim_responses_read, body.text);
        assert_int_equal(json_array_size(task->tools), 300);
        whim_task_destroy(task);
    }
    whim_str_deinit(&body);
}

static void choice(const char *field, whim_tool_choice want, const char *name, size_t n_tool)
{
    char body[1024];
    snprintf(body, sizeof body, "{%s,%s,\"parallel_tool_calls\":false,\"tool_choice\":%s}", HI,
             TOOLS, field);
    whim_task *task = read_good(whim_responses_read, body);
    assert_int_equal(task->choice, want);
    assert_true(task->ask.one_call);
    assert_string_equal(task->ask.tool_name == NULL ? "" : task->ask.tool_name, name);
    assert_int_equal(json_array_size(task->tools), n_tool);
    whim_task_destroy(task);
}

static void takes_a_choice(void **state)
{
    (void)state;
    choice("\"auto\"", WHIM_CHOICE_AUTO, "", 3);
    choice("\"none\"", WHIM_CHOICE_NONE, "", 3);
    choice("\"required\"", WHIM_CHOICE_REQUIRED, "", 3);
    choice("{\"type\":\"function\",\"name\":\"g\"}", WHIM_CHOICE_REQUIRED, "g", 3);
#define ALLOWED(mode, name) \
    "{\"type\":\"allowed_tools\",\"mode\":\"" mode "\",\"tools\":[{\"name\":\"" name "\"}]}"
    choice(ALLOWED("auto", "g"), WHIM_CHOICE_AUTO, "", 1);
    choice(ALLOWED("required", "f"), WHIM_CHOICE_REQUIRED, "", 1);
    refused("{" HI "," TOOLS ",\"tool_choice\":" ALLOWED("auto", "x") "}", "tool_choice.tools",
            "names \"x\"");
    refused("{" HI "," TOOLS ",\"tool_choice\":" ALLOWED("any", "g") "}", "tool_choice.mode",
            "must be");
    refused("{" HI "," TOOLS ",\"tool_choice\":" ALLOWED("auto", "g\"},{\"name\":\"x") "}",
            "tool_choice.tools", "entry 1");
    refused("{" HI "," TOOLS ",\"tool_choice\":{\"type\":\"allowed_tools\",\"mode\":\"auto\","
            "\"tools\":[]}}",
            "tool_choice.tools", "1 to");
    refused("{" HI ",\"tool_choice\":\"required\"}", "tool_choice", "none that can");
    refused("{" HI "," TOOLS ",\"tool_choice\":\"any\"}", "tool_choice", "must be");
    refused("{" HI "," TOOLS ",\"tool_choice\":{\"type\":\"web_search\"}}", "tool_choice.type",
            "must be");
    refused("{" HI "," TOOLS ",\"tool_choice\":{\"type\":\"function\",\"name\":\"x\"}}",
            "tool_choice.name", "one of");
}

static void takes_the_other_fields(void **state)
{
    (void)state;
    whim_task *task = read_good(
        whim_responses_read,
        "{" HI
        ",\"max_output_tokens\":7,\"store\":true,\"include\":[\"reasoning.encrypted_content\"]"
        ",\"prompt_cache_key\":\"k\",\"reasoning\":{\"effort\":\"high\",\"summary\":\"auto\"},"
        "\"text\":{\"verbosity\":\"low\",\"format\":{\"type\":\"json_schema\",\"name\":\"n\","
        "\"schema\":{\"type\":\"object\"},\"strict\":true}},\"background\":false,"
        "\"previous_response_id\":null}");
    assert_int_equal(task->ask.max_tokens, 7);
    assert_int_equal(task->ask.thinking, WHIMBREL_THINKING_ON);
    assert_string_equal(task->ask.effort, "high");
    assert_json(task->schema, "{\"type\":\"object\"}");
    whim_task_destroy(task);
    task =
        read_good(whim_responses_read, "{" HI ",\"text\":{\"format\":{\"type\":\"json_object\"}}}");
    assert_true(task->ask.json_object);
    assert_int_equal(task->ask.thinking, WHIMBREL_THINKING_USUAL);
    assert_int_equal(task->ask.max_tokens, 0);
    whim_task_destroy(task);
    refused("{" HI ",\"max_output_tokens\":0}", "max_output_tokens", "from 1");
    refused("{" HI ",\"text\":{\"format\":{\"type\":\"json_schema\"}}}", "text.format.schema",
            "required");
    refused("{" HI ",\"text\":{\"format\":{\"type\":\"grammar\"}}}", "text.format.type", "must be");
    refused("{" HI ",\"reasoning\":{\"effort\":\"huge\"}}", "reasoning.effort", "huge");
}

static void refuses_what_needs_a_store(void **state)
{
    (void)state;
    refused("{" HI ",\"previous_response_id\":\"resp_1\"}", "previous_response_id", "resp_1");
    refused("{" HI ",\"previous_response_id\":7}", "previous_response_id", "string");
    refused("{" HI ",\"conversation\":{\"id\":\"c\"}}", "conversation", "stored");
    refused("{" HI ",\"prompt\":{\"id\":\"p\"}}", "prompt", "stored");
    refused("{" HI ",\"background\":true}", "background", "while its client waits");
    refused("{" HI ",\"include\":[\"reasoning.encrypted_content\","
            "\"message.output_text.logprobs\"]}",
            "include", "use /v1/chat/completions");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_texts),
        cmocka_unit_test(joins_the_assistants_items),
        cmocka_unit_test(takes_tools),
        cmocka_unit_test(takes_tools_in_namespaces),
        cmocka_unit_test(counts_the_tools_of_namespaces),
        cmocka_unit_test(takes_a_choice),
        cmocka_unit_test(takes_the_other_fields),
        cmocka_unit_test(refuses_what_needs_a_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
