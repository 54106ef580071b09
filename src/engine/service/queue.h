/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits for the service, counted by client. A request is all the jobs that were submitted
 * together; each of their choices waits until it is let in.
 *
 * When the queue is full, one that comes takes the place of the newest request of the client that
 * has most waiting, if its own has fewer even with it. Only requests of which nothing was let in
 * give their place; the choices that others still wait for are not in the way of who has fewer. So
 * a flood fills the queue for its own client, and for no other.
 * Threads: any, under the service's lock; n may be read without. */
#ifndef WHIM_ENGINE_SERVICE_QUEUE_H
#define WHIM_ENGINE_SERVICE_QUEUE_H

#include "engine/service.h"

#include <stdatomic.h>

typedef struct whim_queue_client whim_queue_client;
typedef struct whim_queue_request whim_queue_request;

typedef struct whim_queue { /* zeroed: empty */
    whim_queue_request *newest;
    whim_queue_client *clients;
    atomic_llong n;  /* choices that wait */
    int64_t n_fresh; /* those of requests of which nothing was let in */
} whim_queue;

/* Of a job: its request, the next job of that, its choices that wait. */
typedef struct whim_queue_place {
    whim_queue_request *request; /* NULL: it was never taken */
    whim_job *next;
    int64_t n;
} whim_queue_place;

/* The jobs of a request wait from now on. FULL: more than `max` would; who gives its place is
 * cancelled (WHIM_REASON_QUEUE_FULL) and counts no more. Where nothing waits, any size comes in. */
WHIM_MUST_CHECK whim_err whim_queue_take(whim_queue *queue, whim_job *const *jobs, int32_t n_job,
                                         int64_t max);

/* A choice of the job was let in. */
void whim_queue_let_in(whim_queue *queue, whim_job *job);

/* The job is over. */
void whim_queue_leave(whim_queue *queue, whim_job *job);

#endif
