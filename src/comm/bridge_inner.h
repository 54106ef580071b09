/* SPDX-License-Identifier: Apache-2.0 */
/* A bridge from inside: what goes out is in bridge_give.c, what comes in in bridge_take.c. */
#ifndef WHIM_COMM_BRIDGE_INNER_H
#define WHIM_COMM_BRIDGE_INNER_H

#include "base/thread.h"
#include "comm/bridge.h"

enum { WHIM_BRIDGE_PARTS = 2 }; /* of a round */

/* Numbers of a rank that node 0 is told: waits by place, and these. */
enum {
    WHIM_BRIDGE_STEP = WHIM_COMM_SITES, /* how long ago its last step ended */
    WHIM_BRIDGE_SENT,                   /* of a node's first rank: what its bridge has sent */
    WHIM_BRIDGE_DISK,                   /* whim_rank_disk, one after the other */
    WHIM_BRIDGE_METERS = WHIM_BRIDGE_DISK + WHIM_RANK_DISK_COUNT
};

/* A rank, as far as it was carried. */
typedef struct whim_bridge_rank {
    uint64_t n_round;                   /* sent, or told here */
    uint32_t n_read;                    /* letters, likewise */
    int64_t ticks;                      /* of its CPU time when it was looked at last */
    uint64_t n_work;                    /* looks at which it worked; sent */
    uint32_t ended;                     /* letters that it has followed; sent, or heard of */
    uint64_t ended_round;               /* the last of its rounds for them, as was heard */
    int64_t meters[WHIM_BRIDGE_METERS]; /* sent, or told here */
    /* parts of the rounds that come next, as bits: their bytes have a place, and are there */
    uint8_t placed[WHIM_COMM_TURNS], came[WHIM_COMM_TURNS];
} whim_bridge_rank;

/* Another node. */
typedef struct whim_bridge_node {
    bool is_there; /* something has come from it */
    bool has_left; /* its end or bye has come, or it was lost */
    bool was_told; /* the end or bye has been sent to it */
} whim_bridge_node;

struct whim_bridge {
    struct whim_comm_shared *shared;
    whim_comm comm; /* for the places of pieces; the bridge is no rank */
    const whim_link_ops *ops;
    whim_link *link;
    uint64_t generation;
    int32_t node, n_node, first, end; /* ranks [first, end) are of this host */
    int32_t rank_first[WHIM_LINK_MAX_NODE + 1];
    whim_bridge_node nodes[WHIM_LINK_MAX_NODE];
    whim_bridge_rank *ranks; /* [n_rank] */
    uint64_t n_letter;       /* sent, or told here */
    /* letters that come next: their bytes have a place, and are there */
    bool placed[WHIM_MAIL_SLOTS], came[WHIM_MAIL_SLOTS];
    char heard[sizeof(whim_diag)]; /* why a group ended elsewhere */
    char said[sizeof(whim_diag)];
    _Atomic int64_t n_stale;
    bool yields;     /* its CPU, while it looks for news */
    int64_t work_at; /* the clock, when it looks again whether ranks work */
    /* Who sleeps waits for the link by a descriptor, but ranks ring by a futex: a thread hears it
     * and writes to this one. */
    int bell;
    whim_thread listener;
    bool listens;
    atomic_bool is_stopped, is_closing;
};

/* What ranks of this host have told since the last call goes out; false: nothing. */
bool whim_bridge_give(whim_bridge *bridge);

/* Those of them that have worked since the last call, or wait to, are told of; so are letters that
 * they have followed. */
void whim_bridge_give_work(whim_bridge *bridge);

/* What they have counted since then, to node 0 (bridge_meters.c). */
void whim_bridge_give_meters(whim_bridge *bridge);

/* Whether they have told anything. */
bool whim_bridge_has_news(const whim_bridge *bridge);

/* A message without bytes, or with some that stay. */
void whim_bridge_send(whim_bridge *bridge, int32_t node, whim_link_head head, const void *bytes);

/* What comes in, as whim_link_hands. */
void *whim_bridge_place(void *ctx, const whim_link_head *head);
void whim_bridge_came(void *ctx, const whim_link_head *head);
void whim_bridge_lost(void *ctx, int32_t node, const char *why);

/* Whether a head is a number that a rank of its node may tell; it is counted here. */
bool whim_bridge_meter_is(const whim_bridge *bridge, const whim_link_head *head);
void whim_bridge_came_meter(whim_bridge *bridge, const whim_link_head *head);

#endif
