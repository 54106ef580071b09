/* SPDX-License-Identifier: Apache-2.0 */
/* A model over several ranks, which are threads of the test's process with an engine each, against
 * the same model on one.
 * Threads: one at a time. */
#ifndef WHIM_TESTS_GOLDEN_RANKS_H
#define WHIM_TESTS_GOLDEN_RANKS_H

#include "comm/comm.h"
#include "golden/golden.h"
#include "ops/ops.h"

#include <pthread.h>

enum { RANKS_MAX = 16, RANKS_PLANS = 2, RANKS_GREEDY = 64 };

/* One rank of a group. Rank 0 leads. */
typedef struct rank_member {
    const golden *g;                /* its prompts */
    const char *path, *weight_type; /* a type: dummy weights */
    const char *backend, *isa;
    bool graphs;
    bool shares;       /* parts have the whole model each, and some of the rows */
    bool groups;       /* groups have the whole model each, and sequences of their own */
    int32_t span;      /* ranks of a part or group, which cut its model, or share rows; 0: one */
    int32_t cut;       /* of a group that shares rows: so many have its model together; 0: one */
    bool deals;        /* each rank has whole experts, and a part of the rows if it shares */
    int32_t deal_span; /* and cuts the rest, and so many have an expert together; 0: not so */
    int32_t slots;     /* rows of each that go to experts in one message; 0: as many as is usual */
    const char *deal_counts; /* experts of each, by commas; NULL: as many, or one more */
    bool once;               /* the logits of one plan, and nothing else */
    bool uneven;             /* the last plan alone */
    bool uncounted; /* its experts are too few for a count of bytes that takes them as even */
    bool speaks;    /* a greedy text, too */
    bool rounds;    /* its products make int8 of their rows */
    int32_t more;   /* of the sizes above 2 this one alone; 0: all */
    whim_stream_watch *watch; /* of the device's streams, or NULL */
    const whim_comm_memory *memory;
    int32_t n_rank, rank;
    const char *holders; /* a letter for each rank's KV heads, to compare pages by; or NULL */
    int64_t n_value;     /* floats of the logits of one plan */
    float *logits[RANKS_PLANS];   /* of all rows, of rank 0 */
    int32_t greedy[RANKS_GREEDY]; /* that text, of rank 0 */
    float ahead[RANKS_GREEDY];    /* logits between the likeliest token and the next */
    void *page;                   /* KV page 0 after all of it, of the others */
    int64_t page_bytes;
    bool sent_apart; /* in its plans choices went to experts before rows; of rank 0 */
    bool good;
    whim_diag diag;
    pthread_t thread;
} rank_member;

/* The largest message between ranks of steps that run while it is on, of one of them. */
typedef struct rank_meter {
    whim_stream_watch watch;
    const whim_ops *inner; /* what the ops do */
    whim_ops ops;
    bool on;
    int64_t most; /* bytes */
} rank_meter;

/* The watch of its device. */
whim_stream_watch *rank_meter_watch(rank_meter *meter);

/* All ranks of `like` at once; false with a message in its diag. What they found is to be freed. */
bool ranks_run(rank_member *members, int32_t n_rank, rank_member *like);

/* One rank whose sums are a last bit off, some up and some down by the seed. */
bool ranks_run_nudged(rank_member *out, rank_member *like, uint64_t seed);
void ranks_free(rank_member *members, int32_t n);

/* How far from one rank several may be. */
typedef struct rank_bound {
    double most;     /* of log-probabilities */
    int64_t n_close; /* at least so many rows are within 1e-3 */
} rank_bound;

/* As one rank within the bound, the same greedy text, and the same bits however rows are cut into
 * steps. */
void ranks_check(const char *model, const rank_bound *bound, const rank_member *one,
                 rank_member like, int32_t n_rank);

/* All sizes, and two ranks on the guard with graphs; or one that leaves ranks without heads. */
void ranks_check_sizes(const char *model, rank_member like, bool quick);

bool ranks_has_experts(const char *model);

/* Ranks that split no sum have the bits of `one`, which may have run one plan alone. */
void ranks_check_same(const char *model, const rank_member *one, rank_member like, int32_t n_rank);
void ranks_same_test(const char *model, const rank_member *one, rank_member like);

/* The same with weights of all types on all levels of this machine. */
void ranks_types_test(const golden *g, const char *dir);

/* Models in which wrong indices and counts show; configurations and weights go to `dir`. */
void ranks_edges_test(const golden *g, const char *dir, bool quick);

#endif
