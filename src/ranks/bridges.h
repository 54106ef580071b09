/* SPDX-License-Identifier: Apache-2.0 */
/* The bridges between hosts, as the leader has them started: one process on each node
 * (ranks/bridge_order.h), told where the others are.
 * Threads: one owner. */
#ifndef WHIM_RANKS_BRIDGES_H
#define WHIM_RANKS_BRIDGES_H

#include "ranks/nodes.h"

typedef struct whim_bridges_cfg {
    whim_nodes *nodes;
    const char *program, *device;
    int memory; /* of this host's group */
    int32_t n_node, n_rank;
    uint64_t generation;
    int64_t stall_ns;
    bool crowded;
} whim_bridges_cfg;

/* Starts them and waits until each is connected to all. `bridges` has a place for each node. */
WHIM_MUST_CHECK whim_err whim_bridges_open(const whim_bridges_cfg *cfg, whim_rank_process *bridges,
                                           whim_diag *diag);

/* Whether this node could have a bridge: starts one that reaches nobody. UNSUPPORTED: what it needs
 * is not installed, and diag names it; IO: no interface can be used. */
WHIM_MUST_CHECK whim_err whim_bridge_try(const char *program, int32_t node, const char *device,
                                         whim_diag *diag);

#endif
