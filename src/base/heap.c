/* SPDX-License-Identifier: Apache-2.0 */
/* Places are counted from 1, so that the children of i are 2i and 2i + 1. */
#include "base/heap.h"

#include "base/alloc.h"
#include "base/check.h"

#include <stddef.h>

whim_err whim_heap_reserve(whim_heap *heap, int64_t n)
{
    if (n <= heap->room) {
        return WHIM_ERR_OK;
    }
    int64_t size = sizeof *heap->nodes;
    int64_t room = n > 2 * heap->room ? n : 2 * heap->room;
    void *grown = whim_realloc(heap->nodes, heap->room * size, room * size);
    if (grown == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    heap->nodes = grown;
    heap->room = room;
    return WHIM_ERR_OK;
}

void whim_heap_deinit(whim_heap *heap)
{
    whim_free(heap->nodes);
    *heap = (whim_heap){0};
}

bool whim_heap_before(const whim_heap_node *a, const whim_heap_node *b)
{
    return a->key != b->key ? a->key < b->key : a->order < b->order;
}

whim_heap_node *whim_heap_top(const whim_heap *heap)
{
    return heap->n > 0 ? heap->nodes[0] : NULL;
}

static void put(whim_heap *heap, whim_heap_node *node, int64_t at)
{
    heap->nodes[at - 1] = node;
    node->at = at;
}

/* Let a node that is to stand at `at` rise or sink to where it belongs. */
static void settle(whim_heap *heap, whim_heap_node *node, int64_t at)
{
    while (at > 1 && whim_heap_before(node, heap->nodes[at / 2 - 1])) {
        put(heap, heap->nodes[at / 2 - 1], at);
        at /= 2;
    }
    for (int64_t child; (child = 2 * at) <= heap->n; at = child) {
        if (child < heap->n && whim_heap_before(heap->nodes[child], heap->nodes[child - 1])) {
            child++;
        }
        if (!whim_heap_before(heap->nodes[child - 1], node)) {
            break;
        }
        put(heap, heap->nodes[child - 1], at);
    }
    put(heap, node, at);
}

void whim_heap_push(whim_heap *heap, whim_heap_node *node)
{
    whim_check(node->at == 0 && heap->n < heap->room);
    heap->n++;
    settle(heap, node, heap->n);
}

void whim_heap_remove(whim_heap *heap, whim_heap_node *node)
{
    int64_t at = node->at;
    whim_check(at >= 1 && at <= heap->n && heap->nodes[at - 1] == node);
    whim_heap_node *last = heap->nodes[--heap->n];
    node->at = 0;
    if (last != node) {
        settle(heap, last, at);
    }
}

void whim_heap_move(whim_heap *heap, whim_heap_node *node, int64_t key)
{
    whim_check(node->at >= 1 && node->at <= heap->n && heap->nodes[node->at - 1] == node);
    node->key = key;
    settle(heap, node, node->at);
}
