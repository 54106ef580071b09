/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives between ranks of one host, over memory that they share. A rank is a thread or a
 * process. All ranks of a group call the same collectives in the same order; a call that is not its
 * peers' call, a rank that does not come, and one that is said to be dead end the group: every rank
 * gets the same error, and so does every later call.
 * Sums are FP32 and add in the order of ranks, so that the bits of an element depend on the ranks'
 * values alone: neither on how long the message is nor on how it travels.
 * Threads: a whim_comm belongs to the one thread that is its rank; whim_comm_abort any. */
#ifndef WHIM_COMM_COMM_H
#define WHIM_COMM_COMM_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    WHIM_COMM_MAX_RANK = 1024,
    WHIM_COMM_PIECE = 256 * 1024, /* bytes of a message that travel at once */
    WHIM_COMM_DIRECT = 8 * 1024,  /* the longest sum that every rank makes for itself */
};

/* The memory of a group. The file is nowhere in the file system, and goes with its last user. */
typedef struct whim_comm_memory {
    struct whim_comm_shared *shared;
    int64_t bytes;
    int fd; /* for processes that are no forks of the one that made it */
} whim_comm_memory;

WHIM_MUST_CHECK whim_err whim_comm_memory_make(int32_t n_rank, whim_comm_memory *out,
                                               whim_diag *diag);

/* The memory behind a descriptor that another process made. On success the descriptor is closed
 * with it. */
WHIM_MUST_CHECK whim_err whim_comm_memory_join(int fd, whim_comm_memory *out, whim_diag *diag);
void whim_comm_memory_close(whim_comm_memory *memory);

typedef struct whim_comm {
    struct whim_comm_shared *shared;
    int32_t rank, n_rank;
    int32_t seat, stride;        /* rank r has seat + r * stride */
    int32_t set;                 /* of seats */
    int32_t alike;               /* ranks that make the same calls (whim_comm_split); 0: all do */
    struct whim_comm *of;        /* of all ranks, which counts for this one; NULL: it is that */
    struct whim_comm_cuts *cuts; /* of a block: what was split with it */
    uint64_t n_round;            /* rounds that this rank has begun */
    int64_t wait_ns;             /* how long it waits for a peer */
    int64_t spin_ns;             /* of that, without sleep */
    bool yields;                 /* its CPU, before it sleeps */
    uint64_t yield_at;           /* not before this round: the CPU went to others than ranks */
    int64_t waited_ns;           /* all waits so far, for meters */
    int64_t n_call;              /* collectives so far */
    int64_t n_byte;              /* of their messages, each counted once */
    whim_diag diag;              /* why the group ended */
} whim_comm;

typedef struct whim_comm_cfg {
    int32_t rank;
    int64_t wait_ns; /* 0: one second */
    bool crowded;    /* ranks outnumber CPUs: who waits lets others run, and sleeps soon */
} whim_comm_cfg;

/* Each rank opens once. */
void whim_comm_open(whim_comm *comm, const whim_comm_memory *memory, const whim_comm_cfg *cfg);

/* Some of the ranks of a comm, with collectives of their own in between those of all. Ranks are cut
 * into blocks of `span` neighbours; `reach` blocks beside each other are a group. A rank has one
 * comm with its block, one with those that have its place in the other blocks of its group, and one
 * with those that have its place in the other groups. Order counts among the calls of one comm; the
 * end of one is the end of all. Ranks of a group make the same calls of all comms, and all ranks
 * the same calls of all and of the last one. Each rank splits before its first call, and where it
 * opened its comm anew; `cuts` must outlive `comm`'s last call. Ranks of all but groups are of one
 * host. */
typedef enum whim_comm_set {
    WHIM_COMM_ALL,
    WHIM_COMM_BLOCK,
    WHIM_COMM_BESIDE,
    WHIM_COMM_ACROSS,
    WHIM_COMM_SETS
} whim_comm_set;

typedef struct whim_comm_cuts {
    whim_comm block, beside, across;
} whim_comm_cuts;

void whim_comm_split(whim_comm *comm, int32_t span, int32_t reach, whim_comm_cuts *cuts);

/* Ends the group from outside, by a watchman that has seen a rank die. The first reason counts. */
void whim_comm_abort(const whim_comm_memory *memory, const char *why);

/* Whether it has ended, for whatever reason: calls fail from then on. Any thread. */
bool whim_comm_is_over(const whim_comm *comm);

/* OK, or DEVICE with why it has. Any thread. */
WHIM_MUST_CHECK whim_err whim_comm_check(const whim_comm *comm, whim_diag *diag);

/* Threads of a rank that do a collective together: each calls it with the same arguments and its
 * own number, does a part of the work, and gets the same result. Worker 0 is the one that talks to
 * the peers, who may be more or fewer. All meet once more before worker 0 begins the next one. */
typedef struct whim_comm_team {
    int32_t worker, n_worker;
    void (*meet)(const void *ctx); /* a barrier of all of them */
    const void *ctx;
    whim_err *err; /* one for all of them */
} whim_comm_team;

/* Collectives. `site` says which one it is, for messages (31 bytes of it). Counts of 0 are legal
 * everywhere. On failure comm->diag has the reason, and outputs are undefined. A team of NULL is
 * the rank's thread alone. */

/* x becomes the sum of all ranks' x. */
WHIM_MUST_CHECK whim_err whim_comm_all_reduce(whim_comm *comm, const whim_comm_team *team, float *x,
                                              int64_t n, const char *site);

/* out is the ranks' parts one after the other; rank r's has bytes[r]. */
WHIM_MUST_CHECK whim_err whim_comm_all_gather(whim_comm *comm, const void *part,
                                              const int64_t *bytes, void *out, const char *site);

/* The same of rows: rank r's part is [n_row, cols[r]], and out [n_row, sum of cols] has the ranks'
 * columns side by side. */
WHIM_MUST_CHECK whim_err whim_comm_all_gather_rows(whim_comm *comm, const whim_comm_team *team,
                                                   const float *part, const int64_t *cols,
                                                   int64_t n_row, float *out, const char *site);

/* The sum of all ranks' x is cut into n[0], n[1] .. elements; out is this rank's. */
WHIM_MUST_CHECK whim_err whim_comm_reduce_scatter(whim_comm *comm, const float *x, const int64_t *n,
                                                  float *out, const char *site);

/* The same of rows: x is [n_row, sum of cols], and out [n_row, cols[rank]] has the rank's columns
 * of the sum. */
WHIM_MUST_CHECK whim_err whim_comm_reduce_scatter_rows(whim_comm *comm, const whim_comm_team *team,
                                                       const float *x, const int64_t *cols,
                                                       int64_t n_row, float *out, const char *site);

/* Rows of a matrix that every rank has room for, and of which each has made some. Which rows those
 * are, and who wants them, follows from keys that all ranks have: key k is rank r's if firsts[r] <=
 * k < firsts[r + 1], else nobody's. So all know what travels from where to where, and nobody is
 * told. */
typedef struct whim_comm_rows {
    char *x; /* [n, row_bytes] */
    int64_t n, row_bytes;
    const int32_t *keys;   /* [n, n_key] */
    const int32_t *firsts; /* [n_rank + 1] */
    int32_t n_key;         /* 0: a row has one key, and who has the key makes the row; else row i is
                              made by rank i % n_rank, and wanted by all who have a key of it */
    int64_t wanted_by_each; /* where n_key is 0: rows for rank 0, then as many for rank 1 .. and for
                               rank 0 again; 0: all ranks want all rows */
} whim_comm_rows;

/* The rows that a rank wants are filled in; others, and those that nobody made, stay as they
 * are. */
WHIM_MUST_CHECK whim_err whim_comm_exchange(whim_comm *comm, const whim_comm_team *team,
                                            const whim_comm_rows *rows, const char *site);

/* x of rank `root` becomes everybody's. */
WHIM_MUST_CHECK whim_err whim_comm_broadcast(whim_comm *comm, void *x, int64_t bytes, int32_t root,
                                             const char *site);

WHIM_MUST_CHECK whim_err whim_comm_barrier(whim_comm *comm, const char *site);

#endif
