/* SPDX-License-Identifier: Apache-2.0 */
/* A world for the scheduler without a model: a fake runner that knows of every slot which tokens
 * its keys and values were made from, a fake disk, and the checks of everything that must hold
 * after each call. The fake model's next token is a hash of all tokens before it, read from the
 * pages, so that one wrong page changes the answer. In some traces it has a recurrent state too,
 * which must be that of just these tokens. */
#ifndef WHIM_TESTS_SIM_SIM_H
#define WHIM_TESTS_SIM_SIM_H

#include "sched/sched.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    SIM_VOCAB = 50,
    SIM_MAX_JOBS = 80,
    SIM_MAX_CTX = 640,
    SIM_MAX_PAGES = 48,
    SIM_MAX_DISK = 512,
    SIM_PAGE = 32,
    SIM_MAX_STATES = 24,
    SIM_MAX_PROPOSED = 6,
};

/* One request as the world sees it. */
typedef struct sim_job {
    whim_sched_req *req; /* NULL: not submitted yet, or over */
    int32_t tokens[SIM_MAX_CTX + 1];
    int32_t expected[SIM_MAX_CTX]; /* all tokens of a run alone */
    int64_t n_prompt, n_end;       /* it ends with n_end tokens */
    int64_t max_tok;
    int64_t n_rows; /* prompt rows whose results came */
    int64_t submitted_at;
    int64_t n_right, n_lost; /* proposals that were right; steps with proposals that were lost */
    bool all_rows, is_over, cancelled;
} sim_job;

typedef struct sim_page {
    uint64_t made_from[SIM_PAGE]; /* hash of all tokens up to this one, 0: zeroed */
} sim_page;

typedef struct sim_disk_page {
    whim_prefix_key key;
    sim_page page;
    uint64_t state; /* that it carries; 0: none */
} sim_disk_page;

/* What an item chose: the proposals that were right and the token after them. */
typedef struct sim_chosen {
    int32_t tokens[SIM_MAX_PROPOSED + 1];
    int64_t n;
} sim_chosen;

typedef struct sim_world {
    uint64_t seed, n_draw;
    whim_sched_cfg cfg;
    whim_page_pool pool;
    whim_prefix_tree *tree;
    whim_sched *sched;
    sim_page pages[SIM_MAX_PAGES];
    sim_disk_page disk[SIM_MAX_DISK];
    int64_t n_disk, n_fetched;
    bool with_states;
    whim_page_pool states;             /* slots of recurrent state */
    uint64_t state_of[SIM_MAX_STATES]; /* hash of all tokens that a slot's state is of */
    int64_t n_kept, n_loaded;          /* states kept and gone on from */
    int64_t n_state_fetched;           /* and brought from the disk */
    int64_t n_taken;                   /* rows of proposals that states went on by */
    sim_job jobs[SIM_MAX_JOBS];
    int64_t n_job, n_live;
    int64_t cancel_one_in;
    int64_t max_rows;     /* of the next plan */
    int64_t n_step, work; /* rows of all jobs if each ran alone */
    bool with_proposals, with_ahead;
    bool is_underway; /* a step that was planned ahead has run, and waits for its commit */
    whim_plan plan;   /* that one */
    sim_chosen chosen[64];
    int64_t n_ahead;
    int64_t n_proposed, n_right, n_drafted;
    int64_t n_all; /* requests that were preempted, lost proposals and had some that were right */
    int64_t n_cancelled, n_aborted, n_lost, n_resumed, n_ended, n_cached;
    bool is_lone;      /* all requests are of one client */
    uint64_t plans;    /* hash of all plans: who is in them, with how many rows */
    char failure[256]; /* the first one; empty: none */
} sim_world;

/* Random numbers of the trace: 0 .. n - 1. */
int64_t sim_draw(sim_world *w, int64_t n);
bool sim_fail(sim_world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

uint64_t sim_hash(uint64_t before, int32_t token);
int32_t sim_next_token(uint64_t made_from);

/* The step: grow every sequence, read what is before, write what is new, choose. */
bool sim_step(sim_world *w, const whim_plan *plan, sim_chosen *chosen);

/* A pass of the model's draft: n rows behind a sequence, in pages that are free, and gone again.
 * False in *ran: there is no room. */
bool sim_draft(sim_world *w, whim_sequence *seq, int64_t n, bool *ran);

/* The rows of proposals that were not right (`n_right` were) are of no meaning any more. */
void sim_forget(sim_world *w, const whim_plan_item *item, int64_t n_right);

/* The recurrent state goes on by the rows of those that were right, which were on trial. */
void sim_advance(sim_world *w, const whim_plan_item *item, int64_t n_right);

/* The disk's sides. */
void sim_evicted(void *ctx, int32_t page, int32_t state, const whim_prefix_key *key,
                 const int32_t *tokens);
whim_sched_store sim_store(sim_world *w);

/* The states' side: copy a slot to another; now and then it fails. */
bool sim_copy_state(void *ctx, int32_t from, int32_t to);

/* Everything about pages; everything about a plan. False: w->failure says what is wrong. */
bool sim_check_pages(sim_world *w);
bool sim_check_plan(sim_world *w, const whim_plan *plan);
bool sim_check_ahead(sim_world *w, const whim_plan *ahead);

/* The order of requests: each client's places in the queue go along its own order. */
bool sim_check_order(sim_world *w);

/* One random trace, of several clients or of one; false when something was wrong. */
bool sim_trace(sim_world *w, uint64_t seed, bool is_lone);

/* What priorities do between clients and inside one (sim_clients.c): tallied. */
void sim_clients(void);

/* One client that has everything, which nothing but its own requests may cost (sim_alone.c):
 * tallied. */
void sim_alone(void);

/* What one client alone is planned, against what it was before there were shares (sim_plans.c):
 * tallied. */
void sim_plans(void);

/* What hostile clients leave to others (sim_hostile.c): tallied. */
void sim_hostile(void);

#endif
