/* SPDX-License-Identifier: Apache-2.0 */
/* Which tools of an Anthropic body the model is offered: a tool with "defer_loading" waits until
 * the conversation names it, and system turns may take tools away and bring them back. What comes
 * later stands behind the others, so that the prompt's beginning stays the same and is found in the
 * cache. */
#include "server/anthropic/anthropic.h"
#include "server/offer.h"

#include <stdio.h>

typedef struct shelf {
    json_t *at;                    /* name -> place in task->tools */
    int64_t order[WHIM_MAX_TOOLS]; /* [n] when it was put there; -1: not there */
    int64_t next;
} shelf;

/* Names that no tool has are ignored: the request was made for a server with more tools. */
static void set_offered(shelf *s, const json_t *name, bool offered)
{
    const json_t *at = json_object_get(s->at, json_string_value(name));
    if (at != NULL) {
        int64_t *order = &s->order[json_integer_value(at)];
        *order = !offered ? -1 : *order < 0 ? s->next++ : *order;
    }
}

/* A block whose form has been checked. */
static void heed_block(shelf *s, const json_t *block)
{
    const json_t *type = whim_peek(block, "type"), *tool = whim_peek(block, "tool");
    if (whim_peek_is(type, "tool_reference")) {
        set_offered(s, whim_peek(block, "tool_name"), true);
    } else if (whim_peek_is(type, "tool_use")) {
        set_offered(s, whim_peek(block, "name"), true); /* it was found, in turns cut off since */
    } else if (whim_peek_is(type, "tool_addition")) {
        set_offered(s, whim_peek(tool, "name"), true);
    } else if (whim_peek_is(type, "tool_removal")) {
        set_offered(s, whim_peek(tool, "name"), false);
    }
}

static void heed_messages(shelf *s, const json_t *messages)
{
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *content = whim_peek(json_array_get(messages, i), "content");
        for (size_t j = 0; j < json_array_size(content); j++) {
            const json_t *block = json_array_get(content, j), *inner = whim_peek(block, "content");
            heed_block(s, block);
            bool result = whim_peek_is(whim_peek(block, "type"), "tool_result");
            for (size_t k = 0; result && k < json_array_size(inner); k++) {
                heed_block(s, json_array_get(inner, k));
            }
        }
    }
}

/* All tools at first, but for those that wait. */
static bool fill(const whim_fields *f, const whim_task *task, shelf *s)
{
    const json_t *list = whim_field(f, "tools");
    s->next = (int64_t)json_array_size(task->tools);
    for (int64_t i = 0; i < s->next; i++) {
        whim_fields at = whim_field_item(f, "tools", list, (size_t)task->tool_at[i]);
        bool waits = false;
        if (!whim_field_bool(&at, "defer_loading", &waits)) {
            return false;
        }
        s->order[i] = waits ? -1 : i;
        if (json_object_set_new(s->at, json_string_value(whim_peek(at.obj, "name")),
                                json_integer(i)) != 0) {
            return whim_fault_no_memory(f->fault);
        }
    }
    return true;
}

/* Places in task->tools by the time they were put there; returns how many. */
static int32_t in_order(const shelf *s, int32_t n, int32_t *places)
{
    int32_t n_place = 0;
    for (int32_t i = 0; i < n; i++) {
        if (s->order[i] < 0) {
            continue;
        }
        int32_t j = n_place++;
        for (; j > 0 && s->order[places[j - 1]] > s->order[i]; j--) {
            places[j] = places[j - 1];
        }
        places[j] = i;
    }
    return n_place;
}

bool whim_anthropic_offer(const whim_fields *f, whim_task *task)
{
    shelf s = {.at = json_object()};
    if (s.at == NULL) {
        return whim_fault_no_memory(f->fault);
    }
    bool ok = fill(f, task, &s);
    if (ok) {
        heed_messages(&s, whim_field(f, "messages"));
        set_offered(&s, whim_peek(whim_field(f, "tool_choice"), "name"), true);
        int32_t places[WHIM_MAX_TOOLS];
        int32_t n = in_order(&s, (int32_t)json_array_size(task->tools), places);
        ok = whim_offer_keep(f, places, n, task);
    }
    json_decref(s.at);
    return ok;
}
