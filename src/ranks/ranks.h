/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of a model, on this host or on several. Rank 0, the leader, is the process that calls;
 * the others are processes of the same program, which load their parts and follow its steps. They
 * are started here, or by the agents of other hosts (ranks/nodes.h), told what to load, watched,
 * and ended; none outlives the leader.
 * Threads: one owner; a thread of its own watches. */
#ifndef WHIM_RANKS_RANKS_H
#define WHIM_RANKS_RANKS_H

#include "engine/engine.h"
#include "ranks/nodes.h"

typedef struct whim_ranks_cfg {
    int32_t n_rank;      /* 2 or more */
    bool may_crowd;      /* more ranks than CPUs are taken */
    bool is_wish;        /* nobody asked for them: refuse also what is right, but does not pay */
    const char *program; /* what followers run, with the one argument "rank"; NULL: this one */
    int64_t stall_ns;    /* how long a rank waits for another in a step; 0: as is usual */
    const whim_nodes_cfg *nodes; /* the hosts, of which this is node 0; NULL: this one alone */
} whim_ranks_cfg;

/* Whether this host takes so many ranks; *crowded: they outnumber its CPUs. */
WHIM_MUST_CHECK whim_err whim_ranks_count_check(int32_t n_rank, int32_t n_thread, bool may_crowd,
                                                bool *crowded, whim_diag *diag);

/* As whim_engine_prepare, for rank 0; the others are prepared, too, in processes of their own.
 * Their plans are part of the engine's; they load when it does, and end when it is closed. */
WHIM_MUST_CHECK whim_err whim_ranks_prepare(const whim_engine_cfg *engine_cfg,
                                            const whim_ranks_cfg *cfg, whim_engine **out,
                                            whim_diag *diag);

/* The whole life of a follower's process: orders come by descriptor WHIM_FOLLOWER_SOCKET. Returns
 * its exit code; `leave` ends the process at once, from any thread, when there is no leader. */
int whim_follower_main(void (*leave)(int code));

#endif
