/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of collectives: what ranks do together, each on its own stream with its own arguments
 * (whim_stream.comm). All ranks queue the same ones in the same order, also with no rows and no
 * columns. A stream without a comm is the only rank of its group. Pointers are device memory but
 * for the lists with an entry for each rank, which lie on the host and stay as they are for as long
 * as anything queued or recorded names them; so does `site`, which says which one of a pass it is,
 * for messages and meters. */
#ifndef WHIM_OPS_ARGS_COMM_ARGS_H
#define WHIM_OPS_ARGS_COMM_ARGS_H

#include <stdbool.h>
#include <stdint.h>

/* Which ranks take part, where these are cut into blocks (whim_comm_split): those of the stream's
 * comm, all, or those that have this rank's place in their blocks. Without blocks all are all. */
typedef enum whim_among { WHIM_AMONG_OWN, WHIM_AMONG_ALL, WHIM_AMONG_ACROSS } whim_among;

/* x becomes the sum of all ranks' x, element by element, in FP32 and in the order of ranks. */
typedef struct whim_all_reduce_args {
    float *x; /* [n_row, n_col] */
    int64_t n_row, n_col;
    const char *site;
    whim_among among;
} whim_all_reduce_args;

/* The ranks' columns side by side, on every rank. */
typedef struct whim_all_gather_v_args {
    const float *x;      /* [n_row, cols[rank]] */
    const int64_t *cols; /* [n_rank] on the host */
    float *y;            /* [n_row, sum of cols] */
    int64_t n_row;
    int32_t n_rank, rank; /* 1 and 0 for one that is alone */
    const char *site;
    whim_among among;
} whim_all_gather_v_args;

/* The sum as of all_reduce; each rank has its columns of it. */
typedef struct whim_reduce_scatter_v_args {
    const float *x;      /* [n_row, sum of cols] */
    const int64_t *cols; /* [n_rank] on the host */
    float *y;            /* [n_row, cols[rank]] */
    int64_t n_row;
    int32_t n_rank, rank;
    const char *site;
    whim_among among;
} whim_reduce_scatter_v_args;

/* x holds send[r] bytes for each rank r in turn, y gets take[r] from each. */
typedef struct whim_all_to_all_v_args {
    const void *x;
    const int64_t *send, *take; /* [n_rank] on the host */
    void *y;
    int32_t n_rank, rank;
    const char *site;
} whim_all_to_all_v_args;

/* Results of experts that are dealt to ranks: x[r][j] was made by the rank that has expert
 * ids[r][j], the others have room for it. Afterwards whoever wants row r has all of its results:
 * everybody, or rank r % n_rank alone. What nobody made stays as it is. All ranks have the same
 * ids, so that none has to be told what comes from where. */
typedef struct whim_moe_exchange_args {
    float *x;              /* [n_row, k_top, n_col] */
    const int32_t *ids;    /* [n_row, k_top] */
    const int32_t *firsts; /* [n_rank + 1] on the host: rank i has experts firsts[i] .. */
    int64_t n_row, n_col;
    int32_t k_top, n_rank, rank;
    bool all; /* everybody wants all rows */
    const char *site;
} whim_moe_exchange_args;

/* x of rank `root` becomes everybody's. */
typedef struct whim_broadcast_args {
    void *x;
    int64_t bytes;
    int32_t root;
    whim_among among;
    const char *site;
} whim_broadcast_args;

/* Nothing queued behind it runs before all ranks have come to it. */
typedef struct whim_barrier_args {
    const char *site;
} whim_barrier_args;

/* The sum of a list with an entry for each rank. */
static inline int64_t whim_ranks_sum(const int64_t *list, int32_t n_rank)
{
    int64_t sum = 0;
    for (int32_t r = 0; r < n_rank; r++) {
        sum += list[r];
    }
    return sum;
}

/* Bytes of the message of each, as a comm counts them (whim_comm.n_byte). */
static inline int64_t whim_all_reduce_bytes(const whim_all_reduce_args *a)
{
    return a->n_row * a->n_col * (int64_t)sizeof *a->x;
}

static inline int64_t whim_all_gather_v_bytes(const whim_all_gather_v_args *a)
{
    return a->n_row * whim_ranks_sum(a->cols, a->n_rank) * (int64_t)sizeof *a->x;
}

static inline int64_t whim_reduce_scatter_v_bytes(const whim_reduce_scatter_v_args *a)
{
    return a->n_row * whim_ranks_sum(a->cols, a->n_rank) * (int64_t)sizeof *a->x;
}

static inline int64_t whim_all_to_all_v_bytes(const whim_all_to_all_v_args *a)
{
    return whim_ranks_sum(a->send, a->n_rank);
}

/* As many as experts that are chosen evenly make. */
static inline int64_t whim_moe_exchange_bytes(const whim_moe_exchange_args *a)
{
    int64_t bytes = a->n_row * a->k_top * a->n_col * (int64_t)sizeof *a->x;
    return a->all ? bytes : bytes / a->n_rank * (a->n_rank - 1);
}

static inline int64_t whim_broadcast_bytes(const whim_broadcast_args *a)
{
    return a->bytes;
}

static inline int64_t whim_barrier_bytes(const whim_barrier_args *a)
{
    (void)a;
    return 0;
}

#endif
