/* SPDX-License-Identifier: Apache-2.0 */
/* What the scheduler's own files share: requests, and the moves between waiting and running.
 *
 * Invariants:
 *  1. A request waits (in the heap, no sequence) or runs (in `running`, with a sequence); between
 *     plan and commit nothing else happens to the ones in the plan.
 *  2. `running` is in the order of turn (whim_heap_before), the same as that of the heap: the last
 *     one is the least important, and the first one of all can always continue.
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
    /* Shares (shares.c). */
    int64_t most_at_seat; /* n_most when it was let in */
    int64_t n_safe;       /* tokens from which it would continue if it were preempted now */
    int64_t n_gave;       /* times that it gave its place to another client */
    int64_t turn_at;      /* the plan after which its last turn of rows began */
    int64_t n_in_turn;    /* rows of it */
    int64_t left_at;      /* the last plan that left it without its row, for others' sake */
    int64_t foreseen_at;  /* the last look ahead that thought so */
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
    int64_t n_plan, n_arrival, n_look;                        /* n_look: looks ahead */
    bool is_open, is_ahead;                                   /* whether there are such */
    int64_t n_preempted[WHIM_PREEMPT_COUNT], n_hit, n_prompt; /* since the start */
    /* Before this plan a place and so many pages are kept for clients who have no place. */
    int64_t kept_until, kept_pages;
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

/* Out of `running` and into the queue, in a plan (NULL: in none). */
void whim_sched_preempt(whim_sched *sched, whim_plan *plan, whim_sched_req *req, whim_preempt why);

typedef enum whim_verdict { WHIM_FITS, WHIM_HELD, WHIM_BLOCKED } whim_verdict;

/* Look whether a request can be let in, whatever places are free. When it FITS, the first *n_page
 * of s->pages are its, with references. *n_need: pages that it needs beside those. */
whim_verdict whim_sched_examine(whim_sched *sched, const whim_sched_req *req, int64_t *n_page,
                                int64_t *n_need);

/* Pages that the running requests still need for what is known of them. */
int64_t whim_sched_claims(const whim_sched *sched);

/* Give back what examine took. */
void whim_sched_give_pages(whim_sched *sched, int64_t n);

/* Let in who fits: it takes the first n_page of s->pages over, and what the store has behind them.
 * planned: pages that the plan took so far. */
void whim_sched_admit(whim_sched *sched, whim_sched_req *req, int64_t n_page, int64_t planned);

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

/* --- what clients take from each other (shares.c) --------------------------------------------- */

/* Its priority among all. */
static inline int32_t whim_sched_weight(const whim_sched_req *req)
{
    return req->among_all ? req->priority : 0;
}

/* Whether its only last token is to be fed. */
static inline bool whim_sched_is_at_last(const whim_sched_req *req)
{
    return req->n_tok - req->n_fed == 1;
}

/* A plan begins: what is known of clients is of the last one. */
void whim_sched_clients_begin(whim_sched *sched);

/* Which of the waiting requests is admitted next; NULL: none. */
whim_sched_req *whim_sched_next(const whim_sched *sched);

/* Whether there is a place for it. */
bool whim_sched_has_seat(const whim_sched *sched, const whim_sched_req *req);

/* Pages that are kept for others. */
int64_t whim_sched_kept_pages(const whim_sched *sched, const whim_sched_req *req);

/* At the beginning of a plan: the next one takes the place or the pages of those who hold more. */
void whim_sched_take_share(whim_sched *sched, whim_plan *plan);

/* The place in `running` of who gives its pages to running[i] where none is free; -1: nobody
 * does. */
int64_t whim_sched_page_giver(whim_sched *sched, int64_t i);

/* Which running requests have their row in the plan, of those that are at their last token:
 * left_at tells of the others. */
void whim_sched_deal_rows(whim_sched *sched);

/* It has one more row of its turn; whether that is over. */
bool whim_sched_turn_row(whim_sched *sched, whim_sched_req *req);

/* n_left of every client, of n_row rows for prompts. True: somebody is bounded by it. */
bool whim_sched_deal_prompts(whim_sched *sched, int64_t n_row);

/* Whether a plan of its own would change who runs, or whose turn it is. */
bool whim_sched_wants_plan(const whim_sched *sched);

#endif
