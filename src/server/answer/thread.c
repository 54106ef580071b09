/* SPDX-License-Identifier: Apache-2.0 */
/* The answer thread: takes woken answers from a queue, drains their requests, looks every second
 * for streams that were silent too long. No answer keeps it for long: one that has many events
 * waits for another turn, and a large reply is written by a thread for that. Other threads reach an
 * answer only through its slot:
 *  - the engine's thread calls job_woken, the I/O thread exchange_closed; both hold the lock and
 *    only queue the answer;
 *  - a slot outlives its answer until the exchange is closed too, and is then used again, never
 *    freed before close: a wake that comes late finds no answer, or wakes another one for
 *    nothing. */
#include "server/answer/answer.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/heap/budget.h"
#include "base/thread.h"
#include "server/answer/run.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

/* What the log says of a client who left before its answer; nobody is sent it. */
enum { STATUS_CLIENT_GONE = 499 };

/* How long an answer may keep the thread before it lets others have a turn. */
#define TURN_NS (10 * WHIM_NS_PER_MS)

enum { LARGE_CLIENTS = 1024 };
/* Between two answers that are ended because memory is short. */
#define TIGHT_NS (100 * WHIM_NS_PER_MS)

typedef struct answer_slot {
    whim_answer_thread *owner;
    whim_answer *answer;      /* NULL: over */
    struct answer_slot *next; /* in the queue, or among the free ones */
    struct answer_slot *all;  /* every slot ever made */
    bool queued;
    /* the answer thread may have it: not the route's, nor the one for large replies */
    bool started;
    bool open; /* the exchange has not been closed */
    bool gone; /* its client left */
} answer_slot;

struct whim_answer_thread {
    pthread_mutex_t lock; /* all below, but for the active list */
    pthread_cond_t wake;
    answer_slot *first, *last; /* queue of woken answers */
    answer_slot *free, *all;
    atomic_llong n_active; /* written under the lock, read by anybody */
    bool closing;
    whim_answer *active;   /* the thread's own list */
    int64_t next_tight_ns; /* memory is not looked at before */
    whim_thread thread;
    whim_answer *large_first; /* large replies to write, as they came */
    /* When one of a client's (by a hash) was taken last. */
    int64_t large_taken[LARGE_CLIENTS], n_large_taken;
    pthread_cond_t large_wake;
    bool no_more_large;
    whim_thread large_thread;
    int32_t n_started; /* of the threads, that for large replies first */
    whim_log *log;
};

/* --- slots: the lock is held ------------------------------------------------------------------ */

static void slot_queue(answer_slot *slot)
{
    whim_answer_thread *w = slot->owner;
    if (slot->queued || !slot->started || slot->answer == NULL) {
        return;
    }
    slot->queued = true;
    slot->next = NULL;
    if (w->last == NULL) {
        w->first = slot;
    } else {
        w->last->next = slot;
    }
    w->last = slot;
    pthread_cond_signal(&w->wake);
}

static void slot_drop_if_unused(answer_slot *slot)
{
    if (!slot->open && slot->answer == NULL && !slot->queued) {
        slot->next = slot->owner->free;
        slot->owner->free = slot;
    }
}

static answer_slot *slot_take(whim_answer_thread *w, whim_answer *a)
{
    answer_slot *slot;
    pthread_mutex_lock(&w->lock);
    slot = w->free;
    if (slot != NULL) {
        w->free = slot->next;
    } else if ((slot = whim_alloc(sizeof *slot)) != NULL) {
        slot->all = w->all;
        w->all = slot;
    }
    if (slot != NULL) {
        answer_slot *all = slot->all;
        *slot = (answer_slot){.owner = w, .answer = a, .all = all, .open = true};
        w->n_active++;
    }
    pthread_mutex_unlock(&w->lock);
    return slot;
}

/* On the engine's thread. */
static void job_woken(void *ctx, whim_job *job)
{
    answer_slot *slot = ctx;
    (void)job;
    pthread_mutex_lock(&slot->owner->lock);
    slot_queue(slot);
    pthread_mutex_unlock(&slot->owner->lock);
}

/* On the I/O thread. */
static void exchange_closed(void *ctx, bool gone)
{
    answer_slot *slot = ctx;
    whim_answer_thread *w = slot->owner;
    pthread_mutex_lock(&w->lock);
    slot->open = false;
    if (gone) {
        slot->gone = true;
        slot_queue(slot);
    }
    slot_drop_if_unused(slot);
    pthread_mutex_unlock(&w->lock);
}

/* --- the start, on the route's thread --------------------------------------------------------- */

static bool refuse_submit(whim_service *service, whim_fault *fault, whim_err err,
                          const whim_diag *diag)
{
    switch (err) {
    case WHIM_ERR_FULL:
        if (whim_service_is_draining(service)) {
            return whim_fault_set(fault, WHIM_FAULT_DRAINING, NULL, "the server is stopping");
        }
        return whim_fault_set(fault, WHIM_FAULT_QUEUE_FULL, NULL,
                              "too many requests are waiting; try again later");
    case WHIM_ERR_INVALID:
        return whim_fault_set(fault, WHIM_FAULT_BAD_REQUEST, NULL, "%.1000s", diag->text);
    case WHIM_ERR_NO_FIT:
        return whim_fault_set(fault, WHIM_FAULT_CONTEXT, NULL, "%.1000s", diag->text);
    case WHIM_ERR_NO_MEMORY:
        return whim_fault_no_memory(fault);
    default:
        return whim_fault_set(fault, WHIM_FAULT_INTERNAL, NULL,
                              "the request could not be started (%s)", whim_err_text(err));
    }
}

/* All prompts at once: one by one the first of a request would fill the queue for its others. */
static bool submit(whim_answer *a, whim_fault *fault)
{
    const whim_exchange_notes *notes = whim_exchange_get_notes(a->ex);
    whim_diag diag = {{0}};
    whim_job_cfg how = {
        .client = notes->client,
        .priority_among_all = notes->may_pass,
        .received_ns = whim_exchange_start_ns(a->ex),
        .deadline_ns = a->api->request_ns > 0 ? whim_clock_ns() + a->api->request_ns : 0,
        .wake = job_woken,
        .wake_ctx = a->run->slot,
    };
    snprintf(how.id, sizeof how.id, "%s", whim_exchange_request(a->ex)->request_id);
    whim_err err = whim_requests_start(a->task->requests, a->task->n_prompt, &how, &diag);
    a->run->n_open = err == WHIM_ERR_OK ? a->task->n_prompt : 0;
    return err == WHIM_ERR_OK ||
           refuse_submit(whim_library_service(a->api->model), fault, err, &diag);
}

/* Here and not on the answer thread: the first events may repeat a request of megabytes. What was
 * accepted is no more refused for want of memory. */
static void begin(whim_answer *a)
{
    int32_t had = whim_budget_share(0);
    whim_answer_begin(a);
    whim_budget_share(had);
}

/* Start the requests and answer from now on. Takes `task` in any case. False with the fault set:
 * nothing was written, the route refuses. */
static bool start(const whim_api *api, whim_exchange *ex, const whim_answer_form *form,
                  whim_task *task, whim_fault *fault)
{
    whim_answer_thread *w = api->answer_thread;
    whim_answer *a = whim_answer_create(api, ex, form, task);
    answer_slot *slot = a == NULL ? NULL : slot_take(w, a);
    if (slot == NULL) {
        if (a == NULL) {
            whim_task_destroy(task);
        }
        whim_answer_destroy(a);
        return whim_fault_no_memory(fault);
    }
    a->run->slot = slot;
    whim_task_trim(task);
    whim_exchange_drop_body(ex);
    whim_exchange_on_close(ex, exchange_closed, slot);
    bool ok = submit(a, fault);
    if (ok) {
        begin(a);
    } else {
        a->run->mute = true; /* nothing was accepted: the thread only frees it */
        a->run->refused = true;
    }
    pthread_mutex_lock(&w->lock);
    slot->started = true;
    slot_queue(slot);
    pthread_mutex_unlock(&w->lock);
    return ok;
}

void whim_answer_route(const whim_api *api, whim_exchange *ex, const whim_answer_form *form)
{
    whim_fault fault = {0};
    whim_task *task = whim_task_open(api, ex, form->read, &fault);
    if (task != NULL && form->reply_at_once != NULL && form->reply_at_once(api, ex, task)) {
        whim_task_destroy(task);
        return;
    }
    if (task != NULL && !whim_task_prepare(api, task, &fault)) {
        bool is_told = form->refuse != NULL && form->refuse(api, ex, task, &fault);
        whim_task_destroy(task);
        if (is_told) {
            return;
        }
        task = NULL;
    }
    if (task == NULL || !start(api, ex, form, task, &fault)) {
        whim_api_refuse(api, ex, &fault);
    }
}

/* --- the thread ------------------------------------------------------------------------------- */

/* How it came to its end, for the log. */
static const char *ending_of(const whim_answer *a)
{
    const whim_answer_run *run = a->run;
    if (run->failed) {
        return whim_job_reason_name(run->times.reason != WHIM_REASON_NONE ? run->times.reason
                                                                          : WHIM_REASON_FAILED);
    }
    if (run->why != WHIM_REASON_NONE) {
        return whim_job_reason_name(run->why);
    }
    if (a->n_choice == 1 && a->choices[0].end != WHIM_END_REPETITION) {
        return whim_finish_name(whim_answer_choice_finish(&a->choices[0]));
    }
    return whim_job_reason_name(run->times.reason != WHIM_REASON_NONE ? run->times.reason
                                                                      : WHIM_REASON_STOP);
}

static void log_answer(whim_answer *a)
{
    const whim_answer_run *run = a->run;
    const whim_job_times *t = &run->times;
    whim_answer_times times = whim_answer_get_times(a);
    char seed[24];
    snprintf(seed, sizeof seed, "%" PRId64, (int64_t)a->task->sampling.seed);
    const whim_log_field more[] = {
        whim_log_int("prompt", t->n_prompt),
        whim_log_int("cached", t->n_cached),
        whim_log_int("new", t->n_made),
        whim_log_real("queue_ms", times.queue_ms, 1),
        whim_log_real("ttft_ms", times.first_token_ms, 1),
        whim_log_text("seed", seed), /* more digits than some readers of JSON keep */
        whim_log_text("reason", ending_of(a)),
        {.key = NULL},
    };
    int status = a->task->stream ? 200 /* it is out already */
                 : run->failed   ? whim_fault_status(&run->fault, a->form->dialect)
                 : run->mute     ? STATUS_CLIENT_GONE
                                 : 200;
    whim_request_log(a->api->log, a->ex, status, more);
}

/* Only where the owner asked for it: what the model said, part by part. */
static void log_content(const whim_answer *a)
{
    const char *id = whim_exchange_request(a->ex)->request_id;
    for (int32_t i = 0; i < a->n_choice; i++) {
        const whim_answer_choice *c = &a->choices[i];
        for (int32_t k = 0; k < c->n_part; k++) {
            const whim_str *text = &c->parts[k].text;
            whim_log_long_text(a->api->log, WHIM_LOG_INFO, "content_answer", id,
                               whim_str_text(text), text->len);
        }
    }
}

static void answer_over(whim_answer_thread *w, whim_answer *a)
{
    answer_slot *slot = a->run->slot;
    whim_answer_end(a);
    if (!a->run->refused) {
        log_answer(a);
    }
    if (a->api->log_content) {
        log_content(a);
    }
    pthread_mutex_lock(&w->lock);
    slot->answer = NULL;
    slot_drop_if_unused(slot);
    pthread_mutex_unlock(&w->lock);
    whim_answer_destroy(a);
    pthread_mutex_lock(&w->lock); /* counted until its memory is given back */
    w->n_active--;
    pthread_cond_signal(&w->wake); /* who closes waits for the last */
    pthread_mutex_unlock(&w->lock);
}

/* False: its turn is over before its events are. */
static bool drain_requests(whim_answer *a)
{
    const whimbrel_event *ev;
    int64_t until = whim_clock_ns() + TURN_NS;
    for (int32_t p = 0; p < a->task->n_prompt; p++) {
        while ((ev = whimbrel_next(a->task->requests[p])) != NULL) {
            whim_answer_take(a, p, ev);
            if (whim_clock_ns() > until) {
                return false;
            }
        }
    }
    return true;
}

static void unlink_active(whim_answer_thread *w, whim_answer *a)
{
    for (whim_answer **at = &w->active; *at != NULL; at = &(*at)->run->next) {
        if (*at == a) {
            *at = a->run->next;
            break;
        }
    }
}

/* --- large replies: a thread for them, one after the other ------------------------------------ */

static void hand_to_large(whim_answer_thread *w, whim_answer *a)
{
    a->run->next = NULL;
    pthread_mutex_lock(&w->lock);
    a->run->slot->started = false;
    whim_answer **last = &w->large_first;
    for (; *last != NULL; last = &(*last)->run->next) {
    }
    *last = a;
    pthread_cond_signal(&w->large_wake);
    pthread_mutex_unlock(&w->lock);
}

static int64_t *large_taken_at(whim_answer_thread *w, const whim_answer *a)
{
    return &w->large_taken[whim_exchange_get_notes(a->ex)->client % LARGE_CLIENTS];
}

/* The first reply of the client that has waited longest for its turn, so that nobody waits for the
 * many replies of another client. NULL: there is none. The lock is held. */
static whim_answer *take_large(whim_answer_thread *w)
{
    whim_answer **best = &w->large_first, *a = *best;
    for (whim_answer **at = best; *at != NULL; at = &(*at)->run->next) {
        if (*large_taken_at(w, *at) < *large_taken_at(w, a)) {
            best = at;
            a = *at;
        }
    }
    if (a != NULL) {
        *best = a->run->next;
        *large_taken_at(w, a) = ++w->n_large_taken;
    }
    return a;
}

static void large_loop(void *ctx)
{
    whim_answer_thread *w = ctx;
    pthread_mutex_lock(&w->lock);
    while (!w->no_more_large) {
        whim_answer *a = take_large(w);
        if (a == NULL) {
            pthread_cond_wait(&w->large_wake, &w->lock);
            continue;
        }
        a->run->mute = a->run->mute || a->run->slot->gone;
        pthread_mutex_unlock(&w->lock);
        answer_over(w, a);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
}

/* --- turns ------------------------------------------------------------------------------------ */

static void process(whim_answer_thread *w, whim_answer *a, bool gone)
{
    whim_answer_run *run = a->run;
    if (!run->listed) {
        run->listed = true;
        run->next = w->active;
        w->active = a;
    }
    if (gone && !run->over) {
        run->mute = true;
        whim_answer_cancel(a, WHIM_REASON_CLIENT_GONE);
    }
    if (!drain_requests(a)) {
        pthread_mutex_lock(&w->lock);
        slot_queue(run->slot);
        pthread_mutex_unlock(&w->lock);
    } else if (run->n_open == 0) {
        unlink_active(w, a);
        if (whim_answer_is_large(a)) {
            hand_to_large(w, a);
        } else {
            answer_over(w, a);
        }
    }
}

static void keep_alive_all(whim_answer_thread *w)
{
    int64_t now = whim_clock_ns();
    for (whim_answer *a = w->active; a != NULL; a = a->run->next) {
        whim_answer_keep_alive(a, now);
    }
}

/* Answers that are kept until they are whole take memory that no client reads off. One is ended at
 * a time, because what it held may be enough for the others. */
static void end_greediest(whim_answer_thread *w)
{
    int64_t now = whim_clock_ns();
    whim_answer *a = NULL;
    if (now >= w->next_tight_ns && whim_answers_hold_too_much()) {
        w->next_tight_ns = now + TIGHT_NS;
        a = whim_answer_greediest(w->active);
    }
    if (a != NULL) {
        whim_log_warn(w->log, "answer_ended",
                      whim_log_text("id", whim_exchange_request(a->ex)->request_id),
                      whim_log_text("reason", "memory is short, and it holds most of it"),
                      whim_log_int("bytes", a->run->n_held));
        whim_answer_give_up(a);
    }
}

/* Wait for a woken answer, a second at most. The lock is held. */
static void wait_a_second(whim_answer_thread *w)
{
    struct timespec until = whim_clock_after(WHIM_NS_PER_S);
    pthread_cond_timedwait(&w->wake, &w->lock, &until);
}

static void answer_loop(void *ctx)
{
    whim_answer_thread *w = ctx;
    int64_t next_look = whim_clock_ns() + WHIM_NS_PER_S;
    pthread_mutex_lock(&w->lock);
    while (!w->closing || w->n_active > 0) {
        answer_slot *slot = w->first;
        if (slot == NULL) {
            wait_a_second(w);
        } else {
            w->first = slot->next;
            w->last = w->first == NULL ? NULL : w->last;
            slot->queued = false;
            whim_answer *a = slot->started ? slot->answer : NULL;
            bool gone = slot->gone;
            slot_drop_if_unused(slot);
            pthread_mutex_unlock(&w->lock);
            if (a != NULL) {
                process(w, a, gone);
            }
            end_greediest(w);
            pthread_mutex_lock(&w->lock);
        }
        if (whim_clock_ns() >= next_look) {
            pthread_mutex_unlock(&w->lock);
            keep_alive_all(w);
            next_look = whim_clock_ns() + WHIM_NS_PER_S;
            pthread_mutex_lock(&w->lock);
        }
    }
    pthread_mutex_unlock(&w->lock);
}

/* Both threads, as far as they were started; no answer is left when the first has ended. */
static void stop(whim_answer_thread *w)
{
    pthread_mutex_lock(&w->lock);
    w->closing = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    if (w->n_started > 1) {
        whim_thread_join(&w->thread);
    }
    pthread_mutex_lock(&w->lock);
    w->no_more_large = true;
    pthread_cond_signal(&w->large_wake);
    pthread_mutex_unlock(&w->lock);
    if (w->n_started > 0) {
        whim_thread_join(&w->large_thread);
    }
}

whim_err whim_answer_thread_open(whim_log *log, whim_answer_thread **out, whim_diag *diag)
{
    whim_err err;
    whim_answer_thread *w = whim_alloc(sizeof *w);
    if (w == NULL) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for the answer thread");
    }
    w->log = log;
    pthread_mutex_init(&w->lock, NULL);
    whim_cond_init(&w->wake);
    pthread_cond_init(&w->large_wake, NULL);
    WHIM_TRY_OUT(whim_thread_create(&w->large_thread, "replies", large_loop, w, diag));
    w->n_started++;
    WHIM_TRY_OUT(whim_thread_create(&w->thread, "answers", answer_loop, w, diag));
    w->n_started++;
    *out = w;
    return WHIM_ERR_OK;
out:
    whim_answer_thread_close(w);
    return err;
}

int64_t whim_answer_thread_active(whim_answer_thread *w)
{
    return atomic_load(&w->n_active);
}

/* The lock is held, so the answer stays, and its requests with it. */
static void put_requests(const whim_answer *a, int64_t now, whim_str *out)
{
    whim_exchange *ex = a->ex;
    const whim_http_request *http = whim_exchange_request(ex);
    for (int32_t p = 0; p < a->task->n_prompt; p++) {
        whim_job_look look = whim_request_look(a->task->requests[p]);
        const char *state = !look.is_running              ? "waiting"
                            : look.n_read < look.n_prompt ? "reading"
                                                          : "answering";
        whim_put_form(out, "{'id':%q,'client':%q,'route':%q,'state':%q,'age_s':%r,",
                      http->request_id, http->client, http->path, state,
                      (double)((now - whim_exchange_start_ns(ex)) / WHIM_NS_PER_MS) / 1000);
        whim_put_form(out,
                      "'prompt_tokens':%l,'prompt_tokens_read':%l,'cached_tokens':%l,"
                      "'generated_tokens':%l,'choices':%d},",
                      look.n_prompt, look.n_read, look.n_cached, look.n_made,
                      a->task->ask.n_choice);
    }
}

void whim_answer_thread_list(whim_answer_thread *w, whim_str *out)
{
    int64_t now = whim_clock_ns();
    whim_str_append(out, "{\"object\":\"list\",\"data\":[");
    int64_t n = out->len;
    pthread_mutex_lock(&w->lock);
    for (answer_slot *slot = w->all; slot != NULL; slot = slot->all) {
        if (slot->answer != NULL && slot->started) {
            put_requests(slot->answer, now, out);
        }
    }
    pthread_mutex_unlock(&w->lock);
    out->len -= out->len > n && !out->failed; /* the last comma */
    whim_str_append(out, "]}");
}

void whim_answer_thread_close(whim_answer_thread *w)
{
    if (w == NULL) {
        return;
    }
    stop(w);
    while (w->all != NULL) {
        answer_slot *slot = w->all;
        w->all = slot->all;
        whim_free(slot);
    }
    pthread_cond_destroy(&w->large_wake);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    whim_free(w);
}
