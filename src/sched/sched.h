/* SPDX-License-Identifier: Apache-2.0 */
/* Who runs in the next step: (requests, free pages) -> plan; results -> state. No tensors, no
 * model, no text.
 *
 * A request is a list of tokens that grows. The plan feeds each running request its next tokens:
 * what is left of its known tokens (prompt, or all of them after it was preempted), cut to the
 * step's budget, or the one token that the last step chose. Where the last known token is fed, the
 * step chooses the next one; with proposals for those after it in the same step, it may choose
 * several.
 *
 * Invariants:
 *  1. Between plan and commit (or abort) nothing but remove moves a request of the plan; plan
 *     changes nothing that a failed step could not take back by whim_sched_abort, but for evictions
 *     and preemptions.
 *  2. Pages are counted exactly: a plan never needs more pages than are free after the evictions it
 *     made.
 *  3. Decode goes before prefill; prefill takes what is left of the budget, in chunks. Proposals
 *     come last and take rows and pages that nobody else has a use for: they evict nothing, preempt
 *     nobody and are nobody's service.
 *  4. A request that does not get pages is waited for, or the running request of the largest turn
 *     is preempted: its full pages stay in the tree as long as there is room, its tokens are kept,
 *     and it waits again at its old turn. It resumes to the same text.
 *  5. Order: turn = the client's virtual time, then arrival. Among the waiting requests of one
 *     client the smallest virtual time at arrival + priority * age_tokens goes first: a lower
 *     priority number, but not for ever; their turns are those that they would have if they had
 *     come in that order, so that no other client's service moves. Only where among_all is set is
 *     the priority part of the turn itself. Every request that fits the pool alone ends (no
 *     starvation: waiting ages).
 *  6. A request of a model with recurrent states takes pages from tree and store only up to one
 *     that carries a state; its own state is always that of its n_fed tokens. One that is
 *     preempted, or whose step failed, starts again from there.
 *  7. While requests of several clients are there, they share what there is (shares.c): places,
 *     pages, rows of those that generate, rows of prompts. What a client says of its requests moves
 *     its own only. One client alone is planned as if there were no such thing.
 *  8. Nothing is computed twice at the same time: a request whose prompt a running one is
 *     prefilling further than the tree knows waits for it, unless that one stands still.
 * Threads: one owner, the engine's. */
#ifndef WHIM_SCHED_SCHED_H
#define WHIM_SCHED_SCHED_H

#include "base/err.h"
#include "kv/page_pool.h"
#include "kv/prefix_tree.h"
#include "kv/sequence.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct whim_sched whim_sched;
typedef struct whim_sched_req whim_sched_req; /* one request in the scheduler */

/* Where pages are kept that the tree has no more (a disk). It is asked when a request is let in.
 * `tokens` are those of the request from the beginning. */
typedef struct whim_sched_store {
    void *ctx;
    /* Bring pages that follow the first n_page into pool pages; gives how many, in order, at most
     * `max`. NULL: there is no store. */
    int64_t (*fetch)(void *ctx, const int32_t *tokens, int64_t n_page, int64_t max, int32_t *pages);
    /* Of models with recurrent states: how many such pages there seem to be; the largest number of
     * pages, more than n_min and at most n_max, of which the last carries a state there, or 0; and
     * that state into a slot, or false. */
    int64_t (*known)(void *ctx, const int32_t *tokens, int64_t n_page, int64_t max);
    int64_t (*known_state)(void *ctx, const int32_t *tokens, int64_t n_min, int64_t n_max);
    bool (*fetch_state)(void *ctx, const int32_t *tokens, int64_t n_page, int32_t slot);
} whim_sched_store;

typedef struct whim_sched_cfg {
    int64_t max_seqs;        /* sequences in one step */
    int64_t max_step_tokens; /* rows in one step */
    int64_t max_outs;        /* rows with results in one step */
    int64_t max_ctx;         /* longest sequence */
    /* service that makes up for one step of priority (waiting ages); 0: 262144 */
    int64_t age_tokens;
    whim_page_pool *pool;   /* borrowed, as is the tree */
    whim_prefix_tree *tree; /* NULL: no reuse */
    whim_sched_store store; /* where pages are beside the tree; {0}: nowhere */
    /* Models with recurrent states: their slots (NULL: there are none), and what copies one to
     * another. The tree has been told of the slots. A state is kept after the last page that a
     * repeated prompt could take over, where a prompt leaves what the tree knows or what one who
     * waits begins with, and every state_every tokens (0: 4096); prefill is cut to end there. */
    whim_page_pool *states;
    int64_t state_every;
    int64_t max_kept; /* rows of a step with proposals, so that states can advance by those that are
                         right; 0: there are no proposals */
    bool (*copy_state)(void *ctx, int32_t from, int32_t to); /* false: it failed */
    void *copy_ctx;
    int32_t group; /* of the runner's, whose sequences these are */
} whim_sched_cfg;

WHIM_MUST_CHECK whim_err whim_sched_create(const whim_sched_cfg *cfg, whim_sched **out);
void whim_sched_destroy(whim_sched *sched);

typedef struct whim_sched_add {
    /* [n_tok] prompt; the caller's array, which stays and has room for what commit appends */
    int32_t *tokens;
    int64_t n_tok;    /* >= 1, < max_ctx */
    int64_t max_tok;  /* prompt and generation together, >= n_tok, <= max_ctx */
    int32_t priority; /* lower goes first among its client's; 0 is usual */
    bool among_all;   /* and among those of all clients */
    uint64_t client;  /* fairness is between these */
    /* results of every prompt row are wanted, each once: nothing is taken from the tree */
    bool all_rows;
    void *user; /* the caller's */
} whim_sched_add;

/* NO_FIT: it could not run even alone; INVALID: a number is outside its bounds. How many may wait
 * the caller decides. */
WHIM_MUST_CHECK whim_err whim_sched_submit(whim_sched *sched, const whim_sched_add *add,
                                           whim_sched_req **out, whim_diag *diag);

/* The caller's array has moved, with all its tokens: to a larger one. At any time but inside
 * another call. */
void whim_sched_move_tokens(whim_sched_req *req, int32_t *tokens);

/* Take a request out, whatever its state. Its full pages go to the tree; in an open plan its item
 * has no more requests. */
void whim_sched_remove(whim_sched *sched, whim_sched_req *req);

/* One request's part of a step. */
typedef struct whim_plan_item {
    whim_sched_req *req;
    whim_sequence *seq; /* has exactly the positions before these tokens */
    const int32_t *tokens;
    int64_t n_tok;
    /* the last rows are proposals: each is right if the row before it chooses it */
    int64_t n_proposed;
    int64_t n_out;   /* results of the last n_out rows */
    bool chooses;    /* the last row's result is the next token */
    bool is_prefill; /* for the metrics */
} whim_plan_item;

typedef struct whim_plan {
    whim_plan_item *items; /* the scheduler's; valid until the next plan */
    int64_t n_item;
    int64_t n_row, n_out;
    int64_t n_proposed;  /* of the rows */
    int64_t n_preempted; /* by this plan */
} whim_plan;

/* Rows of the next plans: at most max_step_tokens, and always enough for every running request's
 * one. */
void whim_sched_set_budget(whim_sched *sched, int64_t n_row);

/* Service that makes up for one step of priority, for requests that come from now on. */
void whim_sched_set_age(whim_sched *sched, int64_t n_tok);

/* The sequence of a request that has fed all its tokens but the one that was chosen last; NULL: it
 * waits, or feeds more. */
whim_sequence *whim_sched_at_last(const whim_sched_req *req);

/* Tokens that may come after the known ones of a request, for the next plan only; its array has
 * room for them. They count for nothing where the request waits or feeds anything but the one token
 * that was chosen last, beyond a place where its recurrent state is kept, and from max_tok - 1
 * on. */
void whim_sched_propose(whim_sched *sched, whim_sched_req *req, const int32_t *tokens, int64_t n);

/* Look ahead to the next plan: who of the running will be without its row there, because its client
 * has as many as others have. Nothing is proposed for those. What the plan itself changes (who
 * comes, pages that are short) is not foreseen. */
void whim_sched_foresee(whim_sched *sched);
bool whim_sched_is_left(const whim_sched *sched, const whim_sched_req *req);

/* An empty plan: nothing to do. */
void whim_sched_plan(whim_sched *sched, whim_plan *plan);

/* Before the commit of a plan of which every item chooses: a plan of one row more for each, with
 * the token that is being chosen (tokens are NULL: they are not known yet). Items of `over`, which
 * are sure to end, are left out. Like proposals these rows take no page that somebody needs, and
 * who waits and could be let in comes first: then it is empty. After the commit of the first plan
 * this one is open; items whose request has ended by then have no request (NULL). False: somebody
 * wants a plan of its own, and it is empty; else it is so where all end. */
bool whim_sched_plan_ahead(whim_sched *sched, const whim_plan *plan, const bool *over,
                           whim_plan *ahead);

/* Forget a plan ahead, if there is one, that has not been submitted. */
void whim_sched_drop_ahead(whim_sched *sched);

/* What came of an item. */
typedef struct whim_sched_made {
    const int32_t
        *tokens; /* [n] the proposals that were right, in order, and the token after them */
    int64_t n;   /* 1 .. n_proposed + 1 for an item that chooses and continues */
    /* the request is over and is taken out (its pointer is dead afterwards); one whose tokens reach
     * max_tok must be */
    bool ended;
} whim_sched_made;

/* After the step: seq of every item has grown by its tokens (the runner did). What was made is
 * appended to the request's tokens array; rows of proposals that were wrong are cut off its
 * sequence. Where there were any, its recurrent state is that of the rows that were right. */
void whim_sched_commit(whim_sched *sched, const whim_plan *plan, const whim_sched_made *made);

/* The step failed, and one that was planned ahead of its commit with it: as if the plan had not
 * been made, but for evictions, and for requests that it preempted, which stay waiting. Sequences
 * that grew all the same are cut back. */
void whim_sched_abort(whim_sched *sched, const whim_plan *plan);

/* What pages and states held is lost: every running request waits again, with its tokens, and the
 * tree is empty then. Not while a plan is open. */
void whim_sched_lose(whim_sched *sched);

/* Why no more of a request's prompt was found. */
typedef enum whim_miss {
    WHIM_MISS_WAITS,    /* it was not let in yet */
    WHIM_MISS_NONE,     /* nothing was missed */
    WHIM_MISS_NEW,      /* the rest was never computed */
    WHIM_MISS_EVICTED,  /* somebody had */
    WHIM_MISS_NO_STATE, /* no state was kept where the known pages end */
    WHIM_MISS_ROWS,     /* results of all rows are wanted */
    WHIM_MISS_SHORT,    /* it is less than a page */
    WHIM_MISS_NO_CACHE, /* there is no tree */
} whim_miss;

/* In words, for the log. */
const char *whim_miss_name(whim_miss miss);

/* Why a running request waits again. */
typedef enum whim_preempt {
    WHIM_PREEMPT_PAGES,    /* there were too few for all that ran */
    WHIM_PREEMPT_PRIORITY, /* one of lower priority number took its place */
    WHIM_PREEMPT_SHARE,    /* its client held more than another's share */
    WHIM_PREEMPT_LOST,     /* what pages held was lost */
    WHIM_PREEMPT_COUNT,
} whim_preempt;

typedef struct whim_sched_req_info {
    int64_t n_tok; /* known tokens */
    int64_t n_prompt;
    int64_t n_fed;    /* tokens whose keys and values are there */
    int64_t n_cached; /* prompt tokens that the tree (or the disk) had when it was first admitted */
    int64_t n_preempted; /* times */
    bool running;
    whim_miss miss;
} whim_sched_req_info;
whim_sched_req_info whim_sched_req_get(const whim_sched_req *req);
void *whim_sched_req_user(const whim_sched_req *req);

typedef struct whim_sched_stats {
    int64_t n_running, n_waiting;
    int64_t pages_used, pages_cached, pages_total; /* held by requests; only by the tree; all */
    int64_t n_preempted[WHIM_PREEMPT_COUNT];       /* since the start, as the next ones */
    int64_t n_hit_tokens, n_prompt_tokens, n_evicted;
} whim_sched_stats;
/* For whatever reason. */
static inline int64_t whim_sched_preempted(const whim_sched_stats *stats)
{
    int64_t n = 0;
    for (int32_t why = 0; why < WHIM_PREEMPT_COUNT; why++) {
        n += stats->n_preempted[why];
    }
    return n;
}
whim_sched_stats whim_sched_get_stats(const whim_sched *sched);

#endif
