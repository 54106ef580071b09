/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are objects and have another key than "name", or no key for it, or marks of their own:
 * what is read out of them, however they are cut. */
#include <stdint.h>

#include "support/chat_rows.h"

static void hermes_rows(void **state)
{
    (void)state;
    static const row rows[] = {
        {"hello", "c[hello]"},
        {" hi \n", "c[ hi \n]"},
        {"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>",
         " 0:fargs[{\"a\": 1}] end"},
        {"<think>\nwhy\n</think>\n\nso\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": "
         "{}}\n</tool_call>\n<tool_call>{\"arguments\": {\"x\": [\"}\"]}, \"name\": "
         "\"g\"}</tool_call> \n end",
         "r[why]c[so] 0:fargs[{}] end 1:gargs[{\"x\": [\"}\"]}] endc[end]"},
        {"<tool_call>{\"name\": \"f\"}</tool_call>", " 0:fargs[{}] end"},
        {"<tool_call>{\"name\": \"f\", \"arguments\": null}</tool_call>", " 0:fargs[{}] end"},
        {"<tool_call>{\"name\": \"f\", \"parameters\": {\"q\":2}}</tool_call>",
         " 0:fargs[{\"q\":2}] end"},
        {"<tool_call>{\"id\": 5, \"name\": \"f\", \"arguments\": {}, \"x\": [1]}</tool_call>",
         " 0:fargs[{}] end"},
        {"<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": "
         "\\\"\\u00e9\\\\n\\\"}\"}</tool_call>",
         " 0:fargs[{\"a\": \"é\\n\"}] end"},
        {"<tool_call>{\"arguments\": \"\", \"name\": \"\\ud83d\\ude00\\ud83d\"}</tool_call>",
         " 0:😀\xef\xbf\xbd"
         "args[{}] end"},
        /* cut */
        {"<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"b", " 0:fargs[{\"a\": \"b]"},
        {"<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool",
         " 0:fargs[{\"a\": 1}] end"},
        {"a \n<tool_call>{\"name\": \"f\"", "c[a \n<tool_call>{\"name\": \"f\"]"},
        {"a <tool_", "c[a <tool_]"},
        /* malformed */
        {"x <tool_call>nonsense</tool_call> y", "c[x <tool_call>nonsense</tool_call> y]"},
        {"<tool_call>{\"name\": 5}</tool_call>", "c[<tool_call>{\"name\": 5}</tool_call>]"},
        {"<tool_call>{\"arguments\": {}}</tool_call>",
         "c[<tool_call>{\"arguments\": {}}</tool_call>]"},
        {"<tool_call>{\"name\": \"\", \"arguments\": {}}",
         "c[<tool_call>{\"name\": \"\", \"arguments\": {}}]"},
        {"<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1,}}\n</tool_call>\nmore",
         " 0:fargs[{\"a\": 1,]c[}}more]"},
        {"<tool_call>{\"name\": \"f\", \"arguments\": {}}}</tool_call>", " 0:fargs[{}] endc[}]"},
        {"<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
         "c[<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>]"},
        {"<tool_call>\n<tool_call>{\"name\": \"f\"}</tool_call>",
         "c[<tool_call>\n] 0:fargs[{}] end"},
        {"<<tool_call>{\"name\": \"f\"}</tool_call>", "c[<] 0:fargs[{}] end"},
        {"a</tool_call>b", "c[a</tool_call>b]"},
        {"<think>a <tool_call>{}</tool_call>", "r[a ]c[<tool_call>{}</tool_call>]"},
        {"<think>a\n\n<tool_call>\n{\"name\": \"f\"}\n</tool_call>", "r[a] 0:fargs[{}] end"},
        {"<think><tool_</think>b", "r[<tool_]c[b]"},
    };
    check_rows("hermes", rows, COUNT(rows));
}

/* Without tags: an answer that begins as an object is a call of one of the tools. */
static void bare_rows(void **state)
{
    (void)state;
    static const row rows[] = {
        {"{\"name\": \"f\", \"parameters\": {\"a\": [1, {}]}}", " 0:fargs[{\"a\": [1, {}]}] end"},
        {" \n{\"type\": \"function\", \"name\": \"f\", \"parameters\": {}}\n", " 0:fargs[{}] end"},
        {"<|python_tag|>{\"name\": \"f\", \"arguments\": {\"i\": 1}}", " 0:fargs[{\"i\": 1}] end"},
        {"{\"name\": \"f\", \"parameters\": {\"i\": 1}}; {\"name\": \"f\", \"parameters\": {}}",
         " 0:fargs[{\"i\": 1}] end 1:fargs[{}] end"},
        {"{\"name\": \"f\", \"parameters\": {}}\n{\"name\": \"f\", \"parameters\": {}} so",
         " 0:fargs[{}] end 1:fargs[{}] endc[so]"},
        {"<think>w</think>\n\n{\"name\": \"f\", \"parameters\": {}}", "r[w] 0:fargs[{}] end"},
        {"Sure. <|python_tag|>{\"name\": \"f\", \"parameters\": {}}", "c[Sure.] 0:fargs[{}] end"},
        {"{\"name\": \"f\", \"parameters\": {}}; <|python_tag|>{\"name\": \"f\", \"parameters\": "
         "{}}",
         " 0:fargs[{}] end 1:fargs[{}] end"},
        {"{\"name\": \"f\", \"parameters\": {}}<|python_tag|>{\"name\": \"f\", \"parameters\": "
         "{}}",
         " 0:fargs[{}] end 1:fargs[{}] end"},
        {"<|python_tag|>print(1) {", "c[print(1) {]"},
        /* an answer in JSON is no call */
        {"{\"name\": \"Ada\", \"parameters\": {}}", "c[{\"name\": \"Ada\", \"parameters\": {}}]"},
        {"{\"name\": \"f\"}", "c[{\"name\": \"f\"}]"},
        {"{\"a\": {\"name\": \"f\", \"parameters\": {}}}",
         "c[{\"a\": {\"name\": \"f\", \"parameters\": {}}}]"},
        {"So: {\"name\": \"f\", \"parameters\": {}}",
         "c[So: {\"name\": \"f\", \"parameters\": {}}]"},
        {"{1} and {\"name\": \"f\", \"parameters\": {}}",
         "c[{1} and {\"name\": \"f\", \"parameters\": {}}]"},
        {"[{\"name\": \"f\", \"parameters\": {}}]", "c[[{\"name\": \"f\", \"parameters\": {}}]]"},
        /* cut */
        {"{\"name\": \"f\", \"para", "c[{\"name\": \"f\", \"para]"},
        {"{\"name\": \"f\", \"parameters\": {\"a", " 0:fargs[{\"a]"},
        {"<|python", "c[<|python]"},
    };
    check_rows("llama3", rows, COUNT(rows));
}

/* An answer in JSON that is no call comes out as soon as that is clear. */
static void bare_answers_do_not_wait(void **state)
{
    (void)state;
    static const char *const texts[] = {"{\"title\": \"Hello\", \"te", "{\"name\": \"Ada\", \"te"};
    for (size_t i = 0; i < COUNT(texts); i++) {
        whim_chat_parser_cfg cfg = row_config("llama3", NULL);
        whim_chat_parser *p;
        chat_log log = {.last = -1};
        cfg.format.reasons = false;
        assert_int_equal(whim_chat_parser_create(&cfg, &p), WHIM_ERR_OK);
        whim_chat_parser_push(p, texts[i], (int64_t)strlen(texts[i]), chat_log_event, &log);
        assert_non_null(strstr(whim_str_text(&log.text), texts[i]));
        whim_chat_parser_destroy(p);
        chat_log_deinit(&log);
    }
}

static void list_rows(void **state)
{
    (void)state;
    static const row rows[] = {
        {"[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"i\": 1}, \"id\": \"abcdefghi\"}, "
         "{\"name\": \"g\", \"arguments\": {}}]",
         " 0:fargs[{\"i\": 1}] end 1:gargs[{}] end"},
        {"so [TOOL_CALLS]{\"name\": \"f\", \"arguments\": {}}", "c[so] 0:fargs[{}] end"},
        {"[TOOL_CALLS][{\"name\": \"f\"}] done", " 0:fargs[{}] endc[done]"},
        {"[TOOL_CALLS]f", "c[[TOOL_CALLS]f]"},
        {"[TOOL_CALLS][", "c[[TOOL_CALLS][]"},
        {"[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, x", " 0:fargs[{}] endc[x]"},
        {"[TOOL_", "c[[TOOL_]"},
    };
    static const row closed[] = {
        {"<TOOLCALL>[{\"name\": \"f\", \"arguments\": {}}]</TOOLCALL>\nend",
         " 0:fargs[{}] endc[end]"},
        {"<TOOLCALL>[{\"name\": \"f\", \"arguments\": {}}] end", " 0:fargs[{}] endc[end]"},
        {"<TOOLCALL>[{\"name\": \"f\", \"arguments\": {}},]</TOOLCALL>", " 0:fargs[{}] end"},
        {"<TOOLCALL>[{\"name\": \"f\", \"arguments\": {}}, {\"name\": 3}]</TOOLCALL> z",
         " 0:fargs[{}] endc[{\"name\": 3}]z]"},
    };
    static const row bare[] = {
        {"[{\"name\": \"f\", \"arguments\": {\"i\": 1}}, {\"name\": \"f\"}] so",
         " 0:fargs[{\"i\": 1}] endc[{\"name\": \"f\"}] so]"},
        {"[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"f\", \"arguments\": {}}] so",
         " 0:fargs[{}] end 1:fargs[{}] endc[so]"},
        {"{\"name\": \"f\", \"arguments\": {}}", " 0:fargs[{}] end"},
        {"[{\"name\": \"Ada\"}]", "c[[{\"name\": \"Ada\"}]]"},
        {"[1, {\"a\": 2}]", "c[[1, {\"a\": 2}]]"},
        {"so [{\"name\": \"f\", \"arguments\": {}}]",
         "c[so [{\"name\": \"f\", \"arguments\": {}}]]"},
    };
    static const row lines[] = {
        {"so\n<tool_calls>\n{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"g\", "
         "\"arguments\": {}}\n</tool_calls>\nz",
         "c[so] 0:fargs[{}] end 1:gargs[{}] endc[z]"},
        {"<tool_calls>\nno", "c[<tool_calls>\nno]"},
    };
    check_rows("calls-list", rows, COUNT(rows));
    check_rows("toolcall", closed, COUNT(closed));
    check_rows("bare-list", bare, COUNT(bare));
    check_rows("tool_calls-lines", lines, COUNT(lines));
}

#define ACTIONS(list) "<|START_ACTION|>[" list "]<|END_ACTION|>"

static void cohere_rows(void **state)
{
    (void)state;
    static const row rows[] = {
        {"so " ACTIONS("\n    {\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": "
                       "{\"s\": \"a]\", \"i\": -1}},\n    {\"tool_call_id\": \"1\", \"tool_name\": "
                       "\"g\", \"parameters\": {}}\n") "b",
         "c[so] 0:fargs[{\"s\": \"a]\", \"i\": -1}] end 1:gargs[{}] endc[b]"},
        {ACTIONS("{\"parameters\": {\"i\": 1}, \"tool_name\": \"f\"}"), " 0:fargs[{\"i\": 1}] end"},
        {ACTIONS("{\"tool_name\": \"f\"}"), " 0:fargs[{}] end"},
        /* another key is passed over, and without the right one it is no call */
        {ACTIONS("{\"name\": \"x\", \"tool_name\": \"f\", \"parameters\": {}}"),
         " 0:fargs[{}] end"},
        {ACTIONS("{\"name\": \"f\", \"parameters\": {}}"),
         "c[" ACTIONS("{\"name\": \"f\", \"parameters\": {}}") "]"},
        {"<|START_ACTION|>[{\"tool_name\": \"f\", \"parameters\": {\"s\": \"x",
         " 0:fargs[{\"s\": \"x]"},
        {"<|START_ACTION|>none", "c[<|START_ACTION|>none]"},
    };
    check_rows("cohere", rows, COUNT(rows));
}

#define LIST(list) "<|tools_prefix|>[" list "]<|tools_suffix|>"

static void apertus_rows(void **state)
{
    (void)state;
    static const row rows[] = {
        {"so" LIST("{\"f\": {\"s\": \"}\", \"o\": {\"f\": {}}}}, {\"g\": {}}") " b",
         "c[so] 0:fargs[{\"s\": \"}\", \"o\": {\"f\": {}}}] end 1:gargs[{}] endc[b]"},
        {LIST(" { \"a\\u0062\\\"c\" : null } "), " 0:ab\"cargs[{}] end"},
        {LIST("{\"f\": \"{\\\"i\\\": 1}\"}"), " 0:fargs[{\"i\": 1}] end"},
        /* malformed: no name, no object, a second key */
        {LIST("{}"), "c[" LIST("{}") "]"},
        {LIST("{\"\": {}}"), "c[" LIST("{\"\": {}}") "]"},
        {LIST("{\"f\": 5}"), "c[" LIST("{\"f\": 5}") "]"},
        {LIST("{\"f\": {}, \"g\": {}}"), " 0:fargs[{}]c[\"g\": {}}]]"},
        /* cut */
        {"<|tools_prefix|>[{\"f", "c[<|tools_prefix|>[{\"f]"},
        {"<|tools_prefix|>[{\"f\": {\"i\": 1", " 0:fargs[{\"i\": 1]"},
    };
    check_rows("apertus", rows, COUNT(rows));
}

/* Calls come in the middle of thoughts, which go on behind the results. */
static void apertus_thoughts(void **state)
{
    (void)state;
    static const whim_think_words inner = {"<|inner_prefix|>", "<|inner_suffix|>"};
    static const row rows[] = {
        {"<|inner_prefix|>a" LIST("{\"f\": {}}"), "r[a] 0:fargs[{}] end"},
        {"<|inner_prefix|>a<|inner_suffix|>b" LIST("{\"f\": {}}"), "r[a]c[b] 0:fargs[{}] end"},
        {"<|inner_prefix|>a<|inner_suffix|>b", "r[a]c[b]"},
    };
    json_t *tools = json_loads(tools_text, 0, NULL);
    const whim_chat_parser_cfg cfg = {.format = {.tools = whim_tool_words_named("apertus"),
                                                 .native_tools = true,
                                                 .reasons = true,
                                                 .think = &inner},
                                      .parse_tools = true,
                                      .tools = tools};
    check_rows_of(&cfg, rows, COUNT(rows));
    json_decref(tools);
}

#define CALL(name, args) "{\"name\": \"" name "\", \"parameters\": " args "}"

/* The marks are dropped wherever they stand, and a call may begin behind either. */
static void llama4_rows(void **state)
{
    (void)state;
    static const row rows[] = {
        {CALL("f", "{\"i\": 1}") CALL("f", "{}"), " 0:fargs[{\"i\": 1}] end 1:fargs[{}] end"},
        {"<|python_start|><|python_end|>" CALL("f", "{\"s\": \"<|python_end|>\"}"),
         " 0:fargs[{\"s\": \"<|python_end|>\"}] end"},
        {"<|python_start|>" CALL("f", "{}") "<|python_end|>", " 0:fargs[{}] end"},
        {"<|python_start|>Let me see.<|python_end|>" CALL("f", "{}"),
         "c[Let me see.] 0:fargs[{}] end"},
        {"<|python_start|>print(1)<|python_end|>", "c[print(1)]"},
        {"A set {1, 2}", "c[A set {1, 2}]"},
        {"{\"a\": 1}", "c[{\"a\": 1}]"},
        {CALL("none", "{}"), "c[" CALL("none", "{}") "]"},
        {"<|python_", "c[<|python_]"},
    };
    check_rows("llama4", rows, COUNT(rows));
}

#define NAMED(name, args) "{\"name\": \"" name "\", \"arguments\": " args "}"

static void one_tag_rows(void **state)
{
    (void)state;
    static const row lines[] = {
        {"so\n<function_call> " NAMED("f", "{\"i\": 1}") "\n<function_call> " NAMED("g", "{}"),
         "c[so] 0:fargs[{\"i\": 1}] end 1:gargs[{}] end"},
        {"<function_call> " NAMED("f", "{}") " and", " 0:fargs[{}] endc[and]"},
        {"<function_call> no", "c[<function_call> no]"},
    };
    static const row marks[] = {
        {"so<|function_call|>" NAMED("f", "{\"s\": \"<|\"}"), "c[so] 0:fargs[{\"s\": \"<|\"}] end"},
        {"<|function_call|>[]", "c[<|function_call|>[]]"},
    };
    check_rows("function_call", lines, COUNT(lines));
    check_rows("gigachat", marks, COUNT(marks));
}

static void message_rows(void **state)
{
    (void)state;
#define SEP_CALL "<|message_sep|>\n\nfunction call<|role_sep|>\n"
    static const row rows[] = {
        {"so" SEP_CALL NAMED("f", "{\"s\": \"<|message_sep|>\"}") "<|message_sep|>\n\n",
         "c[so] 0:fargs[{\"s\": \"<|message_sep|>\"}] end"},
        {SEP_CALL NAMED("f", "{}"), " 0:fargs[{}] end"},
        {"function call<|role_sep|>\n" NAMED("g", "{}") " and", " 0:gargs[{}] endc[and]"},
        {"a function call<|role_sep", "c[a function call<|role_sep]"},
        {"function call<|role_sep|>\nno", "c[function call<|role_sep|>\nno]"},
        {"hi<|message_sep|>", "c[hi]"},
    };
#undef SEP_CALL
    check_rows("gigachat-roles", rows, COUNT(rows));
}

#define TOOL(name, args) \
    "{\n        \"tool_name\": \"" name "\",\n        \"parameters\": " args "\n    }"

static void fenced_rows(void **state)
{
    (void)state;
    static const row rows[] = {
        {"so\nAction:\n```json\n[\n    " TOOL("f", "{\"s\": \"```\"}") ",\n    " TOOL(
             "g", "{}") "\n"
                        "]```\n",
         "c[so] 0:fargs[{\"s\": \"```\"}] end 1:gargs[{}] end"},
        {"Action: ```json\n[\n" TOOL("f", "{\"i\": 1}") "\n]\n``` done",
         " 0:fargs[{\"i\": 1}] endc[done]"},
        {"Action:```json" TOOL("f", "{}") "```", " 0:fargs[{}] end"},
        {"Action: none", "c[Action: none]"},
        {"Action: ```js\n[]", "c[Action: ```js\n[]]"},
        {"Action:\n```json\n5\n```", "c[Action:\n```json\n5\n```]"},
        {"Action: Action:```json[" TOOL("f", "{}") "]```", "c[Action: ] 0:fargs[{}] end"},
        {"Action:\n``", "c[Action:\n``]"},
        {"Action:\n```json\n[\n    {", "c[Action:\n```json\n[\n    {]"},
    };
    check_rows("fenced", rows, COUNT(rows));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(hermes_rows),
                                       cmocka_unit_test(bare_rows),
                                       cmocka_unit_test(bare_answers_do_not_wait),
                                       cmocka_unit_test(list_rows),
                                       cmocka_unit_test(cohere_rows),
                                       cmocka_unit_test(apertus_rows),
                                       cmocka_unit_test(apertus_thoughts),
                                       cmocka_unit_test(llama4_rows),
                                       cmocka_unit_test(one_tag_rows),
                                       cmocka_unit_test(message_rows),
                                       cmocka_unit_test(fenced_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
