/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of ranks with rows of their own, in which attention is cut over the ranks of a group and
 * MLPs and experts over all. What mixers add is summed inside a group only, never among all: others
 * have other rows. On the way to an MLP each rank of a group gets some columns of that sum, and all
 * ranks gather all columns; on the way back it is the same the other way round. Every group brings
 * as many rows as the largest has: of gathered rows, number i * n_group + g is row i of group g.
 * Threads: as the stream. */
#ifndef WHIM_LAYERS_RANKS_MEET_H
#define WHIM_LAYERS_RANKS_MEET_H

#include "device/device.h"
#include "weights/bind.h"

/* Who still has to add up what is in a buffer. */
typedef enum whim_owed { WHIM_OWED_NOTHING, WHIM_OWED_GROUP, WHIM_OWED_ALL } whim_owed;

typedef struct whim_rows {
    float *x;
    whim_owed owed;
} whim_rows;

/* For whoever reads them. INVALID: a sum is still owed, which is a bug. */
WHIM_MUST_CHECK whim_err whim_rows_get(const whim_rows *rows, const float **x);

typedef struct whim_meet {
    int32_t n_rank, rank; /* of all */
    int32_t n_group, group;
    int32_t span; /* ranks of a group */
    int64_t d_model;
    whim_part own;        /* columns of this rank */
    const int64_t *cols;  /* [n_rank] columns of each; the first `span` are those of any group */
    const int64_t *marks; /* [n_rank] marks of a row that each tells: 1 the first of a group */
} whim_meet;

/* NULL: the binder's MLPs are cut as all else is; or no memory, which the binder tells. */
const whim_meet *whim_meet_make(int64_t d_model, whim_binder *binder);

/* `delta`, owed by the group, is added to x; both [n_row, d_model], and delta has room for n_each.
 * all [n_each * n_group, d_model] = x of all groups; through `part` [n_each, own.n]. */
WHIM_MUST_CHECK whim_err whim_meet_gather(const whim_meet *meet, whim_stream *s,
                                          const whim_rows *delta, int64_t n_row, int64_t n_each,
                                          float *part, float *x, float *all);

/* marks [n_each * n_group] = which rows of all groups are some: below 0 they are padding, and no
 * expert's. Own ones are below 0 where `tokens` [n_row] are; through `own` [n_each]. */
WHIM_MUST_CHECK whim_err whim_meet_mark(const whim_meet *meet, whim_stream *s,
                                        const int32_t *tokens, int64_t n_row, int64_t n_each,
                                        int32_t *own, int32_t *marks);

/* y [n_each, d_model] = this group's rows of `all`, owed by all; through `part` as above. */
WHIM_MUST_CHECK whim_err whim_meet_scatter(const whim_meet *meet, whim_stream *s,
                                           const whim_rows *all, int64_t n_each, float *part,
                                           whim_rows *y);

#endif
