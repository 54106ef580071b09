/* SPDX-License-Identifier: Apache-2.0 */
/* What the scheduler's own files share: requests, and the moves between waiting and running.
 *
 * Invariants:
 *  1. A request waits (in the heap, no sequence) or runs (in `running`, with a sequence); between
 *     plan and commit nothing else happens to the ones in the plan.
 *  2. `running` is in the order of turn (whim_heap_before), the same as that of the heap: the last
 *     one is the least important, and the first one of all can always go on.
 * Threads: the scheduler's. */
#ifndef WHIM_SCHED_SCHED_STATE_H
#define WHIM_SCHED_SCHED_STATE_H

#include "base/arena.h"
#include "base/heap.h"
#include "sched/client_table.h"
#include "sched/sched.h"

struct whim_sched_req {
    whim_heap_node turn; /* first, so that the heap's node is this one */
    int32_t *tokens;     /* the caller's */
    int64_t n_tok, n_prompt, max_tok;
    int64_t n_fed;
    int64_t n_most;     /* the most that n_fed has been */
    int64_t n_row;      /* all_rows: prompt rows whose results were given */
    int64_t n_proposed; /* proposals behind its known tokens, for the next plan */
    int64_t n_branch;   /* where its prompt leaves what others have, or wait for */
    int64_t n_cached, n_preempted;
    whim_miss miss;
    void *user;
    whim_client *client;
    int64_t tag, cost; /* as client_table.h */
    int32_t priority;
    bool among_all;
    int64_t own_key, own_order;            /* its turn among its client's requests */
    struct whim_sched_req *before, *after; /* of those that wait */
    bool all_rows;
    bool started;       /* was part of a step */
    whim_sequence *seq; /* NULL while it waits */
    int64_t plan;       /* number of the plan that let it in */
    int64_t n_room;     /* pages that this plan may take for it */
    /* plans that it waited for another's pages while the tree had held_at of its own */
    int64_t held_at, n_held;
};

struct whim_sched {
    whim_arena arena; /* its arrays */
    whim_sched_cfg cfg;
    int64_t max_running;
    whim_client_table clients;
    whim_heap waiting;
    int64_t n_budget; /* rows of a plan */
    whim_sched_req **running;
    int64_t n_running;
    whim_sequence *seqs;       /* [max_running] */
    whim_sequence **free_seqs; /* stack */
    int64_t n_free_seq;
    whim_plan_item *items[2]; /* [max_running] of the last two plans, in turns */
    int64_t n_planned;        /* plans that were put there */
    whim_plan open[2]; /* the plan that is neither committed nor aborted, and the one ahead of it */
    whim_sched_req **held; /* [max_running] scratch of a plan */
    int32_t *pages;        /* [pages of max_ctx] scratch of an admission */
    int32_t from; /* of the same: the slot of the state at the end of the pages, held; -1: none */
    int64_t n_plan, n_arrival;
    bool is_open, is_ahead;               /* whether there are such */
    int64_t n_preempted, n_hit, n_prompt; /* since the start */
};

static inline int64_t whim_min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Positions in a page. */
static inline int32_t page_len(const whim_sched *s)
{
    return s->cfg.pool->page_len;
}

/* Pages that the known tokens of a request take. */
int64_t whim_sched_pages(const whim_sched *s, const whim_sched_req *req);

/* Pages that are free or could be by eviction. */
int64_t whim_sched_room(const whim_sched *sched);

/* Out of the queue into `running`, with a sequence of the given pages, whose references it
 * takes. */
void whim_sched_start(whim_sched *sched, whim_sched_req *req, const int32_t *pages, int64_t n);

/* Out of `running`; the full pages become known to the tree, the sequence is empty and free
 * again. */
void whim_sched_stop(whim_sched *sched, whim_sched_req *req);

/* The next place after `n_fed` where the request's state is to be kept; beyond its known tokens
 * when there is none. */
int64_t whim_sched_state_stop(const whim_sched *sched, const whim_sched_req *req, int64_t n_fed);

/* Running requests that are going to compute what a new one begins with keep a state there. */
void whim_sched_branch(whim_sched *sched, const whim_sched_req *req);

/* An empty plan with a place for its items. */
void whim_sched_plan_init(whim_sched *sched, whim_plan *plan);

/* Into the queue, where its turn is. There is room: submit saw to it. */
void whim_sched_wait(whim_sched *sched, whim_sched_req *req);

/* --- the order inside a client (client_order.c) ----------------------------------------------- */

bool whim_sched_own_before(const whim_sched_req *a, const whim_sched_req *b);

/* A request of the heap joins those of its client that wait: their tags follow the client's own
 * order. */
void whim_sched_order_enter(whim_sched *sched, whim_sched_req *req);

/* It waits no more. Its tag stays what it is. */
void whim_sched_order_leave(whim_sched_req *req);

#endif
