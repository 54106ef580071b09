/* SPDX-License-Identifier: Apache-2.0 */
/* From the events of a job to those of a request: text is taken apart into reasoning, answer and
 * calls on the thread of whoever reads. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/heap/budget.h"
#include "base/thread.h"
#include "library/request_impl.h"

#include <string.h>

_Static_assert(sizeof(whimbrel_logprob) == sizeof(whim_job_logprob), "one is the other");
#define SAME(ours, theirs) \
    _Static_assert((int)WHIMBREL_END_##ours == (int)WHIM_END_##theirs, "the same list of ends")
SAME(MODEL, EOS);
SAME(STOP, STOP);
SAME(LENGTH, LENGTH);
SAME(CONTEXT, CONTEXT);
SAME(MEMORY, KV);
SAME(CANCELLED, INTERRUPT);
SAME(REPETITION, REPETITION);

/* --- pieces ----------------------------------------------------------------------------------- */

static void piece_add(whimbrel_request *r, whim_piece piece, const char *text, int64_t n)
{
    if (r->n_piece == r->cap_piece) {
        int64_t size = sizeof *r->pieces, cap = r->cap_piece < 4 ? 4 : 2 * r->cap_piece;
        whim_piece *grown = whim_realloc(r->pieces, r->cap_piece * size, cap * size);
        if (grown == NULL) {
            r->lost = true;
            return;
        }
        r->pieces = grown;
        r->cap_piece = cap;
    }
    piece.text = r->texts.len;
    piece.n_text = n;
    whim_str_append_n(&r->texts, text, n);
    whim_str_append_char(&r->texts, '\0');
    r->lost = r->lost || r->texts.failed;
    r->pieces[r->n_piece++] = piece;
}

static void on_part(void *ctx, const whim_chat_event *event)
{
    static const whimbrel_event_kind kinds[] = {
        [WHIM_CHAT_REASONING] = WHIMBREL_EVENT_REASONING,
        [WHIM_CHAT_CONTENT] = WHIMBREL_EVENT_TEXT,
        [WHIM_CHAT_CALL_BEGIN] = WHIMBREL_EVENT_CALL_BEGIN,
        [WHIM_CHAT_CALL_ARGS] = WHIMBREL_EVENT_CALL_TEXT,
        [WHIM_CHAT_CALL_END] = WHIMBREL_EVENT_CALL,
    };
    whim_reply *reply = ctx;
    whimbrel_request *r = reply->request;
    whim_piece piece = {.kind = kinds[event->kind], .choice = reply->choice, .name = r->texts.len};
    bool is_begin = event->kind == WHIM_CHAT_CALL_BEGIN, is_end = event->kind == WHIM_CHAT_CALL_END;
    if (reply->closed || (event->n == 0 && !is_begin && !is_end)) {
        return;
    }
    if (is_begin) {
        whim_str_clear(&reply->name);
        whim_str_clear(&reply->arguments);
        whim_str_append_n(&reply->name, event->text, event->n);
    } else if (event->kind == WHIM_CHAT_CALL_ARGS) {
        whim_str_append_n(&reply->arguments, event->text, event->n);
    } else if (is_end) {
        whim_str_append_n(&r->texts, whim_str_text(&reply->name), reply->name.len + 1);
        reply->closed = r->one_call;
    }
    piece_add(r, piece, is_end ? whim_str_text(&reply->arguments) : event->text,
              is_end ? reply->arguments.len : event->n);
    r->lost = r->lost || reply->name.failed || reply->arguments.failed;
    if (reply->closed) {
        whim_job_stop_choice(r->job, reply->choice);
    }
}

/* What the text of a token says, or what was held back until the end. */
static void text_take(whimbrel_request *r, const whim_job_event *from)
{
    whim_reply *reply = &r->replies[from->choice];
    whimbrel_event *e = &r->event;
    bool ends = from->kind == WHIM_JOB_CHOICE_END;
    if (reply->parser == NULL) {
        if (from->n_text > 0) {
            piece_add(r, (whim_piece){.kind = WHIMBREL_EVENT_TEXT, .choice = from->choice},
                      from->text, from->n_text);
        }
        return;
    }
    e->is_thought = !ends && !from->is_end && whim_chat_parser_in_reasoning(reply->parser);
    const int64_t n_failed = whim_heap_failures();
    whim_chat_parser_push(reply->parser, from->text, from->n_text, on_part, reply);
    if (ends) {
        e->is_cut = !reply->closed && from->end != WHIM_END_EOS && from->end != WHIM_END_STOP &&
                    whim_chat_parser_in_opening(reply->parser);
        whim_chat_parser_finish(reply->parser, on_part, reply);
    }
    /* Without memory a call is told as the text that it was written with. */
    r->lost = r->lost || whim_heap_failures() != n_failed;
}

whim_err whim_replies_open(whimbrel_request *r)
{
    int32_t n = r->cfg.n_choice;
    r->replies = whim_alloc_array(n, (int64_t)sizeof *r->replies);
    const whim_chat_parser_cfg cfg = {
        .format = r->model->text.format,
        .starts_inside = r->open_think,
        .starts_named = r->open_name,
        .parse_tools = r->tools != NULL,
        .only_calls = r->only_calls,
        .tools = r->tools,
    };
    for (int32_t i = 0; i < n && r->replies != NULL && r->has_turns; i++) {
        r->replies[i].request = r;
        r->replies[i].choice = i;
        WHIM_TRY(whim_chat_parser_create(&cfg, &r->replies[i].parser));
    }
    return r->replies != NULL ? WHIM_ERR_OK : WHIM_ERR_NO_MEMORY;
}

void whim_replies_close(whimbrel_request *r)
{
    for (int32_t i = 0; r->replies != NULL && i < r->cfg.n_choice; i++) {
        whim_chat_parser_destroy(r->replies[i].parser);
        whim_str_deinit(&r->replies[i].name);
        whim_str_deinit(&r->replies[i].arguments);
    }
    whim_free(r->replies);
    whim_free(r->pieces);
    whim_str_deinit(&r->texts);
}

/* --- events ----------------------------------------------------------------------------------- */

static double seconds(int64_t from, int64_t to)
{
    return (double)(to - from) / (double)WHIM_NS_PER_S;
}

static whimbrel_usage usage_of(const whimbrel_request *r)
{
    whim_job_times t = whim_job_get_times(r->job);
    int64_t first = t.first_token > 0 ? t.first_token : t.ended;
    return (whimbrel_usage){
        .n_prompt = t.n_prompt,
        .n_cached = t.n_cached,
        .n_made = t.n_made,
        .prompt_s = seconds(t.submitted, first),
        .made_s = seconds(first, t.ended),
    };
}

/* A part of the prediction that an answer has twice counts once. */
static void predicted_count(const whimbrel_request *r, whimbrel_event *e)
{
    int64_t all = r->cfg.n_choice * r->prediction.n, n = whim_job_get_times(r->job).n_predicted;
    e->n_predicted = n < all ? n : all;
    e->n_mispredicted = all - e->n_predicted;
}

static whimbrel_end end_of(const whimbrel_request *r, const whim_job_event *event)
{
    bool is_ours = event->end == WHIM_END_STOP && event->stop < 0;
    return is_ours && atomic_load(&r->cancelled) ? WHIMBREL_END_CANCELLED
                                                 : (whimbrel_end)event->end;
}

static void fail(whimbrel_event *e, whim_err err, const char *text)
{
    e->kind = WHIMBREL_EVENT_FAILED;
    e->status = (whimbrel_status)err;
    e->text = text;
    e->n_text = (int64_t)strlen(text);
}

/* A message of INVALID is for whoever asked. */
static bool has_detail(const whim_job_event *from)
{
    return from->err != WHIM_ERR_INVALID && from->detail != NULL && from->detail[0] != '\0';
}

/* Take over an event of the job: its pieces, and `event`. */
static void take(whimbrel_request *r, const whim_job_event *from)
{
    static const whimbrel_event_kind kinds[] = {
        [WHIM_JOB_ADMITTED] = WHIMBREL_EVENT_STARTED,
        [WHIM_JOB_PROMPT_TOKEN] = WHIMBREL_EVENT_PROMPT_TOKEN,
        [WHIM_JOB_PROGRESS] = WHIMBREL_EVENT_PROGRESS,
        [WHIM_JOB_TOKEN] = WHIMBREL_EVENT_TOKEN,
        [WHIM_JOB_CHOICE_END] = WHIMBREL_EVENT_END,
        [WHIM_JOB_DONE] = WHIMBREL_EVENT_DONE,
        [WHIM_JOB_FAILED] = WHIMBREL_EVENT_FAILED,
    };
    whimbrel_event *e = &r->event;
    whim_str_clear(&r->texts);
    r->n_piece = r->at_piece = 0;
    *e = (whimbrel_event){
        .kind = kinds[from->kind],
        .choice = from->choice,
        .text = "",
        .id = from->id,
        .position = from->position,
        .has_logprob = from->has_logprob,
        .logprob = from->logprob,
        .top = (const whimbrel_logprob *)from->top,
        .n_top = from->n_top,
        .n_cached = from->n_cached,
        .is_end = from->is_end,
    };
    switch (from->kind) {
    case WHIM_JOB_TOKEN:
    case WHIM_JOB_CHOICE_END:
        e->end = end_of(r, from);
        e->stop = from->kind == WHIM_JOB_CHOICE_END ? from->stop : 0;
        text_take(r, from);
        e->text = from->text;
        e->n_text = from->n_text;
        break;
    case WHIM_JOB_FAILED:
        fail(e, from->err, has_detail(from) ? from->detail : from->message);
        break;
    case WHIM_JOB_DONE:
        e->usage = usage_of(r);
        predicted_count(r, e);
        break;
    default:
        break;
    }
    r->has_event = true;
    if (r->lost) { /* what would be missing cannot be told apart from what was not said */
        whim_job_cancel(r->job, WHIM_REASON_NO_MEMORY);
        r->n_piece = 0;
        *e = (whimbrel_event){.text = ""};
        fail(e, WHIM_ERR_NO_MEMORY, whim_err_text(WHIM_ERR_NO_MEMORY));
    }
}

static const whimbrel_event *show_piece(whimbrel_request *r, const whim_piece *piece)
{
    const char *texts = r->texts.text;
    r->shown = (whimbrel_event){
        .kind = piece->kind,
        .choice = piece->choice,
        .text = texts + piece->text,
        .n_text = piece->n_text,
        .name = piece->kind == WHIMBREL_EVENT_CALL ? texts + piece->name : NULL,
    };
    return &r->shown;
}

/* A token that was made before the engine heard that its answer is closed. It is not told, so that
 * who counts tokens counts the same every time; the usage of DONE has it. */
static bool is_late(const whimbrel_request *r, const whim_job_event *from)
{
    return from->kind == WHIM_JOB_TOKEN && r->replies[from->choice].closed;
}

const whimbrel_event *whimbrel_next(whimbrel_request *r)
{
    whim_job_event from;
    if (r == NULL || r->job == NULL || r->is_over) {
        return NULL;
    }
    if (r->at_piece >= r->n_piece && !r->has_event) {
        do {
            if (!whim_job_next(r->job, &from)) {
                return NULL;
            }
        } while (is_late(r, &from));
        take(r, &from);
    }
    bool event_is_first = r->has_event && r->event.kind == WHIMBREL_EVENT_TOKEN;
    if (!event_is_first && r->at_piece < r->n_piece) {
        return show_piece(r, &r->pieces[r->at_piece++]);
    }
    r->has_event = false;
    r->is_over = r->event.kind == WHIMBREL_EVENT_DONE || r->event.kind == WHIMBREL_EVENT_FAILED;
    return &r->event;
}

const whimbrel_event *whimbrel_wait(whimbrel_request *r, int64_t timeout_ms)
{
    const int64_t longest_ms = INT64_MAX / WHIM_NS_PER_MS / 2;
    const whimbrel_event *event = whimbrel_next(r);
    if (event != NULL || r == NULL || r->job == NULL || r->is_over || timeout_ms == 0) {
        return event;
    }
    bool is_any = timeout_ms < 0 || timeout_ms > longest_ms;
    struct timespec until = whim_clock_after((is_any ? longest_ms : timeout_ms) * WHIM_NS_PER_MS);
    whimbrel_model *m = r->model;
    whim_waiter me = {.job = r->job, .next = NULL}, **at = &m->waiters;
    int rc = 0;
    whim_cond_init(&me.news);
    pthread_mutex_lock(&m->lock);
    me.next = m->waiters;
    m->waiters = &me;
    while (event == NULL && rc == 0) {
        me.is_woken = false;
        pthread_mutex_unlock(&m->lock); /* to take an event apart takes time */
        event = whimbrel_next(r);
        pthread_mutex_lock(&m->lock);
        while (event == NULL && !me.is_woken && rc == 0) {
            rc = pthread_cond_timedwait(&me.news, &m->lock, &until);
        }
    }
    for (; *at != &me; at = &(*at)->next) {
    }
    *at = me.next;
    pthread_mutex_unlock(&m->lock);
    pthread_cond_destroy(&me.news);
    return event != NULL ? event : whimbrel_next(r); /* one may have come with the end of time */
}

const char *whimbrel_end_name(whimbrel_end end)
{
    return (unsigned)end <= WHIMBREL_END_REPETITION ? whim_end_name((whim_end)end) : "unknown";
}
