/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank keeps of the columns of an output projection: runs of its own ones, each within the
 * whole blocks of the weight's type that hold it. The other columns of such a block are those of
 * other ranks, who keep the block, too; here they are multiplied with zeros, so that no weight is
 * encoded again.
 *
 * Products that make int8 of their rows have one scale for a group of columns. Where heads end
 * inside a group, its columns are put together again: they go to whoever comes first of those that
 * have some, and nobody else multiplies them. So codes and scales are those of one rank.
 * Threads: plain data; the stream's for the rest. */
#ifndef WHIM_LAYERS_RANKS_OWN_COLS_H
#define WHIM_LAYERS_RANKS_OWN_COLS_H

#include "base/arena.h"
#include "ops/ops.h"
#include "weights/part.h"

#include <stdbool.h>

/* What of a matrix's columns is whose. */
typedef struct whim_col_runs {
    const whim_part *runs; /* [n_rank, n_run] of the whole matrix's columns */
    int32_t n_run, n_rank, rank;
    int64_t block; /* columns of a block of the weight's type */
    int64_t group; /* columns whose activations share a scale, of which blocks are made; 1: none */
} whim_col_runs;

/* A run's part of a group that others have columns of, too. */
typedef struct whim_cut_group {
    int64_t at;    /* of what is kept, where the group begins */
    whim_part own; /* of what is kept, the run's columns of it */
    int32_t place; /* among all cut groups */
    bool takes;    /* the group is multiplied here */
} whim_cut_group;

typedef struct whim_own_cols {
    int32_t n_run;
    whim_part *held; /* [n_run] columns of the whole matrix, the rank's blocks */
    whim_part *own;  /* [n_run] of what is kept, the rank's columns */
    int64_t width;   /* columns that are kept */
    bool padded;     /* some are not its own */
    int64_t group;   /* columns of a cut group */
    int32_t n_cut;   /* cut groups, on all ranks together */
    int32_t n_here;
    whim_cut_group *here; /* [n_here] those that the rank has columns of */
} whim_own_cols;

/* NO_MEMORY. */
WHIM_MUST_CHECK whim_err whim_own_cols_make(whim_own_cols *out, const whim_col_runs *runs,
                                            whim_arena *arena);

/* Zeros in all columns of x, [n_row, width], that are not the rank's. */
WHIM_MUST_CHECK whim_err whim_own_cols_clear(const whim_own_cols *cols, whim_stream *s, float *x,
                                             int64_t n_row);

/* Floats of a row that ranks put cut groups together in. */
static inline int64_t whim_own_cols_cut_width(const whim_own_cols *cols)
{
    return cols->n_cut * cols->group;
}

/* After that, and where any rank has a cut group: whole groups in x, and zeros in what others take.
 * All ranks call it; who has none needs no x. `space` is [n_row, whim_own_cols_cut_width]. */
WHIM_MUST_CHECK whim_err whim_own_cols_mend(const whim_own_cols *cols, whim_stream *s, float *x,
                                            float *space, int64_t n_row);

#endif
