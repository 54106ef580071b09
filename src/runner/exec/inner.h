/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of an exec share: the exec itself, and what one of them does for the others.
 * Threads: the exec's. */
#ifndef WHIM_RUNNER_EXEC_INNER_H
#define WHIM_RUNNER_EXEC_INNER_H

#include "comm/comm.h"
#include "parallel/cut.h"
#include "parallel/groups.h"
#include "runner/befores.h"
#include "runner/exec.h"
#include "runner/graphs.h"
#include "runner/kept.h"
#include "runner/late.h"
#include "runner/outputs.h"
#include "runner/page_store.h"
#include "runner/page_table.h"
#include "runner/ranks.h"
#include "runner/sampling.h"

/* A step under way. */
typedef struct whim_exec_flight {
    int32_t *block; /* the host's copy, pinned */
    float *embeds;  /* the same */
    whim_event done;
    whim_groups groups; /* who has how many of its outputs */
    uint64_t letter;    /* of ranks: its number */
} whim_exec_flight;

struct whim_exec {
    const whim_config *config;
    const whim_model_def *def;
    whim_model *model;
    whim_device *device;
    whim_stream *stream;
    whim_comm_cuts comms; /* some of the ranks, where several have the model together */
    whim_exec_cfg cfg;
    whim_exec_plan plan;
    whim_step_limits limits;
    whim_graphs graphs;
    /* device */
    void *kv;
    void *state; /* [n_state] slots */
    void *activations;
    int32_t *block;
    float *embeds;
    whim_page_table pages;
    whim_befores befores;
    whim_cut cut;
    whim_outputs outputs;
    whim_sampling sampling;
    whim_kept kept;
    whim_late late;
    /* host */
    int64_t *kv_offsets; /* [n_layer] of a layer's part of a page */
    whim_ranks ranks;
    whim_page_store *store;
    whim_exec_flight flights[WHIM_EXEC_FLIGHT];
    int64_t n_submitted, n_collected;
    int64_t n_lost;              /* steps up to this one failed, though their waits may not tell */
    whim_exec_tap tap;           /* without functions: no listener */
    whim_step_size last;         /* the step submitted last; n_out 0: its results are of no use */
    whim_groups last_groups;     /* whose they are; `last` counts what is gathered of them */
    whim_groups kept_groups;     /* n_row: of each group's last step with WHIM_STEP_KEEP */
    whim_sample_ask *placed;     /* [whim_exec_outs] the asks of groups, where outputs lie */
    bool last_chose;             /* its results are chosen tokens, else the best */
    const whim_sample_ask *asks; /* [n_ask] of the next step */
    int64_t n_ask;
};

/* Where recurrent states lie. */
static inline whim_state_view whim_exec_states(const whim_exec *x)
{
    return (whim_state_view){
        .slots = x->state, .slot_stride = x->plan.slot_bytes, .n_slot = x->cfg.n_state};
}

/* Queue the pass of a bucket, eagerly or by its graph (pass.c). */
WHIM_MUST_CHECK whim_err whim_exec_pass(whim_exec *x, const whim_graph_key *key);

#endif
