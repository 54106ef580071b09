/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of ranks/ranks.h share.
 * Threads: as there. */
#ifndef WHIM_RANKS_RANKS_INNER_H
#define WHIM_RANKS_RANKS_INNER_H

#include "base/thread.h"
#include "comm/comm.h"
#include "ranks/order.h"
#include "ranks/process.h"
#include "ranks/ranks.h"

#include <stdatomic.h>

typedef struct whim_ranks {
    whim_engine_cfg cfg;  /* rank 0's */
    pthread_mutex_t lock; /* of `memory`, against who looks at meters meanwhile */
    whim_comm_memory memory;
    whim_comm comm;
    const char *program;
    bool crowded;
    int64_t stall_ns;
    whim_engine_sizes sizes;      /* where those of rank 0 were lowered to another's */
    whim_follower_order *order;   /* of each, but for its rank: texts of the caller's may be gone */
    uint64_t weights;             /* whim_rank_weights of rank 0, at the first start */
    whim_rank_process *followers; /* [n_rank - 1], of rank 1 and so on */
    /* with several hosts */
    whim_nodes *nodes;          /* NULL: this one alone */
    whim_nodes_cfg nodes_cfg;   /* n_node 1: this one alone */
    whim_rank_process *bridges; /* [n_node] */
    whim_thread watch;
    bool is_watched;
    atomic_bool over;
} whim_ranks;

/* The first rank of a node. */
static inline int32_t whim_ranks_first(const whim_ranks *r, int32_t node)
{
    return whim_nodes_first(r->cfg.n_rank, r->nodes_cfg.n_node, node);
}

/* --- from orders to loaded ranks (ranks_start.c) ------------------------------------------- */

/* What all of them are told, now and when they are started again. */
WHIM_MUST_CHECK whim_err whim_ranks_order_make(whim_ranks *r, const whim_engine *engine,
                                               whim_diag *diag);

/* All of a generation but its memory, up to the load. *bytes: what those of this host take. */
WHIM_MUST_CHECK whim_err whim_ranks_start(whim_ranks *r, const whim_engine *engine, int64_t wait_ns,
                                          int64_t *bytes, whim_diag *diag);

/* They begin to load; they have. Between the two and from then on they are watched. */
whim_err whim_ranks_load_begin(void *ctx, whim_diag *diag);
whim_err whim_ranks_load_end(void *ctx, whim_diag *diag);

/* Nobody is watched any more. */
void whim_ranks_watch_end(whim_ranks *r);

#endif
