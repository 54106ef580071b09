/* SPDX-License-Identifier: Apache-2.0 */
/* Requests in a list, the newest first, and their clients in another. Both are as long as what is
 * under way; they are walked to the end only where the queue is full. */
#include "engine/service/queue.h"

#include "base/alloc.h"
#include "base/check.h"
#include "engine/service/inner.h"

struct whim_queue_client {
    uint64_t id;
    int32_t n_request; /* that are not over */
    int64_t n;         /* choices that wait */
    int64_t n_left;    /* scratch: those of them that nobody takes the place of */
    whim_queue_client *next;
};

struct whim_queue_request {
    whim_queue_client *client;
    whim_job *jobs; /* that are not over */
    int64_t n;      /* choices that wait */
    bool has_begun; /* one of its choices was let in */
    bool gives;     /* scratch: it gives its place */
    whim_queue_request *newer, *older;
};

static whim_queue_client *client_of(whim_queue *q, uint64_t id)
{
    whim_queue_client *c = q->clients;
    while (c != NULL && c->id != id) {
        c = c->next;
    }
    return c;
}

static void wait_less(whim_queue *q, whim_queue_request *r, int64_t n)
{
    r->n -= n;
    r->client->n -= n;
    atomic_fetch_sub(&q->n, n);
    q->n_fresh -= r->has_begun ? 0 : n;
    whim_check(r->n >= 0 && r->client->n >= 0 && q->n_fresh >= 0);
}

/* --- room where there is none ----------------------------------------------------------------- */

/* The request that gives its place to a client that will have n_after waiting: the newest of the
 * client that has most; NULL: there is none. */
static whim_queue_request *next_giver(const whim_queue *q, uint64_t id, int64_t n_after)
{
    whim_queue_request *best = NULL;
    for (whim_queue_request *r = q->newest; r != NULL; r = r->older) {
        const whim_queue_client *c = r->client;
        bool may = c->id != id && !r->has_begun && !r->gives && r->n > 0 && c->n_left > n_after;
        best = may && (best == NULL || c->n_left > best->client->n_left) ? r : best;
    }
    return best;
}

/* Its place is another's: it is over with the next step. */
static void give(whim_queue *q, whim_queue_request *r)
{
    for (whim_job *job = r->jobs; job != NULL; job = job->place.next) {
        job->place.n = 0;
        whim_job_cancel(job, WHIM_REASON_QUEUE_FULL);
    }
    wait_less(q, r, r->n);
}

/* Room for n choices of a client, or nothing has changed. */
static bool make_room(whim_queue *q, uint64_t id, int64_t n, int64_t max)
{
    const whim_queue_client *own = client_of(q, id);
    int64_t n_after = n + (own != NULL ? own->n : 0), n_fresh = q->n_fresh;
    bool has_fewer = false;
    for (whim_queue_client *c = q->clients; c != NULL; c = c->next) {
        c->n_left = c->n;
        has_fewer = has_fewer || (c != own && c->n > n_after);
    }
    whim_queue_request *giver;
    while (has_fewer && n_fresh + n > max && (giver = next_giver(q, id, n_after)) != NULL) {
        giver->gives = true;
        giver->client->n_left -= giver->n;
        n_fresh -= giver->n;
    }
    bool has_room = has_fewer && n_fresh + n <= max;
    for (whim_queue_request *r = q->newest; r != NULL; r = r->older) {
        if (r->gives && has_room) {
            give(q, r);
        }
        r->gives = false;
    }
    return has_room;
}

/* --- coming and going ------------------------------------------------------------------------- */

/* An empty request of a client. */
static whim_queue_request *request_add(whim_queue *q, uint64_t id)
{
    whim_queue_client *c = client_of(q, id);
    whim_queue_request *r = whim_alloc(sizeof *r);
    if (r != NULL && c == NULL && (c = whim_alloc(sizeof *c)) != NULL) {
        *c = (whim_queue_client){.id = id, .next = q->clients};
        q->clients = c;
    }
    if (r == NULL || c == NULL) {
        whim_free(r);
        return NULL;
    }
    c->n_request++;
    *r = (whim_queue_request){.client = c, .older = q->newest};
    if (q->newest != NULL) {
        q->newest->newer = r;
    }
    q->newest = r;
    return r;
}

static void request_drop(whim_queue *q, whim_queue_request *r)
{
    whim_queue_client **at = &q->clients;
    *(r->newer != NULL ? &r->newer->older : &q->newest) = r->older;
    if (r->older != NULL) {
        r->older->newer = r->newer;
    }
    if (--r->client->n_request == 0) {
        while (*at != r->client) {
            at = &(*at)->next;
        }
        *at = r->client->next;
        whim_free(r->client);
    }
    whim_free(r);
}

whim_err whim_queue_take(whim_queue *q, whim_job *const *jobs, int32_t n_job, int64_t max)
{
    int64_t n = 0, n_waiting = atomic_load(&q->n);
    uint64_t id = jobs[0]->cfg.client;
    for (int32_t i = 0; i < n_job; i++) {
        n += jobs[i]->cfg.n_choice;
    }
    if (n_waiting > 0 && n_waiting + n > max && !make_room(q, id, n, max)) {
        return WHIM_ERR_FULL;
    }
    whim_queue_request *r = request_add(q, id);
    if (r == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    for (int32_t i = n_job - 1; i >= 0; i--) {
        jobs[i]->place = (whim_queue_place){r, r->jobs, jobs[i]->cfg.n_choice};
        r->jobs = jobs[i];
    }
    r->n = n;
    r->client->n += n;
    q->n_fresh += n;
    atomic_fetch_add(&q->n, n);
    return WHIM_ERR_OK;
}

void whim_queue_let_in(whim_queue *q, whim_job *job)
{
    whim_queue_request *r = job->place.request;
    if (!r->has_begun) {
        q->n_fresh -= r->n;
        r->has_begun = true;
    }
    if (job->place.n > 0) { /* else it gave its place, and is over soon */
        job->place.n--;
        wait_less(q, r, 1);
    }
}

void whim_queue_leave(whim_queue *q, whim_job *job)
{
    whim_queue_request *r = job->place.request;
    whim_job **at = &r->jobs;
    wait_less(q, r, job->place.n);
    while (*at != job) {
        at = &(*at)->place.next;
    }
    *at = job->place.next;
    job->place = (whim_queue_place){0};
    if (r->jobs == NULL) {
        request_drop(q, r);
    }
}
