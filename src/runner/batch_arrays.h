/* SPDX-License-Identifier: Apache-2.0 */
/* The batch arrays: one host block and one device block with the same layout, so that a step's changes
 * travel in one copy. The page table comes last, because only its used rows (and columns, see narrow) are copied.
 * Threads: the runner's. */
#ifndef WHIM_RUNNER_BATCH_ARRAYS_H
#define WHIM_RUNNER_BATCH_ARRAYS_H

#include "runner/runner.h"

/* Sizes of a step: the limits, a bucket, or the work itself. */
typedef struct whim_step_size {
    int64_t n_row, n_seq, n_out;
    int64_t n_top; /* what an output is: 0: logits, else the n_top best */
} whim_step_size;

/* Element offsets of the arrays inside the block. */
typedef struct whim_batch_layout {
    int64_t tokens, positions, slots, q_start, kv_len, out_rows, fresh, states, page_table;
    int64_t max_pages; /* columns of the page table */
    int64_t max_fresh; /* pages that a step can take from the pool */
    int64_t n_elem;
} whim_batch_layout;

void whim_batch_layout_init(whim_batch_layout *layout, const whim_runner_cfg *cfg);

/* Make the page table as narrow as these parts need, so that a long context costs a step only what it uses of it. Not
 * for a pass that is recorded: a graph knows one width. The sequences have grown already. */
void whim_batch_narrow(whim_batch_layout *layout, const whim_step_part *parts, int64_t n_part);

/* Fill the host block for the parts of a step, padded to `bucket`; the sequences have grown already.
 * Returns the number of pages that are new in this step (listed in `fresh`). */
int64_t whim_batch_fill(const whim_batch_layout *layout, int32_t *host, const whim_step_part *parts,
                        int64_t n_part, const whim_step_size *bucket);

/* The batch that a forward pass sees, for arrays at `base` (device). */
void whim_batch_view(const whim_batch_layout *layout, const int32_t *base,
                     const whim_step_size *bucket, whim_batch *batch);

#endif
