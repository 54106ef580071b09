/* SPDX-License-Identifier: Apache-2.0 */
/* A product whose input is dealt to ranks by columns (the heads of a mixer), without a sum that is
 * split: all columns are gathered, each rank makes some of the outputs from whole rows, and these
 * are gathered, too. So bits are those of one rank; weights are read once, by all ranks together.
 * Threads: plain data; the stream's for the rest. */
#ifndef WHIM_LAYERS_RANKS_WHOLE_ROWS_H
#define WHIM_LAYERS_RANKS_WHOLE_ROWS_H

#include "layers/batch.h"
#include "layers/projection.h"
#include "weights/bind.h"
#include "weights/part.h"

typedef struct whim_whole_rows {
    int32_t n_rank, rank, n_run;
    const whim_part *runs;             /* [n_rank, n_run] columns of the input, of each rank */
    const int64_t *in_cols, *out_cols; /* [n_rank] how many each has, and outputs */
    int64_t width;                     /* columns of all */
    whim_part own;                     /* outputs of this rank */
} whim_whole_rows;

/* Buffers of a pass, reused by every layer. */
typedef struct whim_whole_space {
    float *gathered; /* [n_row, width] as ranks have it */
    float *placed;   /* the same, column by column; NULL where that is the same everywhere */
    float *part;     /* [n_row, own.n] */
} whim_whole_space;

/* Of a product with `n_out` outputs. `runs` follow one another: the first ones of all ranks, then
 * the second ones; they live as long as the binder's arena. NULL: the binder's ranks do not work
 * so, or no memory, which it tells. */
const whim_whole_rows *whim_whole_rows_make(const whim_part *runs, int32_t n_run, int64_t n_out,
                                            whim_binder *binder);

/* The most that two layers need; NULL needs nothing. */
typedef struct whim_whole_widths {
    int64_t width, placed, part;
} whim_whole_widths;
void whim_whole_widths_add(whim_whole_widths *widths, const whim_whole_rows *whole);

whim_whole_space whim_whole_space_take(whim_bump *bump, const whim_whole_widths *widths,
                                       int64_t n_row);

/* y [n_row, n_out] = all ranks' x, [n_row, in_cols[rank]] each, through p, which has the rank's
 * outputs. */
WHIM_MUST_CHECK whim_err whim_whole_rows_project(const whim_whole_rows *whole, whim_stream *s,
                                                 const whim_projection *p, const float *x,
                                                 int64_t n_row, const whim_whole_space *space,
                                                 float *y);

#endif
