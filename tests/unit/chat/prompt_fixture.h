/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of prompts share: a tokenizer with the marks of turns and calls, prompts of
 * messages in a template, and messages that many of them have. */
#ifndef WHIM_TESTS_UNIT_CHAT_PROMPT_FIXTURE_H
#define WHIM_TESTS_UNIT_CHAT_PROMPT_FIXTURE_H

#include "unit/text/text_fixture.h"

#include "chat/prompt.h"
#include "support/packed_json.h"

typedef struct bench {
    whim_tokenizer *tok;
    json_t *templates;
} bench;

/* One token for every printable character, and the marks of turns and calls. */
static inline whim_tokenizer *make_tokenizer(void)
{
    static const char *const marks[] = {"<|im_start|>",
                                        "<|im_end|>",
                                        "<tool_call>",
                                        "</tool_call>",
                                        "<think>",
                                        "</think>",
                                        "]~b]",
                                        "<tool_response>",
                                        "<minimax:tool_call>",
                                        "</minimax:tool_call>"};
    json_t *vocab = json_object(), *added = json_array();
    json_object_set_new(vocab, "<unk>", json_integer(0));
    json_object_set_new(vocab, "\n", json_integer(1));
    for (char c = ' '; c <= '~'; c++) {
        json_object_set_new(vocab, (char[]){c, '\0'}, json_integer(c));
    }
    for (int i = 0; i < (int)(sizeof marks / sizeof marks[0]); i++) {
        json_array_append_new(added, json_pack("{s:i, s:s, s:b, s:b}", "id", 200 + i, "content",
                                               marks[i], "special", 1, "normalized", 0));
    }
    json_t *file = json_pack("{s:o, s:{s:s, s:s, s:o, s:[]}}", "added_tokens", added, "model",
                             "type", "BPE", "unk_token", "<unk>", "vocab", vocab, "merges");
    char *text = json_dumps(file, 0);
    whim_tokenizer *tok;
    whim_diag diag = {{0}};
    if (open_text(text, (int64_t)strlen(text), &tok, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    free(text);
    json_decref(file);
    return tok;
}

static inline int setup(void **state)
{
    static bench b;
    b.tok = make_tokenizer();
    b.templates = packed_json("tests/data/chat/conversations.json.xz", NULL);
    *state = &b;
    return b.templates == NULL;
}

static inline int teardown(void **state)
{
    bench *b = *state;
    whim_tokenizer_close(b->tok);
    json_decref(b->templates);
    return 0;
}

typedef struct wish {
    const char *tmpl; /* a name in tests/data/chat, or a source that begins with { */
    const char *messages, *tools, *kwargs, *model_kwargs;
    int32_t thinking;
    const char *effort;
    bool new_turn, is_closed;
} wish;

static inline json_t *parse(const char *text)
{
    json_error_t error;
    json_t *json = text == NULL ? NULL : json_loads(text, JSON_ALLOW_NUL, &error);
    if (text != NULL && json == NULL) {
        fail_msg("%s: %s", text, error.text);
    }
    return json;
}

static inline whim_err make(const bench *b, const wish *w, whim_prompt *out, char *param,
                            whim_diag *diag)
{
    const char *source = w->tmpl == NULL || w->tmpl[0] == '{'
                             ? w->tmpl
                             : json_string_value(json_object_get(
                                   json_object_get(b->templates, "templates"), w->tmpl));
    whim_template *tmpl = NULL;
    if (source != NULL) {
        assert_int_equal(whim_template_compile(source, (int64_t)strlen(source), "t", &tmpl, diag),
                         WHIM_ERR_OK);
    }
    json_t *messages = parse(w->messages), *tools = parse(w->tools), *kwargs = parse(w->kwargs);
    json_t *model_kwargs = parse(w->model_kwargs);
    const whim_chat_model model = {.tok = b->tok,
                                   .tmpl = tmpl,
                                   .format = whim_chat_format_detect(tmpl, source, b->tok),
                                   .kwargs = model_kwargs};
    const whim_prompt_request request = {.messages = messages,
                                         .tools = tools,
                                         .kwargs = kwargs,
                                         .thinking = w->thinking,
                                         .effort = w->effort,
                                         .new_turn = w->new_turn,
                                         .is_closed = w->is_closed};
    whim_err err = whim_prompt_make(&model, &request, out, param, diag);
    json_decref(messages);
    json_decref(tools);
    json_decref(kwargs);
    json_decref(model_kwargs);
    whim_template_destroy(tmpl);
    return err;
}

static inline void expect(const bench *b, const wish *w, const char *text)
{
    whim_prompt out;
    char param[128];
    whim_diag diag = {{0}};
    if (make(b, w, &out, param, &diag) != WHIM_ERR_OK) {
        fail_msg("%s: %s (%s)", w->messages, diag.text, param);
    }
    if (strcmp(whim_str_text(&out.rendered.text), text) != 0) {
        fail_msg("%s gave\n[%s]\nexpected\n[%s]", w->messages, whim_str_text(&out.rendered.text),
                 text);
    }
    whim_prompt_deinit(&out);
}

/* A plain template, which shows what it is given. */
#define PLAIN                                                                                     \
    "{% for m in messages %}[{{ m.role }}|{{ m.content }}{% if m.name is defined %}|name={{ "     \
    "m.name "                                                                                     \
    "}}{% endif %}{% if m.reasoning_content is defined %}|why={{ m.reasoning_content }}{% endif " \
    "%}]"                                                                                         \
    "{% endfor %}{% if add_generation_prompt %}>{{ enable_thinking }}{{ reasoning_effort }}{% "   \
    "endif %}"

#define CALL_TWICE                                                                                 \
    "[{\"role\": \"user\", \"content\": \"u\"}, {\"role\": \"assistant\", \"content\": \"so\", "   \
    "\"tool_calls\": [{\"id\": \"call_1\", \"function\": {\"name\": \"f\", \"arguments\": "        \
    "\"{}\"}}, "                                                                                   \
    "{\"id\": \"call_2\", \"function\": {\"name\": \"g\", \"arguments\": \"{\\\"a\\\": 1}\"}}]}, " \
    "{\"role\": \"tool\", \"content\": \"r2\", \"tool_call_id\": \"call_2\"}, {\"role\": "         \
    "\"tool\", "                                                                                   \
    "\"content\": \"r1\", \"tool_call_id\": \"call_1\"}, {\"role\": \"user\", \"content\": "       \
    "\"v\"}]"

#define USER "{\"role\": \"user\", \"content\": \"q\"}"
#define SAID(text) "{\"role\": \"assistant\", \"content\": \"" text "\"}"
#define CALL(args)                                                                             \
    "{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"function\": {\"name\": " \
    "\"f\", "                                                                                  \
    "\"arguments\": \"" args "\"}}]}"

/* The first cannot be printed by a template, so both are written for it. */
#define TWO_CALLS                                                                              \
    "{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"function\": {\"name\": " \
    "\"f\", \"arguments\": \"[1]\"}}, {\"function\": {\"name\": \"g\", "                       \
    "\"arguments\": \"{\\\"a\\\": \\\"x\\\", \\\"b\\\": 2}\"}}]}"

#endif
