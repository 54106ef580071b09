/* SPDX-License-Identifier: Apache-2.0 */
/* Words of calls that are no architecture's own: templates of many models have them. */
#include "chat/tools/words.h"

#include "base/utf8.h"
#include "models/model.h"

#include <string.h>

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

#define CALLS_BEGIN "<｜tool▁calls▁begin｜>"
#define CALLS_END "<｜tool▁calls▁end｜>"
#define CALL_BEGIN "<｜tool▁call▁begin｜>"
#define CALL_END "<｜tool▁call▁end｜>"
#define CALL_SEP "<｜tool▁sep｜>"

static const whim_tool_words list[] = {
    /* The first is for models that have no form of their own, too. */
    {.name = "hermes",
     .form = WHIM_TOOLS_OBJECT,
     .mark = "<tool_call>{",
     .open = "<tool_call>",
     .close = "</tool_call>",
     .written =
         {.call = "<tool_call>\n", .call_end = "\n</tool_call>", .between = "\n", JSON_CALL}},
    LIST("calls-list", "[TOOL_CALLS]", ""),
    LIST("toolcall", "<TOOLCALL>", "</TOOLCALL>"),
    LIST("tool_calls", "<tool_calls>", "</tool_calls>"),
    {.name = "calls-args",
     .mark = "[TOOL_CALLS]$[",
     .call_id = "[CALL_ID]",
     NAMED("[TOOL_CALLS]", "[ARGS]", "", "")},
    {.name = "functionary", .mark = "<function=$>{", NAMED("<function=", ">", "</function>", "")},
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
enum { N_OWN = sizeof list / sizeof list[0] };

const whim_tool_words *whim_tool_words_usual(void)
{
    return &list[0];
}

/* --- finding ---------------------------------------------------------------------------------- */

static const char *skip_blanks(const char *s)
{
    while (*s != '\0' && whim_is_blank(*s)) {
        s++;
    }
    return s;
}

/* Whether a text begins with a mark. */
static bool begins(const char *text, const char *mark, const char *name, bool tight)
{
    size_t n = strlen(name);
    for (mark = skip_blanks(mark); *mark != '\0'; mark = skip_blanks(mark + 1)) {
        text = tight ? text : skip_blanks(text);
        bool is_name = *mark == '$' && strncmp(text, name, n) == 0;
        if (!is_name && *text != *mark) {
            return false;
        }
        text += is_name ? n : 1;
    }
    return true;
}

/* Whether a call is written in these words; without tags it is nothing but the call. */
static bool is_in(const char *call, const whim_tool_words *words, const char *name)
{
    if (words->open == NULL && words->function == NULL) {
        return begins(call, words->mark, name, words->tight);
    }
    for (const char *at = skip_blanks(call); *at != '\0'; at = skip_blanks(at + 1)) {
        if (begins(at, words->mark, name, words->tight)) {
            return true;
        }
    }
    return false;
}

/* All that are known, NULL for a model that has none. */
static int32_t count(void)
{
    return whim_model_count() + N_OWN;
}

static const whim_tool_words *at(int32_t i)
{
    return i < N_OWN ? &list[i] : whim_model_tool_words(i - N_OWN);
}

const whim_tool_words *whim_tool_words_of(const char *call, const char *name)
{
    for (int32_t i = 0; i < count(); i++) {
        const whim_tool_words *words = at(i);
        if (words != NULL && is_in(call, words, name)) {
            return words;
        }
    }
    return NULL;
}

const whim_tool_words *whim_tool_words_named(const char *name)
{
    for (int32_t i = 0; i < count(); i++) {
        const whim_tool_words *words = at(i);
        if (words != NULL && strcmp(words->name, name) == 0) {
            return words;
        }
    }
    return NULL;
}

bool whim_tool_words_have(const whim_tool_words *words, const char *token, int64_t n)
{
    enum { LEAST = 3 }; /* shorter ones stand in any text */
    const char *const all[] = {words->open,         words->close,     words->prefix,
                               words->function,     words->name_end,  words->call_id,
                               words->function_end, words->parameter, words->parameter_end,
                               words->key_end,      words->value,     words->quote};
    for (size_t i = 0; n >= LEAST && i < sizeof all / sizeof all[0]; i++) {
        if (all[i] != NULL && memmem(all[i], strlen(all[i]), token, (size_t)n) != NULL) {
            return true;
        }
    }
    return false;
}
