/* SPDX-License-Identifier: Apache-2.0 */
/* What a template tells about its model: it is given a made-up tool and calls of it, and what it
 * prints shows whether it knows tools and which words it has for calls. */
#include "chat/format.h"

#include "base/json.h"
#include <string.h>

bool whim_chat_format_has_channels(const whim_chat_format *format)
{
    return format->native_tools && format->tools->form == WHIM_TOOLS_CHANNELS;
}

const whim_think_words *whim_chat_format_think(const whim_chat_format *format)
{
    return format->think != NULL ? format->think : &whim_think_words_known[0];
}

bool whim_chat_format_opens_name(const whim_chat_format *format, const char *prompt, int64_t n)
{
    const whim_tool_words *words = format->tools;
    const int64_t len = words->said != NULL ? (int64_t)strlen(words->function) : 0;
    return format->native_tools && len > 0 && n >= len &&
           memcmp(prompt + n - len, words->function, (size_t)len) == 0;
}

/* A word that no template has. */
#define FUNCTION "whim_probe"
#define SHORT_IDS "callnumb1", "callnumb2" /* some templates refuse ids of another length */
#define LONG_IDS "call_of_another_kind_1", "call_of_another_kind_2"

static const char tool_text[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"" FUNCTION "\", \"description\": \"A.\", "
    "\"parameters\": {\"type\": \"object\", \"properties\": {\"key\": {\"type\": \"string\", "
    "\"description\": \"B.\"}}, \"required\": [\"key\"]}}}]";

typedef struct probe {
    const whim_template *tmpl;
    const whim_tokenizer *tok;
    json_t *tools;
    bool text_args;      /* arguments of calls are texts */
    whim_rendered plain; /* what it makes of an answer without calls */
    whim_rendered asked; /* and of the question alone, with what begins an answer */
} probe;

static json_t *call_make(const probe *p, const char *id)
{
    json_t *args =
        p->text_args ? json_string("{\"key\": \"value\"}") : json_pack("{s:s}", "key", "value");
    return json_pack("{s:s, s:s, s:{s:s, s:o}}", "id", id, "type", "function", "function", "name",
                     FUNCTION, "arguments", args);
}

/* A question, and an answer that is a call or two with the ids, or without them a text. */
static json_t *messages_make(const probe *p, const char *first_id, const char *second_id)
{
    json_t *calls = first_id != NULL ? json_array() : NULL;
    if (first_id != NULL) {
        json_array_append_new(calls, call_make(p, first_id));
    }
    if (second_id != NULL) {
        json_array_append_new(calls, call_make(p, second_id));
    }
    return json_pack("[{s:s, s:s}, {s:s, s:s, s:o*}]", "role", "user", "content", "Q", "role",
                     "assistant", "content", first_id != NULL ? "" : "A", "tool_calls", calls);
}

static const char *token(const whim_tokenizer *tok, const char *(*get)(const whim_tokenizer *tok))
{
    const char *text = tok != NULL ? get(tok) : NULL;
    return text != NULL ? text : "";
}

/* What the template makes of turns, which are taken over, and of what `more` has beside them.
 * False: it refuses them. */
static bool render(const probe *p, json_t *messages, const whim_template_input *more,
                   whim_rendered *out)
{
    whim_template_input input = *more;
    input.messages = messages;
    input.bos_token = token(p->tok, whim_tokenizer_bos);
    input.eos_token = token(p->tok, whim_tokenizer_eos);
    bool good = messages != NULL && whim_template_render(p->tmpl, &input, out, NULL) == WHIM_ERR_OK;
    json_decref(messages);
    return good;
}

static bool print(const probe *p, const char *first_id, const char *second_id, whim_rendered *out)
{
    return render(p, messages_make(p, first_id, second_id),
                  &(whim_template_input){.tools = p->tools}, out);
}

/* A question and what begins its answer, with arguments for the template or without. */
static bool print_question(const probe *p, const json_t *kwargs, whim_rendered *out)
{
    const whim_template_input more = {
        .tools = p->tools, .kwargs = kwargs, .add_generation_prompt = true};
    return render(p, json_pack("[{s:s, s:s}]", "role", "user", "content", "Q"), &more, out);
}

static int32_t times_named(const char *text)
{
    int32_t n = 0;
    while ((text = strstr(text, FUNCTION)) != NULL) {
        text++;
        n++;
    }
    return n;
}

/* What of a text is otherwise than in another one. */
static const char *rest_of(const char *text, const whim_rendered *other)
{
    const char *same = whim_str_text(&other->text);
    while (*text != '\0' && *text == *same) {
        text++;
        same++;
    }
    return text;
}

/* What is printed otherwise than for an answer without calls: the calls, in `out`. NULL: the
 * template refuses them. */
static const char *print_calls(const probe *p, const char *first_id, const char *second_id,
                               whim_rendered *out)
{
    return print(p, first_id, second_id, out) ? rest_of(whim_str_text(&out->text), &p->plain)
                                              : NULL;
}

/* The same from the tag on that it is in: two tags may begin with the same letters. */
static const char *tag_begin(const char *printed, const whim_rendered *out)
{
    const char *tag = printed;
    while (tag > out->text.text && strchr("<[>] \n", tag[-1]) == NULL) {
        tag--;
    }
    return tag > out->text.text && strchr("<[", tag[-1]) != NULL ? tag - 1 : printed;
}

/* The same from the beginning of its line on. */
static const char *line_begin(const char *printed, const whim_rendered *out)
{
    while (printed > out->text.text && printed[-1] != '\n') {
        printed--;
    }
    return printed;
}

/* --- texts beside calls ----------------------------------------------------------------------- */

#define SAID "TextBesideCalls."

/* Whether turns, which are taken over, are printed with what was said beside or before a call. */
static bool prints_said(const probe *p, json_t *messages)
{
    whim_rendered out = {0};
    bool good = render(p, messages, &(whim_template_input){.tools = p->tools}, &out) &&
                strstr(whim_str_text(&out.text), SAID) != NULL &&
                times_named(whim_str_text(&out.text)) > times_named(whim_str_text(&p->plain.text));
    whim_rendered_deinit(&out);
    return good;
}

/* What comes later counts: some templates refuse two turns of the assistant in a row only once it
 * has answered. */
static bool drops_text(const probe *p)
{
    json_t *beside =
        json_pack("[{s:s, s:s}, {s:s, s:s, s:[o]}]", "role", "user", "content", "Q", "role",
                  "assistant", "content", SAID, "tool_calls", call_make(p, "callnumb1"));
    json_t *before = json_pack(
        "[{s:s, s:s}, {s:s, s:s}, {s:s, s:s, s:[o]}, {s:s, s:s, s:s, s:s}, {s:s, s:s}, {s:s, s:s}]",
        "role", "user", "content", "Q", "role", "assistant", "content", SAID, "role", "assistant",
        "content", "", "tool_calls", call_make(p, "callnumb1"), "role", "tool", "tool_call_id",
        "callnumb1", "name", FUNCTION, "content", "R", "role", "assistant", "content", "A", "role",
        "user", "content", "Q");
    bool dropped = !prints_said(p, beside);
    return prints_said(p, before) && dropped;
}

static bool has_calls(const char *printed, int32_t n)
{
    return printed != NULL && times_named(printed) >= n;
}

/* The words of a printed call, which begins where it is no longer as an answer without calls, or
 * where the answer begins; NULL: none of those known. */
static const whim_tool_words *words_of(const probe *p, const char *printed,
                                       const whim_rendered *out)
{
    const char *const begins[] = {printed, tag_begin(printed, out), line_begin(printed, out),
                                  rest_of(whim_str_text(&out->text), &p->asked)};
    const whim_tool_words *words = NULL;
    for (size_t i = 0; i < sizeof begins / sizeof begins[0] && words == NULL; i++) {
        words = whim_tool_words_of(begins[i], FUNCTION);
    }
    return words;
}

static void detect_calls(probe *p, whim_chat_format *format)
{
    whim_rendered out = {0};
    const char *printed = print_calls(p, "callnumb1", NULL, &out);
    /* Where an object is refused, or becomes Python's text of it. */
    if (!has_calls(printed, 1) || strstr(printed, "'key'") != NULL) {
        p->text_args = true;
        printed = print_calls(p, "callnumb1", NULL, &out);
        p->text_args = has_calls(printed, 1) && strstr(printed, "\"key\"") != NULL;
        printed = p->text_args ? printed : print_calls(p, "callnumb1", NULL, &out);
    }
    const whim_tool_words *words = has_calls(printed, 1) ? words_of(p, printed, &out) : NULL;
    format->text_args = p->text_args;
    format->short_ids =
        print_calls(p, LONG_IDS, &out) == NULL && print_calls(p, SHORT_IDS, &out) != NULL;
    format->one_call = !has_calls(print_calls(p, SHORT_IDS, &out), 2);
    format->native_tools = words != NULL;
    format->drops_text = words != NULL && drops_text(p);
    format->tools = words != NULL ? words : format->tools;
    whim_rendered_deinit(&out);
}

/* --- parts ------------------------------------------------------------------------------------ */

/* Turns around a content, which is taken over. */
static json_t *turns_around(const probe *p, const char *role, json_t *content)
{
    if (strcmp(role, "tool") == 0) {
        return json_pack("[{s:s, s:s}, {s:s, s:s, s:[o]}, {s:s, s:s, s:s, s:o}]", "role", "user",
                         "content", "Q", "role", "assistant", "content", "", "tool_calls",
                         call_make(p, "callnumb1"), "role", "tool", "tool_call_id", "callnumb1",
                         "name", FUNCTION, "content", content);
    }
    const bool asked = strcmp(role, "user") == 0;
    json_t *turn = json_pack("{s:s, s:o}", "role", role, "content", content);
    json_t *list = json_array();
    if (strcmp(role, "assistant") == 0) {
        json_array_append_new(list, json_pack("{s:s, s:s}", "role", "user", "content", "Q"));
    }
    json_array_append_new(list, turn);
    if (!asked) {
        json_array_append_new(list, json_pack("{s:s, s:s}", "role", "user", "content", "Q"));
    }
    return list;
}

static bool print_content(const probe *p, const char *role, json_t *content, whim_rendered *out)
{
    const whim_template_input more = {.tools = strcmp(role, "tool") == 0 ? p->tools : NULL,
                                      .add_generation_prompt = true};
    return render(p, turns_around(p, role, content), &more, out);
}

/* Whether two parts are printed where their texts would be, and all around them is the same. */
static bool walks_over_parts(const probe *p, const char *role)
{
    static const char both[] = "PartOne.PartTwo.";
    enum { N_BOTH = sizeof both - 1, N_ONE = N_BOTH / 2 };
    json_t *parts = json_pack("[{s:s, s:s%}, {s:s, s:s}]", "type", "text", "text", both,
                              (size_t)N_ONE, "type", "text", "text", both + N_ONE);
    whim_rendered one = {0}, two = {0};
    bool good =
        print_content(p, role, parts, &two) && print_content(p, role, json_string(both), &one);
    const char *text = whim_str_text(&one.text), *at = good ? strstr(text, both) : NULL;
    if (at != NULL) {
        const char *end = whim_str_text(&two.text) + two.text.len;
        const int64_t n_before = at - text + N_ONE, n_after = one.text.len - n_before;
        good = two.text.len >= one.text.len && memcmp(two.text.text, text, (size_t)n_before) == 0 &&
               memcmp(end - n_after, at + N_ONE, (size_t)n_after) == 0;
    }
    whim_rendered_deinit(&one);
    whim_rendered_deinit(&two);
    return good && at != NULL;
}

/* --- reasoning -------------------------------------------------------------------------------- */

#define THOUGHT "ThoughtOfBefore."

/* Arguments of templates that turn reasoning on or off. */
static const char *const switches[] = {"enable_thinking", "thinking", "reasoning"};
enum { N_SWITCH = sizeof switches / sizeof switches[0] };

/* Turns are printed behind what was printed before; nothing where the template refuses them. Takes
 * the turns over. */
static void print_more(const probe *p, json_t *messages, whim_str *all)
{
    whim_rendered out = {0};
    if (render(p, messages, &(whim_template_input){.tools = p->tools}, &out)) {
        whim_str_append_n(all, whim_str_text(&out.text), out.text.len);
    }
    whim_rendered_deinit(&out);
}

/* What the template makes of thoughts under the names that they have, in a turn that speaks and in
 * one that calls. */
static void print_thoughts(const probe *p, whim_str *all)
{
    print_more(p,
               json_pack("[{s:s, s:s}, {s:s, s:s, s:s, s:s}]", "role", "user", "content", "Q",
                         "role", "assistant", "content", "A", "reasoning_content", THOUGHT,
                         "reasoning", THOUGHT),
               all);
    print_more(p,
               json_pack("[{s:s, s:s}, {s:s, s:s, s:s, s:[o]}]", "role", "user", "content", "Q",
                         "role", "assistant", "content", "", "reasoning_content", THOUGHT,
                         "tool_calls", call_make(p, "callnumb1")),
               all);
    print_more(p,
               json_pack("[{s:s, s:s}, {s:s, s:[{s:s, s:s}, {s:s, s:s}]}]", "role", "user",
                         "content", "Q", "role", "assistant", "content", "type", "thinking",
                         "thinking", THOUGHT, "type", "text", "text", "A"),
               all);
}

/* What begins an answer with a switch on and off. */
static void print_switched(const probe *p, whim_str *all, whim_chat_format *format)
{
    whim_rendered on = {0}, off = {0};
    for (size_t i = 0; i < N_SWITCH; i++) {
        json_t *yes = json_pack("{s:b}", switches[i], 1), *no = json_pack("{s:b}", switches[i], 0);
        if (print_question(p, yes, &on) && print_question(p, no, &off)) {
            const bool same =
                on.text.len == off.text.len &&
                memcmp(whim_str_text(&on.text), whim_str_text(&off.text), (size_t)on.text.len) == 0;
            whim_str_append_n(all, whim_str_text(&on.text), on.text.len);
            whim_str_append_n(all, whim_str_text(&off.text), off.text.len);
            if (!same && format->thinking_switch == NULL) {
                format->thinking_switch = switches[i];
            }
        }
        json_decref(yes);
        json_decref(no);
    }
    whim_rendered_deinit(&on);
    whim_rendered_deinit(&off);
}

/* Whether thoughts between these words are left out of an old answer. */
static bool leaves_out(const probe *p, const whim_think_words *words)
{
    whim_str content = {0}, all = {0};
    whim_str_printf(&content, "%s\n" THOUGHT "\n%s\n\n" SAID, words->open, words->close);
    print_more(p,
               json_pack("[{s:s, s:s}, {s:s, s:s}, {s:s, s:s}]", "role", "user", "content", "Q",
                         "role", "assistant", "content", whim_str_text(&content), "role", "user",
                         "content", "Q"),
               &all);
    const char *text = whim_str_text(&all);
    const bool is_left_out = strstr(text, SAID) != NULL && strstr(text, THOUGHT) == NULL;
    whim_str_deinit(&content);
    whim_str_deinit(&all);
    return is_left_out;
}

/* What opens the thoughts of one family switches those of another on, which has no mark for what is
 * said. */
static bool holds(const char *text, const whim_think_words *words)
{
    return strstr(text, words->close) != NULL ||
           (words->says == NULL && strstr(text, words->open) != NULL);
}

/* The words are those that the template writes somewhere by itself, or that it leaves out. Some
 * write them only from turns of a shape of their own, so in the end its source is looked at. */
static void detect_thoughts(const probe *p, const char *source, whim_chat_format *format)
{
    whim_str all = {0};
    probe without = *p; /* tools may stand where something about thinking does */
    without.tools = NULL;
    print_switched(p, &all, format);
    print_switched(&without, &all, format);
    print_thoughts(p, &all);
    for (int step = 0; step < 3 && !format->reasons; step++) {
        for (int32_t i = 0; i < whim_think_words_n_known && !format->reasons; i++) {
            const whim_think_words *words = &whim_think_words_known[i];
            format->reasons = step == 0   ? holds(whim_str_text(&all), words)
                              : step == 1 ? leaves_out(p, words)
                                          : holds(source, words);
            format->think = format->reasons ? words : NULL;
        }
    }
    whim_str_deinit(&all);
}

whim_chat_format whim_chat_format_detect(const whim_template *tmpl, const char *source,
                                         const whim_tokenizer *tok)
{
    whim_chat_format format = {.tools = whim_tool_words_usual()};
    if (tmpl == NULL) {
        return format;
    }
    probe p = {.tmpl = tmpl, .tok = tok};
    const whim_json_limits limits = {.max_bytes = sizeof tool_text, .max_depth = WHIM_JSON_DEPTH};
    format.prints_tools =
        whim_json_read(&p.tools, tool_text, sizeof tool_text - 1, limits, NULL) == WHIM_ERR_OK &&
        print(&p, NULL, NULL, &p.plain) && times_named(whim_str_text(&p.plain.text)) > 0;
    if (format.prints_tools && print_question(&p, NULL, &p.asked)) {
        detect_calls(&p, &format);
    }
    format.system_parts = walks_over_parts(&p, "system");
    format.user_parts = walks_over_parts(&p, "user");
    format.assistant_parts = walks_over_parts(&p, "assistant");
    format.tool_parts = format.native_tools && walks_over_parts(&p, "tool");
    if (!format.prints_tools) {
        json_decref(p.tools);
        p.tools = NULL;
    }
    detect_thoughts(&p, source, &format);
    whim_rendered_deinit(&p.plain);
    whim_rendered_deinit(&p.asked);
    json_decref(p.tools);
    return format;
}
