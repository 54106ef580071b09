/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that share pages: their scheduler, the tree of what pages hold, and their share of the
 * steps under way. What is the whole service's (the thread, jobs, the model, proposals) is in
 * inner.h.
 * Threads: the service's. */
#ifndef WHIM_ENGINE_SERVICE_GROUP_H
#define WHIM_ENGINE_SERVICE_GROUP_H

#include "engine/service.h"

typedef struct whim_choice whim_choice;

/* The group's share of a step under way. */
typedef struct whim_flight {
    whim_plan plan; /* an item whose request has left meanwhile has none */
    /* [max_seqs] for each item */
    whim_step_part *parts;
    whim_choice **choices;
    int32_t *token;    /* of a plan ahead: results of the step before */
    int64_t *len;      /* of the sequences before the step */
    int64_t first_out; /* of the step's outputs, its first */
} whim_flight;

typedef struct whim_group {
    whim_service *service;
    int32_t index;
    whim_prefix_tree *tree;
    whim_sched *sched;
    whim_flight flights[WHIM_EXEC_FLIGHT]; /* in turns */
    /* of one step */
    whim_sample_ask *asks; /* [max_outs] */
    uint32_t *masks;       /* [max_outs, n_mask_word] of the rows of proposals */
    int32_t *token;        /* [max_outs + 1] */
    whim_sched_made *made; /* [max_seqs] and so on */
    bool *over;
    whim_taken *taken;
} whim_group;

/* Right after a failure too: end, and close behind it. In between its pages are only the tree's. */
WHIM_MUST_CHECK whim_err whim_group_open(whim_group *group, whim_service *service, int32_t index,
                                         whim_diag *diag);
void whim_group_end(whim_group *group);
void whim_group_close(whim_group *group);

/* Parts of a flight whose plan is made; of one whose plan is ahead of that of the flight before. */
void whim_group_parts_make(whim_group *group, whim_flight *flight);
void whim_group_parts_make_ahead(whim_group *group, const whim_flight *before, whim_flight *flight);

/* Which items of a flight are sure to end is put in group->over; false: what one asks for next
 * depends on what is being chosen. */
bool whim_group_may_go_ahead(whim_group *group, const whim_flight *flight);

/* After a step: choose for every item that does, in group->made; let recurrent states go on by the
 * rows that were right; commit. */
void whim_group_results_take(whim_group *group, const whim_flight *flight);
WHIM_MUST_CHECK whim_err whim_group_states_advance(whim_group *group, const whim_flight *flight,
                                                   whim_diag *diag);
void whim_group_commit(whim_group *group, const whim_flight *flight);

/* A step failed: its jobs cannot continue, unless they may begin again from their tokens. */
void whim_group_failed(whim_group *group, const whim_flight *flight, bool begin_again,
                       const whim_diag *why);

#endif
