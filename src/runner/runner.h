/* SPDX-License-Identifier: Apache-2.0 */
/* A step: some tokens of some sequences go through the model, logits come back. The runner turns the
 * host's view (sequences with page lists) into the batch arrays at fixed device addresses, runs the
 * forward pass or replays its graph, and brings the results to the host.
 * No memory is allocated inside a step, with one exception: the first step of a graph's bucket records it.
 * Threads: one owner, the thread that steps. */
#ifndef WHIM_RUNNER_RUNNER_H
#define WHIM_RUNNER_RUNNER_H

#include "base/err.h"
#include "device/device.h"
#include "kv/page_pool.h"
#include "kv/sequence.h"
#include "layers/batch.h"
#include "models/model.h"
#include "tensor/rank_key.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct whim_runner whim_runner;

typedef struct whim_runner_cfg {
    int64_t max_rows; /* tokens in one step */
    int64_t max_seqs; /* sequences in one step */
    int64_t max_outs; /* rows with logits in one step */
    int64_t max_ctx;  /* longest sequence */
    int64_t n_page;   /* KV pages in the pool */
    int64_t n_state;  /* slots of recurrent state; 0 for models that have none */
    whim_kv_type kv_type;
    bool graphs;
    int32_t n_capture;
    int32_t boundary[WHIM_MAX_CAPTURE];
} whim_runner_cfg;

/* Memory that a runner takes on the device, by part. Found by a dry run of the largest pass. */
typedef struct whim_runner_plan {
    int64_t kv_bytes;
    int64_t page_bytes;
    int64_t state_bytes; /* all slots of recurrent state */
    int64_t slot_bytes;  /* one of them */
    int64_t activation_bytes;
    int64_t batch_bytes;  /* token ids, positions, page tables ... */
    int64_t output_bytes; /* logits, best tokens and hidden states on the device */
    int64_t host_bytes;   /* the host's copies of batch arrays and outputs */
} whim_runner_plan;

WHIM_MUST_CHECK whim_err whim_runner_measure(const whim_config *config, const whim_model_def *def,
                                             whim_model *model, const whim_runner_cfg *cfg,
                                             whim_runner_plan *plan, whim_diag *diag);

/* The model and the device must outlive the runner. */
WHIM_MUST_CHECK whim_err whim_runner_open(const whim_config *config, const whim_model_def *def,
                                          whim_model *model, whim_device *device,
                                          const whim_runner_cfg *cfg, whim_runner **out,
                                          whim_diag *diag);
void whim_runner_close(whim_runner *runner);

/* One sequence's part of a step: append `n_tok` tokens to it. */
typedef struct whim_step_part {
    whim_sequence *seq;
    const int32_t *tokens; /* [n_tok] */
    int64_t n_tok;
    int64_t n_out; /* results of the last n_out of these rows, 0 .. n_tok */
    int32_t n_top; /* 0: logits; 1 .. 64: the n_top best of them are enough */
} whim_step_part;

/* FULL when the pool has too few free pages (nothing has changed then), INVALID when the step is larger
 * than the limits, a sequence would outgrow max_ctx or a token id is outside the vocabulary. On success
 * every sequence has grown by its tokens. */
WHIM_MUST_CHECK whim_err whim_runner_step(whim_runner *runner, const whim_step_part *parts,
                                          int64_t n_part, whim_diag *diag);

/* Results of the last step, valid until the next: logits of output i (parts in order, rows in order),
 * hidden states of row r at capture c. When the best were enough for all parts that have outputs, the step
 * gave no logits (NULL) but, of each output, at least as many of the best as any part asked for (all there
 * are in a smaller vocabulary); otherwise it gave logits, and best.n is 0. */
const float *whim_runner_logits(const whim_runner *runner, int64_t i); /* [n_vocab], or NULL */
whim_ranked whim_runner_best(const whim_runner *runner, int64_t i);
const float *whim_runner_hidden(const whim_runner *runner, int32_t c, int64_t r); /* [d_model] */

/* Sequences live in the runner's page pool. A model with recurrent states gives each a slot for its life; FULL when
 * there are no more. */
WHIM_MUST_CHECK whim_err whim_runner_sequence_create(whim_runner *runner, whim_sequence **out);
void whim_runner_sequence_destroy(whim_runner *runner, whim_sequence *seq);

/* Forget a sequence's positions from `len` (at most its length) on. What is left is as if it had never been
 * longer. A recurrent state cannot go back: there the sequence becomes empty unless its state is of just that place.
 * Returns its length. */
int64_t whim_runner_sequence_cut(whim_runner *runner, whim_sequence *seq, int64_t len);

/* Copy a slot of recurrent state to another, both held; the next step sees it. */
WHIM_MUST_CHECK whim_err whim_runner_state_copy(whim_runner *runner, int32_t from, int32_t to);

/* The pool of those slots; it has none for models without such states. */
whim_page_pool *whim_runner_states(whim_runner *runner);

/* A page's bytes (page_bytes of the plan) to the host and back: for keeping pages elsewhere. The page is held. */
WHIM_MUST_CHECK whim_err whim_runner_page_read(whim_runner *runner, int32_t page, void *out);
WHIM_MUST_CHECK whim_err whim_runner_page_write(whim_runner *runner, int32_t page,
                                                const void *bytes);

/* The pool, for whoever keeps pages beyond their sequences (scheduler, prefix tree); free pages of it. */
whim_page_pool *whim_runner_pool(whim_runner *runner);
int64_t whim_runner_free_pages(const whim_runner *runner);

#endif
