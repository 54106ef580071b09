/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a step dealt to ranks that have the whole model each (layers/batch.h,
 * whim_batch_cut): which steps are cut, and the arrays of one on the device. All is a function of
 * the step, so that every rank finds the same without a word to the others.
 * Threads: one owner, the thread that steps. */
#ifndef WHIM_PARALLEL_CUT_H
#define WHIM_PARALLEL_CUT_H

#include "device/device.h"
#include "layers/batch.h"

enum { WHIM_CUT_SETS = 2 }; /* steps under way */

typedef struct whim_cut_cfg {
    int32_t n_rank, rank;       /* n_rank 0 or 1: nothing is cut */
    int64_t max_rows, max_seqs; /* of a step */
    int32_t n_set;
} whim_cut_cfg;

typedef struct whim_cut {
    whim_cut_cfg cfg;
    whim_device *device;
    int64_t bytes;                /* of each set of arrays */
    int32_t *arrays;              /* device */
    int32_t *sets[WHIM_CUT_SETS]; /* pinned: the same, of each step under way */
    int32_t *owners;              /* host: [2, max_rows] */
} whim_cut;

/* A step as its block has it, padded to a bucket: arrays on the host. */
typedef struct whim_cut_step {
    int64_t n_row, bucket_row, bucket_seq;
    const int32_t *q_start, *kv_len, *page_start, *positions, *slots;
} whim_cut_step;

/* Rows that a rank may have of one, those that a step may have which is not cut, and bytes of the
 * arrays, which the host has for each set. */
int64_t whim_cut_max_rows(const whim_cut_cfg *cfg);
int64_t whim_cut_max_whole(const whim_cut_cfg *cfg);
int64_t whim_cut_bytes_of(const whim_cut_cfg *cfg);
int64_t whim_cut_owners_bytes(const whim_cut_cfg *cfg); /* on the host, once */

/* Refuse ranks whose steps could never be cut. */
WHIM_MUST_CHECK whim_err whim_cut_check(const whim_cut_cfg *cfg, whim_diag *diag);

/* Deinit is right after a failure too. */
WHIM_MUST_CHECK whim_err whim_cut_init(whim_cut *cut, const whim_cut_cfg *cfg, whim_device *device,
                                       whim_diag *diag);
void whim_cut_deinit(whim_cut *cut);

/* How many rows a step leaves the busiest rank; 0: it is not cut, because it is too small, or one
 * rank would have most of it (sequences with one row each are all rank 0's). */
int64_t whim_cut_rows(const whim_cut *cut, const whim_cut_step *step);

/* The arrays of a step whose ranks have n_own rows each, padding included; how many words. */
int64_t whim_cut_fill(const whim_cut *cut, const whim_cut_step *step, int64_t n_own, int32_t *out);

/* Queue them, as step `set` of those under way. */
WHIM_MUST_CHECK whim_err whim_cut_send(const whim_cut *cut, whim_stream *s,
                                       const whim_cut_step *step, int64_t n_own, int32_t set);

/* Where a pass finds them, of any arrays. */
void whim_cut_view(const whim_cut_cfg *cfg, const int32_t *arrays, int64_t n_own, int64_t n_seq,
                   whim_batch_cut *out);

#endif
