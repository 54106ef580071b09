/* SPDX-License-Identifier: Apache-2.0 */
/* A group of ranks over several hosts. On each there is a group's memory with seats, pieces and
 * letter box for all ranks, and a bridge, which stands in for the ranks of the other hosts: what a
 * rank here tells goes to the bridges there, which write it in its place and tell it. So ranks know
 * nothing of hosts, and sums, deadlines and messages are those of one host.
 * Nothing of that is taken on trust: a message with impossible numbers ends the group.
 * Threads: one owner, who is in run until the group ends; whim_bridge_stop any. */
#ifndef WHIM_COMM_BRIDGE_H
#define WHIM_COMM_BRIDGE_H

#include "comm/link.h"

typedef struct whim_bridge_cfg {
    const whim_comm_memory *memory; /* stays the caller's */
    const whim_link_ops *ops;
    const char *device; /* the one network interface; NULL: any */
    uint64_t generation;
    int32_t node, n_node;
    const int32_t *rank_first; /* [n_node + 1]: where each node's ranks begin; copied */
    bool crowded;              /* processes outnumber CPUs: it lets others run */
    uint64_t first_round;      /* that no rank has told yet, less 1; 0 but in tests */
} whim_bridge_cfg;

typedef struct whim_bridge whim_bridge;

/* *address: for the other nodes. */
WHIM_MUST_CHECK whim_err whim_bridge_open(const whim_bridge_cfg *cfg, whim_bridge **out,
                                          whim_link_address *address, whim_diag *diag);

/* Until all nodes have heard of each other; addresses[n_node]. DEVICE: one has not within wait_ns,
 * and is named. */
WHIM_MUST_CHECK whim_err whim_bridge_connect(whim_bridge *bridge,
                                             const whim_link_address *addresses, int64_t wait_ns,
                                             whim_diag *diag);

/* Carries until the group ends or it is stopped; either is told to the other nodes. */
void whim_bridge_run(whim_bridge *bridge);
void whim_bridge_stop(whim_bridge *bridge);

/* Messages of other generations that were dropped. */
int64_t whim_bridge_n_stale(const whim_bridge *bridge);

void whim_bridge_close(whim_bridge *bridge);

#endif
