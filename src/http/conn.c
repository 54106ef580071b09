/* SPDX-License-Identifier: Apache-2.0 */
/* One connection on the I/O thread: reading, sending, deadlines, its end.
 *
 * When the client shuts its side while a reply is due: a program that has gone and one that shuts
 * after its request (`printf ... | nc -N`) look the same. So a stream counts as gone at once, and
 * another reply may still be sent while the request is younger than WHIM_HTTP_HALFWAY_NS; after
 * that the client counts as gone. */
#include "base/alloc.h"
#include "base/clock.h"
#include "http/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READS = 4 }; /* of one connection at once; others want to be served too */
#define LINGER_NS (2 * WHIM_NS_PER_S)

static void watch(whim_http *http, whim_conn *conn, uint32_t events)
{
    if (conn->events != events && conn->state != WHIM_CONN_DEAD) {
        conn->events = events;
        struct epoll_event event = {.events = events, .data.ptr = conn};
        epoll_ctl(http->epoll_fd, EPOLL_CTL_MOD, conn->fd, &event);
    }
}

void whim_conn_deadline(whim_http *http, whim_conn *conn, int64_t ns)
{
    conn->deadline_ns = ns == 0 ? 0 : whim_clock_ns() + ns;
    if (ns != 0 && conn->deadline_ns < http->next_check_ns) {
        http->next_check_ns = conn->deadline_ns;
    }
}

void whim_conn_open(whim_http *http, int fd, const struct in6_addr *address)
{
    whim_conn *conn = whim_alloc(sizeof *conn);
    whim_tls_conn *tls = NULL;
    if (conn != NULL && http->tls != NULL) {
        tls = whim_tls_conn_create(http->tls, fd);
    }
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = conn};
    if (conn == NULL || (http->tls != NULL && tls == NULL) ||
        epoll_ctl(http->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        whim_tls_conn_destroy(tls);
        whim_free(conn);
        close(fd);
        return;
    }
    int64_t count = atomic_fetch_add(&http->n_connections, 1) + 1;
    const whim_http_limits *limits = &http->cfg.limits;
    conn->source = WHIM_SOURCE_CONN;
    conn->fd = fd;
    conn->events = event.events;
    conn->tls = tls;
    conn->address = *address;
    conn->place = whim_conn_place(address);
    conn->number = atomic_load(&http->n_accepted);
    conn->is_over_number = count > limits->max_connections - limits->kept_for_health;
    conn->next = http->conns;
    if (http->conns != NULL) {
        http->conns->prev = conn;
    }
    http->conns = conn;
    conn->state = tls != NULL ? WHIM_CONN_HANDSHAKE : WHIM_CONN_IDLE;
    whim_conn_deadline(http, conn, tls != NULL ? limits->header_ns : limits->idle_ns);
}

void whim_conn_drop_exchange(whim_http *http, whim_conn *conn)
{
    whim_exchange *ex = conn->ex;
    if (ex != NULL) {
        conn->ex = NULL;
        conn->place =
            whim_conn_place(&conn->address); /* behind a proxy, who asks next may differ */
        if (atomic_load(
                &ex->is_queued)) { /* or its memory would be nobody's until its turn comes */
            whim_http_take_back(http, ex);
        }
        atomic_fetch_sub(&http->n_in_flight, 1);
        atomic_fetch_sub(&http->n_let_in, ex->is_let_in ? 1 : 0);
        whim_exchange_detach(ex);
    }
}

void whim_conn_kill(whim_http *http, whim_conn *conn)
{
    if (conn->state == WHIM_CONN_DEAD) {
        return;
    }
    http->n_shaking -= conn->is_shaking ? 1 : 0;
    conn->state = WHIM_CONN_DEAD;
    whim_conn_drop_exchange(http, conn);
    whim_tls_conn_destroy(conn->tls);
    close(conn->fd);
    whim_str_deinit(&conn->pending);
    if (conn->prev != NULL) {
        conn->prev->next = conn->next;
    } else {
        http->conns = conn->next;
    }
    if (conn->next != NULL) {
        conn->next->prev = conn->prev;
    }
    conn->prev = NULL;
    conn->next = http->dead;
    http->dead = conn;
    atomic_fetch_sub(&http->n_connections, 1);
}

/* --- reading ---------------------------------------------------------------------------------- */

static bool is_reading(const whim_conn *conn)
{
    return conn->state == WHIM_CONN_IDLE || conn->state == WHIM_CONN_HEAD ||
           conn->state == WHIM_CONN_BODY;
}

/* Parse what was left over from an earlier read. */
static void parse_pending(whim_http *http, whim_conn *conn)
{
    if (conn->pending.len > 0) {
        conn->pending_at += whim_conn_parse(http, conn, conn->pending.text + conn->pending_at,
                                            conn->pending.len - conn->pending_at);
    }
    if (conn->pending_at == conn->pending.len) {
        whim_str_deinit(&conn->pending); /* an idle connection holds no buffer */
        conn->pending_at = 0;
    }
}

static void end_of_input(whim_http *http, whim_conn *conn)
{
    conn->is_halfway = true;
    if (conn->state == WHIM_CONN_HEAD || conn->state == WHIM_CONN_BODY) {
        whim_conn_refuse(http, conn, 400, "the connection ended inside the request");
    } else {
        whim_conn_kill(http, conn);
    }
}

/* So many bytes at once that few of them belong to a request behind this one: those have to be kept
 * until this one is answered. */
static int64_t most_to_read(const whim_conn *conn)
{
    const int64_t ahead = conn->state == WHIM_CONN_LINGER ? WHIM_HTTP_SCRATCH : WHIM_HTTP_AHEAD;
    const int64_t own = conn->ex != NULL ? whim_http_parser_wants(&conn->ex->parser) : 0;
    return own < WHIM_HTTP_SCRATCH - ahead ? own + ahead : WHIM_HTTP_SCRATCH;
}

/* Bytes, 0 at the end, -1 when there are none now, -2 when it is broken. */
static int64_t read_some(whim_http *http, whim_conn *conn)
{
    /* TLS gives one record. No part of it may stay behind: nobody would say that it is there. */
    if (conn->tls != NULL && conn->state != WHIM_CONN_LINGER) {
        int64_t n = whim_tls_run(conn->tls, WHIM_TLS_READ, http->scratch, sizeof http->scratch);
        return n >= 0 ? n : n == WHIM_TLS_WANT_READ || n == WHIM_TLS_WANT_WRITE ? -1 : -2;
    }
    ssize_t n = recv(conn->fd, http->scratch, (size_t)most_to_read(conn), MSG_DONTWAIT);
    return n >= 0 ? n : errno == EAGAIN || errno == EINTR ? -1 : -2;
}

static void on_readable(whim_http *http, whim_conn *conn)
{
    for (int i = 0; i < READS && is_reading(conn); i++) {
        int64_t n = read_some(http, conn);
        if (n == 0) {
            end_of_input(http, conn);
        } else if (n == -2) {
            whim_conn_kill(http, conn);
        }
        if (n <= 0) {
            return;
        }
        conn->has_sent = true;
        int64_t used = whim_conn_parse(http, conn, http->scratch, n);
        if (used < n && conn->state == WHIM_CONN_REPLY) {
            whim_str_append_n(&conn->pending, http->scratch + used, n - used);
            if (conn->pending.failed) {
                whim_conn_kill(http, conn);
            }
        }
    }
}

static void on_linger(whim_http *http, whim_conn *conn)
{
    for (int i = 0; i < READS; i++) {
        int64_t n = read_some(http, conn);
        conn->n_linger += n > 0 ? n : 0;
        if (n == 0 || n == -2 || conn->n_linger > 4 * http->cfg.limits.max_body) {
            whim_conn_kill(http, conn);
        }
        if (n <= 0 || conn->state == WHIM_CONN_DEAD) {
            return;
        }
    }
}

/* --- answering -------------------------------------------------------------------------------- */

/* The reply is out: on to the next request, or to the end. */
static void finish(whim_http *http, whim_conn *conn)
{
    /* A stream may have begun before the drain did. */
    bool is_last = atomic_load(&http->is_draining) && conn->pending.len == 0;
    bool goes_on = conn->ex->keeps_alive && !is_last;
    bool was_read = conn->ex->parser.state == WHIM_HTTP_S_DONE;
    whim_conn_drop_exchange(http, conn);
    if (goes_on) {
        conn->state = WHIM_CONN_IDLE;
        whim_conn_deadline(http, conn, http->cfg.limits.idle_ns);
        parse_pending(http, conn);
        if (is_reading(conn)) {
            watch(http, conn, EPOLLIN | EPOLLRDHUP);
        }
        return;
    }
    if (conn->tls != NULL) {
        (void)whim_tls_run(conn->tls, WHIM_TLS_SHUT, NULL, 0);
    }
    shutdown(conn->fd, SHUT_WR);
    conn->state = WHIM_CONN_LINGER;
    whim_str_deinit(&conn->pending);
    watch(http, conn, EPOLLIN);
    /* Many clients read the reply only when all of their body is sent. */
    whim_conn_deadline(http, conn, was_read ? LINGER_NS : http->cfg.limits.body_ns);
}

void whim_conn_progress(whim_http *http, whim_conn *conn)
{
    whim_exchange *ex = conn->ex;
    pthread_mutex_lock(&ex->lock);
    bool had_queue = ex->out.len > 0;
    int64_t sent = ex->is_broken ? -1 : whim_exchange_flush(ex);
    bool has_queue = ex->out.len > 0;
    bool is_done = ex->reply == WHIM_REPLY_DONE && !has_queue;
    pthread_mutex_unlock(&ex->lock);
    if (sent < 0) {
        whim_conn_kill(http, conn);
        return;
    }
    if (is_done && conn->state == WHIM_CONN_REPLY) {
        finish(http, conn);
        return;
    }
    if (has_queue) {
        watch(http, conn, conn->events | EPOLLOUT);
        if (conn->state == WHIM_CONN_REPLY && (sent > 0 || conn->deadline_ns == 0)) {
            whim_conn_deadline(http, conn, http->cfg.limits.body_ns); /* for it to read on */
        }
    } else {
        watch(http, conn, conn->events & ~(uint32_t)EPOLLOUT);
        if (had_queue && conn->state == WHIM_CONN_REPLY) {
            whim_conn_deadline(http, conn, 0); /* a stream may wait as long as it likes */
        }
    }
}

/* The client has shut its side while its reply is due. */
static void on_halfway(whim_http *http, whim_conn *conn)
{
    conn->is_halfway = true;
    whim_exchange *ex = conn->ex;
    pthread_mutex_lock(&ex->lock);
    ex->is_halfway = true;
    bool is_stream = ex->reply == WHIM_REPLY_STREAM;
    pthread_mutex_unlock(&ex->lock);
    int64_t left = conn->asked_ns + WHIM_HTTP_HALFWAY_NS - whim_clock_ns();
    if (is_stream || left <= 0) {
        whim_conn_kill(http, conn);
        return;
    }
    watch(http, conn, conn->events & (uint32_t)EPOLLOUT);
    whim_conn_deadline(http, conn, left);
}

void whim_conn_shake(whim_http *http, whim_conn *conn)
{
    conn->is_shaking = false;
    http->n_shaking--;
    int64_t done = whim_tls_run(conn->tls, WHIM_TLS_HANDSHAKE, NULL, 0);
    if (done == 1) {
        conn->state = WHIM_CONN_IDLE;
        whim_conn_deadline(http, conn, http->cfg.limits.idle_ns);
        watch(http, conn, EPOLLIN | EPOLLRDHUP);
        on_readable(http, conn);
    } else if (done == WHIM_TLS_WANT_READ || done == WHIM_TLS_WANT_WRITE) {
        watch(http, conn, done == WHIM_TLS_WANT_READ ? EPOLLIN : EPOLLOUT);
    } else if (done == WHIM_TLS_NOT_TLS) {
        whim_tls_conn_destroy(conn->tls); /* say it in the language that the client speaks */
        conn->tls = NULL;
        whim_conn_refuse(http, conn, 400, "this port speaks TLS: use https://");
    } else {
        whim_conn_kill(http, conn);
    }
}

void whim_conn_event(whim_http *http, whim_conn *conn, uint32_t events)
{
    if (conn->state == WHIM_CONN_DEAD) {
        return;
    }
    if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
        whim_conn_kill(http, conn);
        return;
    }
    if ((events & EPOLLOUT) != 0 && conn->ex != NULL) {
        whim_conn_progress(http, conn);
    }
    switch (conn->state) {
    case WHIM_CONN_HANDSHAKE:
        whim_http_want_shake(http, conn); /* costly: whatever else is ready comes first */
        watch(http, conn, 0);
        break;
    case WHIM_CONN_LINGER:
        on_linger(http, conn);
        break;
    case WHIM_CONN_REPLY:
        if ((events & EPOLLRDHUP) != 0) {
            on_halfway(http, conn);
        } else if ((events & EPOLLIN) != 0) {
            watch(http, conn, conn->events & ~(uint32_t)EPOLLIN); /* the next request can wait */
        }
        break;
    default:
        if ((events & (EPOLLIN | EPOLLRDHUP)) != 0 && is_reading(conn)) {
            on_readable(http, conn);
        }
    }
}

void whim_conn_timeout(whim_http *http, whim_conn *conn)
{
    if (conn->state == WHIM_CONN_HEAD) {
        whim_conn_refuse(http, conn, 408, "the headers of the request took too long");
    } else if (conn->state == WHIM_CONN_BODY) {
        whim_conn_refuse(http, conn, 408, "the body of the request took too long");
    } else {
        whim_conn_kill(http, conn);
    }
}
