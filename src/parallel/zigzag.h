/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank computes which rows of a step, so that all have about as much to attend to. The new
 * rows of a sequence are cut into 2 n_rank chunks; rank r has chunks r and 2 n_rank - 1 - r:
 * an early one, which sees few keys, and a late one, which sees many. A rank's rows are the first
 * chunks of all sequences, then the second chunks of all. Chunks may be empty, so sequences of any
 * length are cut, those of one row included.
 * Threads: stateless. */
#ifndef WHIM_PARALLEL_ZIGZAG_H
#define WHIM_PARALLEL_ZIGZAG_H

#include <stdint.h>

/* The sequences of a step, and among how many their rows are dealt. */
typedef struct whim_zigzag {
    int32_t n_rank;
    int64_t n_seq;
    const int32_t *q_start; /* [n_seq + 1]: rows of the step */
    const int32_t *kv_len;  /* [n_seq], rows of this step included */
} whim_zigzag;

/* How many rows a rank has, and the rank with the most. */
int64_t whim_zigzag_rows(const whim_zigzag *step, int32_t rank);
int64_t whim_zigzag_most(const whim_zigzag *step);

/* A rank's chunks as sequences of their own, in the order of its rows: chunk c's rows are
 * q_start[c] .. q_start[c + 1] - 1 of the rank, and its last one sees kv_len[c] keys. */
void whim_zigzag_chunks(const whim_zigzag *step, int32_t rank, int32_t *q_start, /* [2 n_seq + 1] */
                        int32_t *kv_len);                                        /* [2 n_seq] */

/* Who has each of the step's rows, and as which of its own. */
void whim_zigzag_owners(const whim_zigzag *step, int32_t *ranks, int32_t *rows);

#endif
