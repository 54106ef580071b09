/* SPDX-License-Identifier: Apache-2.0 */
/* The load: all clients in one epoll loop over sockets that never block, each with one request at a
 * time and the next one as soon as that ended. */
#include "base/alloc.h"
#include "base/clock.h"
#include "bench/server.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

enum { READ_BYTES = 64 << 10, MAX_EVENTS = 256, TICK_MS = 100, SPARE_FILES = 32 };

typedef struct client {
    int fd; /* -1: at rest */
    int64_t start_ns, active_ns;
    whim_str out;
    int64_t sent;
    server_reply reply;
} client;

typedef struct load {
    const server_target *target;
    client *clients;
    int64_t n_client, n_busy;
    int64_t next, end; /* numbers of the requests */
    int epoll;
    server_level *level; /* NULL: one document for server_get */
    whim_progress *bar;
    char *buffer; /* [READ_BYTES] */
} load;

/* --- one request ------------------------------------------------------------------------------ */

static void watch(const load *l, client *c, uint32_t what, int op)
{
    struct epoll_event event = {.events = what, .data.ptr = c};
    if (epoll_ctl(l->epoll, op, c->fd, &event) != 0) {
        server_reply_fail(&c->reply, SERVER_FAULT_CONNECT, strerror(errno));
    }
}

/* Begin to connect; a failure is noted in the reply. */
static void begin(load *l, client *c)
{
    const server_target *t = l->target;
    int on = 1;
    c->start_ns = c->active_ns = whim_clock_ns();
    c->sent = 0;
    c->fd = socket(t->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    l->n_busy++;
    if (c->out.failed) {
        server_reply_fail(&c->reply, SERVER_FAULT_MEMORY, "");
    } else if (c->fd < 0) {
        server_reply_fail(&c->reply, SERVER_FAULT_CONNECT, strerror(errno));
    } else {
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (connect(c->fd, (const struct sockaddr *)&t->address, t->address_bytes) != 0 &&
            errno != EINPROGRESS) {
            server_reply_fail(&c->reply, SERVER_FAULT_CONNECT, strerror(errno));
        }
        watch(l, c, EPOLLIN | EPOLLOUT, EPOLL_CTL_ADD);
    }
}

static void send_some(const load *l, client *c)
{
    while (c->sent < c->out.len) {
        ssize_t n =
            send(c->fd, c->out.text + c->sent, (size_t)(c->out.len - c->sent), MSG_NOSIGNAL);
        if (n < 0) {
            if (errno == EAGAIN || errno == EINTR) {
                return;
            }
            if (c->sent == 0) {
                server_reply_fail(&c->reply, SERVER_FAULT_CONNECT, strerror(errno));
                return;
            }
            break; /* the server reads no more; it may have said why */
        }
        c->sent += n;
    }
    c->sent = c->out.len;
    watch(l, c, EPOLLIN, EPOLL_CTL_MOD);
}

static void read_some(const load *l, client *c, int64_t now)
{
    ssize_t n = recv(c->fd, l->buffer, READ_BYTES, 0);
    if (n > 0) {
        c->active_ns = now;
        server_reply_feed(&c->reply, l->buffer, n, now);
    } else if (n < 0 && c->sent == 0 && errno != EAGAIN && errno != EINTR) {
        server_reply_fail(&c->reply, SERVER_FAULT_CONNECT, strerror(errno));
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        server_reply_end(&c->reply, l->level != NULL);
    }
}

/* --- the loop --------------------------------------------------------------------------------- */

static bool is_over(const client *c)
{
    return c->reply.stage == SERVER_STAGE_COMPLETE;
}

static void finish(load *l, client *c)
{
    server_reply_end(&c->reply, l->level != NULL);
    if (c->fd >= 0) {
        close(c->fd);
        c->fd = -1;
    }
    l->n_busy--;
    if (l->level != NULL) {
        server_level_add(l->level, &c->reply, c->start_ns,
                         l->target->prompt_words + l->target->options->prefix_tokens);
    }
    whim_progress_add(l->bar, 1);
}

/* The next requests for a client, until one is under way or none is left. */
static void go_on(load *l, client *c)
{
    while (l->next < l->end) {
        whim_str_clear(&c->out);
        server_reply_reset(&c->reply);
        server_request_append(l->target, l->next++, &c->out);
        begin(l, c);
        if (!is_over(c)) {
            return;
        }
        finish(l, c);
    }
}

static void on_event(load *l, client *c, uint32_t what, int64_t now)
{
    if ((what & EPOLLOUT) != 0 && c->sent < c->out.len) {
        send_some(l, c);
    }
    if ((what & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0 && !is_over(c)) {
        read_some(l, c, now);
    }
    if (is_over(c)) {
        finish(l, c);
        go_on(l, c);
    }
}

static void end_silent(load *l, int64_t now)
{
    int64_t limit = (int64_t)(l->target->options->timeout * (double)WHIM_NS_PER_S);
    for (int64_t i = 0; i < l->n_client; i++) {
        client *c = &l->clients[i];
        if (c->fd >= 0 && now - c->active_ns > limit) {
            server_reply_fail(&c->reply, SERVER_FAULT_TIMEOUT, "");
            finish(l, c);
            go_on(l, c);
        }
    }
}

static whim_err loop(load *l, whim_diag *diag)
{
    struct epoll_event events[MAX_EVENTS];
    int64_t next_look = 0;
    while (l->n_busy > 0) {
        int n = epoll_wait(l->epoll, events, MAX_EVENTS, TICK_MS);
        if (n < 0 && errno != EINTR) {
            return whim_fail(diag, WHIM_ERR_IO, "epoll_wait: %s", strerror(errno));
        }
        int64_t now = whim_clock_ns();
        for (int i = 0; i < n; i++) {
            on_event(l, events[i].data.ptr, events[i].events, now);
        }
        if (now >= next_look) {
            end_silent(l, now);
            next_look = now + TICK_MS * WHIM_NS_PER_MS;
            whim_progress_add(l->bar, 0);
        }
    }
    return WHIM_ERR_OK;
}

/* --- all -------------------------------------------------------------------------------------- */

static whim_err open_load(load *l, int64_t n_client, whim_diag *diag)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY &&
        files.rlim_cur < (rlim_t)n_client + SPARE_FILES) {
        files.rlim_cur = files.rlim_max; /* a refusal shows as connections that fail */
        setrlimit(RLIMIT_NOFILE, &files);
    }
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (l->epoll < 0) {
        return whim_fail(diag, WHIM_ERR_IO, "epoll_create1: %s", strerror(errno));
    }
    l->buffer = whim_alloc(READ_BYTES);
    l->clients = whim_alloc_array(n_client, sizeof *l->clients);
    WHIM_TRY(whim_got(l->buffer != NULL && l->clients != NULL, diag,
                      "out of memory for %lld clients", (long long)n_client));
    l->n_client = n_client;
    for (int64_t i = 0; i < n_client; i++) {
        l->clients[i].fd = -1;
    }
    return WHIM_ERR_OK;
}

static void close_load(load *l)
{
    for (int64_t i = 0; i < l->n_client; i++) {
        client *c = &l->clients[i];
        if (c->fd >= 0) {
            close(c->fd);
        }
        whim_str_deinit(&c->out);
        server_reply_deinit(&c->reply);
    }
    whim_free(l->clients);
    whim_free(l->buffer);
    if (l->epoll >= 0) {
        close(l->epoll);
    }
}

whim_err server_load(const server_target *t, int64_t first, server_level *level, whim_progress *bar,
                     whim_diag *diag)
{
    load l = {.target = t, .level = level, .bar = bar, .next = first, .epoll = -1};
    l.end = first + level->requests;
    whim_err err = open_load(&l, level->clients, diag);
    if (err == WHIM_ERR_OK) {
        int64_t start = whim_clock_ns();
        for (int64_t i = 0; i < l.n_client; i++) {
            go_on(&l, &l.clients[i]);
        }
        err = loop(&l, diag);
        level->duration_s = (double)(whim_clock_ns() - start) / (double)WHIM_NS_PER_S;
    }
    close_load(&l);
    server_level_finish(level);
    return err;
}

whim_err server_get(const server_target *t, const char *path, server_reply *a, whim_diag *diag)
{
    load l = {.target = t, .epoll = -1};
    whim_err err = open_load(&l, 1, diag);
    if (err == WHIM_ERR_OK) {
        client *c = &l.clients[0];
        server_get_append(t, path, &c->out);
        begin(&l, c);
        if (is_over(c)) {
            finish(&l, c);
        }
        err = loop(&l, diag);
        if (err == WHIM_ERR_OK && c->reply.fault == SERVER_FAULT_CONNECT) {
            err = whim_fail(diag, WHIM_ERR_NOT_FOUND, "no connection to %s: %s", t->authority,
                            c->reply.message);
        }
        server_reply_deinit(a);
        *a = c->reply;
        c->reply = (server_reply){0};
    }
    close_load(&l);
    return err;
}
