/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting, sending, receiving. */
#include "client/link.h"

#include "base/clock.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum { TICK_MS = 100, ROOM = 16 << 10 };

static void fail_connect(server_link *link)
{
    server_reply_fail(&link->reply, SERVER_FAULT_CONNECT, strerror(errno));
}

static void begin_tls(server_link *link, const server_address *a)
{
    link->waits = SERVER_LINK_WRITE;
    link->tls = secure_open(a->tls, link->fd, a->host);
    if (link->tls == NULL) {
        server_reply_fail(&link->reply, SERVER_FAULT_MEMORY, "");
    }
}

void server_link_begin(server_link *link, const server_address *a)
{
    int on = 1;
    link->start_ns = link->active_ns = whim_clock_ns();
    link->sent = 0;
    link->fd = socket(a->at.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (link->out.failed) {
        server_reply_fail(&link->reply, SERVER_FAULT_MEMORY, "");
    } else if (link->fd < 0) {
        fail_connect(link);
    } else {
        setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (connect(link->fd, (const struct sockaddr *)&a->at, a->n_at) != 0 &&
            errno != EINPROGRESS) {
            fail_connect(link);
        } else if (a->tls != NULL) {
            begin_tls(link, a);
        }
    }
}

static void send_some(server_link *link)
{
    while (link->sent < link->out.len) {
        ssize_t n = send(link->fd, link->out.text + link->sent,
                         (size_t)(link->out.len - link->sent), MSG_NOSIGNAL);
        if (n < 0) {
            if (errno == EAGAIN || errno == EINTR) {
                return;
            }
            if (link->sent == 0) {
                fail_connect(link);
                return;
            }
            link->sent = link->out.len; /* the server reads no more; it may have said why */
            return;
        }
        link->sent += n;
    }
}

static void read_some(server_link *link, int64_t now, char *buffer, int64_t room)
{
    ssize_t n = recv(link->fd, buffer, (size_t)room, 0);
    if (n > 0) {
        link->active_ns = now;
        server_reply_feed(&link->reply, buffer, n, now);
    } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    } else if (n < 0 && link->sent == 0) {
        fail_connect(link);
    } else {
        server_reply_end(&link->reply, link->wants_stream);
    }
}

/* --- https ------------------------------------------------------------------------------------ */

static void fail_tls(server_link *link)
{
    char why[256];
    bool socket = secure_explain(link->tls, why, sizeof why);
    bool greeted = secure_is_greeted(link->tls);
    server_reply_fail(&link->reply,
                      !socket   ? SERVER_FAULT_TLS
                      : greeted ? SERVER_FAULT_CUT
                                : SERVER_FAULT_CONNECT,
                      why);
}

/* What an outcome below 1 waits for. */
static int tls_waits(int64_t outcome)
{
    return outcome == SECURE_WANT_READ    ? SERVER_LINK_READ
           : outcome == SECURE_WANT_WRITE ? SERVER_LINK_WRITE
                                          : 0;
}

static void tls_send(server_link *link)
{
    while (link->sent < link->out.len) {
        int64_t n =
            secure_write(link->tls, link->out.text + link->sent, link->out.len - link->sent);
        link->waits |= tls_waits(n);
        if (n <= 0) {
            if (tls_waits(n) == 0 && secure_is_greeted(link->tls)) {
                link->sent = link->out.len; /* the server reads no more; it may have said why */
            } else if (tls_waits(n) == 0) {
                fail_tls(link);
            }
            return;
        }
        link->sent += n;
    }
}

/* The end of the connection ends the reply only if the server announced it. Otherwise the reply
 * must say by itself where it ends. */
static void tls_end(server_link *link, int64_t how)
{
    const server_reply *a = &link->reply;
    bool open_end = a->stage == SERVER_STAGE_BODY && a->left < 0 && !a->done && !a->finished;
    if (how == SECURE_BROKEN && a->stage == SERVER_STAGE_STATUS && a->n_head == 0) {
        fail_tls(link); /* such as a server that wants a certificate of ours */
    } else if (how != SECURE_END && open_end) {
        server_reply_fail(&link->reply, SERVER_FAULT_CUT, "");
    } else {
        server_reply_end(&link->reply, link->wants_stream);
    }
}

static void tls_receive(server_link *link, int64_t now, char *buffer, int64_t room)
{
    while (!server_link_is_over(link)) {
        int64_t n = secure_read(link->tls, buffer, room);
        link->waits |= tls_waits(n);
        if (n > 0) {
            link->active_ns = now;
            server_reply_feed(&link->reply, buffer, n, now);
        } else {
            if (tls_waits(n) == 0) {
                tls_end(link, n);
            }
            return;
        }
    }
}

void server_link_event(server_link *link, int ready, int64_t now, char *buffer, int64_t room)
{
    if (link->tls != NULL && ready != 0) {
        link->waits = 0;
        tls_send(link);
        if (secure_is_greeted(link->tls)) {
            tls_receive(link, now, buffer, room);
        }
        return;
    }
    if ((ready & SERVER_LINK_WRITE) != 0 && link->sent < link->out.len) {
        send_some(link);
    }
    if ((ready & SERVER_LINK_READ) != 0 && !server_link_is_over(link)) {
        read_some(link, now, buffer, room);
    }
}

void server_link_end(server_link *link)
{
    server_reply_end(&link->reply, link->wants_stream);
    secure_close(link->tls);
    link->tls = NULL;
    if (link->fd >= 0) {
        close(link->fd);
        link->fd = -1;
    }
}

void server_link_deinit(server_link *link)
{
    server_link_end(link);
    whim_str_deinit(&link->out);
    server_reply_deinit(&link->reply);
}

void server_exchange(server_link *link, const server_address *a, double timeout_s,
                     const volatile sig_atomic_t *stop)
{
    char buffer[ROOM];
    int64_t limit = (int64_t)(timeout_s * (double)WHIM_NS_PER_S);
    server_link_begin(link, a);
    while (!server_link_is_over(link)) {
        int waits = server_link_waits(link);
        struct pollfd one = {.fd = link->fd};
        one.events = (short)(((waits & SERVER_LINK_READ) != 0 ? POLLIN : 0) |
                             ((waits & SERVER_LINK_WRITE) != 0 ? POLLOUT : 0));
        int n = poll(&one, 1, TICK_MS); /* a signal between the look at `stop` and here waits */
        int64_t now = whim_clock_ns();
        int ready = n <= 0 ? 0
                           : ((one.revents & POLLOUT) != 0 ? SERVER_LINK_WRITE : 0) |
                                 ((one.revents & ~POLLOUT) != 0 ? SERVER_LINK_READ : 0);
        server_link_event(link, ready, now, buffer, sizeof buffer);
        if (stop != NULL && *stop) {
            server_reply_fail(&link->reply, SERVER_FAULT_STOPPED, "");
        } else if (!server_link_is_over(link) &&
                   (now - link->active_ns > limit || (link->end_ns != 0 && now > link->end_ns))) {
            server_reply_fail(&link->reply, SERVER_FAULT_TIMEOUT, "");
        }
    }
    server_link_end(link);
}
