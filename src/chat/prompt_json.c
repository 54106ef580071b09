/* SPDX-License-Identifier: Apache-2.0 */
/* Turns as the messages that a template is given. */
#include "chat/prompt_impl.h"

#include <stdlib.h>

static bool is_marked(const whim_rendered *content)
{
    return content->n_span > 1 || (content->n_span == 1 && content->spans[0].trusted);
}

bool whim_prompt_turn_has_parts(const whim_turn *turn, const whim_chat_format *format)
{
    const bool takes[] = {[WHIM_ROLE_SYSTEM] = format->system_parts,
                          [WHIM_ROLE_USER] = format->user_parts,
                          [WHIM_ROLE_ASSISTANT] = format->assistant_parts,
                          [WHIM_ROLE_TOOL] = format->tool_parts,
                          [WHIM_ROLE_OTHER] = false};
    /* What the server wrote itself is known by its place in the whole text. */
    return turn->n_part > 0 && takes[turn->role] && !is_marked(&turn->content);
}

static json_t *content_text(const whim_turn *turn)
{
    return json_stringn(whim_str_text(&turn->content.text), (size_t)turn->content.text.len);
}

static json_t *content_parts(const whim_turn *turn)
{
    json_t *list = json_array();
    for (int64_t k = 0; k < turn->n_part && list != NULL; k++) {
        int64_t from = turn->parts[k];
        int64_t to = k + 1 < turn->n_part ? turn->parts[k + 1] - 1 : turn->content.text.len;
        json_t *part = json_pack("{s:s, s:s%}", "type", "text", "text",
                                 whim_str_text(&turn->content.text) + from, (size_t)(to - from));
        if (part == NULL || json_array_append_new(list, part) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *turn_message(const whim_turn *turn, const whim_chat_format *format, bool as_parts)
{
    static const char *const roles[] = {[WHIM_ROLE_SYSTEM] = "system",
                                        [WHIM_ROLE_USER] = "user",
                                        [WHIM_ROLE_ASSISTANT] = "assistant",
                                        [WHIM_ROLE_TOOL] = "tool"};
    const char *role =
        turn->role == WHIM_ROLE_OTHER ? json_string_value(turn->role_word) : roles[turn->role];
    json_t *content = as_parts ? content_parts(turn) : content_text(turn);
    /* The templates of these models call it otherwise, and print it beside nothing but calls. */
    const bool thinks =
        whim_chat_format_has_channels(format) && turn->calls != NULL && turn->content.text.len == 0;
    return json_pack("{s:s, s:o, s:O*, s:O*, s:O*, s:O*, s:O*}", "role", role, "content", content,
                     "name", turn->name, "reasoning_content", turn->reasoning, "thinking",
                     thinks ? turn->reasoning : NULL, "tool_calls", turn->calls, "tool_call_id",
                     turn->call_id);
}

static int by_string(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const whim_marked_text *)a)->string;
    uintptr_t y = (uintptr_t)((const whim_marked_text *)b)->string;
    return (x > y) - (x < y);
}

json_t *whim_prompt_turns_json(const whim_prompt_turns *turns, const whim_chat_format *format,
                               bool joined, whim_marked_text *marked, int64_t *n_marked)
{
    json_t *list = json_array();
    *n_marked = 0;
    for (int64_t i = 0; i < turns->n; i++) {
        const whim_turn *turn = &turns->v[i];
        json_t *message =
            turn_message(turn, format, !joined && whim_prompt_turn_has_parts(turn, format));
        if (message == NULL || json_array_append_new(list, message) != 0) {
            json_decref(list);
            return NULL;
        }
        if (is_marked(&turn->content)) {
            marked[(*n_marked)++] = (whim_marked_text){
                .string = json_object_get(message, "content"), .text = &turn->content};
        }
    }
    qsort(marked, (size_t)*n_marked, sizeof *marked, by_string);
    return list;
}
