/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of ranks/nodes.h share.
 * Threads: all of it is under the lock, but for what never changes. */
#ifndef WHIM_RANKS_NODES_INNER_H
#define WHIM_RANKS_NODES_INNER_H

#include "base/thread.h"
#include "ranks/nodes.h"
#include "ranks/wire.h"

enum { WHIM_NODES_GUESTS = 16, WHIM_NODES_FROM = 64 };

/* Somebody who has connected and not joined. */
typedef struct whim_guest {
    int fd; /* -1: nobody */
    int64_t until_ns;
    char from[WHIM_NODES_FROM];
    whim_join_challenge challenge;
    whim_join_hello hello;
    int64_t n_in; /* bytes of the hello so far */
} whim_guest;

typedef struct whim_node {
    whim_wire wire; /* closed: it is not there */
    char from[WHIM_NODES_FROM];
    whim_join_room room;
    bool has_begun; /* it was told of the last generation that began */
} whim_node;

/* The near end of a process elsewhere. */
typedef struct whim_channel {
    int fd; /* -1: closed */
    int32_t node, channel;
    whim_rank_far far;
} whim_channel;

struct whim_nodes {
    whim_nodes_cfg cfg;
    whim_join_facts facts;
    int64_t limit_ns;
    int listener;
    int64_t accept_at_ns; /* before that nobody is let in */
    whim_thread thread;
    bool is_running;
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool over;
    uint64_t generation;
    whim_node *nodes;        /* [n_node]; 0 is this one */
    whim_channel **channels; /* [n_rank + n_node]: each stays where it is */
    int32_t n_channel;
    whim_guest guests[WHIM_NODES_GUESTS];
    whim_diag refused; /* the last one who could not join, for messages */
};

/* --- who comes (nodes_join.c) ------------------------------------------------------------- */

/* Where they come; BUSY: somebody has the port. */
WHIM_MUST_CHECK whim_err whim_nodes_port_open(whim_nodes *n, whim_diag *diag);
void whim_nodes_accept(whim_nodes *n, int64_t now_ns);
void whim_guest_look(whim_nodes *n, whim_guest *guest, int64_t now_ns, bool has_come);

/* --- who is there (nodes_relay.c) --------------------------------------------------------- */

void whim_node_look(whim_nodes *n, int32_t node, int64_t now_ns, bool has_come);

/* It is gone, and its processes with it. */
void whim_node_lose(whim_nodes *n, int32_t node, const char *why);
void whim_channel_look(whim_nodes *n, whim_channel *channel);
void whim_channel_end(whim_channel *channel, const char *how);

#endif
