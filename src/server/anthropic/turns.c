/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks of an Anthropic conversation as turns in the OpenAI form. */
#include "server/turns.h"
#include "server/anthropic/anthropic.h"

#include <stdarg.h>
#include <stdio.h>

/* Where we are, for messages; -1: not inside one. */
typedef struct walk {
    whim_turns turns;
    const char *list; /* "messages" or "system" */
    int64_t message, block, inner;
    whim_fault *fault;
} walk;

/* `field` begins with a point, or is "" for the block itself. */
static bool bad(const walk *w, const char *field, const char *fmt, ...) WHIM_PRINTF(3, 4);
static bool bad(const walk *w, const char *field, const char *fmt, ...)
{
    char why[256];
    whim_fields f = {.fault = w->fault};
    int n = snprintf(f.prefix, sizeof f.prefix, "%s", w->list);
    const int64_t index[] = {w->message, w->block, w->inner};
    for (int i = 0; i < 3; i++) {
        if (index[i] >= 0) {
            n += snprintf(f.prefix + n, sizeof f.prefix - (size_t)n, "%s[%lld]",
                          i == 0 ? "" : ".content", (long long)index[i]);
        }
    }
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return whim_field_refuse(&f, field, "%s", why);
}

/* A required string of a block, joined to `out`. */
static bool join_field(const walk *w, const json_t *block, const char *key, whim_str *out)
{
    const json_t *text = whim_peek(block, key);
    if (!json_is_string(text)) {
        char field[32];
        snprintf(field, sizeof field, ".%s", key);
        return bad(w, field, "must be a string");
    }
    whim_turns_join_json(out, text);
    return true;
}

/* What this model cannot read: refused where the user sent it; inside a tool's result the model is
 * told, because an agent would send the same history with every later turn. */
static bool unreadable(const walk *w, const char *what, bool in_result, whim_str *out)
{
    if (!in_result) {
        return bad(w, "", "is an %s, and this model reads text only", what);
    }
    char text[64];
    int n = snprintf(text, sizeof text, "[%s left out: this model reads text only]", what);
    whim_turns_join(out, text, n);
    return true;
}

/* The type of a block, or NULL: refused. */
static const char *type_of(const walk *w, const json_t *block)
{
    const json_t *type = whim_peek(block, "type");
    if (!json_is_string(type)) {
        bad(w, "", "must be an object with a string \"type\"");
    }
    return json_string_value(type);
}

static bool leaf(const walk *w, const json_t *block, bool in_result, whim_str *out)
{
    const char *type = type_of(w, block);
    if (type == NULL) {
        return false;
    }
    if (strcmp(type, "text") == 0) {
        return join_field(w, block, "text", out);
    }
    if (strcmp(type, "image") == 0) {
        return unreadable(w, "image", in_result, out);
    }
    if (!in_result) {
        return bad(w, ".type", "is \"%s\", which cannot stand here", type);
    }
    if (strcmp(type, "tool_reference") == 0) {
        return join_field(w, block, "tool_name", out);
    }
    return unreadable(w, "block", in_result, out);
}

/* Content inside a block: a string or leaves. */
static bool leaves(const walk *w, const json_t *content, bool in_result, whim_str *out)
{
    if (json_is_string(content)) {
        whim_turns_join_json(out, content);
        return true;
    }
    if (!json_is_array(content)) {
        return bad(w, ".content", "must be a string or a list of blocks");
    }
    bool ok = true;
    for (size_t i = 0; ok && i < json_array_size(content); i++) {
        ok = leaf(w, json_array_get(content, i), in_result, out);
    }
    return ok;
}

static bool document(const walk *w, const json_t *block, bool in_result, whim_str *out)
{
    const json_t *source = whim_peek(block, "source"), *type = whim_peek(source, "type");
    if (!json_is_string(type)) {
        return bad(w, ".source", "must be an object with a string \"type\"");
    }
    bool as_text = whim_peek_is(type, "text");
    bool is_text = as_text || whim_peek_is(type, "content");
    static const char *const head[] = {"title", "context"};
    whim_str unused = {0};
    bool ok = true;
    for (int i = 0; i < 2 && ok; i++) {
        ok = whim_peek(block, head[i]) == NULL ||
             join_field(w, block, head[i], is_text ? out : &unused);
    }
    whim_str_deinit(&unused);
    if (!ok) {
        return false;
    }
    if (!is_text) {
        return unreadable(w, "image", in_result, out); /* a PDF: pages are pictures to us */
    }
    return as_text ? join_field(w, source, "data", out)
                   : leaves(w, whim_peek(source, "content"), in_result, out);
}

/* Blocks that are text for the model. */
static bool readable(const walk *w, const json_t *block, bool in_result, whim_str *out)
{
    const json_t *type = whim_peek(block, "type");
    if (whim_peek_is(type, "document")) {
        return document(w, block, in_result, out);
    }
    if (whim_peek_is(type, "search_result")) {
        return join_field(w, block, "title", out) && join_field(w, block, "source", out) &&
               leaves(w, whim_peek(block, "content"), in_result, out);
    }
    return leaf(w, block, in_result, out);
}

static bool result_text(walk *w, const json_t *content, whim_str *out)
{
    if (content == NULL) {
        return true;
    }
    if (!json_is_array(content)) {
        return leaves(w, content, true, out);
    }
    bool ok = true;
    for (size_t i = 0; ok && i < json_array_size(content); i++) {
        w->inner = (int64_t)i;
        ok = readable(w, json_array_get(content, i), true, out);
    }
    w->inner = -1;
    return ok;
}

static bool tool_result(walk *w, const json_t *block)
{
    json_t *id = whim_peek(block, "tool_use_id");
    const json_t *is_error = whim_peek(block, "is_error");
    if (!json_is_string(id)) {
        return bad(w, ".tool_use_id", "must be a string");
    }
    if (is_error != NULL && !json_is_boolean(is_error)) {
        return bad(w, ".is_error", "must be true or false");
    }
    whim_str text = {0}, marked = {0};
    bool ok = result_text(w, whim_peek(block, "content"), &text);
    if (ok && json_is_true(is_error)) {
        whim_str_append(&marked, "Error: ");
        whim_str_append_n(&marked, whim_str_text(&text), text.len);
        marked.failed |= text.failed;
    }
    if (ok) {
        whim_turns_result(&w->turns, id, json_is_true(is_error) ? &marked : &text);
    }
    whim_str_deinit(&text);
    whim_str_deinit(&marked);
    return ok;
}

static bool user_block(walk *w, const json_t *block)
{
    if (whim_peek_is(whim_peek(block, "type"), "tool_result")) {
        return tool_result(w, block);
    }
    whim_turns_open(&w->turns, "user");
    return readable(w, block, false, &w->turns.text);
}

static bool tool_use(walk *w, const json_t *block)
{
    json_t *id = whim_peek(block, "id"), *name = whim_peek(block, "name");
    json_t *input = whim_peek(block, "input");
    if (!json_is_string(id)) {
        return bad(w, ".id", "must be a string");
    }
    if (!json_is_string(name)) {
        return bad(w, ".name", "must be a string");
    }
    if (!json_is_object(input)) {
        return bad(w, ".input", "must be an object");
    }
    whim_turns_call(&w->turns, id, name, input);
    return true;
}

static bool assistant_block(walk *w, const json_t *block)
{
    const char *type = type_of(w, block);
    if (type == NULL) {
        return false;
    }
    if (strcmp(type, "text") == 0) {
        return join_field(w, block, "text", &w->turns.text);
    }
    if (strcmp(type, "thinking") == 0) {
        return join_field(w, block, "thinking", &w->turns.reasoning);
    }
    if (strcmp(type, "tool_use") == 0) {
        return tool_use(w, block);
    }
    if (strcmp(type, "redacted_thinking") == 0) {
        return true; /* only its maker can read it */
    }
    return bad(w, ".type", "is \"%s\", which an assistant turn cannot have", type);
}

/* Claude Code begins its system text with a line whose value changes with every request: with it in
 * the prompt no prefix would ever be found again. */
static void join_system(walk *w, const json_t *text)
{
    static const char billing[] = "x-anthropic-billing-header:";
    const char *s = json_string_value(text);
    const char *end = s + json_string_length(text);
    if (strncmp(s, billing, sizeof billing - 1) == 0) {
        const char *newline = memchr(s, '\n', (size_t)(end - s));
        s = newline == NULL ? end : newline + 1;
    }
    whim_turns_join(&w->turns.text, s, end - s);
}

static bool system_block(walk *w, const json_t *block)
{
    const json_t *text = whim_peek(block, "text");
    if (!whim_peek_is(whim_peek(block, "type"), "text") || !json_is_string(text)) {
        return bad(w, "", "must be a text block");
    }
    whim_turns_open(&w->turns, "system");
    join_system(w, text);
    return true;
}

/* A system turn inside the conversation may also add or remove tools. That is no text; tools.c
 * reads it. */
static bool system_turn_block(walk *w, const json_t *block)
{
    const json_t *type = whim_peek(block, "type"), *tool = whim_peek(block, "tool");
    if (!whim_peek_is(type, "tool_addition") && !whim_peek_is(type, "tool_removal")) {
        return system_block(w, block);
    }
    if (!whim_peek_is(whim_peek(tool, "type"), "tool_reference")) {
        return bad(w, ".tool.type", "must be \"tool_reference\", to one of \"tools\"");
    }
    return json_is_string(whim_peek(tool, "name")) || bad(w, ".tool.name", "must be a string");
}

typedef bool block_fn(walk *w, const json_t *block);

/* `index` counts them: the message's blocks, or those of the field itself. */
static bool blocks(walk *w, const json_t *content, block_fn *fn, int64_t *index)
{
    bool ok = true;
    for (size_t i = 0; ok && i < json_array_size(content); i++) {
        *index = (int64_t)i;
        ok = fn(w, json_array_get(content, i));
    }
    *index = -1;
    return ok;
}

static bool turn(walk *w, const char *role, block_fn *fn, const json_t *content)
{
    if (json_array_size(content) == 0 || fn == assistant_block) {
        whim_turns_open(&w->turns, role); /* other blocks may all be results or changes of tools */
    }
    if (json_is_array(content)) {
        return blocks(w, content, fn, &w->block);
    }
    if (!json_is_string(content)) {
        return bad(w, ".content", "must be a string or a list of blocks");
    }
    if (fn == system_turn_block) {
        join_system(w, content);
    } else {
        whim_turns_join_json(&w->turns.text, content);
    }
    return true;
}

static bool message(walk *w, const json_t *value)
{
    const json_t *role = whim_peek(value, "role"), *content = whim_peek(value, "content");
    if (whim_peek_is(role, "user")) {
        return turn(w, "user", user_block, content);
    }
    if (whim_peek_is(role, "assistant")) {
        return turn(w, "assistant", assistant_block, content);
    }
    if (whim_peek_is(role, "system")) {
        return turn(w, "system", system_turn_block, content);
    }
    return bad(w, ".role", "must be \"user\", \"assistant\" or \"system\"");
}

static bool system_field(walk *w, const json_t *value)
{
    if (value == NULL) {
        return true;
    }
    whim_turns_open(&w->turns, "system");
    if (json_is_string(value)) {
        join_system(w, value);
    } else if (!json_is_array(value)) {
        return bad(w, "", "must be a string or a list of text blocks");
    } else if (!blocks(w, value, system_block, &w->message)) {
        return false;
    }
    if (w->turns.text.len == 0) {
        w->turns.role = NULL; /* an empty one would displace the template's own */
    }
    return true;
}

bool whim_anthropic_read_turns(const whim_fields *f, whim_task *task)
{
    walk w = {.list = "system", .message = -1, .block = -1, .inner = -1, .fault = f->fault};
    bool ok = system_field(&w, whim_field(f, "system"));
    if (ok) {
        const json_t *messages = whim_field(f, "messages");
        w.list = "messages";
        ok = json_array_size(messages) > 0 || bad(&w, "", "must be a list of at least one message");
        for (size_t i = 0; ok && i < json_array_size(messages); i++) {
            w.message = (int64_t)i;
            ok = message(&w, json_array_get(messages, i));
        }
    }
    if (ok) {
        task->messages = whim_turns_take(&w.turns);
        ok = task->messages != NULL || whim_fault_no_memory(f->fault);
    }
    whim_turns_deinit(&w.turns);
    return ok;
}
