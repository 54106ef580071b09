/* SPDX-License-Identifier: Apache-2.0 */
/* A free list threaded through an array beside the blocks, so that no write into a block, however
 * late, can damage it. */
#include "base/pool.h"

#include "base/alloc.h"
#include "base/check.h"

#include <string.h>

enum { POOL_ALIGN = 64, POOL_END = -1, POOL_TAKEN = -2 };

whim_err whim_pool_init(whim_pool *pool, int64_t block_bytes, int32_t n_block)
{
    *pool = (whim_pool){.first_free = POOL_END};
    if (block_bytes <= 0 || block_bytes > INT64_MAX - POOL_ALIGN || n_block < 0) {
        return WHIM_ERR_INVALID;
    }
    block_bytes = (block_bytes + POOL_ALIGN - 1) / POOL_ALIGN * POOL_ALIGN;
    pool->blocks = whim_alloc_array(n_block, block_bytes);
    pool->next = whim_alloc_array(n_block, sizeof *pool->next);
    if (pool->blocks == NULL || pool->next == NULL) {
        whim_pool_deinit(pool);
        return WHIM_ERR_NO_MEMORY;
    }
    pool->block_bytes = block_bytes;
    pool->n_block = n_block;
    pool->n_free = n_block;
    for (int32_t i = 0; i < n_block; i++) {
        pool->next[i] = i + 1 < n_block ? i + 1 : POOL_END;
    }
    pool->first_free = n_block > 0 ? 0 : POOL_END;
    return WHIM_ERR_OK;
}

void whim_pool_deinit(whim_pool *pool)
{
    whim_free(pool->blocks);
    whim_free(pool->next);
    *pool = (whim_pool){.first_free = POOL_END};
}

void *whim_pool_take(whim_pool *pool)
{
    int32_t i = pool->first_free;
    if (i == POOL_END) {
        return NULL;
    }
    pool->first_free = pool->next[i];
    pool->next[i] = POOL_TAKEN;
    pool->n_free--;
    char *block = pool->blocks + i * pool->block_bytes;
    memset(block, 0, (size_t)pool->block_bytes);
    return block;
}

int32_t whim_pool_index(const whim_pool *pool, const void *block)
{
    uintptr_t offset = (uintptr_t)block - (uintptr_t)pool->blocks;
    uintptr_t size = (uintptr_t)pool->block_bytes;
    whim_check(size > 0 && offset % size == 0 && offset / size < (uintptr_t)pool->n_block);
    int32_t i = (int32_t)(offset / size);
    whim_check(pool->next[i] == POOL_TAKEN);
    return i;
}

void *whim_pool_at(const whim_pool *pool, int32_t index)
{
    whim_check(index >= 0 && index < pool->n_block && pool->next[index] == POOL_TAKEN);
    return pool->blocks + index * pool->block_bytes;
}

void whim_pool_give(whim_pool *pool, void *block)
{
    if (block == NULL) {
        return;
    }
    int32_t i = whim_pool_index(pool, block);
    pool->next[i] = pool->first_free;
    pool->first_free = i;
    pool->n_free++;
}
