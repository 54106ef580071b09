/* SPDX-License-Identifier: Apache-2.0 */
/* Turns in the making: an open one gathers its pieces, and becomes JSON when it is closed. */
#include "server/turns.h"

#include <string.h>

void whim_turns_deinit(whim_turns *turns)
{
    json_decref(turns->list);
    json_decref(turns->calls);
    whim_str_deinit(&turns->text);
    whim_str_deinit(&turns->reasoning);
    *turns = (whim_turns){0};
}

static json_t *string_of(const whim_str *str)
{
    return str->failed ? NULL : json_stringn(whim_str_text(str), (size_t)str->len);
}

/* Steals `turn`, which may be NULL. */
static void append(whim_turns *turns, json_t *turn)
{
    if (turns->list == NULL) {
        turns->list = json_array();
    }
    /* json_array_append_new gives the reference back also when it fails. */
    if (json_array_append_new(turns->list, turn) != 0) {
        turns->failed = true;
    }
}

void whim_turns_close(whim_turns *turns)
{
    if (turns->role == NULL) {
        return;
    }
    json_t *turn = json_pack("{s:s, s:o}", "role", turns->role, "content", string_of(&turns->text));
    if (turns->reasoning.len > 0 &&
        json_object_set_new(turn, "reasoning_content", string_of(&turns->reasoning)) != 0) {
        turns->failed = true;
    }
    if (turns->calls != NULL && json_object_set(turn, "tool_calls", turns->calls) != 0) {
        turns->failed = true;
    }
    append(turns, turn);
    json_decref(turns->calls);
    turns->calls = NULL;
    turns->role = NULL;
    whim_str_clear(&turns->text);
    whim_str_clear(&turns->reasoning);
}

void whim_turns_open(whim_turns *turns, const char *role)
{
    if (turns->role == NULL || strcmp(turns->role, role) != 0) {
        whim_turns_close(turns);
        turns->role = role;
    }
}

void whim_turns_join(whim_str *str, const char *text, int64_t n)
{
    if (n > 0 && str->len > 0) {
        whim_str_append_char(str, '\n');
    }
    whim_str_append_n(str, text, n);
}

void whim_turns_join_json(whim_str *str, const json_t *text)
{
    whim_turns_join(str, json_string_value(text), (int64_t)json_string_length(text));
}

void whim_turns_call(whim_turns *turns, json_t *id, json_t *name, json_t *arguments)
{
    if (turns->calls == NULL) {
        turns->calls = json_array();
    }
    json_t *call = json_pack("{s:O, s:s, s:{s:O, s:O}}", "id", id, "type", "function", "function",
                             "name", name, "arguments", arguments);
    if (json_array_append_new(turns->calls, call) != 0) {
        turns->failed = true;
    }
}

void whim_turns_result(whim_turns *turns, json_t *id, const whim_str *text)
{
    whim_turns_close(turns);
    append(turns, json_pack("{s:s, s:O, s:o}", "role", "tool", "tool_call_id", id, "content",
                            string_of(text)));
}

json_t *whim_turns_take(whim_turns *turns)
{
    whim_turns_close(turns);
    if (turns->list == NULL && !turns->failed) {
        turns->list = json_array();
    }
    json_t *list = turns->failed ? NULL : json_incref(turns->list);
    whim_turns_deinit(turns);
    return list;
}
