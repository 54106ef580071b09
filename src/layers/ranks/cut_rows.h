/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a pass that is cut (whim_batch_cut), from all to a rank's own and back.
 * Threads: as the stream. */
#ifndef WHIM_LAYERS_RANKS_CUT_ROWS_H
#define WHIM_LAYERS_RANKS_CUT_ROWS_H

#include "device/device.h"
#include "layers/batch.h"
#include "weights/bind.h"

/* The list that a gather of rows of `width` needs, of the ranks among which the binder's model may
 * have its rows dealt; NULL: there are none, or no memory, which the binder tells. */
const int64_t *whim_cut_cols(int64_t width, whim_binder *binder);

/* The batch as a rank's mixers and MLPs see it: its own rows, and chunks as sequences. */
whim_batch whim_cut_own(const whim_batch *batch);

/* y [cut->n_row, n_col] = the rank's own of x [n_row of the batch, n_col] */
WHIM_MUST_CHECK whim_err whim_cut_select(whim_stream *s, const whim_batch *batch, const float *x,
                                         float *y, int64_t n_col);

/* y [n_part * cut->n_row * cut->n_rank, cols[0]] = all ranks' x [n_part * cut->n_row, cols[0]] as
 * they are gathered, one part behind the other. */
WHIM_MUST_CHECK whim_err whim_cut_gather(whim_stream *s, const whim_batch *batch, int64_t n_part,
                                         const int64_t *cols, const float *x, float *y,
                                         const char *site);

/* y = all ranks' x, in the order of the batch's rows, which are `stride` apart; through `gathered`,
 * [cut->n_row * cut->n_rank, cols[0]]. */
WHIM_MUST_CHECK whim_err whim_cut_join(whim_stream *s, const whim_batch *batch, const int64_t *cols,
                                       const float *x, float *gathered, float *y, int64_t stride,
                                       const char *site);

#endif
