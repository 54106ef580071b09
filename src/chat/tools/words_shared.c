/* SPDX-License-Identifier: Apache-2.0 */
/* Words of calls that are no architecture's own: templates of many models have them. Where a call
 * fits several, the first counts. */
#include "chat/tools/words.h"

#include <stddef.h>

#define JSON_CALL \
    .function = "{\"name\": ", .function_close = ", \"arguments\": ", .function_end = "}"

/* A list between two tags. */
#define LIST(word, begin, end)                                                           \
    {                                                                                    \
        .name = word, .form = WHIM_TOOLS_OBJECT,                                         \
        .mark = begin "[{\"name\": \"$\", \"arguments\": {", .thoughts_hold_tags = true, \
        .open = begin, .close = end, .list = true, .written = {                          \
            .call = begin "[",                                                           \
            .call_end = "]" end,                                                         \
            .around_all = true,                                                          \
            .between = ", ",                                                             \
            JSON_CALL                                                                    \
        }                                                                                \
    }

/* Arguments behind a name. */
#define NAMED(begin, end, after_all, gap)                                                     \
    .form = WHIM_TOOLS_NAMED, .thoughts_hold_tags = true, .function = begin, .name_end = end, \
    .function_end = after_all,                                                                \
    .written = {.call = "",                                                                   \
                .call_end = "",                                                               \
                .around_all = true,                                                           \
                .between = gap,                                                               \
                .function = begin,                                                            \
                .function_close = end,                                                        \
                .function_end = after_all}

/* Tags around keys and around values; `gap` stands between any two. */
#define PAIRS(gap)                                                                         \
    .form = WHIM_TOOLS_TAGGED, .mark = "<tool_call>$<arg_key>key</arg_key><arg_value>",    \
    .thoughts_hold_tags = true, .function = "<tool_call>", .function_end = "</tool_call>", \
    .parameter = "<arg_key>", .parameter_end = "</arg_value>", .key_end = "</arg_key>",    \
    .value = "<arg_value>",                                                                \
    .value_ends = {NULL, "</arg_value>", "\n<arg_key>", "\n</tool_call>", NULL},           \
    .written = {.call = "<tool_call>",                                                     \
                .call_end = "</tool_call>",                                                \
                .between = gap,                                                            \
                .function = "",                                                            \
                .function_close = gap,                                                     \
                .function_end = "",                                                        \
                .key = "<arg_key>",                                                        \
                .key_close = "</arg_key>" gap "<arg_value>",                               \
                .value_end = "</arg_value>",                                               \
                .after = gap}

/* The same in a list, with a tag behind the name; all tags end in `x`. */
#define SEPARATED(x)                                                                        \
    .form = WHIM_TOOLS_TAGGED,                                                              \
    .mark = "<tool_call" x ">$<tool_sep" x "><arg_key" x ">key</arg_key" x "><arg_value" x, \
    .thoughts_hold_tags = true, .open = "<tool_calls" x ">", .close = "</tool_calls" x ">", \
    .function = "<tool_call" x ">", .function_end = "</tool_call" x ">",                    \
    .name_end = "<tool_sep" x ">", .parameter = "<arg_key" x ">",                           \
    .parameter_end = "</arg_value" x ">", .key_end = "</arg_key" x ">",                     \
    .value = "<arg_value" x ">",                                                            \
    .value_ends = {NULL, "</arg_value" x ">", "\n<arg_key" x ">", "\n</tool_call" x ">",    \
                   "\n</tool_calls" x ">"},                                                 \
    .written = {.call = "<tool_calls" x ">\n",                                              \
                .call_end = "</tool_calls" x ">",                                           \
                .around_all = true,                                                         \
                .between = "",                                                              \
                .function = "<tool_call" x ">",                                             \
                .function_close = "<tool_sep" x ">\n",                                      \
                .function_end = "</tool_call" x ">\n",                                      \
                .key = "<arg_key" x ">",                                                    \
                .key_close = "</arg_key" x ">\n<arg_value" x ">",                           \
                .value_end = "</arg_value" x ">",                                           \
                .after = "\n"}

/* A tag for each parameter, as Qwen3-Coder has them, between other tags. */
#define XML(begin, end)                                                                    \
    .form = WHIM_TOOLS_TAGGED, .mark = begin "<function=$><parameter=key>", .open = begin, \
    .close = end, .thoughts_hold_tags = true,                                              \
    .function = "<function=", .function_end = "</function>",                               \
    .parameter = "<parameter=", .parameter_end = "</parameter>",                           \
    .value_ends = {NULL, "</parameter>", "\n<parameter=", "\n</function>", "\n" end},      \
    .written = {.call = begin "\n",                                                        \
                .call_end = end,                                                           \
                .between = "\n",                                                           \
                .function = "<function=",                                                  \
                .function_close = ">\n",                                                   \
                .function_end = "</function>\n",                                           \
                .key = "<parameter=",                                                      \
                .key_close = ">",                                                          \
                .value_end = "</parameter>",                                               \
                .after = "\n"}

/* Tags that say what a value is. */
#define DSML "｜DSML｜"
#define TYPED(word)                                                                             \
    .form = WHIM_TOOLS_TAGGED,                                                                  \
    .mark = "<" DSML word "><" DSML "invoke name=\"$\"><" DSML "parameter name=\"key\" string", \
    .thoughts_hold_tags = true, .open = "<" DSML word ">", .close = "</" DSML word ">",         \
    .function = "<" DSML "invoke name=", .function_end = "</" DSML "invoke>",                   \
    .parameter = "<" DSML "parameter name=", .parameter_end = "</" DSML "parameter>",           \
    .as_text = " string=\"true\"", .as_json = " string=\"false\"",                              \
    .value_ends = {NULL, "</" DSML "parameter>",                                                \
                   "\n<" DSML "parameter name=", "\n</" DSML "invoke>", "\n</" DSML word ">"},  \
    .written = {.call = "<" DSML word ">\n",                                                    \
                .call_end = "</" DSML word ">",                                                 \
                .around_all = true,                                                             \
                .between = "",                                                                  \
                .function = "<" DSML "invoke name=\"",                                          \
                .function_close = "\">\n",                                                      \
                .function_end = "</" DSML "invoke>\n",                                          \
                .key = "<" DSML "parameter name=\"",                                            \
                .key_close = "\" string=\"true\">",                                             \
                .json_close = "\" string=\"false\">",                                           \
                .value_end = "</" DSML "parameter>",                                            \
                .after = "\n"}

/* A list that is the whole answer, or between two tags. */
#define PYTHON(begin, end)                                                                        \
    .form = WHIM_TOOLS_PYTHON, .mark = begin "[$(key=", .thoughts_hold_tags = true, .list = true, \
    .written = {.call = begin "[",                                                                \
                .call_end = "]" end,                                                              \
                .around_all = true,                                                               \
                .between = ", ",                                                                  \
                .function = "",                                                                   \
                .function_close = "(",                                                            \
                .function_end = ")"}

#define CALLS_BEGIN "<｜tool▁calls▁begin｜>"
#define CALLS_END "<｜tool▁calls▁end｜>"
#define CALL_BEGIN "<｜tool▁call▁begin｜>"
#define CALL_END "<｜tool▁call▁end｜>"
#define CALL_SEP "<｜tool▁sep｜>"

const whim_tool_words whim_tool_words_shared[] = {
    /* The first is for models that have no form of their own, too. */
    {.name = "hermes",
     .form = WHIM_TOOLS_OBJECT,
     .mark = "<tool_call>{",
     .open = "<tool_call>",
     .close = "</tool_call>",
     .written =
         {.call = "<tool_call>\n", .call_end = "\n</tool_call>", .between = "\n", JSON_CALL}},
    LIST("calls-list", "[TOOL_CALLS]", ""),
    /* The made-up call's id comes first, which models leave out. */
    {.name = "calls-list-ids",
     .form = WHIM_TOOLS_OBJECT,
     .mark = "[TOOL_CALLS][{\"id\": \"callnumb1\", \"name\": \"$\", \"arguments\": {",
     .thoughts_hold_tags = true,
     .open = "[TOOL_CALLS]",
     .close = "",
     .list = true,
     .written = {.call = "[TOOL_CALLS][",
                 .call_end = "]",
                 .around_all = true,
                 .between = ", ",
                 JSON_CALL}},
    LIST("toolcall", "<TOOLCALL>", "</TOOLCALL>"),
    LIST("tool_calls", "<tool_calls>", "</tool_calls>"),
    LIST("tool_call-list", "<|tool_call|>", ""),
    {.name = "tool_calls-lines",
     .form = WHIM_TOOLS_OBJECT,
     .mark = "<tool_calls>{\"name\": \"$\", \"arguments\": {",
     .thoughts_hold_tags = true,
     .open = "<tool_calls>",
     .close = "</tool_calls>",
     .list = true,
     .written = {.call = "<tool_calls>\n",
                 .call_end = "\n</tool_calls>",
                 .around_all = true,
                 .between = "\n",
                 JSON_CALL}},
    {.name = "cohere", /* all have the id of a first call */
     .form = WHIM_TOOLS_OBJECT,
     .mark = "<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"$\", "
             "\"parameters\": {",
     .thoughts_hold_tags = true,
     .open = "<|START_ACTION|>",
     .close = "<|END_ACTION|>",
     .list = true,
     .name_key = "tool_name",
     .written = {.call = "<|START_ACTION|>[",
                 .call_end = "]<|END_ACTION|>",
                 .around_all = true,
                 .between = ", ",
                 .function = "{\"tool_call_id\": \"0\", \"tool_name\": ",
                 .function_close = ", \"parameters\": ",
                 .function_end = "}"}},
    {.name = "apertus", /* calls come in the middle of thoughts */
     .form = WHIM_TOOLS_OBJECT,
     .mark = "<|tools_prefix|>[{\"$\": {",
     .open = "<|tools_prefix|>",
     .close = "<|tools_suffix|>",
     .list = true,
     .named_by_key = true,
     .written = {.call = "<|tools_prefix|>[",
                 .call_end = "]<|tools_suffix|>",
                 .around_all = true,
                 .between = ", ",
                 .function = "{",
                 .function_close = ": ",
                 .function_end = "}"}},
    {.name = "llama4", /* the marks enclose a text beside calls, or code */
     .form = WHIM_TOOLS_OBJECT,
     .mark = "<|python_start|><|python_end|>{\"name\": \"$\", \"parameters\": {",
     .thoughts_hold_tags = true,
     .prefix = "<|python_start|>",
     .close = "<|python_end|>",
     .written = {.call = "",
                 .call_end = "",
                 .around_all = true,
                 .between = "",
                 .function = "{\"name\": ",
                 .function_close = ", \"parameters\": ",
                 .function_end = "}"}},
    {.name = "function_call", /* Granite 20B's */
     .form = WHIM_TOOLS_OBJECT,
     .mark = "<function_call>{\"name\": \"$\", \"arguments\": {",
     .thoughts_hold_tags = true,
     .open = "<function_call>",
     .close = "",
     .written = {.call = "<function_call> ", .call_end = "", .between = "\n", JSON_CALL}},
    {.name = "gigachat",
     .form = WHIM_TOOLS_OBJECT,
     .mark = "<|function_call|>{\"name\": \"$\", \"arguments\": {",
     .thoughts_hold_tags = true,
     .open = "<|function_call|>",
     .close = "",
     .written = {.call = "<|function_call|>", .call_end = "", .between = "", JSON_CALL}},
    {.name = "gigachat-roles", /* GigaChat 3.0's: a message of its own behind the answer */
     .form = WHIM_TOOLS_OBJECT,
     .mark = "function call<|role_sep|>{\"name\": \"$\", \"arguments\": {",
     .thoughts_hold_tags = true,
     .open = "function call<|role_sep|>",
     .close = "",
     .prefix = "<|message_sep|>",
     .written = {.call = "<|message_sep|>\n\nfunction call<|role_sep|>\n",
                 .call_end = "<|message_sep|>",
                 .between = "",
                 JSON_CALL}},
    {.name = "fenced", /* Command R+'s */
     .form = WHIM_TOOLS_OBJECT,
     .mark = "Action:```json[{\"tool_name\": \"$\", \"parameters\": {",
     .thoughts_hold_tags = true,
     .open = "Action:",
     .fence = "```json",
     .close = "```",
     .list = true,
     .name_key = "tool_name",
     .written = {.call = "Action:\n```json\n[\n    ",
                 .call_end = "\n]```",
                 .around_all = true,
                 .between = ",\n    ",
                 .function = "{\n        \"tool_name\": ",
                 .function_close = ",\n        \"parameters\": ",
                 .function_end = "\n    }"}},
    {.name = "actions",
     .form = WHIM_TOOLS_OBJECT,
     .mark = "<|action_start|><|plugin|>{\"name\": \"$\", \"arguments\": {",
     .thoughts_hold_tags = true,
     .open = "<|action_start|><|plugin|>",
     .close = "<|action_end|>",
     .written = {.call = "<|action_start|><|plugin|>\n",
                 .call_end = "<|action_end|>",
                 .between = "",
                 JSON_CALL}},
    {.name = "bare",
     .form = WHIM_TOOLS_OBJECT,
     .mark = "{\"name\": \"$\", \"arguments\": {",
     .thoughts_hold_tags = true,
     .written = {.call = "", .call_end = "", .around_all = true, .between = ", ", JSON_CALL}},
    {.name = "bare-list",
     .form = WHIM_TOOLS_OBJECT,
     .mark = "[{\"name\": \"$\", \"arguments\": {",
     .thoughts_hold_tags = true,
     .list = true,
     .written = {.call = "[", .call_end = "]", .around_all = true, .between = ", ", JSON_CALL}},
    {.name = "python", PYTHON("", "")},
    {.name = "python-tags",
     .open = "<|tool_call_start|>",
     .close = "<|tool_call_end|>",
     PYTHON("<|tool_call_start|>", "<|tool_call_end|>")},
    {.name = "mcp",
     .form = WHIM_TOOLS_NAMED,
     .mark = "<use_mcp_tool><server_name>default</server_name><tool_name>$</tool_name><arguments>{",
     .thoughts_hold_tags = true,
     .open = "<use_mcp_tool>",
     .close = "</use_mcp_tool>",
     .function = "<server_name>default</server_name>\n<tool_name>",
     .name_end = "</tool_name>\n<arguments>",
     .function_end = "</arguments>",
     .written = {.call = "<use_mcp_tool>\n",
                 .call_end = "\n</use_mcp_tool>",
                 .between = "\n",
                 .function = "<server_name>default</server_name>\n<tool_name>",
                 .function_close = "</tool_name>\n<arguments>\n",
                 .function_end = "\n</arguments>"}},
    {.name = "seed", XML("<seed:tool_call>", "</seed:tool_call>")},
    {.name = "params",
     .form = WHIM_TOOLS_TAGGED,
     .mark = "<function name=\"$\"><param name=\"key\">",
     .thoughts_hold_tags = true,
     .function = "<function name=",
     .function_end = "</function>",
     .parameter = "<param name=",
     .parameter_end = "</param>",
     .text_open = "<![CDATA[",
     .text_end = "]]></param>",
     .value_ends = {NULL, "</param>", "\n<param name=", "\n</function>", NULL},
     .written = {.call = "",
                 .call_end = "",
                 .between = "\n",
                 .function = "<function name=\"",
                 .function_close = "\">",
                 .function_end = "</function>",
                 .key = "<param name=\"",
                 .key_close = "\">",
                 .value_end = "</param>",
                 .after = ""}},
    {.name = "calls-args",
     .mark = "[TOOL_CALLS]$[",
     .call_id = "[CALL_ID]",
     NAMED("[TOOL_CALLS]", "[ARGS]", "", "")},
    {.name = "functionary", .mark = "<function=$>{", NAMED("<function=", ">", "</function>", "")},
    {.name = "functionary-v3", .mark = ">>>${", .said = "all", NAMED(">>>", "\n", "", "")},
    {.name = "solar",
     .form = WHIM_TOOLS_NAMED,
     .mark = "<|tool_calls|><|tool_call:begin|>callnumb1<|tool_call:name|>$<|tool_call:args|>{",
     .thoughts_hold_tags = true,
     .open = "<|tool_calls|>",
     .close = "<|calls|>",
     .function = "<|tool_call:begin|>",
     .name_begin = "<|tool_call:name|>",
     .name_end = "<|tool_call:args|>",
     .function_end = "<|tool_call:end|>",
     .written = {.call = "<|tool_calls|>",
                 .call_end = "<|calls|>",
                 .around_all = true,
                 .between = "",
                 .function = "<|tool_call:begin|>a1b2c3d4e5<|tool_call:name|>",
                 .function_close = "<|tool_call:args|>",
                 .function_end = "<|tool_call:end|>"}},
    {.name = "harmony",
     .mark = "to=functions.$<|channel|>commentary json<|message|>{",
     .form = WHIM_TOOLS_CHANNELS,
     .thoughts_hold_tags = true,
     .open = WHIM_HARMONY_START,
     .close = WHIM_HARMONY_END,
     .prefix = WHIM_HARMONY_CHANNEL,
     .function = " to=functions.",
     .name_end = WHIM_HARMONY_MESSAGE,
     .call_id = "<|constrain|>",
     .function_end = "<|call|>",
     .written = {.call = "",
                 .call_end = "",
                 .between = "",
                 .function = " to=functions.",
                 .function_close = WHIM_HARMONY_CHANNEL "commentary json" WHIM_HARMONY_MESSAGE,
                 .function_end = ""}},
    {.name = "pairs-tight", .tight = true, PAIRS("")},
    {.name = "pairs", PAIRS("\n")},
    {.name = "hy3", SEPARATED(":opensource")},
    {.name = "hy3-preview", SEPARATED("")},
    {.name = "sections", /* the number of a call, behind the name, is an id to drop */
     .mark = "<|tool_call_begin|>functions.$:0<|tool_call_argument_begin|>{",
     .form = WHIM_TOOLS_NAMED,
     .thoughts_hold_tags = true,
     .open = "<|tool_calls_section_begin|>",
     .close = "<|tool_calls_section_end|>",
     .function = "<|tool_call_begin|>functions.",
     .name_end = "<|tool_call_argument_begin|>",
     .call_id = ":",
     .function_end = "<|tool_call_end|>",
     .written = {.call = "<|tool_calls_section_begin|>",
                 .call_end = "<|tool_calls_section_end|>",
                 .around_all = true,
                 .between = "",
                 .function = "<|tool_call_begin|>functions.",
                 .function_close = ":0<|tool_call_argument_begin|>",
                 .function_end = "<|tool_call_end|>"}},
    {.name = "marked", /* Gemma 4's */
     .mark = "<|tool_call>call:${",
     .form = WHIM_TOOLS_NAMED,
     .thoughts_hold_tags = true,
     .function = "<|tool_call>call:",
     .name_end = "{",
     .quote = "<|\"|>",
     .function_end = "<tool_call|>",
     .written = {.call = "",
                 .call_end = "",
                 .around_all = true,
                 .between = "",
                 .function = "<|tool_call>call:",
                 .function_close = "",
                 .function_end = "<tool_call|>"}},
    {.name = "dsml", TYPED("tool_calls")},
    {.name = "dsml-function", TYPED("function_calls")},
    {.name = "deepseek",
     .mark = CALL_BEGIN "$" CALL_SEP "{",
     .form = WHIM_TOOLS_NAMED,
     .thoughts_hold_tags = true,
     .open = CALLS_BEGIN,
     .close = CALLS_END,
     .function = CALL_BEGIN,
     .name_end = CALL_SEP,
     .function_end = CALL_END,
     .written = {.call = CALLS_BEGIN,
                 .call_end = CALLS_END,
                 .around_all = true,
                 .between = "",
                 .function = CALL_BEGIN,
                 .function_close = CALL_SEP,
                 .function_end = CALL_END}},
    {.name = "deepseek-fenced",
     .mark = CALL_BEGIN "function" CALL_SEP "$```json{",
     .form = WHIM_TOOLS_NAMED,
     .thoughts_hold_tags = true,
     .open = CALLS_BEGIN,
     .close = CALLS_END,
     .function = CALL_BEGIN "function" CALL_SEP,
     .name_end = "\n```json\n",
     .function_end = "```" CALL_END,
     .written = {.call = CALLS_BEGIN,
                 .call_end = CALLS_END,
                 .around_all = true,
                 .between = "\n",
                 .function = CALL_BEGIN "function" CALL_SEP,
                 .function_close = "\n```json\n",
                 .function_end = "\n```" CALL_END}},
};
const int32_t whim_tool_words_n_shared =
    sizeof whim_tool_words_shared / sizeof whim_tool_words_shared[0];
