/* SPDX-License-Identifier: Apache-2.0 */
/* What is read out of the templates of tests/data/chat, and that a call as they print it is read
 * back. With the name of a folder: the same of the templates (*.jinja) there, as a table. */
#include <stdint.h>

#include "base/alloc.h"
#include "base/file.h"
#include "chat/format.h"
#include "support/chat_events.h"
#include "support/cmocka.h"
#include "support/packed_json.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static whim_chat_format detect(const char *name, const char *source)
{
    whim_template *tmpl = NULL;
    whim_diag diag = {""};
    if (source != NULL &&
        whim_template_compile(source, (int64_t)strlen(source), name, &tmpl, &diag) != WHIM_ERR_OK) {
        printf("%s\n", diag.text);
    }
    whim_chat_format format = whim_chat_format_detect(tmpl, source, NULL);
    whim_template_destroy(tmpl);
    return format;
}

/* Templates that print nothing but their calls, in the words of models that have no template in
 * tests/data/chat. */
#define EACH_CALL(one)                                                                        \
    "{{ tools | tojson }}{% for m in messages %}{% for c in m.tool_calls or [] %}{% set f = " \
    "c.function %}" one "{% endfor %}{% endfor %}"
#define EACH_ARGUMENT(one) "{% for k, v in f.arguments.items() %}" one "{% endfor %}"

static const char *const words_rows[][2] = {
    {"harmony", EACH_CALL("<|start|>assistant to=functions.{{ f.name }}<|channel|>commentary "
                          "json<|message|>{{ f.arguments | tojson }}<|call|>")},
    {"sections",
     EACH_CALL("<|tool_calls_section_begin|><|tool_call_begin|>functions.{{ f.name }}:{{ "
               "loop.index0 }}<|tool_call_argument_begin|>{{ f.arguments | tojson }}"
               "<|tool_call_end|><|tool_calls_section_end|>")},
    {"marked", EACH_CALL("<|tool_call>call:{{ f.name }}{{ '{' }}" EACH_ARGUMENT(
                   "{{ k }}:<|\"|>{{ v }}<|\"|>") "}<tool_call|>")},
    {"dsml",
     EACH_CALL("\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"{{ f.name }}\">\n" EACH_ARGUMENT(
         "<｜DSML｜parameter name=\"{{ k }}\" string=\"true\">{{ v "
         "}}</｜DSML｜parameter>"))},
    {"dsml-function",
     EACH_CALL("<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"{{ f.name }}\">\n" EACH_ARGUMENT(
         "<｜DSML｜parameter name=\"{{ k }}\" string=\"true\">{{ v "
         "}}</｜DSML｜parameter>"))},
    {"pairs", EACH_CALL("\n<tool_call>{{ f.name }}\n" EACH_ARGUMENT(
                  "<arg_key>{{ k }}</arg_key>\n<arg_value>{{ v }}</arg_value>\n") "</tool_call>")},
    {"python", EACH_CALL("{{ '[' if loop.first else ', ' }}{{ f.name }}(" EACH_ARGUMENT(
                   "{{ k }}={{ v | tojson }}") "){{ ']' if loop.last }}")},
    {"python-tags", EACH_CALL("<|tool_call_start|>[{{ f.name }}(" EACH_ARGUMENT(
                        "{{ k }}='{{ v }}'") ")]<|tool_call_end|>")},
    {"bare", EACH_CALL("{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments | tojson "
                       "}}{{ '}' }}")},
    {"bare-list", EACH_CALL("{{ '[' if loop.first else ', ' }}{\"name\": \"{{ f.name }}\", "
                            "\"arguments\": {{ f.arguments | tojson }}{{ '}' }}{{ ']' if "
                            "loop.last }}")},
    {"calls-list-ids",
     EACH_CALL("[TOOL_CALLS] [{\"id\": \"{{ c.id }}\", \"name\": \"{{ f.name }}\", "
               "\"arguments\": {{ f.arguments | tojson }}{{ '}]' }}")},
    {"tool_call-list",
     EACH_CALL("<|tool_call|>[{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments | "
               "tojson(indent=4) }}{{ '}]' }}")},
    {"tool_calls-lines",
     EACH_CALL("<tool_calls>\n{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments | "
               "tojson }}{{ '}' }}\n</tool_calls>")},
    {"actions",
     EACH_CALL("<|action_start|><|plugin|>\n{\"name\": \"{{ f.name }}\", \"arguments\": {{ "
               "f.arguments | tojson }}{{ '}' }}<|action_end|>")},
    {"mcp", EACH_CALL("<use_mcp_tool>\n<server_name>default</server_name>\n<tool_name>{{ f.name "
                      "}}</tool_name>\n<arguments>\n{{ f.arguments | tojson "
                      "}}\n</arguments>\n</use_mcp_tool>")},
    {"seed", EACH_CALL("<seed:tool_call>\n<function={{ f.name }}>\n" EACH_ARGUMENT(
                 "<parameter={{ k }}>{{ v }}</parameter>\n") "</function>\n</seed:tool_call>")},
    {"params", EACH_CALL("<function name=\"{{ f.name }}\">" EACH_ARGUMENT(
                   "<param name=\"{{ k }}\">{{ v }}</param>") "</function>")},
    {"pairs-tight",
     EACH_CALL("<tool_call>{{ f.name }}" EACH_ARGUMENT(
         "<arg_key>{{ k }}</arg_key><arg_value>{{ v }}</arg_value>") "</tool_call>")},
    {"cohere", EACH_CALL("<|START_ACTION|>[\n    {\"tool_call_id\": \"{{ loop.index0 }}\", "
                         "\"tool_name\": \"{{ f.name }}\", \"parameters\": {{ f.arguments | "
                         "tojson }}{{ '}' }}\n]<|END_ACTION|>")},
    {"apertus", EACH_CALL("<|tools_prefix|>[{\"{{ f.name }}\": {{ f.arguments | tojson }}{{ '}' "
                          "}}]<|tools_suffix|>")},
    {"llama4", EACH_CALL("<|python_start|><|python_end|>{\"name\": \"{{ f.name }}\", "
                         "\"parameters\": {{ f.arguments | tojson }}{{ '}' }}")},
    {"function_call", EACH_CALL("<function_call> {\"name\": \"{{ f.name }}\", \"arguments\": {{ "
                                "f.arguments | tojson }}{{ '}' }}\n")},
    {"gigachat", EACH_CALL("<|function_call|>{\"name\": \"{{ f.name }}\", \"arguments\": {{ "
                           "f.arguments | tojson }}{{ '}' }}")},
    {"functionary-v3", EACH_CALL("{{ '>>>' + f.name + '\n' + f.arguments }}")},
    {"solar",
     EACH_CALL("<|tool_calls|><|tool_call:begin|>{{ c.id }}<|tool_call:name|>{{ f.name "
               "}}<|tool_call:args|>{{ f.arguments | tojson }}<|tool_call:end|><|calls|>")},
    {"calls-args", EACH_CALL("[TOOL_CALLS]{{ f.name }}[ARGS]{{ f.arguments | tojson }}")},
    {"calls-args", EACH_CALL("[TOOL_CALLS]{{ f.name }}[CALL_ID]{{ c.id }}[ARGS]{{ f.arguments "
                             "| tojson }}")},
    {"functionary", EACH_CALL("<function={{ f.name }}>{{ f.arguments | tojson }}</function>")},
    {"deepseek",
     EACH_CALL("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{{ f.name }}<｜tool▁sep｜>{{ "
               "f.arguments | tojson }}<｜tool▁call▁end｜><｜tool▁calls▁end｜>")},
    {"deepseek-fenced",
     EACH_CALL("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>{{ f.name "
               "}}\n```json\n{{ f.arguments | tojson }}\n```<｜tool▁call▁end｜>"
               "<｜tool▁calls▁end｜>")},
    {"hy3",
     EACH_CALL(
         "<tool_calls:opensource>\n<tool_call:opensource>{{ f.name "
         "}}<tool_sep:opensource>\n" EACH_ARGUMENT(
             "<arg_key:opensource>{{ k }}</arg_key:opensource>\n"
             "<arg_value:opensource>{{ v }}</arg_value:opensource>\n") "</tool_call:opensource>\n</"
                                                                       "tool_calls:opensource>")},
    {"hy3-preview",
     EACH_CALL("<tool_calls>\n<tool_call>{{ f.name }}<tool_sep>\n" EACH_ARGUMENT(
         "<arg_key>{{ k }}</arg_key>\n<arg_value>{{ v }}</arg_value>\n") "</tool_call>\n"
                                                                         "</tool_calls>")},
    {"gigachat-roles",
     EACH_CALL("assistant<|role_sep|>\n{{ m.content }}<|message_sep|>\n\nfunction "
               "call<|role_sep|>\n{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments | "
               "tojson }}{{ '}' }}<|message_sep|>\n\n")},
    {"fenced", EACH_CALL("\nAction:\n```json\n[\n    {\n        \"tool_name\": \"{{ f.name "
                         "}}\",\n        \"parameters\": {{ f.arguments | tojson(indent=4) "
                         "}}\n    }\n]```\n")},
    {"toolcall", EACH_CALL("<TOOLCALL>[{\"name\": \"{{ f.name }}\", \"arguments\": {{ "
                           "f.arguments | tojson }}{{ '}]' }}</TOOLCALL>")},
    {"tool_calls",
     EACH_CALL("<tool_calls>[{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments | "
               "tojson }}{{ '}]' }}</tool_calls>")},
};

static void calls_tell_their_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(words_rows); i++) {
        const whim_chat_format is = detect(words_rows[i][0], words_rows[i][1]);
        if (!is.native_tools || strcmp(is.tools->name, words_rows[i][0]) != 0) {
            fail_msg("%s: %s %d", words_rows[i][0], is.tools->name, is.native_tools);
        }
    }
}

static const struct {
    const char *name, *tools, *think; /* what opens thoughts */
    whim_chat_format is;
} template_rows[] = {
    {"qwen3", "hermes", "<think>", {NULL, true, true, false, false, true, "enable_thinking"}},
    {"qwen35", "xml", "<think>", {NULL, true, true, false, false, true, "enable_thinking"}},
    {"qwen3coder", "xml", NULL, {NULL, true, true, false, false, false, NULL}},
    {"minimax", "invoke", "<think>", {NULL, true, true, false, false, true, NULL}},
    {"smollm2", "hermes", NULL, {NULL, false, false, false, false, false, NULL}},
    {"llama3", "llama3", NULL, {NULL, true, true, true, false, false, NULL}},
    {"mistral", "calls-list", NULL, {NULL, true, true, false, true, false, NULL}},
    {"hermes", "hermes", NULL, {NULL, true, true, false, false, false, NULL}},
    {"mistral_args", "calls-args", "[THINK]", {NULL, true, true, false, false, true, NULL}},
    {"functionary", "functionary", NULL, {NULL, true, true, false, false, false, NULL}},
    {"glm45", "pairs", "<think>", {NULL, true, true, false, false, true, "enable_thinking"}},
    {"deepseek_v31", "deepseek", "<think>", {NULL, true, true, false, false, true, "thinking"}},
    {"harmony", "harmony", NULL, {NULL, true, true, true, false, false, NULL}},
    {"gemma4",
     "marked",
     "<|channel>thought",
     {NULL, true, true, false, false, true, "enable_thinking"}},
    {"command_r7b",
     "cohere",
     "<|START_THINKING|>",
     {NULL, true, true, false, false, true, "enable_thinking"}},
    {"functionary_v32", "functionary-v3", NULL, {NULL, true, true, false, false, false, NULL}},
    {"apertus",
     "apertus",
     "<|inner_prefix|>",
     {NULL, true, true, false, false, true, "enable_thinking"}},
    {"llama4", "llama4", NULL, {NULL, true, true, false, false, false, NULL}},
    {"glm4", "hermes", NULL, {NULL, false, true, true, false, false, NULL}},
    {NULL, "hermes", NULL, {NULL, false, false, false, false, false, NULL}},
};

static bool same_word(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static void templates_tell_their_form(void **state)
{
    (void)state;
    json_t *file = packed_json("tests/data/chat/conversations.json.xz", NULL);
    for (size_t i = 0; i < COUNT(template_rows); i++) {
        const char *name = template_rows[i].name;
        const char *source =
            name == NULL
                ? NULL
                : json_string_value(json_object_get(json_object_get(file, "templates"), name));
        assert_true(source != NULL || name == NULL);
        const whim_chat_format is = detect(name, source), *want = &template_rows[i].is;
        const char *think = is.reasons ? whim_chat_format_think(&is)->open : NULL;
        if (strcmp(is.tools->name, template_rows[i].tools) != 0 ||
            is.native_tools != want->native_tools || is.prints_tools != want->prints_tools ||
            is.one_call != want->one_call || is.short_ids != want->short_ids ||
            is.reasons != want->reasons || !same_word(think, template_rows[i].think) ||
            !same_word(is.thinking_switch, want->thinking_switch)) {
            fail_msg("%s: %s %d %d %d %d %s %s", name, is.tools->name, is.native_tools,
                     is.prints_tools, is.one_call, is.short_ids, think != NULL ? think : "-",
                     is.thinking_switch != NULL ? is.thinking_switch : "-");
        }
    }
    json_decref(file);
}

/* A form that nothing here detects could be lost without a word. */
static void every_form_is_told(void **state)
{
    (void)state;
    for (int32_t i = 0; i < whim_tool_words_count(); i++) {
        const whim_tool_words *words = whim_tool_words_at(i);
        bool is_told = words == NULL;
        for (size_t k = 0; k < COUNT(words_rows) && !is_told; k++) {
            is_told = strcmp(words_rows[k][0], words->name) == 0;
        }
        for (size_t k = 0; k < COUNT(template_rows) && !is_told; k++) {
            is_told = template_rows[k].is.native_tools &&
                      strcmp(template_rows[k].tools, words->name) == 0;
        }
        if (!is_told) {
            fail_msg("no row has the form %s", words->name);
        }
    }
}

/* A template with the words in the places of two %s, in two pieces each, so that they are nowhere
 * but in what it prints. */
static void spell(whim_str *source, const char *shown, const whim_think_words *words)
{
    const char *const both[] = {words->open, words->close};
    for (int i = 0; i < 2; i++) {
        const char *at = strstr(shown, "%s");
        whim_str_append_n(source, shown, at - shown);
        whim_str_printf(source, "'%c' ~ '%s'", both[i][0], both[i] + 1);
        shown = at + 2;
    }
    whim_str_append(source, shown);
}

static void expect_thoughts(const char *source, const whim_think_words *words)
{
    const whim_chat_format is = detect("thoughts", source);
    if (!is.reasons || is.think != words || is.thinking_switch != NULL) {
        fail_msg("%s: %d %s", source, is.reasons, whim_chat_format_think(&is)->open);
    }
}

/* The words around reasoning, and how they are seen: a template prints them around thoughts that it
 * is given, or before an answer, or leaves them out of old answers, or has them in its source. */
static void templates_tell_their_thoughts(void **state)
{
    (void)state;
    static const char *const shown[] = {
        "{% for m in messages %}{{ %s ~ m.reasoning_content ~ %s if m.reasoning_content is string "
        "}}{{ m.content }}{% endfor %}",
        "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in "
        "m.content if p.type == 'thinking' %}{{ %s ~ p.thinking ~ %s }}{% endfor %}{% endif %}"
        "{% endfor %}",
        "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}{{ %s if "
        "deep else %s }}{% endif %}",
        "{% set o = %s %}{% for m in messages %}{{ m.content.split(%s)[-1] }}{% endfor %}"};
    for (int32_t i = 0; i < whim_think_words_n_known; i++) {
        const whim_think_words *words = &whim_think_words_known[i];
        whim_str source = {0};
        for (size_t k = 0; k < COUNT(shown); k++) {
            whim_str_clear(&source);
            spell(&source, shown[k], words);
            expect_thoughts(whim_str_text(&source), words);
        }
        whim_str_clear(&source);
        whim_str_printf(&source, "{# %s #}{{ messages[0].content }}", words->close);
        expect_thoughts(whim_str_text(&source), words);
        whim_str_deinit(&source);
    }
    /* what is printed counts more than what is only written */
    expect_thoughts(
        "{# <think> #}{{ messages[0].content }}{{ '[THINK]' if add_generation_prompt }}",
        &whim_think_words_known[1]);
    static const char *const switched[][2] = {
        {"{{ messages[-1].content }}{{ '/nothink' if not thinking | default(true) }}", "thinking"},
        {"{{ '/think' if reasoning and not tools }}{{ messages[-1].content }}", "reasoning"},
        {"{# enable_thinking #}{{ messages[-1].content }}", NULL},
    };
    for (size_t i = 0; i < COUNT(switched); i++) {
        const whim_chat_format is = detect("switched", switched[i][0]);
        assert_false(is.reasons);
        assert_true(same_word(is.thinking_switch, switched[i][1]));
    }
}

/* Who may have a content of several parts is seen for each role by itself. */
static void templates_tell_who_has_parts(void **state)
{
    (void)state;
#define WALK "{% for p in m.content %}{{ p.text }}{% endfor %}"
    static const struct {
        const char *name, *who;
    } rows[] = {
        {"qwen35", "suat"},
        {"minimax", "suat"},
        {"qwen3", "----"},
        {"{% for m in messages %}{{ m.content }}{% endfor %}", "----"},
        {"{% for m in messages %}{{ m.content | tojson }}{% endfor %}", "----"},
        {"{% for m in messages %}{% if m.content is string %}{{ m.content }}{% elif m.role == "
         "'user' %}" WALK "{% else %}{{ raise_exception('text') }}{% endif %}{% endfor %}",
         "-u--"},
        {"{% for m in messages %}{% if m.content is string %}text:{{ m.content }}{% else %}" WALK
         "{% endif %}{% endfor %}",
         "----"},
    };
    json_t *file = packed_json("tests/data/chat/conversations.json.xz", NULL);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *source = rows[i].name[0] == '{'
                                 ? rows[i].name
                                 : json_string_value(json_object_get(
                                       json_object_get(file, "templates"), rows[i].name));
        const whim_chat_format is = detect(rows[i].name, source);
        const char who[] = {is.system_parts ? 's' : '-', is.user_parts ? 'u' : '-',
                            is.assistant_parts ? 'a' : '-', is.tool_parts ? 't' : '-', '\0'};
        if (strcmp(who, rows[i].who) != 0) {
            fail_msg("%s: %s, expected %s", rows[i].name, who, rows[i].who);
        }
    }
    json_decref(file);
}

/* --- calls that are read back ------------------------------------------------------------------ */

static const char called_tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"probe_it\",\"description\":\"A.\","
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"s\":{\"type\":\"string\","
    "\"description\":\"B.\"},\"i\":{\"type\":\"integer\",\"description\":\"C.\"}},\"required\":["
    "\"s\"]}}}]";
static const char called_args[] = "{\"s\":\"a {b} 'c' \\\"d\\\"\",\"i\":-12}";

/* The turns, with a prompt for an answer or with a call as the answer. */
static bool print_turns(const whim_template *tmpl, const json_t *tools, const json_t *args,
                        whim_rendered *out)
{
    json_t *turns = json_pack("[{s:s,s:s}]", "role", "user", "content", "Q");
    if (args != NULL) {
        json_array_append_new(turns, json_pack("{s:s,s:s,s:[{s:s,s:s,s:{s:s,s:O}}]}", "role",
                                               "assistant", "content", "", "tool_calls", "id",
                                               "callnumb1", "type", "function", "function", "name",
                                               "probe_it", "arguments", args));
    }
    const whim_template_input input = {.messages = turns,
                                       .tools = tools,
                                       .add_generation_prompt = args == NULL,
                                       .bos_token = "",
                                       .eos_token = ""};
    bool good = whim_template_render(tmpl, &input, out, NULL) == WHIM_ERR_OK;
    json_decref(turns);
    return good;
}

/* Where the answer begins: behind the prompt for one, or, where that opens the thinking, behind the
 * last tag that both have. */
static const char *answer_begin(const char *asked, const char *answered)
{
    size_t n = 0;
    while (asked[n] != '\0' && asked[n] == answered[n]) {
        n++;
    }
    while (asked[n] != '\0' && n > 0 && strchr("\n>]", answered[n - 1]) == NULL) {
        n--;
    }
    return answered + n;
}

/* What was read where it was not the call, for the caller to free; else NULL. *is_answer: the
 * template prints such turns. */
static char *misread(const char *source, const whim_chat_format *format, bool *is_answer)
{
    whim_template *tmpl = NULL;
    json_t *tools = json_loads(called_tools, 0, NULL), *args = json_loads(called_args, 0, NULL);
    json_t *given = format->text_args ? json_string(called_args) : json_incref(args);
    whim_rendered asked = {0}, answered = {0};
    char *wrong = NULL;
    assert_int_equal(
        whim_template_compile(source, (int64_t)strlen(source), "read back", &tmpl, NULL),
        WHIM_ERR_OK);
    *is_answer =
        print_turns(tmpl, tools, NULL, &asked) && print_turns(tmpl, tools, given, &answered);
    if (*is_answer) {
        const whim_chat_parser_cfg cfg = {.format = *format,
                                          .starts_named = whim_chat_format_opens_name(
                                              format, whim_str_text(&asked.text), asked.text.len),
                                          .parse_tools = true,
                                          .tools = tools};
        const char *text = answer_begin(whim_str_text(&asked.text), whim_str_text(&answered.text));
        chat_log log;
        assert_true(chat_log_parse(&log, &cfg, text, (int64_t)strlen(text), NULL, 0));
        json_t *read = json_loads(whim_str_text(&log.args), 0, NULL);
        if (log.wrong || log.open || log.n_call != 1 || !json_equal(read, args) ||
            strstr(whim_str_text(&log.text), " 0:probe_itargs[") == NULL) {
            wrong = strdup(whim_str_text(&log.text));
        }
        json_decref(read);
        chat_log_deinit(&log);
    }
    whim_rendered_deinit(&asked);
    whim_rendered_deinit(&answered);
    json_decref(tools);
    json_decref(args);
    json_decref(given);
    whim_template_destroy(tmpl);
    return wrong;
}

static void printed_calls_are_read_back(void **state)
{
    json_t *file = packed_json("tests/data/chat/conversations.json.xz", NULL);
    (void)state;
    for (size_t i = 0; i < COUNT(template_rows); i++) {
        const char *name = template_rows[i].name;
        if (!template_rows[i].is.native_tools) {
            continue;
        }
        const char *source =
            json_string_value(json_object_get(json_object_get(file, "templates"), name));
        const whim_chat_format format = detect(name, source);
        bool is_answer;
        char *wrong = misread(source, &format, &is_answer);
        if (wrong != NULL || !is_answer) {
            fail_msg("%s: %s", name, is_answer ? wrong : "no answer");
        }
    }
    json_decref(file);
}

static int table(const char *folder)
{
    struct dirent **list;
    int n = scandir(folder, &list, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char path[1024], *text = NULL;
        int64_t len;
        snprintf(path, sizeof path, "%s/%s", folder, list[i]->d_name);
        const char *end = strrchr(list[i]->d_name, '.');
        if (end != NULL && strcmp(end, ".jinja") == 0 &&
            whim_file_read_all(path, 4 << 20, &text, &len, NULL) == WHIM_ERR_OK) {
            const whim_chat_format f = detect(list[i]->d_name, text);
            bool is_answer = false;
            char *wrong = f.native_tools ? misread(text, &f, &is_answer) : NULL;
            printf("%-60s %-16s %c%c%c%c%s%s%s%s%s%s%s%s%s\n", list[i]->d_name,
                   f.native_tools   ? f.tools->name
                   : f.prints_tools ? "unknown"
                                    : "prints no tools",
                   f.system_parts ? 's' : '-', f.user_parts ? 'u' : '-',
                   f.assistant_parts ? 'a' : '-', f.tool_parts ? 't' : '-',
                   f.native_tools && f.one_call ? " one-call" : "",
                   f.drops_text ? " drops-text" : "",
                   f.native_tools && f.short_ids ? " short-ids" : "", f.reasons ? " thinks " : "",
                   f.reasons ? whim_chat_format_think(&f)->open : "",
                   f.thinking_switch != NULL ? " by " : "",
                   f.thinking_switch != NULL ? f.thinking_switch : "",
                   wrong != NULL ? " misread: "
                   : is_answer   ? " read-back"
                                 : "",
                   wrong != NULL ? wrong : "");
            free(wrong);
        }
        whim_free(text);
        free(list[i]);
    }
    free(list);
    return n < 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(templates_tell_their_form),
                                       cmocka_unit_test(calls_tell_their_words),
                                       cmocka_unit_test(every_form_is_told),
                                       cmocka_unit_test(templates_tell_their_thoughts),
                                       cmocka_unit_test(printed_calls_are_read_back),
                                       cmocka_unit_test(templates_tell_who_has_parts)};
    return argc > 1 ? table(argv[1]) : cmocka_run_group_tests(tests, NULL, NULL);
}
