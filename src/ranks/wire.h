/* SPDX-License-Identifier: Apache-2.0 */
/* What a leader and the agents of other hosts send each other once an agent has joined
 * (ranks/join.h): frames over TCP, a fixed head and at most WHIM_WIRE_MOST bytes. Both ends say
 * that they are there ten times a second; who hears nothing for a while takes the other as lost.
 * Nobody waits long to send: of one frame the rest stays here until the other end takes it, and a
 * few without data have a place behind it. Who has more to send may wait for that; to send all the
 * same waits a little, then the other is lost.
 * Threads: one owner at a time. */
#ifndef WHIM_RANKS_WIRE_H
#define WHIM_RANKS_WIRE_H

#include "base/err.h"
#include "comm/shared.h"

#include <stdint.h>

enum {
    WHIM_WIRE_MAGIC = 0x65726977,
    WHIM_WIRE_MOST = 16384,
    WHIM_WIRE_HEADS = 16,        /* of frames that wait to be taken; one of them may have data */
    WHIM_WIRE_BEAT_MS = 100,     /* between two signs of life */
    WHIM_WIRE_LIMIT_MS = 700,    /* without one */
    WHIM_WIRE_CROWDED_MS = 5000, /* where processes share CPUs */
    WHIM_WIRE_BRIDGE = -1, /* the channel of a node's bridge; those of ranks are their numbers */
};

typedef enum whim_wire_kind {
    WHIM_WIRE_BEAT,  /* both ways; nothing else in it */
    WHIM_WIRE_BEGIN, /* to an agent: a generation begins */
    WHIM_WIRE_DATA,  /* a message to or from the process of a channel, which the first one starts */
    WHIM_WIRE_ENDED, /* from an agent: such a process ended; how, in words */
    WHIM_WIRE_END,   /* to an agent: the generation is over */
    WHIM_WIRE_KINDS
} whim_wire_kind;

typedef struct whim_wire_head {
    uint32_t magic;
    uint32_t bytes; /* that follow */
    uint64_t generation;
    int32_t kind;
    int32_t channel;
} whim_wire_head;

/* Whether `n` bytes begin with a whole frame: *used says how long it is, and 0 that more must come.
 * CORRUPT: no frame begins so. */
WHIM_MUST_CHECK whim_err whim_wire_parse(const void *data, int64_t n, whim_wire_head *head,
                                         int64_t *used, whim_diag *diag);

typedef struct whim_wire {
    int fd; /* -1: closed */
    int64_t limit_ns, beat_at_ns;
    whim_comm_wait quiet; /* since the last byte came */
    int64_t n_in;
    uint8_t in[sizeof(whim_wire_head) + WHIM_WIRE_MOST];
    int64_t out_at, n_out; /* of the last frames, what has not been taken */
    uint8_t out[WHIM_WIRE_MOST + WHIM_WIRE_HEADS * sizeof(whim_wire_head)];
} whim_wire;

/* Takes the socket. limit_ns 0: as is usual. */
void whim_wire_open(whim_wire *wire, int fd, int64_t limit_ns);
void whim_wire_close(whim_wire *wire);

WHIM_MUST_CHECK whim_err whim_wire_send(whim_wire *wire, whim_wire_head head, const void *data,
                                        whim_diag *diag);

/* Sends what is left of the last frames, as far as it is taken now; n_out is 0 when all is. */
WHIM_MUST_CHECK whim_err whim_wire_flush(whim_wire *wire, whim_diag *diag);

/* Takes what has come, without waiting, and gives it to `on_frame`, frame by frame. IO: the other
 * end is closed. */
typedef whim_err whim_wire_fn(void *ctx, const whim_wire_head *head, const void *data,
                              whim_diag *diag);
WHIM_MUST_CHECK whim_err whim_wire_take(whim_wire *wire, whim_wire_fn *on_frame, void *ctx,
                                        whim_diag *diag);

/* Says that this end is there, if it is time, and nothing else is under way. */
WHIM_MUST_CHECK whim_err whim_wire_say(whim_wire *wire, int64_t now_ns, whim_diag *diag);

/* The same, and hears; IO: the other one has been silent for too long. */
WHIM_MUST_CHECK whim_err whim_wire_beat(whim_wire *wire, int64_t now_ns, whim_diag *diag);

/* All bytes or none in that time; for sockets that do not wait. IO else. */
WHIM_MUST_CHECK whim_err whim_wire_write(int fd, const void *data, int64_t bytes, int64_t wait_ns,
                                         whim_diag *diag);

#endif
