/* SPDX-License-Identifier: Apache-2.0 */
/* A binary heap of nodes that live inside their owners: smallest (key, order) on top. A node knows
 * its place, so that any of them can be taken out or moved in O(log n).
 * Threads: one owner. */
#ifndef WHIM_BASE_HEAP_H
#define WHIM_BASE_HEAP_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct whim_heap_node {
    int64_t key, order;
    int64_t at; /* place in the heap, from 1; 0: in none */
} whim_heap_node;

typedef struct whim_heap { /* zeroed: empty */
    whim_heap_node **nodes;
    int64_t n, room;
} whim_heap;

/* Make room for n nodes; pushing more than that is a bug. */
WHIM_MUST_CHECK whim_err whim_heap_reserve(whim_heap *heap, int64_t n);
void whim_heap_deinit(whim_heap *heap);

bool whim_heap_before(const whim_heap_node *a, const whim_heap_node *b);

/* NULL when it is empty. */
whim_heap_node *whim_heap_top(const whim_heap *heap);
void whim_heap_push(whim_heap *heap, whim_heap_node *node);
void whim_heap_remove(whim_heap *heap, whim_heap_node *node);

/* Give a node of the heap another key. */
void whim_heap_move(whim_heap *heap, whim_heap_node *node, int64_t key);

#endif
