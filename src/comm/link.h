/* SPDX-License-Identifier: Apache-2.0 */
/* How bridges (comm/bridge.h) of several hosts reach each other: a table of functions, of which
 * there is one for UCX, in a module that is loaded when it is needed, and one for tests.
 * A message is a head and up to some MB. Messages may overtake each other. What is sent must stay
 * as it is until it has arrived: nobody tells the sender when.
 * Threads: one owner, who is called back from within poll only. */
#ifndef WHIM_COMM_LINK_H
#define WHIM_COMM_LINK_H

#include "comm/shared.h"

enum { WHIM_LINK_MAX_NODE = 256, WHIM_LINK_ADDRESS = 1024 };

typedef enum whim_link_kind {
    WHIM_LINK_HELLO,  /* the first of each node */
    WHIM_LINK_ROUND,  /* part of a rank's piece */
    WHIM_LINK_LETTER, /* of rank 0 */
    WHIM_LINK_READ,   /* letters that a rank has read */
    WHIM_LINK_END,    /* the group's, with its reason; nothing else follows */
    WHIM_LINK_BYE,    /* nothing else follows */
    WHIM_LINK_WORK,   /* how often a rank was seen to work */
    WHIM_LINK_METER,  /* to node 0: a number that a rank counts, which one is the part */
    WHIM_LINK_ENDED   /* letters that a rank has followed to the end, in rounds up to call.size */
} whim_link_kind;

/* As it travels: hosts have one order of bytes. */
typedef struct whim_link_head {
    uint64_t generation;
    int32_t kind, node; /* of who sends */
    uint64_t count;     /* rounds or letters, this one among them; as the kind says */
    int32_t rank;
    int32_t bytes;        /* that follow */
    int32_t at, back;     /* where they are in the piece, of this round or of the one before */
    int32_t part, n_part; /* of a round */
    whim_comm_call call;
} whim_link_head;

typedef struct whim_link_address {
    int32_t bytes;
    uint8_t data[WHIM_LINK_ADDRESS];
} whim_link_address;

/* What the owner of a link does. */
typedef struct whim_link_hands {
    void *ctx;
    /* Where the bytes of a message go, head->bytes of them; NULL: it is dropped. Heads that say
     * another number than came have -1. */
    void *(*place)(void *ctx, const whim_link_head *head);
    /* They are there. */
    void (*came)(void *ctx, const whim_link_head *head);
    /* A node cannot be reached any more. */
    void (*lost)(void *ctx, int32_t node, const char *why);
} whim_link_hands;

typedef struct whim_link_cfg {
    int32_t node, n_node;
    const char *device; /* the one network interface; NULL: any */
    whim_link_hands hands;
} whim_link_cfg;

typedef struct whim_link whim_link;

typedef struct whim_link_ops {
    const char *version; /* of whimbrel, to know a module of another build */
    int64_t head_bytes;
    whim_err (*open)(const whim_link_cfg *cfg, whim_link **out, whim_link_address *address,
                     whim_diag *diag);
    /* addresses[n_node]; the own one is not looked at. */
    whim_err (*connect)(whim_link *link, const whim_link_address *addresses, whim_diag *diag);
    /* Failures come by hands.lost. The head is copied. */
    void (*send)(whim_link *link, int32_t node, const whim_link_head *head, const void *bytes);
    /* Does what there is to do now; false: there was nothing. */
    bool (*poll)(whim_link *link);
    /* A descriptor that wakes a poll(2) when there is something to do; -1: there is already. */
    int (*arm)(whim_link *link);
    /* Messages that have not left yet. */
    int64_t (*n_waiting)(const whim_link *link);
    void (*close)(whim_link *link);
} whim_link_ops;

/* What the module exports: a const whim_link_ops. */
#define WHIM_LINK_SYMBOL whim_link_ucx

/* Sets a variable of the environment, unless it is set. */
typedef void (*whim_link_set)(const char *name, const char *value);

/* The module for UCX: at `path`, or (NULL) beside this program or in ../lib/whimbrel from there. It
 * stays loaded; its settings are made before, by `set`. UNSUPPORTED: there is none, or no library
 * for it; diag names the package. */
WHIM_MUST_CHECK whim_err whim_link_load(const char *path, whim_link_set set,
                                        const whim_link_ops **out, whim_diag *diag);

#endif
