/* SPDX-License-Identifier: Apache-2.0 */
/* A fixed number of blocks of one size, taken and given back in O(1). All memory is taken at init.
 * Giving back a block twice, or something that is no block, ends the process: it would hand one
 * block to two owners.
 * Threads: a pool belongs to one thread at a time. */
#ifndef WHIM_BASE_POOL_H
#define WHIM_BASE_POOL_H

#include "base/err.h"

#include <stdint.h>

typedef struct whim_pool {
    char *blocks;
    int64_t block_bytes; /* rounded up to 64 */
    int32_t *next;       /* [n_block]: next free block, -1 at the end, or a mark for "taken" */
    int32_t n_block;
    int32_t n_free;
    int32_t first_free; /* -1: none */
} whim_pool;

/* n_block >= 0, block_bytes > 0. */
WHIM_MUST_CHECK whim_err whim_pool_init(whim_pool *pool, int64_t block_bytes, int32_t n_block);
void whim_pool_deinit(whim_pool *pool);

/* A zeroed block aligned to 64 bytes, or NULL when all are taken. The block given back last comes
 * first, because it is the warmest. */
void *whim_pool_take(whim_pool *pool);

/* NULL is legal. */
void whim_pool_give(whim_pool *pool, void *block);

/* The number of a taken block, 0 .. n_block-1, and back. */
int32_t whim_pool_index(const whim_pool *pool, const void *block);
void *whim_pool_at(const whim_pool *pool, int32_t index);

#endif
