/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of /v1/responses: the event stream and the whole response. A part of the choice is an
 * item, with the part's number as its output_index.
 * Invariants of a stream: 1. response.created, response.in_progress, items, then one of
 * response.completed, .incomplete and .failed; 2. sequence_number counts events from 0 without
 * gaps; 3. at most one item is open. */
#include "server/body/body.h"
#include "server/responses/responses.h"
#include "server/responses/store.h"
#include "server/router.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct responses_state {
    int32_t n_event;
} responses_state;

static void begin_event(whim_str *out, const char *name, int32_t number)
{
    whim_sse_begin(out, name);
    whim_put_form(out, ",'sequence_number':%d", number);
}

static void send_event(whim_answer *a)
{
    whim_sse_end(&a->out);
    whim_answer_send(a);
}

/* --- events with a response ------------------------------------------------------------------- */

/* The first event is "response.created", every other has the name of the response's status. */
static void put_response_event(whim_str *out, int32_t number, const whim_response *r)
{
    char name[32];
    snprintf(name, sizeof name, "response.%s",
             number == 0 ? "created" : whim_response_status_name(r->status));
    begin_event(out, name, number);
    whim_str_append(out, ",\"response\":");
    whim_response_put(r, out);
}

static void send_response(whim_answer *a, const whim_response *r)
{
    responses_state *s = a->state;
    put_response_event(&a->out, s->n_event++, r);
    send_event(a);
}

static whim_response response_of(const whim_answer *a, whim_response_status status)
{
    return (whim_response){
        .api = a->api, .task = a->task, .id = a->id, .created = a->created, .status = status};
}

/* An event, since Codex counts those and not comments; without what may be megabytes, since all
 * silent streams get theirs from one thread. */
static void keep_alive(whim_answer *a)
{
    whim_response r = response_of(a, WHIM_RESPONSE_IN_PROGRESS);
    r.brief = true;
    send_response(a, &r);
}

static void begin(whim_answer *a)
{
    whim_response r = response_of(a, WHIM_RESPONSE_IN_PROGRESS);
    send_response(a, &r); /* created */
    send_response(a, &r);
}

/* --- items ------------------------------------------------------------------------------------ */

static whim_chat_event_kind kind_of(const whim_answer *a, const whim_answer_choice *c)
{
    const whim_answer_part *part = whim_answer_item_part(a, c);
    return part == NULL ? WHIM_CHAT_CONTENT : part->kind;
}

/* An event about the item that is open: its ids, and the part inside it where there is one. */
static void begin_item_event(whim_answer *a, const whim_answer_choice *c, const char *name)
{
    responses_state *s = a->state;
    bool is_call = kind_of(a, c) == WHIM_CHAT_CALL_BEGIN;
    begin_event(&a->out, name, s->n_event++);
    whim_str_append(&a->out, ",\"item_id\":");
    whim_response r = {.task = a->task, .id = a->id, .c = c};
    whim_response_put_item_id(&r, a->n_item - 1, &a->out);
    whim_put_form(&a->out, is_call ? ",'output_index':%d" : ",'output_index':%d,'content_index':0",
                  a->n_item - 1);
}

/* `key` is "delta", "text" or "arguments". */
static void send_text(whim_answer *a, const whim_answer_choice *c, const char *name,
                      const char *key, const char *text, int64_t n)
{
    bool is_content = kind_of(a, c) == WHIM_CHAT_CONTENT;
    begin_item_event(a, c, name);
    whim_put_form(&a->out, is_content ? ",'logprobs':[],%q:%n" : ",%q:%n", key, text, n);
    send_event(a);
}

static void send_item(whim_answer *a, const whim_answer_choice *c, const char *name, bool whole)
{
    responses_state *s = a->state;
    begin_event(&a->out, name, s->n_event++);
    whim_put_form(&a->out, ",'output_index':%d,'item':", a->n_item - 1);
    whim_response r = {.task = a->task, .id = a->id, .c = c};
    whim_response_put_item(&r, a->n_item - 1, whole, &a->out);
    send_event(a);
}

static void send_part(whim_answer *a, const whim_answer_choice *c, const char *name,
                      const char *text, int64_t n)
{
    begin_item_event(a, c, name);
    whim_put_form(&a->out,
                  ",'part':{'type':'output_text','annotations':[],'logprobs':[],'text':%n}", text,
                  n);
    send_event(a);
}

static void begin_item(whim_answer *a, const whim_answer_choice *c)
{
    send_item(a, c, "response.output_item.added", false);
    if (kind_of(a, c) == WHIM_CHAT_CONTENT) {
        send_part(a, c, "response.content_part.added", "", 0);
    }
}

static void delta(whim_answer *a, const whim_answer_choice *c, whim_chat_event_kind kind,
                  const char *text, int64_t n)
{
    static const char *const names[] = {
        [WHIM_CHAT_REASONING] = "response.reasoning_text.delta",
        [WHIM_CHAT_CONTENT] = "response.output_text.delta",
        [WHIM_CHAT_CALL_ARGS] = "response.function_call_arguments.delta",
    };
    /* A plain text is read out of its arguments when these are whole. */
    if (!whim_response_is_text_call(a->task, whim_answer_item_part(a, c))) {
        send_text(a, c, names[kind], "delta", text, n);
    }
}

/* The whole input at once, as a piece and as the end. */
static void send_input(whim_answer *a, const whim_answer_choice *c)
{
    static const char *const names[][2] = {{"response.custom_tool_call_input.delta", "delta"},
                                           {"response.custom_tool_call_input.done", "input"}};
    for (int i = 0; i < 2; i++) {
        begin_item_event(a, c, names[i][0]);
        whim_put_form(&a->out, ",%q:", names[i][1]);
        whim_response_put_input(whim_answer_item_part(a, c), &a->out);
        send_event(a);
    }
}

static void end_item(whim_answer *a, const whim_answer_choice *c)
{
    const whim_answer_part *part = whim_answer_item_part(a, c);
    const char *text = part == NULL ? "" : whim_str_text(&part->text);
    int64_t n = part == NULL ? 0 : part->text.len;
    switch (kind_of(a, c)) {
    case WHIM_CHAT_REASONING:
        send_text(a, c, "response.reasoning_text.done", "text", text, n);
        break;
    case WHIM_CHAT_CONTENT:
        send_text(a, c, "response.output_text.done", "text", text, n);
        send_part(a, c, "response.content_part.done", text, n);
        break;
    default:
        if (whim_response_is_text_call(a->task, part)) {
            send_input(a, c);
            break;
        }
        if (part->complete && n == 0) {
            text = "{}";
            n = 2;
        }
        send_text(a, c, "response.function_call_arguments.done", "arguments", text, n);
        break;
    }
    send_item(a, c, "response.output_item.done", true);
}

/* --- the end ---------------------------------------------------------------------------------- */

/* Keep the question and the answer for a request that continues from them. */
static void keep(whim_answer *a, const whim_response *r)
{
    whim_str *items = &a->task->input_items;
    if (a->api->responses == NULL || items->len == 0) {
        return;
    }
    for (int32_t i = 0; i < r->c->n_part; i++) {
        whim_str_append_char(items, ',');
        whim_response_put_item(r, i, true, items);
    }
    whim_str whole = {0};
    whim_response_put(r, &whole);
    whim_response_store_put(a->api->responses, whim_exchange_get_notes(a->ex)->client, a->id,
                            json_string_value(whim_peek(a->task->body, "previous_response_id")),
                            items, &whole);
    whim_str_deinit(&whole);
}

static void finish(whim_answer *a)
{
    const whim_answer_choice *c = &a->choices[0];
    bool cut = whim_answer_choice_finish(c) == WHIM_FINISH_LENGTH;
    whim_usage usage = whim_answer_usage(a);
    whim_response r = response_of(a, cut ? WHIM_RESPONSE_INCOMPLETE : WHIM_RESPONSE_COMPLETED);
    r.c = c;
    r.usage = &usage;
    keep(a, &r); /* before the client knows its id */
    if (a->task->stream) {
        send_response(a, &r);
    } else {
        whim_response_put(&r, &a->out);
    }
}

static void fail(whim_answer *a, const whim_fault *fault)
{
    whim_response r = response_of(a, WHIM_RESPONSE_FAILED);
    r.c = a->choices[0].n_part > 0 ? &a->choices[0] : NULL;
    r.fault = fault;
    responses_state *s = a->state;
    put_response_event(&a->out, s->n_event, &r);
    if (a->out.failed) { /* without the text so far there may be room for the error */
        whim_str_clear(&a->out);
        r.c = NULL;
        put_response_event(&a->out, s->n_event, &r);
    }
    send_event(a);
}

/* Codex takes a context for full only when a stream says so. */
static bool refuse(const whim_api *api, whim_exchange *ex, const whim_task *task,
                   const whim_fault *fault)
{
    char id[48];
    whim_str out = {0};
    if (!task->stream || fault->kind != WHIM_FAULT_CONTEXT) {
        return false;
    }
    whim_make_id(id, whim_responses_form.id_prefix);
    whim_response r = {.api = api, .task = task, .id = id, .created = (int64_t)time(NULL)};
    put_response_event(&out, 0, &r);
    whim_sse_end(&out);
    r.status = WHIM_RESPONSE_FAILED;
    r.fault = fault;
    put_response_event(&out, 1, &r);
    whim_sse_end(&out);
    whim_exchange_stream_begin(ex, "text/event-stream; charset=utf-8");
    whim_exchange_write(ex, whim_str_text(&out), out.len);
    whim_request_log(api->log, ex, 200,
                     (const whim_log_field[]){whim_log_text("reason", "context"), {.key = NULL}});
    whim_exchange_stream_end(ex); /* the exchange may be gone after it */
    whim_str_deinit(&out);
    return true;
}

const whim_answer_form whim_responses_form = {
    .read = whim_responses_read,
    .refuse = refuse,
    .id_prefix = "resp_",
    .dialect = WHIM_DIALECT_OPENAI,
    .state_bytes = sizeof(responses_state),
    .begin = begin,
    .event = whim_answer_item_event,
    .choice_end = whim_answer_item_end,
    .item_begin = begin_item,
    .item_delta = delta,
    .item_end = end_item,
    .finish = finish,
    .fail = fail,
    .keep_alive = keep_alive,
};

void whim_route_responses(const whim_api *api, whim_exchange *ex)
{
    whim_answer_route(api, ex, &whim_responses_form);
}

void whim_route_response(const whim_api *api, whim_exchange *ex)
{
    const whim_http_request *r = whim_exchange_request(ex);
    const char *id = strstr(r->path, "/responses/") + strlen("/responses/");
    whim_str body = {0};
    bool deletes = strcmp(r->method, "DELETE") == 0, found = false;
    if (api->responses != NULL) {
        found = deletes ? whim_response_store_remove(api->responses, id)
                        : whim_response_store_answer(api->responses, id, &body);
    }
    if (!found) {
        whim_fault fault;
        whim_fault_set(&fault, WHIM_FAULT_NO_ROUTE, "response_id",
                       "this server has no response %.200s (any more): the oldest go first, none "
                       "outlives the server, and \"store\": false keeps none",
                       id);
        whim_api_refuse(api, ex, &fault);
        return;
    }
    if (deletes) {
        whim_put_form(&body, "{'id':%q,'object':'response','deleted':true}", id);
    }
    whim_api_reply(api, ex, &body);
    whim_str_deinit(&body);
}
