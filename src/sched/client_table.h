/* SPDX-License-Identifier: Apache-2.0 */
/* Fairness between clients by virtual time. A request gets a tag when it arrives: the service that
 * its client has had and queued so far, but at least the virtual time, which goes on with the work
 * that is done, divided by the clients there are. Smallest tag first means: who got least goes
 * first, and no client waits for ever.
 * Only clients with requests are kept: who comes back after a pause begins at the virtual time.
 * Threads: the scheduler's. */
#ifndef WHIM_SCHED_CLIENT_TABLE_H
#define WHIM_SCHED_CLIENT_TABLE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WHIM_CLIENT_BUCKETS = 256,
    WHIM_SERVICE_UNIT = 1024, /* tags count tokens in 1/1024 */
};

typedef struct whim_client {
    uint64_t id;
    int64_t n_req;  /* that are in the scheduler */
    int64_t finish; /* tag of its next request, if that is not in the past */
    /* Its requests that wait, in its own order (client_order.c). */
    struct whim_sched_req *first, *last;
    int64_t n_seat; /* its requests that run */
    bool has_run;   /* one of those that it has here was let in before */
    /* Scratch of a plan (shares.c). */
    int64_t n_page;                     /* that its running requests hold */
    int64_t n_ready;                    /* of these, those that want a row to generate with */
    int64_t n_want;                     /* rows of prompts that it could take */
    int64_t n_left;                     /* those that it may still take */
    bool is_blocked;                    /* what it wants next does not fit */
    struct whim_client *next;           /* of the same bucket */
    struct whim_client *before, *after; /* of all */
} whim_client;

typedef struct whim_client_table { /* zeroed: empty */
    whim_client *buckets[WHIM_CLIENT_BUCKETS];
    whim_client *first; /* of all, the newest */
    int64_t n_client;
    int64_t now; /* virtual time */
} whim_client_table;

/* A request of `id` that is expected to take `cost` tokens of service: its client and its tag. */
WHIM_MUST_CHECK whim_err whim_client_enter(whim_client_table *table, uint64_t id, int64_t cost,
                                           whim_client **client, int64_t *tag);

/* It is over and took `saved` tokens less than expected (more: negative). */
void whim_client_leave(whim_client_table *table, whim_client *client, int64_t saved);

/* All clients in some order: the one after c, the first after NULL; NULL at the end. Every plan
 * asks, so that it must cost nothing where there is one. */
static inline whim_client *whim_client_after(const whim_client_table *table, const whim_client *c)
{
    return c != NULL ? c->after : table->first;
}

/* A request with this tag was let in: newcomers go behind it. */
void whim_client_reached(whim_client_table *table, int64_t tag);

/* So many tokens were served to all clients together. */
void whim_client_served(whim_client_table *table, int64_t n_tok);

#endif
