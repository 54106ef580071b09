/* SPDX-License-Identifier: Apache-2.0 */
/* The passes of a model's draft, and the tokens that come of them.
 * Threads: the one that steps. */
#ifndef WHIM_ENGINE_PROPOSER_H
#define WHIM_ENGINE_PROPOSER_H

#include "runner/runner.h"

/* What may follow `last`, the token after those that a sequence holds. */
typedef struct whim_proposal {
    whim_sequence *seq;
    int32_t last;
    int64_t n;    /* tokens wanted, 1 to whim_draft_most */
    int32_t *out; /* [n]; -1 where the draft knows none */
    float *sure;  /* [n] the chance that it gives each; 1 where it gives none; or NULL */
} whim_proposal;

typedef struct whim_proposer {
    whim_runner *runner;
    const whim_draft_config *draft;
    const int32_t *names;  /* the tokens that its best are, NULL: these themselves */
    whim_step_part *parts; /* [max_seqs] of each group */
    int32_t *tokens;       /* [max_rows] of these */
    int64_t *lens;         /* [max_seqs] of sequences before their passes */
} whim_proposer;

/* `names` and what `draft` points to outlive it; arrays are in `arena`. */
WHIM_MUST_CHECK whim_err whim_proposer_init(whim_proposer *p, whim_runner *runner,
                                            const whim_exec_cfg *limits,
                                            const whim_draft_config *draft, const int32_t *names,
                                            whim_arena *arena);

/* Find them, with no step under way; groups of sequences stand in order. Sequences are as before,
 * and errors those of whim_runner_draft. */
WHIM_MUST_CHECK whim_err whim_propose(whim_proposer *p, const whim_proposal *wanted, int64_t n,
                                      whim_diag *diag);

/* Rows of the pass that proposes n tokens. */
int64_t whim_propose_rows(const whim_draft_config *draft, int64_t n);

#endif
