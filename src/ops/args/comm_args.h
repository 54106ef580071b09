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

/* Which ranks take part, where these are cut into blocks and groups of them (whim_comm_split): the
 * block of this one, whose comm the stream has, all, or those that have its place in the other
 * blocks of its group, or in the other groups. Where nothing is cut all of these are all. */
typedef enum whim_among {
    WHIM_AMONG_OWN,
    WHIM_AMONG_ALL,
    WHIM_AMONG_BESIDE,
    WHIM_AMONG_ACROSS
} whim_among;

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

/* Rows to the experts that they chose, which are dealt to ranks: row i is rank i % n_rank's, and
 * the others have room for it. Afterwards all ranks with an expert of ids[i] have it; where none of
 * them is, what lies there stays. All ranks have the same ids. Rows are words whatever they stand
 * for. */
typedef struct whim_moe_dispatch_args {
    float *x;              /* [n_row, n_col] */
    const int32_t *ids;    /* [n_row, k_top] */
    const int32_t *firsts; /* [n_rank + 1] on the host: rank i has experts firsts[i] .. */
    int64_t n_row, n_col;
    int32_t k_top, n_rank, rank;
    const char *site;
} whim_moe_dispatch_args;

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

/* As many as rows have that do not find all their experts at home, with choices that are even. */
static inline int64_t whim_moe_dispatch_bytes(const whim_moe_dispatch_args *a)
{
    double away = 0;
    for (int32_t r = 0; r < a->n_rank; r++) {
        double home = 1;
        for (int32_t k = 0; k < a->k_top; k++) {
            int32_t left = a->firsts[r + 1] - a->firsts[r] - k;
            home *= left > 0 ? (double)left / (a->firsts[a->n_rank] - k) : 0;
        }
        away += (1 - home) / a->n_rank;
    }
    return (int64_t)(away * (double)(a->n_row * a->n_col)) * (int64_t)sizeof *a->x;
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
