/* SPDX-License-Identifier: Apache-2.0 */
/* What a host's process and its bridge (comm/bridge.h) say to each other: fixed messages over a
 * socket that keeps them apart (SOCK_SEQPACKET). The order is answered by where this bridge can be
 * reached; then comes one whim_bridge_peer for each node, in their order and the bridge's own among
 * them, and when it has connected to all it answers again. From then on it carries what its group
 * tells, until the group ends, for whatever reason, or its end of the socket is closed.
 * Threads: plain data. */
#ifndef WHIM_RANKS_BRIDGE_ORDER_H
#define WHIM_RANKS_BRIDGE_ORDER_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    WHIM_BRIDGE_MAGIC = 0x67647262,
    WHIM_BRIDGE_MAX_NODE = 256,
    WHIM_BRIDGE_ADDRESS = 1024, /* bytes of the longest address */
    WHIM_BRIDGE_DEVICE = 64,
    WHIM_BRIDGE_VERSION = 32,
};

/* The descriptors that a bridge's process begins with; its one argument is "bridge". */
enum { WHIM_BRIDGE_SOCKET = 3, WHIM_BRIDGE_MEMORY = 4 };

typedef struct whim_bridge_order {
    uint32_t magic;
    uint32_t bytes; /* of this message */
    char version[WHIM_BRIDGE_VERSION];
    uint64_t generation; /* what bridges of another one send is dropped */
    int32_t node, n_node;
    /* Node i has ranks rank_first[i] to rank_first[i + 1] - 1, at least one; the last is the count
     * of all, as the memory has it. */
    int32_t rank_first[WHIM_BRIDGE_MAX_NODE + 1];
    char device[WHIM_BRIDGE_DEVICE]; /* the one network interface; empty: any */
    int64_t stall_ns;                /* how long nodes may be unheard of at first; 0: as is usual */
    int64_t patience_ns;             /* for an interface that has just come, until it can be used */
    bool crowded;                    /* processes outnumber CPUs: it lets others run */
} whim_bridge_order;

typedef struct whim_bridge_address {
    int32_t bytes;
    uint8_t data[WHIM_BRIDGE_ADDRESS];
} whim_bridge_address;

/* UNSUPPORTED: there is no library for it; diag names the package. */
typedef struct whim_bridge_reply {
    uint32_t magic;
    uint32_t bytes;
    int32_t err;
    whim_diag diag;
    whim_bridge_address address; /* of the first reply */
} whim_bridge_reply;

typedef struct whim_bridge_peer {
    uint32_t magic;
    uint32_t bytes;
    int32_t node;
    whim_bridge_address address;
} whim_bridge_peer;

/* The whole life of a bridge's process. Returns its exit code: success when its group ended, or
 * nobody needs it any more. `leave` ends the process at once, from any thread; `set` sets a
 * variable of its environment, unless it is set. */
int whim_bridge_main(void (*leave)(int code), void (*set)(const char *name, const char *value));

#endif
