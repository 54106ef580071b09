/* SPDX-License-Identifier: Apache-2.0 */
/* The core of answers: events of requests -> parts -> the dialect's form. */
#include "server/answer/run.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/heap/budget.h"

#include <string.h>
#include <time.h>

static const int64_t silence_ns = 10 * WHIM_NS_PER_S;

/* --- life ------------------------------------------------------------------------------------- */

void whim_answer_tokens_clear(whim_answer_tokens *list)
{
    for (int64_t i = 0; i < list->n; i++) {
        whim_free(list->tokens[i].top);
    }
    list->n = 0;
    list->n_byte = list->cap * (int64_t)sizeof *list->tokens;
}

static void tokens_free(whim_answer_tokens *list)
{
    whim_answer_tokens_clear(list);
    whim_free(list->tokens);
    *list = (whim_answer_tokens){0};
}

static void choice_deinit(whim_answer_choice *c)
{
    for (int32_t i = 0; i < c->n_part; i++) {
        whim_str_deinit(&c->parts[i].text);
        whim_str_deinit(&c->parts[i].name);
    }
    whim_free(c->parts);
    tokens_free(&c->pending);
}

void whim_answer_destroy(whim_answer *a)
{
    if (a == NULL) {
        return;
    }
    if (a->state != NULL && a->form->deinit != NULL) {
        a->form->deinit(a);
    }
    for (int32_t i = 0; a->choices != NULL && i < a->n_choice; i++) {
        choice_deinit(&a->choices[i]);
    }
    for (int32_t i = 0; a->prompts != NULL && a->task != NULL && i < a->task->n_prompt; i++) {
        tokens_free(&a->prompts[i].echo);
    }
    whim_free(a->choices);
    whim_free(a->prompts);
    whim_free(a->state);
    whim_free(a->run);
    whim_str_deinit(&a->out);
    whim_task_destroy(a->task);
    if (a->ex != NULL) {
        whim_exchange_unref(a->ex);
    }
    whim_free(a);
}

enum { LARGE_BODY = 1 << 20 };

whim_answer *whim_answer_create(const whim_api *api, whim_exchange *ex,
                                const whim_answer_form *form, whim_task *task)
{
    whim_answer *a = whim_alloc(sizeof *a);
    if (a == NULL) {
        return NULL;
    }
    a->api = api;
    a->form = form;
    a->task = task;
    a->n_choice = task->n_prompt * task->ask.n_choice;
    a->created = (int64_t)time(NULL);
    a->state = whim_alloc(form->state_bytes);
    a->choices = whim_alloc_array(a->n_choice, sizeof *a->choices);
    a->prompts = whim_alloc_array(task->n_prompt, sizeof *a->prompts);
    a->run = whim_alloc(sizeof *a->run);
    if (a->state == NULL || a->choices == NULL || a->prompts == NULL || a->run == NULL) {
        a->task = NULL;
        whim_answer_destroy(a);
        return NULL;
    }
    for (int32_t i = 0; i < a->n_choice; i++) {
        a->choices[i].index = i;
        a->choices[i].stop = -1;
    }
    whim_make_id(a->id, form->id_prefix);
    a->ex = whim_exchange_ref(ex);
    a->run->had_large_body = whim_exchange_request(ex)->n_body > LARGE_BODY;
    return a;
}

/* --- writing ---------------------------------------------------------------------------------- */

void whim_answer_cancel(whim_answer *a, whim_job_reason why)
{
    if (a->run->why == WHIM_REASON_NONE) {
        a->run->why = why;
    }
    for (int32_t i = 0; i < a->task->n_prompt; i++) {
        whim_request_drop(a->task->requests[i], why);
    }
}

static void fail(whim_answer *a, whim_fault_kind kind, const char *message)
{
    if (!a->run->failed) {
        a->run->failed = true;
        whim_fault_set(&a->run->fault, kind, NULL, "%s", message);
    }
}

void whim_answer_give_up(whim_answer *a)
{
    fail(a, WHIM_FAULT_OVERLOADED,
         "the memory for requests and answers is short, and this answer held most of it; ask for "
         "less at once");
    whim_answer_cancel(a, WHIM_REASON_SHORT_MEMORY);
    for (int32_t i = 0; i < a->n_choice; i++) {
        tokens_free(&a->choices[i].pending);
    }
    for (int32_t p = 0; p < a->task->n_prompt; p++) {
        tokens_free(&a->prompts[p].echo);
    }
}

/* An event that memory ran out for is not sent. The stream's end tells why, in the memory that
 * earlier events had; where even that is too little, the connection is broken off. */
static void send_nothing(whim_answer *a)
{
    if (a->run->over) {
        a->run->mute = true;
        whim_exchange_stream_abort(a->ex);
    } else {
        fail(a, WHIM_FAULT_OVERLOADED, "out of memory");
        whim_answer_cancel(a, WHIM_REASON_NO_MEMORY);
    }
}

void whim_answer_send(whim_answer *a)
{
    whim_answer_run *run = a->run;
    if (!run->mute && a->out.failed) {
        send_nothing(a);
    } else if (run->failed && !run->over) {
        /* events of the same token: the stream is broken already */
    } else if (!run->mute && a->out.len > 0 &&
               !whim_exchange_write(a->ex, a->out.text, a->out.len)) {
        run->mute = true;
        whim_answer_cancel(a, WHIM_REASON_CLIENT_GONE_OR_SLOW);
    }
    run->last_ns = whim_clock_ns();
    whim_str_clear(&a->out);
}

void whim_answer_begin(whim_answer *a)
{
    a->run->last_ns = whim_clock_ns();
    if (a->task->stream) {
        const char *type = a->form->stream_type;
        whim_exchange_stream_begin(a->ex, type ? type : "text/event-stream; charset=utf-8");
        if (a->form->begin != NULL) {
            a->form->begin(a);
        }
    }
}

void whim_answer_keep_alive(whim_answer *a, int64_t now_ns)
{
    whim_answer_run *run = a->run;
    if (a->task->stream && !run->mute && !run->over && now_ns - run->last_ns >= silence_ns) {
        a->form->keep_alive(a);
    }
}

/* --- events ----------------------------------------------------------------------------------- */

static bool token_append(whim_answer_tokens *list, const whimbrel_event *ev)
{
    whim_answer_token token = {.id = ev->id,
                               .is_end = ev->is_end,
                               .has_logprob = ev->has_logprob,
                               .logprob = ev->logprob,
                               .n_top = ev->n_top};
    list->n_byte -= list->cap * (int64_t)sizeof *list->tokens;
    bool grown = whim_grow(&list->tokens, list->n + 1, &list->cap, sizeof *list->tokens);
    list->n_byte += list->cap * (int64_t)sizeof *list->tokens;
    if (!grown) {
        return false;
    }
    if (ev->n_top > 0) {
        token.top = whim_alloc_array(ev->n_top, sizeof *token.top);
        if (token.top == NULL) {
            return false;
        }
        memcpy(token.top, ev->top, (size_t)ev->n_top * sizeof *token.top);
        list->n_byte += ev->n_top * (int64_t)sizeof *token.top;
    }
    list->tokens[list->n++] = token;
    return true;
}

static whim_answer_part *part_append(whim_answer_choice *c, whim_chat_event_kind kind)
{
    if (!whim_grow(&c->parts, c->n_part + 1, &c->cap_part, sizeof *c->parts)) {
        return NULL;
    }
    if (c->n_part > 0 && c->parts[c->n_part - 1].kind != WHIM_CHAT_CALL_BEGIN) {
        c->parts[c->n_part - 1].complete = true;
    }
    whim_answer_part *part = &c->parts[c->n_part++];
    *part = (whim_answer_part){.kind = kind};
    return part;
}

/* The part that an event begins or continues. */
static whim_answer_part *part_of(whim_answer_choice *c, const whim_chat_event *ev)
{
    whim_answer_part *last = c->n_part == 0 ? NULL : &c->parts[c->n_part - 1];
    whim_answer_part *part = last;
    switch (ev->kind) {
    case WHIM_CHAT_REASONING:
    case WHIM_CHAT_CONTENT:
        if (last == NULL || last->kind != ev->kind) {
            part = part_append(c, ev->kind);
        }
        break;
    case WHIM_CHAT_CALL_BEGIN:
        part = part_append(c, ev->kind);
        if (part != NULL) {
            c->n_call++;
            whim_make_id(part->id, "");
            whim_str_append_n(&part->name, ev->text, ev->n);
        }
        return part;
    default:
        break;
    }
    if (part != NULL && ev->kind != WHIM_CHAT_CALL_END) {
        whim_str_append_n(&part->text, ev->text, ev->n);
    }
    return part;
}

/* Forms have the words of the parser of chats for what the library hands out. */
static void take_piece(whim_answer *a, whim_answer_choice *c, const whimbrel_event *from)
{
    static const whim_chat_event_kind kinds[] = {
        [WHIMBREL_EVENT_REASONING] = WHIM_CHAT_REASONING,
        [WHIMBREL_EVENT_TEXT] = WHIM_CHAT_CONTENT,
        [WHIMBREL_EVENT_CALL_BEGIN] = WHIM_CHAT_CALL_BEGIN,
        [WHIMBREL_EVENT_CALL_TEXT] = WHIM_CHAT_CALL_ARGS,
        [WHIMBREL_EVENT_CALL] = WHIM_CHAT_CALL_END,
    };
    whim_chat_event ev = {.kind = kinds[from->kind], .text = from->text, .n = from->n_text};
    ev.n = ev.kind == WHIM_CHAT_CALL_END ? 0 : ev.n; /* its pieces were told */
    if (a->run->failed) {
        return;
    }
    whim_answer_part *part = part_of(c, &ev);
    if (part == NULL || part->text.failed || part->name.failed) {
        fail(a, WHIM_FAULT_OVERLOADED, "out of memory");
        return;
    }
    if (ev.kind == WHIM_CHAT_CALL_END) {
        part->complete = true;
    }
    if (a->form->event != NULL) {
        a->form->event(a, c, part, &ev);
    }
}

static void take_token(whim_answer *a, whim_answer_choice *c, const whimbrel_event *ev)
{
    bool keep = !a->run->failed && (a->task->ask.logprobs || a->task->return_token_ids);
    c->n_made++;
    c->n_reasoning += ev->is_thought;
    a->run->n_entry += a->task->ask.logprobs ? 1 + ev->n_top : 0;
    if (keep && !token_append(&c->pending, ev)) {
        fail(a, WHIM_FAULT_OVERLOADED, "out of memory");
    }
}

static void take_choice_end(whim_answer *a, whim_answer_choice *c, const whimbrel_event *ev)
{
    c->opening_cut = ev->is_cut;
    c->ended = true;
    c->end = (whim_end)ev->end;
    c->stop = ev->stop;
    if (a->task->stream && !a->run->failed) {
        a->form->choice_end(a, c);
    }
}

static void earliest(int64_t *at, int64_t ns)
{
    if (ns != 0 && (*at == 0 || ns < *at)) {
        *at = ns;
    }
}

/* The last event of a request: keep what the log wants. */
static void request_over(whim_answer *a, int32_t p)
{
    whim_job_times t = whim_request_times(a->task->requests[p]);
    whim_job_times *sum = &a->run->times;
    earliest(&sum->submitted, t.submitted);
    earliest(&sum->admitted, t.admitted);
    earliest(&sum->first_token, t.first_token);
    sum->ended = t.ended > sum->ended ? t.ended : sum->ended;
    sum->n_prompt += t.n_prompt;
    sum->n_cached += t.n_cached;
    sum->n_made += t.n_made;
    sum->n_proposed += t.n_proposed;
    sum->n_right += t.n_right;
    sum->reason = sum->reason == WHIM_REASON_NONE ? t.reason : sum->reason;
    a->run->n_open--;
}

/* What a client is told where a request was ended by others; false: something went wrong. */
static bool tell_reason(whim_answer *a, whim_job_reason reason)
{
    switch (reason) {
    case WHIM_REASON_QUEUE_FULL:
        fail(a, WHIM_FAULT_QUEUE_FULL,
             "too many requests are waiting, and one of another client, which has fewer, took the "
             "place of this one; try again later");
        return true;
    case WHIM_REASON_SHORT_MEMORY:
        whim_answer_give_up(a);
        return true;
    default:
        return false;
    }
}

static void take_failed(whim_answer *a, int32_t p, const whimbrel_event *ev)
{
    whim_job_reason reason = whim_request_times(a->task->requests[p]).reason;
    bool is_first = !a->run->failed && a->run->why == WHIM_REASON_NONE;
    if (is_first && !tell_reason(a, reason)) {
        whim_log_error(a->api->log, "answer_failed",
                       whim_log_text("id", whim_exchange_request(a->ex)->request_id),
                       whim_log_text("err", whim_err_name((whim_err)ev->status)),
                       whim_log_text("why", ev->text));
        if (reason == WHIM_REASON_STOPPING) {
            fail(a, WHIM_FAULT_DRAINING, "the server is stopping");
        } else if (reason == WHIM_REASON_DEADLINE) {
            fail(a, WHIM_FAULT_TIMEOUT,
                 "the answer took longer than this server allows (--request-limit)");
        } else if (ev->status == WHIMBREL_INVALID) {
            fail(a, WHIM_FAULT_BAD_VALUE, ev->text);
        } else if (ev->status == WHIMBREL_NO_MEMORY) {
            fail(a, WHIM_FAULT_OVERLOADED, "out of memory");
        } else {
            fail(a, WHIM_FAULT_INTERNAL,
                 "the answer could not be finished; the server's log says "
                 "why under this request's id");
        }
    }
    request_over(a, p);
    whim_answer_cancel(a, WHIM_REASON_OTHER_FAILED);
}

static void take_progress(whim_answer *a, int32_t p, int64_t n_read)
{
    a->prompts[p].n_read = n_read;
    if (a->task->ask.prompt_progress && a->task->stream && !a->run->failed &&
        a->form->progress != NULL) {
        a->form->progress(a, p);
    }
}

void whim_answer_take(whim_answer *a, int32_t p, const whimbrel_event *ev)
{
    whim_answer_choice *c = &a->choices[p * a->task->ask.n_choice + ev->choice];
    switch (ev->kind) {
    case WHIMBREL_EVENT_STARTED:
        a->prompts[p].n_cached = ev->n_cached;
        a->prompts[p].started_ns = whim_clock_ns();
        a->run->n_admitted++;
        if (a->run->n_admitted == a->task->n_prompt && a->task->stream &&
            a->form->admitted != NULL) {
            a->form->admitted(a);
        }
        take_progress(a, p, ev->n_cached);
        break;
    case WHIMBREL_EVENT_PROGRESS:
        take_progress(a, p, ev->position);
        break;
    case WHIMBREL_EVENT_PROMPT_TOKEN:
        a->run->n_entry += (int64_t)(1 + ev->n_top) * a->task->ask.n_choice;
        if (!a->run->failed && !token_append(&a->prompts[p].echo, ev)) {
            fail(a, WHIM_FAULT_OVERLOADED, "out of memory");
        }
        break;
    case WHIMBREL_EVENT_TOKEN:
        take_token(a, c, ev);
        break;
    case WHIMBREL_EVENT_END:
        take_choice_end(a, c, ev);
        break;
    case WHIMBREL_EVENT_DONE:
        a->prompts[p].n_cached = ev->n_cached;
        a->prompts[p].n_predicted = ev->n_predicted;
        a->prompts[p].n_mispredicted = ev->n_mispredicted;
        request_over(a, p);
        break;
    case WHIMBREL_EVENT_FAILED:
        take_failed(a, p, ev);
        break;
    default:
        take_piece(a, c, ev);
    }
    if (a->run->failed && a->run->n_open > 0) {
        whim_answer_cancel(a, WHIM_REASON_FAILED);
    }
}

bool whim_answer_is_large(const whim_answer *a)
{
    /* About ten milliseconds of either; responses repeat much of the request, also in a stream. */
    enum { LARGE_ENTRIES = 8192 };
    return (!a->task->stream && a->run->n_entry > LARGE_ENTRIES) ||
           a->task->n_repeated > LARGE_ENTRIES || a->run->had_large_body;
}

/* What was accepted is not refused for want of memory; but a large reply, which takes many times
 * what its answer held, must fit into it, with its copy for the socket. */
static void finish(whim_answer *a)
{
    bool is_bounded = !a->task->stream && whim_answer_is_large(a);
    int32_t had = whim_budget_share(is_bounded ? WHIM_BUDGET_WHOLE : 0);
    a->form->finish(a);
    a->out.failed = a->out.failed || !whim_budget_allows(a->out.cap);
    whim_budget_share(had);
    if (!a->task->stream && a->out.failed) {
        whim_str_deinit(&a->out);
        fail(a, WHIM_FAULT_OVERLOADED, "out of memory");
    }
}

void whim_answer_end(whim_answer *a)
{
    whim_answer_run *run = a->run;
    if (!run->mute && !run->failed) {
        finish(a);
    }
    run->over = true;
    if (run->mute) {
        return;
    }
    if (a->task->stream) {
        if (run->failed) {
            a->form->fail(a, &run->fault);
        }
        if (!run->mute) {
            whim_exchange_stream_end(a->ex);
        }
        return;
    }
    if (run->failed) {
        whim_fault_reply(a->ex, &run->fault, a->form->dialect);
    } else {
        whim_exchange_reply_json(a->ex, 200, &a->out);
    }
}
