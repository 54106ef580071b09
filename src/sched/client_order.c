/* SPDX-License-Identifier: Apache-2.0 */
/* The order inside a client. Its waiting requests are a list by their own turn, and their tags are
 * those that they would have if they had come in that order: who goes before another takes its tag
 * and moves it back by what it costs. So what a client says about its requests moves none of
 * another's. Requests whose priority counts among all have it in their turn and are in no such
 * list. */
#include "sched/sched_state.h"

#include <stddef.h>

bool whim_sched_own_before(const whim_sched_req *a, const whim_sched_req *b)
{
    return a->own_key != b->own_key ? a->own_key < b->own_key : a->own_order < b->own_order;
}

/* A tag, and which of two with the same tag goes first. */
typedef struct place {
    int64_t tag, order;
} place;

static place place_of(const whim_sched_req *req)
{
    return (place){req->tag, req->turn.order};
}

static void move_to(whim_sched *s, whim_sched_req *req, place to)
{
    req->tag = to.tag;
    req->turn.order = to.order;
    whim_heap_move(&s->waiting, &req->turn, to.tag);
}

static void link(whim_sched_req *req)
{
    whim_client *c = req->client;
    whim_sched_req *before = c->last; /* most go to the end */
    while (before != NULL && whim_sched_own_before(req, before)) {
        before = before->before;
    }
    req->before = before;
    req->after = before != NULL ? before->after : c->first;
    *(before != NULL ? &before->after : &c->first) = req;
    *(req->after != NULL ? &req->after->before : &c->last) = req;
}

/* Those before it in the list that have later tags go first: one that was preempted comes back with
 * an early tag. */
static place let_pass(whim_sched *s, const whim_sched_req *req)
{
    place at = place_of(req);
    for (whim_sched_req *r = req->client->first; r != req; r = r->after) {
        if (r->tag >= at.tag) {
            int64_t order = r->turn.order;
            move_to(s, r, at);
            at = (place){at.tag + r->cost * WHIM_SERVICE_UNIT, order};
        }
    }
    return at;
}

/* It goes before those behind it in the list, from the place that the first of them has. They move
 * back by what it costs; what lay between two tags beside the cost of the first stays there, so
 * that the last ends where it would have. */
static place push_back(whim_sched *s, const whim_sched_req *req, place own)
{
    place first = place_of(req->after);
    int64_t before = first.tag, next = first.tag + req->cost * WHIM_SERVICE_UNIT;
    for (whim_sched_req *r = req->after; r != NULL; r = r->after) {
        int64_t cost = r->cost * WHIM_SERVICE_UNIT;
        place behind = r->after != NULL ? place_of(r->after) : own;
        int64_t tag = next + (behind.tag - r->tag - cost);
        before = tag > before ? tag : before + 1;
        next = before + cost;
        move_to(s, r, (place){before, behind.order});
    }
    return first;
}

void whim_sched_order_enter(whim_sched *s, whim_sched_req *req)
{
    if (req->among_all) {
        return;
    }
    link(req);
    place at = let_pass(s, req);
    if (req->after != NULL && req->after->tag <= at.tag) {
        at = push_back(s, req, at);
    }
    move_to(s, req, at);
}

void whim_sched_order_leave(whim_sched_req *req)
{
    whim_client *c = req->client;
    if (req->among_all) {
        return;
    }
    *(req->before != NULL ? &req->before->after : &c->first) = req->after;
    *(req->after != NULL ? &req->after->before : &c->last) = req->before;
    req->before = req->after = NULL;
}
