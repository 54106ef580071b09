/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP server as a whole: opening, handler threads, draining, closing. */
#include "http/http.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/heap/budget.h"
#include "base/os/mem.h"
#include "base/turn.h"
#include "http/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void set_limit(int64_t *limit, int64_t usual)
{
    if (*limit <= 0) {
        *limit = usual;
    }
}

void whim_http_limits_fill(whim_http_limits *l)
{
    set_limit(&l->max_body, INT64_C(32) << 20);
    set_limit(&l->max_headers, INT64_C(32) << 10);
    set_limit(&l->max_line, INT64_C(8) << 10);
    set_limit(&l->header_ns, 10 * WHIM_NS_PER_S);
    set_limit(&l->body_ns, 60 * WHIM_NS_PER_S);
    set_limit(&l->idle_ns, 75 * WHIM_NS_PER_S);
    set_limit(&l->max_queued, INT64_C(4) << 20);
    if (l->max_connections <= 0) {
        l->max_connections = 1024;
    }
    if (l->kept_for_health <= 0) {
        l->kept_for_health = l->max_connections / 2 < 16 ? l->max_connections / 2 : 16;
    }
}

static void set_defaults(whim_http_cfg *cfg)
{
    whim_http_limits_fill(&cfg->limits);
    cfg->n_handler = cfg->n_handler > 0 ? cfg->n_handler : 4;
}

static whim_err open_tls(whim_http *http, whim_diag *diag)
{
    if (http->cfg.tls_cert == NULL && http->cfg.tls_key == NULL) {
        return WHIM_ERR_OK;
    }
    if (http->cfg.tls_cert == NULL || http->cfg.tls_key == NULL) {
        return whim_fail(diag, WHIM_ERR_INVALID, "--tls-cert and --tls-key belong together");
    }
    WHIM_TRY(whim_tls_create(http->cfg.tls_cert, http->cfg.tls_key, &http->tls, diag));
    http->tls_before = whim_tls_bytes();
    return WHIM_ERR_OK;
}

static whim_err open_epoll(whim_http *http, whim_diag *diag)
{
    http->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    http->wake =
        (whim_listener){.source = WHIM_SOURCE_WAKE, .fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &http->wake};
    if (http->epoll_fd < 0 || http->wake.fd < 0 ||
        epoll_ctl(http->epoll_fd, EPOLL_CTL_ADD, http->wake.fd, &event) != 0) {
        return whim_fail(diag, WHIM_ERR_IO, "cannot watch sockets: %s", strerror(errno));
    }
    return WHIM_ERR_OK;
}

whim_err whim_http_open(const whim_http_cfg *cfg, whim_http **out, whim_diag *diag)
{
    whim_check(cfg->handle != NULL && cfg->error_body != NULL);
    *out = NULL;
    whim_http *http = whim_alloc(sizeof *http);
    if (http == NULL) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for the server");
    }
    http->bodies = whim_alloc(sizeof *http->bodies);
    http->cfg = *cfg;
    set_defaults(&http->cfg);
    http->epoll_fd = http->wake.fd = -1;
    http->next_check_ns = INT64_MAX;
    pthread_mutex_init(&http->wake_lock, NULL);
    pthread_mutex_init(&http->work_lock, NULL);
    pthread_cond_init(&http->work_cond, NULL);
    whim_err err;
    if (http->bodies == NULL) {
        err = whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for the server");
        goto out;
    }
    atomic_init(&http->bodies->refs, 1);
    WHIM_TRY_OUT(open_tls(http, diag));
    WHIM_TRY_OUT(whim_http_listen(http, diag));
    WHIM_TRY_OUT(open_epoll(http, diag));
    *out = http;
    return WHIM_ERR_OK;
out:
    whim_http_close(http);
    return err;
}

int32_t whim_http_port(const whim_http *http)
{
    return http->port;
}

/* --- handler threads -------------------------------------------------------------------------- */

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
    pthread_cond_signal(&http->work_cond);
    pthread_mutex_unlock(&http->work_lock);
}

void whim_exchange_put_off(whim_exchange *ex)
{
    ex->request.put_off_ns = whim_clock_ns();
    atomic_fetch_add(&ex->http->n_let_in, 1);
    whim_http_hand_over(ex->http, ex);
}

/* The queue from which the next exchange is taken, NULL when there is none. Many quick ones of one
 * client do not keep a slow one of another waiting for all of them. Lock held. */
static whim_work *next_work(whim_http *http)
{
    int32_t slow_max = http->cfg.n_handler - 2 > 1 ? http->cfg.n_handler - 2 : 1;
    const whim_exchange *quick = http->work.head, *slow = http->slow_work.head;
    if (slow != NULL && http->n_slow < slow_max &&
        (quick == NULL || http->took_quick || slow->work_number < quick->work_number)) {
        return &http->slow_work;
    }
    return quick != NULL ? &http->work : NULL;
}

static int64_t *taken_at(whim_work *work, const whim_exchange *ex)
{
    return &work->taken[ex->notes.client % WHIM_HTTP_CLIENTS];
}

static whim_exchange *pop_work(whim_work *work)
{
    whim_exchange *ex = work->head;
    if (ex != NULL) {
        work->head = ex->work_next;
        work->tail = work->head == NULL ? NULL : work->tail;
    }
    return ex;
}

/* The first of the client that was taken from least lately, so that a client with many waits for
 * itself and not others for it. Only clients that were not taken from since `since` count; NULL:
 * none of them waits. Lock held. */
static whim_exchange *pop_fair(whim_work *work, int64_t since)
{
    whim_exchange *best = NULL, *before = NULL, *last = NULL;
    for (whim_exchange *ex = work->head; ex != NULL; last = ex, ex = ex->work_next) {
        if (*taken_at(work, ex) < (best == NULL ? since : *taken_at(work, best))) {
            best = ex;
            before = last;
        }
    }
    if (best == NULL) {
        return NULL;
    }
    *taken_at(work, best) = ++work->n_taken;
    if (before == NULL) {
        return pop_work(work);
    }
    before->work_next = best->work_next;
    work->tail = work->tail == best ? before : work->tail;
    return best;
}

/* A handler's thread. */
typedef struct worker {
    whim_http *http;
    bool is_slow;    /* what it works on now, or worked on last */
    bool is_inside;  /* that request has let another one pass, which is handled now */
    int64_t n_taken; /* slow ones that were taken up to it */
} worker;

/* The next exchange that waits; NULL when the server stops. */
static whim_exchange *take_work(worker *w)
{
    whim_http *http = w->http;
    whim_exchange *ex = NULL;
    whim_work *work;
    pthread_mutex_lock(&http->work_lock);
    http->n_slow -= w->is_slow ? 1 : 0;
    while ((work = next_work(http)) == NULL && !http->work_stop) {
        pthread_cond_wait(&http->work_cond, &http->work_lock);
    }
    if (!http->work_stop) {
        http->took_quick = work == &http->work;
        ex = pop_fair(work, INT64_MAX);
        w->is_slow = ex->request.is_slow; /* as it was taken: the handler may put it off */
        w->n_taken = http->slow_work.n_taken;
        http->n_slow += w->is_slow ? 1 : 0;
    }
    pthread_mutex_unlock(&http->work_lock);
    return ex;
}

int32_t whim_http_share(bool is_slow, int64_t n_body)
{
    return is_slow || n_body > WHIM_HTTP_LARGE_BODY ? WHIM_HTTP_SHARE_LARGE
           : n_body > WHIM_HTTP_SMALL_BODY          ? WHIM_HTTP_SHARE_MIDDLE
                                                    : WHIM_BUDGET_WHOLE;
}

static void handle(whim_http *http, whim_exchange *ex)
{
    pthread_mutex_lock(&ex->lock);
    bool is_over = ex->is_over;
    pthread_mutex_unlock(&ex->lock);
    const bool is_slow = ex->request.is_slow, is_large = ex->request.n_body > WHIM_HTTP_LARGE_BODY;
    if (!is_over) { /* else nobody waits for the reply any more */
        int32_t had = whim_budget_share(whim_http_is_always_answered(ex->request.path)
                                            ? 0
                                            : whim_http_share(is_slow, ex->request.n_body));
        http->cfg.handle(http->cfg.ctx, ex);
        whim_budget_share(had);
    }
    whim_exchange_unref(ex);
    if (is_large) { /* or each thread would keep what its largest request took */
        atomic_store(&http->bodies->was_large, true);
    }
    /* Last: where nothing is under way, what is held counts as what the server has learnt. */
    atomic_fetch_sub(&http->n_let_in, 1);
}

/* A slow request has worked for a while: a client that waits, and that none was taken from since
 * this request was, has one of its own handled on top of this one. So each of the others passes it
 * once, however many requests they have, and one request's memory is added at most. */
static void give_turn(void *ctx)
{
    worker *w = ctx;
    if (w->is_inside) {
        return;
    }
    pthread_mutex_lock(&w->http->work_lock);
    whim_exchange *ex = w->http->work_stop ? NULL : pop_fair(&w->http->slow_work, w->n_taken);
    pthread_mutex_unlock(&w->http->work_lock);
    if (ex != NULL) {
        w->is_inside = true;
        handle(w->http, ex);
        w->is_inside = false;
    }
}

static void run_handler(void *ctx)
{
    worker w = {.http = ctx};
    for (whim_exchange *ex; (ex = take_work(&w)) != NULL;) {
        whim_turn_set(w.is_slow ? give_turn : NULL, &w);
        handle(w.http, ex);
    }
    whim_turn_set(NULL, NULL);
}

static void drop_work(whim_work *work)
{
    for (whim_exchange *ex; (ex = pop_work(work)) != NULL;) {
        whim_exchange_unref(ex);
    }
}

static void stop_handlers(whim_http *http)
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

whim_err whim_http_start(whim_http *http, whim_diag *diag)
{
    http->handlers = whim_alloc_array(http->cfg.n_handler, sizeof *http->handlers);
    if (http->handlers == NULL) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for the server's threads");
    }
    for (int32_t i = 0; i < http->cfg.n_handler; i++) {
        char name[24];
        snprintf(name, sizeof name, "http-%d", i);
        WHIM_TRY(whim_thread_create(&http->handlers[i], name, run_handler, http, diag));
        http->n_handler++;
    }
    WHIM_TRY(whim_thread_create(&http->io_thread, "http-io", whim_http_loop, http, diag));
    http->is_started = true;
    return WHIM_ERR_OK;
}

/* --- the end ---------------------------------------------------------------------------------- */

void whim_http_drain(whim_http *http)
{
    atomic_store(&http->is_draining, true);
}

bool whim_http_tidy(whim_http *http)
{
    bool is_due = atomic_exchange(&http->bodies->was_large, false);
    if (is_due) {
        whim_os_mem_give_back();
    }
    return is_due;
}

whim_err whim_http_reload_tls(whim_http *http, whim_diag *diag)
{
    if (http->tls == NULL) {
        return WHIM_ERR_OK;
    }
    return whim_tls_load(http->tls, http->cfg.tls_cert, http->cfg.tls_key, diag);
}

void whim_http_close(whim_http *http)
{
    if (http == NULL) {
        return;
    }
    atomic_store(&http->is_stopping, true);
    if (http->is_started) {
        whim_http_wake(http, NULL);
        whim_thread_join(&http->io_thread);
    }
    stop_handlers(http);
    whim_http_unlisten(http);
    if (http->epoll_fd >= 0) {
        close(http->epoll_fd);
    }
    if (http->wake.fd >= 0) {
        close(http->wake.fd);
    }
    whim_tls_destroy(http->tls);
    pthread_mutex_destroy(&http->wake_lock);
    pthread_mutex_destroy(&http->work_lock);
    pthread_cond_destroy(&http->work_cond);
    whim_free(http->handlers);
    whim_bodies_unref(http->bodies);
    whim_free(http);
}

whim_http_stats whim_http_get_stats(const whim_http *http)
{
    return (whim_http_stats){.n_connections = atomic_load(&http->n_connections),
                             .n_accepted = atomic_load(&http->n_accepted),
                             .n_requests = atomic_load(&http->n_requests),
                             .n_in_flight = atomic_load(&http->n_in_flight),
                             .n_let_in = atomic_load(&http->n_let_in),
                             .n_refused = atomic_load(&http->n_refused)};
}
