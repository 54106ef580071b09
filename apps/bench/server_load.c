/* SPDX-License-Identifier: Apache-2.0 */
/* The load: all clients in one epoll loop over sockets that never block, each with one request at a
 * time and the next one as soon as that ended. */
#include "base/alloc.h"
#include "base/clock.h"
#include "bench/server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

enum { READ_BYTES = 64 << 10, MAX_EVENTS = 256, TICK_MS = 100, SPARE_FILES = 32 };

typedef struct load {
    const server_target *target;
    server_link *clients;
    int64_t n_client, n_busy;
    int64_t next, end; /* numbers of the requests */
    int epoll;
    server_level *level;
    whim_progress *bar;
    char *buffer; /* [READ_BYTES] */
} load;

/* --- one request ------------------------------------------------------------------------------ */

static void watch(const load *l, server_link *c, int op)
{
    bool writes = (server_link_waits(c) & SERVER_LINK_WRITE) != 0;
    struct epoll_event event = {.events = EPOLLIN | (writes ? EPOLLOUT : 0), .data.ptr = c};
    if (epoll_ctl(l->epoll, op, c->fd, &event) != 0) {
        server_reply_fail(&c->reply, SERVER_FAULT_CONNECT, strerror(errno));
    }
}

static void begin(load *l, server_link *c)
{
    l->n_busy++;
    c->wants_stream = true;
    server_link_begin(c, &l->target->address);
    if (!server_link_is_over(c)) {
        watch(l, c, EPOLL_CTL_ADD);
    }
}

/* --- the loop --------------------------------------------------------------------------------- */

static void finish(load *l, server_link *c)
{
    server_link_end(c);
    l->n_busy--;
    server_level_add(l->level, &c->reply, c->start_ns,
                     l->target->prompt_words + l->target->options->prefix_tokens);
    whim_progress_add(l->bar, 1);
}

/* The next requests for a client, until one is under way or none is left. */
static void go_on(load *l, server_link *c)
{
    while (l->next < l->end) {
        whim_str_clear(&c->out);
        server_reply_reset(&c->reply);
        server_request_append(l->target, l->next++, &c->out);
        begin(l, c);
        if (!server_link_is_over(c)) {
            return;
        }
        finish(l, c);
    }
}

static void on_event(load *l, server_link *c, uint32_t what, int64_t now)
{
    int waits = server_link_waits(c);
    int ready = ((what & EPOLLOUT) != 0 ? SERVER_LINK_WRITE : 0) |
                ((what & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0 ? SERVER_LINK_READ : 0);
    server_link_event(c, ready, now, l->buffer, READ_BYTES);
    if (server_link_is_over(c)) {
        finish(l, c);
        go_on(l, c);
    } else if (server_link_waits(c) != waits) {
        watch(l, c, EPOLL_CTL_MOD);
    }
}

static void end_silent(load *l, int64_t now)
{
    int64_t limit = (int64_t)(l->target->options->timeout * (double)WHIM_NS_PER_S);
    for (int64_t i = 0; i < l->n_client; i++) {
        server_link *c = &l->clients[i];
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
        server_link_deinit(&l->clients[i]);
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
