/* SPDX-License-Identifier: Apache-2.0 */
/* One request to a server and its reply, over a connection of its own that never blocks. Whoever
 * drives many has a loop of his own and calls server_link_event; server_exchange drives one.
 * Threads: the main thread. */
#ifndef WHIM_APPS_CLIENT_LINK_H
#define WHIM_APPS_CLIENT_LINK_H

#include "client/address.h"

#include <signal.h>

typedef struct server_link {
    int fd;           /* -1: closed */
    secure_conn *tls; /* https; NULL: http */
    int waits;        /* https: what TLS waits for */
    int64_t start_ns, active_ns;
    int64_t end_ns; /* when the reply has to be whole; 0: a slow one may come */
    whim_str out;   /* the request */
    int64_t sent;
    bool wants_stream;
    server_reply reply;
} server_link;

enum { SERVER_LINK_READ = 1, SERVER_LINK_WRITE = 2 };

/* Begin to connect with what is in `out`; a failure is noted in the reply. */
void server_link_begin(server_link *link, const server_address *a);

/* What the socket is ready for (0 or more of the two, after an error both); `buffer` has room for
 * `room` bytes. https looks for itself. */
void server_link_event(server_link *link, int ready, int64_t now, char *buffer, int64_t room);

/* What it waits for. */
static inline int server_link_waits(const server_link *link)
{
    return link->tls != NULL            ? link->waits
           : link->sent < link->out.len ? SERVER_LINK_READ | SERVER_LINK_WRITE
                                        : SERVER_LINK_READ;
}

/* The reply has its end, good or bad. */
static inline bool server_link_is_over(const server_link *link)
{
    return link->reply.stage == SERVER_STAGE_COMPLETE;
}

/* Close it; a reply without an end gets one. */
void server_link_end(server_link *link);
void server_link_deinit(server_link *link);

/* From begin to end. A silence of `timeout_s` is a fault, and so are a reply that is not whole at
 * link->end_ns and *stop, which a signal handler may set; NULL: nothing stops it. */
void server_exchange(server_link *link, const server_address *a, double timeout_s,
                     const volatile sig_atomic_t *stop);

#endif
