/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of a request as turns: every field checked, and named when it is wrong. */
#include "base/alloc.h"
#include "base/json.h"
#include "chat/prompt_impl.h"

#include <stdio.h>
#include <string.h>

/* Where a message stands, for errors. */
typedef struct place {
    int64_t i;
    int64_t *values_left; /* of all texts of JSON that the messages hold */
    int64_t **parts;      /* room for the next place of a part */
    char *param;
    whim_diag *diag;
} place;

#define REFUSE(at, field, ...)                                                               \
    (snprintf((at)->param, WHIM_PARAM_BYTES, "messages[%lld]%s", (long long)(at)->i, field), \
     whim_fail((at)->diag, WHIM_ERR_INVALID, __VA_ARGS__))

static void turn_deinit(whim_turn *turn)
{
    whim_rendered_deinit(&turn->content);
    json_decref(turn->calls);
}

void whim_prompt_turns_remove(whim_prompt_turns *turns, int64_t i)
{
    turn_deinit(&turns->v[i]);
    memmove(turns->v + i, turns->v + i + 1, (size_t)(--turns->n - i) * sizeof *turns->v);
}

void whim_prompt_turns_deinit(whim_prompt_turns *turns)
{
    for (int64_t i = 0; i < turns->n; i++) {
        turn_deinit(&turns->v[i]);
    }
    whim_free(turns->v);
    json_decref(turns->made);
    whim_free(turns->parts);
    *turns = (whim_prompt_turns){0};
}

/* --- content ---------------------------------------------------------------------------------- */

static whim_err add_text(whim_turn *turn, const json_t *text, const place *at)
{
    return whim_rendered_append(&turn->content, json_string_value(text),
                                (int64_t)json_string_length(text), false, at->diag);
}

static whim_err add_part(whim_turn *turn, const json_t *part, size_t k, const place *at)
{
    char field[48];
    const char *type = json_string_value(json_object_get(part, "type"));
    snprintf(field, sizeof field, ".content[%zu]", k);
    if (type == NULL) {
        return REFUSE(at, field, "a part of a message's content is an object with a \"type\"");
    }
    const bool refusal = strcmp(type, "refusal") == 0;
    if (refusal || strcmp(type, "text") == 0) {
        const json_t *text = json_object_get(part, type);
        return json_is_string(text) ? add_text(turn, text, at)
                                    : REFUSE(at, field, "\"%s\" of a part is %s, expected a string",
                                             type, whim_json_kind(text));
    }
    if (turn->role == WHIM_ROLE_TOOL) { /* agents read pictures; refusing would repeat for ever */
        static const char note[] = "[image left out: this model reads text only]";
        return whim_rendered_append(&turn->content, note, sizeof note - 1, false, at->diag);
    }
    return REFUSE(at, field, "a part of type \"%.40s\" cannot be read: this model reads text only",
                  type);
}

static whim_err read_content(whim_turn *turn, const json_t *message, const place *at)
{
    const json_t *content = json_object_get(message, "content");
    if (content == NULL || json_is_null(content)) {
        return WHIM_ERR_OK;
    }
    if (json_is_string(content)) {
        return add_text(turn, content, at);
    }
    if (!json_is_array(content)) {
        return REFUSE(at, ".content", "content is %s, expected a string or a list of parts",
                      whim_json_kind(content));
    }
    turn->parts = *at->parts;
    for (size_t k = 0; k < json_array_size(content); k++) {
        WHIM_TRY(whim_rendered_append(&turn->content, "\n", k > 0, false, at->diag));
        *(*at->parts)++ = turn->content.text.len;
        turn->n_part++;
        WHIM_TRY(add_part(turn, json_array_get(content, k), k, at));
    }
    return WHIM_ERR_OK;
}

/* --- calls ------------------------------------------------------------------------------------ */

/* The object that a text holds, or NULL: what is no JSON, nests deeper than a request may, or has a
 * number that an object would change, stays text. */
static whim_err parse_object(const json_t *text, const place *at, json_t **out)
{
    const char *bytes = json_string_value(text);
    const size_t n = json_string_length(text);
    bool is_changed = false;
    const whim_json_limits limits = {.max_bytes = INT64_MAX,
                                     .max_depth = WHIM_JSON_DEPTH,
                                     .values_left = at->values_left,
                                     .is_changed = &is_changed};
    if (strspn(bytes, " \t\r\n") == n) {
        *out = json_object(); /* no arguments at all */
        return *out != NULL ? WHIM_ERR_OK : whim_prompt_no_memory(at->diag);
    }
    whim_err err = whim_json_read(out, bytes, (int64_t)n, limits, NULL);
    if (err == WHIM_ERR_NO_MEMORY) {
        return whim_prompt_no_memory(at->diag);
    }
    if (!json_is_object(*out) || is_changed) {
        json_decref(*out);
        *out = NULL;
    }
    return WHIM_ERR_OK;
}

static whim_err read_call(whim_turn *turn, const json_t *call, size_t k, const place *at)
{
    char field[64];
    const json_t *function = json_object_get(call, "function");
    json_t *name = json_object_get(function, "name"), *id = json_object_get(call, "id");
    const json_t *given = json_object_get(function, "arguments");
    json_t *arguments = NULL;
    snprintf(field, sizeof field, ".tool_calls[%zu].function.name", k);
    if (!json_is_string(name)) {
        return REFUSE(at, field,
                      "a tool call has {\"function\": {\"name\", \"arguments\"}}; the name is %s",
                      whim_json_kind(name));
    }
    snprintf(field, sizeof field, ".tool_calls[%zu].function.arguments", k);
    if (given == NULL || json_is_null(given)) {
        arguments = json_object();
    } else if (json_is_object(given)) {
        if (whim_json_largest_real(given) >= WHIM_JSON_BEYOND) {
            return REFUSE(at, field,
                          "the arguments of a tool call hold a number that is NaN, infinite or too "
                          "large for a double; send it as a string");
        }
        arguments = json_incref((json_t *)given);
    } else if (json_is_string(given)) {
        WHIM_TRY(parse_object(given, at, &arguments));
        if (*at->values_left < 0) {
            return REFUSE(at, field,
                          "the arguments of all tool calls together hold more than %d values (a "
                          "list or an object counts as %d); send less at once",
                          WHIM_JSON_VALUES, WHIM_JSON_GROUP);
        }
        if (arguments == NULL) {
            turn->raw_call = true;
            arguments = json_incref((json_t *)given);
        }
    } else {
        return REFUSE(at, field, "the arguments of a tool call are %s, expected a string of JSON",
                      whim_json_kind(given));
    }
    json_t *out = json_pack("{s:O*, s:s, s:{s:O, s:o}}", "id", json_is_string(id) ? id : NULL,
                            "type", "function", "function", "name", name, "arguments", arguments);
    return out != NULL && json_array_append_new(turn->calls, out) == 0
               ? WHIM_ERR_OK
               : whim_prompt_no_memory(at->diag);
}

static whim_err read_calls(whim_turn *turn, const json_t *message, const place *at)
{
    const json_t *calls = json_object_get(message, "tool_calls");
    if (calls == NULL || json_is_null(calls) || turn->role != WHIM_ROLE_ASSISTANT ||
        (json_is_array(calls) && json_array_size(calls) == 0)) {
        return WHIM_ERR_OK;
    }
    if (!json_is_array(calls)) {
        return REFUSE(at, ".tool_calls", "tool_calls is %s, expected a list",
                      whim_json_kind(calls));
    }
    turn->calls = json_array();
    for (size_t k = 0; k < json_array_size(calls); k++) {
        WHIM_TRY(read_call(turn, json_array_get(calls, k), k, at));
    }
    return WHIM_ERR_OK;
}

/* --- messages --------------------------------------------------------------------------------- */

static whim_err read_role(whim_turn *turn, const json_t *message, const place *at)
{
    static const struct {
        const char *word;
        whim_role role;
    } rows[] = {{"system", WHIM_ROLE_SYSTEM},
                {"developer", WHIM_ROLE_SYSTEM},
                {"user", WHIM_ROLE_USER},
                {"assistant", WHIM_ROLE_ASSISTANT},
                {"tool", WHIM_ROLE_TOOL}};
    const json_t *given = json_object_get(message, "role");
    const char *role = json_string_value(given);
    for (size_t k = 0; role != NULL && k < sizeof rows / sizeof rows[0]; k++) {
        if (strcmp(role, rows[k].word) == 0) {
            turn->role = rows[k].role;
            return WHIM_ERR_OK;
        }
    }
    turn->role = WHIM_ROLE_OTHER; /* whether there is such a role, the template says */
    turn->role_word = given;
    return role != NULL && *role != '\0'
               ? WHIM_ERR_OK
               : REFUSE(at, ".role",
                        "role is %s, expected system, developer, user, assistant, tool or another "
                        "word that the model's template knows",
                        role == NULL ? whim_json_kind(given) : "empty");
}

/* A string of the message, or NULL when absent or null. */
static whim_err read_string(const json_t *message, const char *key, const json_t **out,
                            const place *at)
{
    const json_t *value = json_object_get(message, key);
    if (value == NULL || json_is_null(value)) {
        return WHIM_ERR_OK;
    }
    if (!json_is_string(value)) {
        char field[40];
        snprintf(field, sizeof field, ".%s", key);
        return REFUSE(at, field, "%s is %s, expected a string", key, whim_json_kind(value));
    }
    *out = value;
    return WHIM_ERR_OK;
}

/* What only the assistant's messages have, beside calls. What it said in another way than by text
 * and tool_calls would be lost. */
static whim_err read_said(whim_turn *turn, const json_t *message, const place *at)
{
    static const struct {
        const char *key, *field, *why;
    } lost[] = {
        {"function_call", ".function_call", "function_call is not supported; use tool_calls"},
        {"audio", ".audio", "audio cannot be read: this model reads text only"},
    };
    for (size_t k = 0; k < sizeof lost / sizeof lost[0]; k++) {
        if (json_object_size(json_object_get(message, lost[k].key)) > 0) {
            return REFUSE(at, lost[k].field, "%s", lost[k].why);
        }
    }
    const json_t *content = json_object_get(message, "content");
    const json_t *refusal = json_object_get(message, "refusal");
    if (json_is_string(refusal) && (content == NULL || json_is_null(content))) {
        WHIM_TRY(add_text(turn, refusal, at));
    }
    WHIM_TRY(read_string(message, "reasoning", &turn->reasoning, at));
    return read_string(message, "reasoning_content", &turn->reasoning, at);
}

static whim_err read_message(whim_turn *turn, const json_t *message, const place *at)
{
    if (!json_is_object(message)) {
        return REFUSE(at, "", "a message is %s, expected an object", whim_json_kind(message));
    }
    WHIM_TRY(read_role(turn, message, at));
    WHIM_TRY(read_content(turn, message, at));
    WHIM_TRY(read_string(message, "name", &turn->name, at));
    if (turn->role == WHIM_ROLE_ASSISTANT) {
        WHIM_TRY(read_said(turn, message, at));
    }
    if (turn->role == WHIM_ROLE_TOOL) {
        WHIM_TRY(read_string(message, "tool_call_id", &turn->call_id, at));
    }
    return read_calls(turn, message, at);
}

/* A second system turn at the start goes into the first. */
static whim_err join_system(whim_prompt_turns *turns, whim_diag *diag)
{
    whim_turn *first = &turns->v[0];
    const whim_rendered *more = &turns->v[1].content;
    const char *gap = first->content.text.len > 0 && more->text.len > 0 ? "\n\n" : "";
    WHIM_TRY(whim_rendered_append(&first->content, gap, (int64_t)strlen(gap), false, diag));
    WHIM_TRY(whim_rendered_join(&first->content, more, diag));
    whim_prompt_turns_remove(turns, 1);
    return WHIM_ERR_OK;
}

static int64_t count_parts(const json_t *messages)
{
    int64_t n = 0;
    for (size_t i = 0; i < json_array_size(messages); i++) {
        n += (int64_t)json_array_size(json_object_get(json_array_get(messages, i), "content"));
    }
    return n;
}

whim_err whim_prompt_turns_read(whim_prompt_turns *turns, const json_t *messages, char *param,
                                whim_diag *diag)
{
    if (!json_is_array(messages) || json_array_size(messages) == 0) {
        snprintf(param, WHIM_PARAM_BYTES, "messages");
        return whim_fail(diag, WHIM_ERR_INVALID, "messages is %s, expected a list of at least one",
                         json_is_array(messages) ? "empty" : whim_json_kind(messages));
    }
    int64_t left = WHIM_JSON_VALUES;
    turns->cap = (int64_t)json_array_size(messages) + 1; /* one more for a system turn */
    turns->v = whim_alloc_array(turns->cap, sizeof *turns->v);
    const int64_t n_part = count_parts(messages);
    turns->parts = n_part > 0 ? whim_alloc_array(n_part, sizeof *turns->parts) : NULL;
    if (turns->v == NULL || (n_part > 0 && turns->parts == NULL)) {
        return whim_prompt_no_memory(diag);
    }
    int64_t *parts = turns->parts;
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const place at = {
            .i = (int64_t)i, .values_left = &left, .parts = &parts, .param = param, .diag = diag};
        whim_turn *turn = &turns->v[turns->n++];
        *turn = (whim_turn){0};
        WHIM_TRY(read_message(turn, json_array_get(messages, i), &at));
        if (turns->n == 2 && turns->v[0].role == WHIM_ROLE_SYSTEM &&
            turn->role == WHIM_ROLE_SYSTEM) {
            WHIM_TRY(join_system(turns, diag));
        }
    }
    return WHIM_ERR_OK;
}
