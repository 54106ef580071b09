/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs by bucket: step sizes are rounded up to powers of two (and to the limits), and the pass of
 * each bucket is recorded once. When the table is full, further buckets run eagerly.
 * Threads: the exec's. */
#ifndef WHIM_RUNNER_GRAPHS_H
#define WHIM_RUNNER_GRAPHS_H

#include "device/device.h"
#include "runner/late.h"

enum {
    WHIM_GRAPHS_MAX = 96,
    WHIM_GRAPH_FLAGS = WHIM_STEP_EMBEDS | WHIM_STEP_KEEP | WHIM_STEP_DRAFT
};

/* All that a recorded pass depends on. */
typedef struct whim_graph_key {
    whim_step_size bucket;
    int32_t flags; /* of the step; only WHIM_GRAPH_FLAGS count */
    whim_late_step late;
    int64_t own_rows;  /* of each rank, where they share the rows; 0: they do not */
    int64_t meet_rows; /* of each rank, where they have others and meet; 0: they do not */
} whim_graph_key;

typedef struct whim_graph_slot {
    whim_graph_key key;
    whim_graph *graph; /* NULL until captured */
} whim_graph_slot;

typedef struct whim_graphs {
    whim_graph_slot slots[WHIM_GRAPHS_MAX];
    int32_t n;
} whim_graphs;

/* A count rounded up to a power of two, or to its limit. */
int64_t whim_graphs_round(int64_t n, int64_t limit);

/* Round the size of a step with these flags up to its bucket. */
void whim_graphs_bucket(whim_step_size *size, int32_t flags, const whim_exec_cfg *cfg);

/* The slot of a key, new if need be; NULL when the table is full. */
whim_graph_slot *whim_graphs_find(whim_graphs *graphs, const whim_graph_key *key);

void whim_graphs_clear(whim_graphs *graphs, whim_stream *stream);

#endif
