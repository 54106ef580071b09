/* SPDX-License-Identifier: Apache-2.0 */
/* Groups over several "hosts" for tests: each has memory and a bridge of its own, and ranks are
 * threads. One host alone has no bridge.
 * Threads: one owner. */
#ifndef WHIM_SUPPORT_HOSTS_H
#define WHIM_SUPPORT_HOSTS_H

#include "base/thread.h"
#include "comm/bridge_inner.h"

enum {
    WHIM_HOSTS_RANKS = 6,
    WHIM_HOSTS_NODES = 4,
    WHIM_HOSTS_WAIT_S = 60,
    WHIM_HOSTS_GENERATION = 7
};

typedef struct whim_hosts whim_hosts;

typedef struct whim_hosts_rank {
    whim_hosts *of;
    whim_comm comm;
    whim_mail mail;
    whim_err err;
    whim_diag diag;
    uint64_t hash; /* of all that it got */
    whim_thread thread;
} whim_hosts_rank;

typedef struct whim_host {
    whim_hosts *of;
    int32_t node;
    whim_comm_memory memory;
    whim_bridge *bridge;
    whim_err err;
    whim_diag diag;
    whim_thread thread;
} whim_host;

struct whim_hosts {
    const whim_link_ops *ops;
    const char *device;
    int32_t n_node, rank_first[WHIM_HOSTS_NODES + 1];
    whim_link_address addresses[WHIM_HOSTS_NODES];
    void (*fn)(whim_hosts_rank *rank);
    int64_t wait_ns;
    uint64_t first_round, seed;
    whim_host hosts[WHIM_HOSTS_NODES];
    whim_hosts_rank ranks[WHIM_HOSTS_RANKS];
};

/* Opens node `node` of g, whose n_node and rank_first are there. */
void whim_host_open(whim_hosts *g, int32_t node);

/* n_rank: of each node, then 0. Ranks run fn. */
void whim_hosts_begin(whim_hosts *g, const int32_t *n_rank, void (*fn)(whim_hosts_rank *rank));
/* Until all hosts have seen all ranks in a round. */
void whim_hosts_await_round(whim_hosts *g, uint32_t round);
void whim_hosts_join_ranks(whim_hosts *g);
void whim_hosts_stop(whim_hosts *g);
void whim_hosts_close(whim_hosts *g);
void whim_hosts_run(whim_hosts *g, const int32_t *n_rank, void (*fn)(whim_hosts_rank *rank));

/* A rank: all collectives, with letters between them; rank->hash is of all that it got. */
void whim_hosts_all(whim_hosts_rank *rank);

/* That on several nodes and on one: CORRUPT when a rank got something else. */
WHIM_MUST_CHECK whim_err whim_hosts_same(whim_hosts *g, const int32_t *n_rank, whim_diag *diag);

/* One letter from rank 0 to the others. */
whim_err whim_hosts_letter(whim_hosts_rank *rank, const void *body, int64_t bytes);

#endif
