/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences on an exec, in one group or several (whim_exec_cfg.n_group), each with pools of its
 * own: some tokens of some sequences go through the model, results come back. The runner has the
 * pools of pages and states, checks a step, lets its sequences grow, fills the block and hands it
 * to the exec.
 * Threads: one owner, the thread that steps. */
#ifndef WHIM_RUNNER_RUNNER_H
#define WHIM_RUNNER_RUNNER_H

#include "base/err.h"
#include "kv/page_pool.h"
#include "kv/sequence.h"
#include "runner/exec.h"
#include "runner/fill.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct whim_runner whim_runner;

/* The model and the device must outlive the runner. */
WHIM_MUST_CHECK whim_err whim_runner_open(const whim_config *config, const whim_model_def *def,
                                          whim_model *model, whim_device *device,
                                          const whim_exec_cfg *cfg, whim_runner **out,
                                          whim_diag *diag);
void whim_runner_close(whim_runner *runner);

/* Parts of one group stand together, and groups in order. FULL when the pool has too few free
 * pages or as many steps are under way as may be, INVALID when the step is larger than the
 * limits, a sequence would outgrow max_ctx or a token id is outside the vocabulary: nothing has
 * changed then. After other errors the contents of its sequences are undefined. On success every
 * sequence has grown by its tokens. A sequence whose part keeps its state must be cut back to
 * that state's place before it continues, with other rows or the same, unless whim_runner_advance
 * has moved the state on. */
WHIM_MUST_CHECK whim_err whim_runner_step(whim_runner *runner, const whim_step_part *parts,
                                          int64_t n_part, whim_diag *diag);

/* The same in two halves, so that one step may be under way while the next is made
 * (whim_exec_cfg.n_flight). A token of the next may be whim_step_result_token(i): what was
 * chosen from output i of the one before, or the best of it. Sequences have grown after submit;
 * after a collect that failed, their contents and those of later steps are undefined. */
WHIM_MUST_CHECK whim_err whim_runner_submit(whim_runner *runner, const whim_step_part *parts,
                                            int64_t n_part, whim_diag *diag);
WHIM_MUST_CHECK whim_err whim_runner_collect(whim_runner *runner, whim_diag *diag);

/* A pass of the model's draft over tokens that follow each sequence: whole, with no step under way.
 * Results are read as those of a step. Sequences have grown by the draft's rows, for its next pass;
 * they must be cut back to where they were, also after a failure, before a step of the model. */
WHIM_MUST_CHECK whim_err whim_runner_draft(whim_runner *runner, const whim_step_part *parts,
                                           int64_t n_part, whim_diag *diag);

/* Of the rows that a sequence had on trial (keeps_state) in the last step with such parts, the
 * first n_row are right: its recurrent state advances by them, as if they had been fed for good.
 * Those of a group's share of a step are taken by one call, in the order of its parts, before the
 * next with rows on trial. INVALID when there are no such rows, none were kept
 * (whim_exec_cfg.max_kept) or a step has failed since; CORRUPT when a sequence is named twice.
 * After other errors the states are lost. */
typedef struct whim_taken {
    whim_sequence *seq;
    int64_t n_row;
} whim_taken;
WHIM_MUST_CHECK whim_err whim_runner_advance(whim_runner *runner, const whim_taken *taken,
                                             int64_t n, whim_diag *diag);

/* Results are the exec's (whim_exec_sampled, _logits, _best, _hidden), parts in order, rows in
 * order: what was chosen from the outputs of a part with asks; of one without, its logits. When
 * the best were enough for all parts that have outputs, the step gave no logits but, of each
 * output, at least as many of the best as any part asked for (all there are in a smaller
 * vocabulary); otherwise it gave logits, and best.n is 0. */

/* Sequences live in a page pool of the runner's: the first group's, or that of any. A model with
 * recurrent states gives each a slot for its life; FULL when there are no more. */
WHIM_MUST_CHECK whim_err whim_runner_sequence_create(whim_runner *runner, whim_sequence **out);
WHIM_MUST_CHECK whim_err whim_runner_sequence_create_in(whim_runner *runner, int32_t group,
                                                        whim_sequence **out);
void whim_runner_sequence_destroy(whim_runner *runner, whim_sequence *seq);

/* Forget a sequence's positions from `len` (at most its length) on. What is left is as if it had
 * never been longer. A recurrent state cannot go back: there the sequence becomes empty unless its
 * state is of just that place. Returns its length. */
int64_t whim_runner_sequence_cut(whim_runner *runner, whim_sequence *seq, int64_t len);

/* The model's exec, for results, and for pages and states by number. */
whim_exec *whim_runner_exec(whim_runner *runner);

/* The pool of state slots, of the first group or of any; it has none for models without such
 * states. */
whim_page_pool *whim_runner_states(whim_runner *runner);
whim_page_pool *whim_runner_states_of(whim_runner *runner, int32_t group);

/* The pool, for whoever keeps pages beyond their sequences (scheduler, prefix tree). */
whim_page_pool *whim_runner_pool(whim_runner *runner);
whim_page_pool *whim_runner_pool_of(whim_runner *runner, int32_t group);

#endif
