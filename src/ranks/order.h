/* SPDX-License-Identifier: Apache-2.0 */
/* What a leader and its followers say to each other beside their steps: fixed messages over a
 * socket that keeps them apart. The leader orders; a follower answers each order once.
 * Threads: plain data. */
#ifndef WHIM_RANKS_ORDER_H
#define WHIM_RANKS_ORDER_H

#include "engine/engine.h"

#include <limits.h>
#include <stdint.h>

enum {
    WHIM_ORDER_MAGIC = 0x6b6e6172,
    WHIM_ORDER_PATH = PATH_MAX,
    WHIM_ORDER_WORD = 32,
    WHIM_ORDER_LIST = 1024, /* all of it must fit into a frame of ranks/wire.h */
};

/* The descriptors that a follower's process begins with. */
enum { WHIM_FOLLOWER_SOCKET = 3, WHIM_FOLLOWER_MEMORY = 4 };

/* Which model, on what, with which sizes: as the leader has it. Empty texts are those that nobody
 * gave. */
typedef struct whim_follower_order {
    uint32_t magic;
    uint32_t bytes; /* of this message */
    char version[WHIM_ORDER_WORD];
    int32_t rank, n_rank, n_share, n_deal, n_group;
    int32_t host_first, n_host; /* the ranks of its host */
    int32_t n_thread;
    bool deal_cut;
    bool crowded;     /* ranks outnumber CPUs */
    int64_t stall_ns; /* how long it waits for others in a step; 0: as is usual */
    char model[WHIM_ORDER_PATH], draft[WHIM_ORDER_PATH], kv_dir[WHIM_ORDER_PATH];
    char draft_type[WHIM_ORDER_WORD], load_format[WHIM_ORDER_WORD], weight_type[WHIM_ORDER_WORD];
    char backend[WHIM_ORDER_WORD], isa[WHIM_ORDER_WORD], kv_type[WHIM_ORDER_WORD];
    char deal_rows[WHIM_ORDER_WORD], deal_counts[WHIM_ORDER_LIST];
    int32_t deal_slots;
    whim_engine_sizes sizes;
    int64_t max_step_tokens, max_outs, max_kept;
    int32_t n_flight, graphs;
    bool kv_as_used, embeds;
} whim_follower_order;

/* After the order: the plan is made. After WHIM_RANK_LOAD: weights are there. */
typedef struct whim_follower_reply {
    int32_t err;
    whim_diag diag;
    char isa[WHIM_ORDER_WORD]; /* the level that it found */
    int64_t plan_bytes;        /* all that it will take */
    uint64_t weights;          /* whim_rank_weights */
} whim_follower_reply;

/* The second order, one word. */
enum { WHIM_RANK_LOAD = 0x64616f6c };

/* The order of a rank, from the leader's configuration. INVALID: a path is too long. */
WHIM_MUST_CHECK whim_err whim_follower_order_make(whim_follower_order *order,
                                                  const whim_engine_cfg *cfg,
                                                  const whim_engine_sizes *sizes, int32_t rank,
                                                  whim_diag *diag);

/* And back; texts point into the order. CORRUPT: it comes from another build, or is none. */
WHIM_MUST_CHECK whim_err whim_follower_order_read(const whim_follower_order *order, int64_t bytes,
                                                  whim_engine_cfg *cfg, whim_diag *diag);

/* A name of what the files of a prepared engine and of its draft hold. */
WHIM_MUST_CHECK whim_err whim_rank_weights(const whim_engine *engine, uint64_t *out,
                                           whim_diag *diag);

#endif
