/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP server as a whole: opening, draining, closing. */
#include "http/http.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/heap/budget.h"
#include "base/os/mem.h"
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

/* --- the threads ------------------------------------------------------------------------------ */

whim_err whim_http_start(whim_http *http, whim_diag *diag)
{
    http->handlers = whim_alloc_array(http->cfg.n_handler, sizeof *http->handlers);
    if (http->handlers == NULL) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for the server's threads");
    }
    for (int32_t i = 0; i < http->cfg.n_handler; i++) {
        char name[24];
        snprintf(name, sizeof name, "http-%d", i);
        WHIM_TRY(whim_thread_create(&http->handlers[i], name, whim_http_run_handler, http, diag));
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
    const int64_t used = whim_budget_used();
    const int64_t much = whim_budget_bytes() / WHIM_HTTP_TIDY_PART;
    http->most_used = used > http->most_used ? used : http->most_used;
    const int64_t now = whim_clock_ns();
    bool is_due = atomic_exchange(&http->bodies->was_large, false) ||
                  (much > 0 && http->most_used - used > much && now >= http->next_tidy_ns);
    if (is_due) {
        whim_os_mem_give_back();
        http->most_used = used;
        http->next_tidy_ns = now + WHIM_HTTP_TIDY_NS;
    }
    return is_due;
}

void whim_http_set_zero(whim_http *http)
{
    const int64_t before = whim_budget_used();
    whim_budget_set(whim_budget_bytes());
    http->most_used -= before - whim_budget_used(); /* as far above what is used as it was */
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
    whim_http_stop_handlers(http);
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
