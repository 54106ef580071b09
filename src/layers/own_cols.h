/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank keeps of the columns of an output projection: runs of its own ones, each within the
 * whole blocks of the weight's type that hold it. The other columns of such a block are those of
 * other ranks, who keep the block, too; here they are multiplied with zeros, so that no weight is
 * encoded anew.
 * Threads: plain data; the stream's for the rest. */
#ifndef WHIM_LAYERS_OWN_COLS_H
#define WHIM_LAYERS_OWN_COLS_H

#include "base/arena.h"
#include "ops/ops.h"
#include "weights/part.h"

#include <stdbool.h>

typedef struct whim_own_cols {
    int32_t n_run;
    whim_part *held; /* [n_run] columns of the whole matrix, the rank's blocks */
    whim_part *own;  /* [n_run] of what is kept, the rank's columns */
    int64_t width;   /* columns that are kept */
    bool padded;     /* some are not its own */
} whim_own_cols;

/* `runs` of the whole matrix's columns, in blocks of `block`. NO_MEMORY. */
WHIM_MUST_CHECK whim_err whim_own_cols_make(whim_own_cols *out, const whim_part *runs,
                                            int32_t n_run, int64_t block, whim_arena *arena);

/* Zeros in all columns of x, [n_row, width], that are not the rank's. */
WHIM_MUST_CHECK whim_err whim_own_cols_clear(const whim_own_cols *cols, whim_stream *s, float *x,
                                             int64_t n_row);

#endif
