/* SPDX-License-Identifier: Apache-2.0 */
/* Handler threads, and whose request is next. */
#include "base/clock.h"
#include "base/heap/budget.h"
#include "base/turn.h"
#include "http/internal.h"

void whim_http_hand_over(whim_http *http, whim_exchange *ex)
{
    whim_exchange_ref(ex);
    ex->request.is_slow = ex->request.put_off_ns != 0 || ex->request.n_body > WHIM_HTTP_LARGE_BODY;
    pthread_mutex_lock(&http->work_lock);
    whim_work *work = ex->request.is_slow ? &http->slow_work : &http->work;
    ex->work_next = NULL;
    ex->work_number = http->n_work++;
    if (work->tail != NULL) {
        work->tail->work_next = ex;
    } else {
        work->head = ex;
    }
    work->tail = ex;
    atomic_store(&ex->is_queued, true);
    pthread_cond_signal(&http->work_cond);
    pthread_mutex_unlock(&http->work_lock);
}

void whim_exchange_put_off(whim_exchange *ex)
{
    ex->request.put_off_ns = whim_clock_ns();
    atomic_fetch_add(&ex->http->n_let_in, 1);
    whim_http_hand_over(ex->http, ex);
}

/* --- who is next ------------------------------------------------------------------------------ */

static int32_t place_of(const whim_exchange *ex)
{
    return (int32_t)(ex->notes.client % WHIM_HTTP_CLIENTS);
}

/* Take the one behind `before` (NULL: the first) out of the list. */
static whim_exchange *unlink_work(whim_work *work, whim_exchange *before)
{
    whim_exchange *ex = before == NULL ? work->head : before->work_next;
    if (ex != NULL) {
        *(before == NULL ? &work->head : &before->work_next) = ex->work_next;
        work->tail = work->tail == ex ? before : work->tail;
        atomic_store(&ex->is_queued, false);
    }
    return ex;
}

/* A client that has all other handlers does not get the last one, even for quick requests. Probes
 * always may. Lock held. */
static bool may_have_handler(const whim_http *http, const whim_exchange *ex)
{
    bool is_last = http->n_busy + 1 == http->cfg.n_handler && http->n_busy > 1;
    return !is_last || http->busy_with[place_of(ex)] < http->n_busy ||
           whim_http_is_always_answered(ex->request.path);
}

/* The first exchange of the client whose last turn is longest ago, so that a client with many waits
 * for itself and others do not wait for it. Only clients without a turn since `since` count.
 * *before becomes the exchange in front of it. NULL: nobody waits, or may have a handler. Lock
 * held. */
static whim_exchange *find_fair(const whim_http *http, const whim_work *work, int64_t since,
                                whim_exchange **before)
{
    whim_exchange *best = NULL, *last = NULL;
    for (whim_exchange *ex = work->head; ex != NULL; last = ex, ex = ex->work_next) {
        int64_t least = best == NULL ? since : work->taken[place_of(best)];
        if (work->taken[place_of(ex)] < least && (http == NULL || may_have_handler(http, ex))) {
            best = ex;
            *before = last;
        }
    }
    return best;
}

/* Take that one. Lock held. */
static whim_exchange *pop_fair(const whim_http *http, whim_work *work, int64_t since)
{
    whim_exchange *before = NULL, *ex = find_fair(http, work, since, &before);
    if (ex != NULL) {
        work->taken[place_of(ex)] = ++work->n_taken;
        unlink_work(work, before);
    }
    return ex;
}

/* The queue from which the next exchange is taken, NULL when there is none. Many quick ones of one
 * client do not keep a slow one of another waiting for all of them. Lock held. */
static whim_work *next_work(whim_http *http)
{
    whim_exchange *before;
    int32_t slow_max = http->cfg.n_handler - 2 > 1 ? http->cfg.n_handler - 2 : 1;
    const whim_exchange *quick = find_fair(http, &http->work, INT64_MAX, &before);
    const whim_exchange *slow =
        http->n_slow < slow_max ? find_fair(http, &http->slow_work, INT64_MAX, &before) : NULL;
    if (slow != NULL && (quick == NULL || http->took_quick ||
                         http->slow_work.head->work_number < http->work.head->work_number)) {
        return &http->slow_work;
    }
    return quick != NULL ? &http->work : NULL;
}

/* A handler's thread. */
typedef struct worker {
    whim_http *http;
    bool is_slow; /* what it works on now, or worked on last */
    bool is_busy; /* it works on one of the client at this place */
    int32_t place;
    bool is_inside;   /* that request has let another one pass, which is handled now */
    int64_t n_inside; /* bytes that such ones have left behind */
    int64_t n_taken;  /* slow ones that were taken up to it */
} worker;

static void count_busy(worker *w, bool is_busy)
{
    int32_t n = (is_busy ? 1 : 0) - (w->is_busy ? 1 : 0);
    w->http->n_busy += n;
    w->http->busy_with[w->place] += n;
    w->is_busy = is_busy;
}

/* The next exchange that waits; NULL when the server stops. */
static whim_exchange *take_work(worker *w)
{
    whim_http *http = w->http;
    whim_exchange *ex = NULL;
    whim_work *work;
    pthread_mutex_lock(&http->work_lock);
    http->n_slow -= w->is_slow ? 1 : 0;
    w->is_slow = false;
    count_busy(w, false);
    while ((work = next_work(http)) == NULL && !http->work_stop) {
        pthread_cond_wait(&http->work_cond, &http->work_lock);
    }
    if (!http->work_stop) {
        http->took_quick = work == &http->work;
        ex = pop_fair(http, work, INT64_MAX);
        w->is_slow = ex->request.is_slow; /* as it was taken: the handler may put it off */
        w->n_taken = http->slow_work.n_taken;
        http->n_slow += w->is_slow ? 1 : 0;
        w->place = place_of(ex);
        count_busy(w, true);
        if (http->work.head != NULL || http->slow_work.head != NULL) {
            pthread_cond_signal(&http->work_cond); /* it may be another's turn now */
        }
    }
    pthread_mutex_unlock(&http->work_lock);
    return ex;
}

bool whim_http_take_back(whim_http *http, whim_exchange *ex)
{
    whim_work *const works[] = {&http->work, &http->slow_work};
    bool found = false;
    pthread_mutex_lock(&http->work_lock);
    for (int i = 0; i < 2 && !found; i++) {
        whim_exchange *before = NULL, *at = works[i]->head;
        for (; at != NULL && at != ex; at = at->work_next) {
            before = at;
        }
        found = at != NULL && unlink_work(works[i], before) == ex;
    }
    pthread_mutex_unlock(&http->work_lock);
    if (found) {
        whim_exchange_unref(ex);
        atomic_fetch_sub(&http->n_let_in, 1);
    }
    return found;
}

int32_t whim_http_share(bool is_slow, int64_t n_body)
{
    return is_slow || n_body > WHIM_HTTP_LARGE_BODY ? WHIM_HTTP_SHARE_LARGE
           : n_body > WHIM_HTTP_SMALL_BODY          ? WHIM_HTTP_SHARE_MIDDLE
                                                    : WHIM_BUDGET_WHOLE;
}

/* What this thread has taken and not given back, but for what waits to be sent. */
static int64_t taken_here(void)
{
    return whim_budget_taken_here() - whim_exchange_queued_here();
}

/* What the handler left behind, beside what its turns did, is the request's. Of one that was put
 * off, whoever handles it then says so. */
static void note_kept(const worker *w, whim_exchange *ex, int64_t before, int64_t n_body)
{
    int64_t dropped = n_body - atomic_load(&ex->n_body);
    int64_t n = taken_here() - w->n_inside - before + dropped;
    atomic_store(&ex->n_kept, n > 0 ? n : 0);
}

static void handle(worker *w, whim_exchange *ex)
{
    whim_http *http = w->http;
    pthread_mutex_lock(&ex->lock);
    bool is_over = ex->is_over;
    pthread_mutex_unlock(&ex->lock);
    const bool is_slow = ex->request.is_slow, is_large = ex->request.n_body > WHIM_HTTP_LARGE_BODY;
    const int64_t put_off_ns = ex->request.put_off_ns;
    if (!is_over) { /* else nobody waits for the reply any more */
        const int64_t before = taken_here() - w->n_inside;
        const int64_t n_body = atomic_load(&ex->n_body);
        int32_t had = whim_budget_share(whim_http_is_always_answered(ex->request.path)
                                            ? 0
                                            : whim_http_share(is_slow, ex->request.n_body));
        http->cfg.handle(http->cfg.ctx, ex);
        whim_budget_share(had);
        if (ex->request.put_off_ns == put_off_ns) {
            note_kept(w, ex, before, n_body);
        }
    }
    whim_exchange_unref(ex);
    if (is_large) { /* or each thread would keep what its largest request took */
        atomic_store(&http->bodies->was_large, true);
    }
    /* Last: where nothing is under way, what is held counts as what the server has learnt. */
    atomic_fetch_sub(&http->n_let_in, 1);
}

/* A slow request has worked for a while. Now this thread handles a request of a client that waits
 * and has had no turn since the slow one began. So each other client passes it once, however many
 * requests they have, and at most one request's memory is added. */
static void give_turn(void *ctx)
{
    worker *w = ctx;
    if (w->is_inside) {
        return;
    }
    pthread_mutex_lock(&w->http->work_lock);
    whim_exchange *ex = w->http->work_stop ? NULL : pop_fair(NULL, &w->http->slow_work, w->n_taken);
    pthread_mutex_unlock(&w->http->work_lock);
    if (ex != NULL) {
        const int64_t before = taken_here();
        w->is_inside = true;
        handle(w, ex);
        w->is_inside = false;
        w->n_inside += taken_here() - before;
    }
}

void whim_http_run_handler(void *ctx)
{
    worker w = {.http = ctx};
    for (whim_exchange *ex; (ex = take_work(&w)) != NULL;) {
        whim_turn_set(w.is_slow ? give_turn : NULL, &w);
        handle(&w, ex);
    }
    whim_turn_set(NULL, NULL);
}

static void drop_work(whim_work *work)
{
    for (whim_exchange *ex; (ex = unlink_work(work, NULL)) != NULL;) {
        whim_exchange_unref(ex);
    }
}

void whim_http_stop_handlers(whim_http *http)
{
    pthread_mutex_lock(&http->work_lock);
    http->work_stop = true;
    pthread_cond_broadcast(&http->work_cond);
    pthread_mutex_unlock(&http->work_lock);
    for (int32_t i = 0; i < http->n_handler; i++) {
        whim_thread_join(&http->handlers[i]);
    }
    drop_work(&http->work);
    drop_work(&http->slow_work);
}
