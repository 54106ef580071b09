/* SPDX-License-Identifier: Apache-2.0 */
/* From sequences and their pages to a step's block: the last place that knows sequences.
 * Threads: stateless. */
#ifndef WHIM_RUNNER_FILL_H
#define WHIM_RUNNER_FILL_H

#include "kv/sequence.h"
#include "runner/step_block.h"
#include "sample/sampler.h"

/* One sequence's part of a step: append `n_tok` tokens to it. */
typedef struct whim_step_part {
    whim_sequence *seq;
    const int32_t *tokens; /* [n_tok] */
    int64_t n_tok;
    int64_t n_out; /* results of the last n_out of these rows, 0 .. n_tok */
    int32_t n_top; /* 0: logits; 1 .. 64: the n_top best of them are enough; without asks */
    /* The recurrent state is read and stays that of the tokens before: the rows are a trial. */
    bool keeps_state;
    /* [n_out] what is chosen from each of them on the device, read before the step returns; NULL:
     * logits, or the best of them, are brought to the host. */
    const whim_sample_ask *asks;
} whim_step_part;

/* Write the block of a step, padded to `bucket`; the sequences have grown already. `block` has room
 * for the limits (whim_step_max_words) that the step keeps. */
void whim_step_fill(const whim_step_part *parts, int64_t n_part, const whim_step_size *bucket,
                    int32_t flags, int32_t *block);

#endif
