/* SPDX-License-Identifier: Apache-2.0 */
/* The hosts that have a model together, as the leader (node 0) sees them: where it waits for the
 * agents of the others (ranks/agent.h), who has joined, and their processes, each by a socket as if
 * it ran here. An agent that is lost ends all processes of its host; it may join again.
 * Threads: one owner; a thread of its own listens, beats and relays. */
#ifndef WHIM_RANKS_NODES_H
#define WHIM_RANKS_NODES_H

#include "ranks/join.h"
#include "ranks/process.h"

typedef struct whim_nodes_cfg {
    int32_t n_node;     /* 2 or more */
    int32_t node;       /* which one this is */
    const char *host;   /* of node 0 */
    const char *port;   /* a number */
    const char *device; /* the one network interface for the model's messages; NULL: any */
    whim_join_secret secret;
    int64_t join_ns;  /* how long to wait for others */
    int64_t hello_ns; /* how long somebody may take to say who it is; 0: as is usual */
    /* Told by node 0 of each node that has less room than those before it, and what all have then;
     * NULL: nobody. */
    void (*on_lower)(void *ctx, int32_t node, const whim_engine_sizes *sizes);
    void *ctx;
} whim_nodes_cfg;

/* The ranks of a node: they are dealt in order, as evenly as they can be. */
int32_t whim_nodes_first(int32_t n_rank, int32_t n_node, int32_t node);

typedef struct whim_nodes whim_nodes;

/* Binds the port. BUSY: somebody has it. The texts of cfg outlive it. */
WHIM_MUST_CHECK whim_err whim_nodes_open(const whim_nodes_cfg *cfg, whim_nodes **out,
                                         whim_diag *diag);

/* From now on nodes may join that are alike. limit_ns: of silence; 0: as is usual. */
WHIM_MUST_CHECK whim_err whim_nodes_start(whim_nodes *nodes, const whim_join_facts *facts,
                                          int64_t limit_ns, whim_diag *diag);
void whim_nodes_close(whim_nodes *nodes);

/* The port that it has. */
int32_t whim_nodes_port(const whim_nodes *nodes);

/* Waits until all nodes are there. */
WHIM_MUST_CHECK whim_err whim_nodes_await(whim_nodes *nodes, int64_t wait_ns, whim_diag *diag);

/* The same, and begins the next generation on them. */
WHIM_MUST_CHECK whim_err whim_nodes_begin(whim_nodes *nodes, int64_t wait_ns, uint64_t *generation,
                                          whim_diag *diag);

/* A process of the generation, on the node of the rank; WHIM_WIRE_BRIDGE: the bridge of `node`. It
 * is started by the first message to it. p->name is there. */
WHIM_MUST_CHECK whim_err whim_nodes_process(whim_nodes *nodes, int32_t node, int32_t channel,
                                            whim_rank_process *p, whim_diag *diag);

/* Ends the processes of the generation, everywhere. */
void whim_nodes_end(whim_nodes *nodes);

/* What a node had room for when it joined. */
whim_join_room whim_nodes_room(whim_nodes *nodes, int32_t node);

#endif
