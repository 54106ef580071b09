/* SPDX-License-Identifier: Apache-2.0 */
/* The I/O thread: waits for sockets, wakes and deadlines, and accepts connections. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/heap/budget.h"
#include "http/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    EVENTS = 256,
    ACCEPTS = 64, /* at once; others want to be served too */
};
#define ACCEPT_PAUSE_NS (100 * WHIM_NS_PER_MS) /* when the process has no descriptor left */
#define LOG_EVERY_NS (10 * WHIM_NS_PER_S)

/* --- wakes ------------------------------------------------------------------------------------ */

void whim_http_wake(whim_http *http, whim_exchange *ex)
{
    bool is_first = true;
    if (ex != NULL) {
        pthread_mutex_lock(&http->wake_lock);
        is_first = http->wake_list == NULL;
        if (!ex->is_waking) {
            ex->is_waking = true;
            ex->wake_next = http->wake_list;
            http->wake_list = whim_exchange_ref(ex);
        }
        pthread_mutex_unlock(&http->wake_lock);
    }
    uint64_t one = 1;
    if (is_first && write(http->wake.fd, &one, sizeof one) < 0) {
        return; /* the counter is full: the thread is woken anyway */
    }
}

static void run_wakes(whim_http *http)
{
    pthread_mutex_lock(&http->wake_lock);
    whim_exchange *list = http->wake_list;
    http->wake_list = NULL;
    pthread_mutex_unlock(&http->wake_lock);
    while (list != NULL) {
        whim_exchange *ex = list;
        pthread_mutex_lock(&http->wake_lock);
        list = ex->wake_next; /* from here on it may be put on the new list */
        ex->is_waking = false;
        pthread_mutex_unlock(&http->wake_lock);
        if (ex->conn != NULL) {
            whim_conn_progress(http, ex->conn);
        }
        whim_exchange_unref(ex);
    }
}

/* --- accepting -------------------------------------------------------------------------------- */

static void set_listening(whim_http *http, bool on)
{
    if (http->is_listening == on) {
        return;
    }
    http->is_listening = on;
    for (int32_t i = 0; i < http->n_listener; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &http->listeners[i]};
        epoll_ctl(http->epoll_fd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, http->listeners[i].fd,
                  &event);
    }
}

static void accept_failed(whim_http *http)
{
    int why = errno;
    if (why == EMFILE || why == ENFILE || why == ENOBUFS || why == ENOMEM) {
        int64_t held_back;
        if (whim_log_allow(&http->accept_limit, LOG_EVERY_NS, &held_back)) {
            whim_log_warn(http->cfg.log, "accept_paused", whim_log_text("reason", strerror(why)),
                          whim_log_int("held_back", held_back));
        }
        http->accept_again_ns = whim_clock_ns() + ACCEPT_PAUSE_NS;
        set_listening(http, false);
    }
}

static bool has_room(const whim_http *http)
{
    return atomic_load(&http->n_connections) < http->cfg.limits.max_connections ||
           whim_conn_to_drop(http, NULL) != NULL;
}

/* Only the connections that are kept for health are left. So an idle one is closed for the
 * newcomer, and these are used only when no other is idle. */
static void make_room(whim_http *http, const struct in6_addr *newcomer)
{
    const whim_http_limits *l = &http->cfg.limits;
    whim_conn *conn = atomic_load(&http->n_connections) >= l->max_connections - l->kept_for_health
                          ? whim_conn_to_drop(http, newcomer)
                          : NULL;
    int64_t held_back;
    if (conn != NULL) {
        if (whim_log_allow(&http->drop_limit, LOG_EVERY_NS, &held_back)) {
            whim_log_warn(http->cfg.log, "connection_dropped",
                          whim_log_text("reason", "idle, and all connections are taken"),
                          whim_log_int("max", l->max_connections),
                          whim_log_int("held_back", held_back));
        }
        whim_conn_kill(http, conn);
    }
}

/* Connections with TLS take memory while nobody uses them: those that have waited longest are
 * closed before they take what requests need. */
static void drop_idle_tls(whim_http *http)
{
    const int64_t most = whim_budget_bytes() / WHIM_BUDGET_WHOLE * WHIM_HTTP_SHARE_TLS;
    whim_conn *conn;
    int64_t held_back;
    while (http->tls != NULL && most > 0 && whim_tls_bytes() - http->tls_before > most &&
           (conn = whim_conn_to_drop(http, NULL)) != NULL) {
        if (whim_log_allow(&http->drop_limit, LOG_EVERY_NS, &held_back)) {
            whim_log_warn(http->cfg.log, "connection_dropped",
                          whim_log_text("reason", "idle, and TLS takes much memory"),
                          whim_log_int("held_back", held_back));
        }
        whim_conn_kill(http, conn);
    }
}

static void accept_some(whim_http *http, int listen_fd)
{
    for (int i = 0; i < ACCEPTS; i++) {
        if (!has_room(http)) {
            int64_t held_back;
            if (whim_log_allow(&http->full_limit, LOG_EVERY_NS, &held_back)) {
                whim_log_warn(http->cfg.log, "connections_full",
                              whim_log_int("max", http->cfg.limits.max_connections));
            }
            set_listening(http, false);
            return;
        }
        struct sockaddr_storage addr;
        socklen_t n = sizeof addr;
        int fd = accept4(listen_fd, (struct sockaddr *)&addr, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            accept_failed(http);
            return;
        }
        struct in6_addr client = {{{0}}};
        if (addr.ss_family == AF_INET6) {
            client = ((struct sockaddr_in6 *)&addr)->sin6_addr;
        } else {
            client.s6_addr[10] = client.s6_addr[11] = 0xFF; /* an IPv4 address inside IPv6 */
            memcpy(&client.s6_addr[12], &((struct sockaddr_in *)&addr)->sin_addr, 4);
        }
        atomic_fetch_add(&http->n_accepted, 1);
        make_room(http, &client);
        if (atomic_load(&http->n_connections) < http->cfg.limits.max_connections) {
            whim_conn_open(http, fd, &client);
        } else {
            close(fd); /* its client has most of them, and all of them are in use */
        }
    }
}

/* --- the loop --------------------------------------------------------------------------------- */

static void run_deadlines(whim_http *http)
{
    int64_t now = whim_clock_ns();
    if (http->accept_again_ns != 0 && now >= http->accept_again_ns) {
        http->accept_again_ns = 0;
    }
    set_listening(http, http->accept_again_ns == 0 && has_room(http));
    if (now < http->next_check_ns) {
        return;
    }
    whim_conn *next;
    for (whim_conn *conn = http->conns; conn != NULL; conn = next) {
        next = conn->next;
        if (conn->deadline_ns != 0 && conn->deadline_ns <= now) {
            conn->deadline_ns = 0;
            whim_conn_timeout(http, conn);
        }
    }
    http->next_check_ns = INT64_MAX;
    for (whim_conn *conn = http->conns; conn != NULL; conn = conn->next) {
        if (conn->deadline_ns != 0 && conn->deadline_ns < http->next_check_ns) {
            http->next_check_ns = conn->deadline_ns;
        }
    }
}

/* Memory for requests is short: replies that nobody reads make room for those that others wait
 * for. */
static void drop_unread(whim_http *http)
{
    whim_conn *conn;
    int64_t held_back;
    http->is_tight = whim_budget_is_over(WHIM_HTTP_SHARE_UNREAD / 2); /* it may be short soon */
    if (!whim_budget_is_over(WHIM_HTTP_SHARE_UNREAD) || whim_clock_ns() < http->next_unread_ns) {
        return;
    }
    while (whim_budget_is_over(WHIM_HTTP_SHARE_UNREAD) && (conn = whim_conn_unread(http)) != NULL) {
        if (whim_log_allow(&http->unread_limit, LOG_EVERY_NS, &held_back)) {
            whim_log_warn(
                http->cfg.log, "connection_dropped",
                whim_log_text("reason", "it does not read its reply, and memory is short"),
                whim_log_int("bytes", conn->ex->out.cap), whim_log_int("held_back", held_back));
        }
        whim_conn_kill(http, conn);
    }
    http->next_unread_ns = whim_clock_ns() + WHIM_HTTP_TIGHT_NS; /* all of them were looked at */
}

static int wait_ms(const whim_http *http)
{
    int64_t until = http->next_check_ns;
    if (http->accept_again_ns != 0 && http->accept_again_ns < until) {
        until = http->accept_again_ns;
    }
    if (http->n_shaking > 0 && http->shake_again_ns < until) {
        until = http->shake_again_ns;
    }
    if ((http->is_tight || !http->is_listening) && whim_clock_ns() + WHIM_HTTP_TIGHT_NS < until) {
        return (int)(WHIM_HTTP_TIGHT_NS / WHIM_NS_PER_MS); /* to look at unread replies again */
    }
    if (until == INT64_MAX) {
        return -1;
    }
    int64_t ns = until - whim_clock_ns();
    int64_t ms = ns <= 0 ? 0 : (ns + WHIM_NS_PER_MS - 1) / WHIM_NS_PER_MS;
    return (int)(ms > 60000 ? 60000 : ms);
}

static void free_dead(whim_http *http)
{
    while (http->dead != NULL) {
        whim_conn *conn = http->dead;
        http->dead = conn->next;
        whim_free(conn);
    }
}

static void run_event(whim_http *http, const struct epoll_event *event)
{
    switch (*(whim_source *)event->data.ptr) {
    case WHIM_SOURCE_WAKE: {
        uint64_t count;
        if (read(http->wake.fd, &count, sizeof count) < 0) {
            return; /* woken for nothing */
        }
        break;
    }
    case WHIM_SOURCE_LISTEN:
        accept_some(http, ((whim_listener *)event->data.ptr)->fd);
        break;
    case WHIM_SOURCE_CONN:
        whim_conn_event(http, event->data.ptr, event->events);
        break;
    }
}

void whim_http_loop(void *ctx)
{
    whim_http *http = ctx;
    struct epoll_event events[EVENTS];
    set_listening(http, true);
    while (!atomic_load(&http->is_stopping)) {
        int n = epoll_wait(http->epoll_fd, events, EVENTS, wait_ms(http));
        for (int i = 0; i < n; i++) {
            run_event(http, &events[i]);
        }
        run_wakes(http);
        whim_http_shake(http);
        run_deadlines(http);
        drop_unread(http);
        drop_idle_tls(http);
        free_dead(http);
    }
    while (http->conns != NULL) {
        whim_conn_kill(http, http->conns);
    }
    run_wakes(http);
    free_dead(http);
}
