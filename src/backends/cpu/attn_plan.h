/* SPDX-License-Identifier: Apache-2.0 */
/* How attention is cut into items that workers share. A pair is a query row and one of the heads
 * that read a KV head; the pairs of a sequence and KV head, row by row, are cut into units. An item
 * is a unit, or, where there are too few units for the workers, one segment of a unit's keys: then
 * its sums go to memory that all workers share, and whoever finishes the last segment of a unit
 * merges them in order. No bit of a result depends on the cut. Every worker makes the plan for
 * itself from what lies at the arguments' addresses.
 * Threads: stateless. */
#ifndef WHIM_BACKENDS_CPU_ATTN_PLAN_H
#define WHIM_BACKENDS_CPU_ATTN_PLAN_H

#include "ops/ops.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    WHIM_ATTN_UNIT_MAX = 64,          /* pairs of a unit */
    WHIM_ATTN_COUNTERS = 1024,        /* units of a split call, at most */
    WHIM_ATTN_PARTIALS = 1024 * 1024, /* floats of the shared memory */
};

/* What all workers share while a call is split; one call at a time. */
typedef struct whim_attn_shared {
    _Atomic int32_t done[WHIM_ATTN_COUNTERS]; /* segments finished, 0 between calls */
    float partials[WHIM_ATTN_PARTIALS];
} whim_attn_shared;

/* The command: the op's arguments and the stream's shared memory. */
typedef struct whim_cpu_attn_args {
    whim_attn_paged_args op;
    whim_attn_shared *shared;
} whim_cpu_attn_args;

typedef struct whim_attn_plan {
    const whim_attn_paged_args *a;
    int64_t unit_pairs; /* pairs of a unit, the last of a sequence may have fewer */
    int64_t n_unit, n_item;
    bool split;
} whim_attn_plan;

typedef struct whim_attn_item {
    int64_t seq, kv_head;
    /* pair i: row i / group of the sequence, head i % group of the KV head */
    int64_t first, n_pair;
    int64_t segment, n_segment; /* 0 of 1: the whole unit */
    int64_t unit;               /* its number among all units */
    int64_t slot;               /* its segment 0 among all segments of all units */
} whim_attn_item;

/* Where the last item was found; items are asked for in ascending order. */
typedef struct whim_attn_cursor {
    int64_t seq, item, unit, slot; /* the sequence and what comes before its first item */
} whim_attn_cursor;

/* Floats of one segment's sums of one unit: for every pair the sum over values, the maximum and the
 * sum. */
static inline int64_t whim_attn_slot_floats(const whim_attn_plan *plan)
{
    return plan->unit_pairs * (plan->a->kv.d_head + 2);
}

/* `max_pairs`: the most that a unit may have; `granule`: a number of pairs that the kernels
 * like. */
void whim_attn_plan_make(whim_attn_plan *plan, const whim_attn_paged_args *a, int64_t max_pairs,
                         int64_t granule, int32_t n_worker);

void whim_attn_plan_item(const whim_attn_plan *plan, int64_t index, whim_attn_cursor *cursor,
                         whim_attn_item *item);

#endif
