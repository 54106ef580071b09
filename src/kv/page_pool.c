/* SPDX-License-Identifier: Apache-2.0 */
/* A stack of free page ids. */
#include "kv/page_pool.h"

#include "base/alloc.h"
#include "base/check.h"

#include <stddef.h>

whim_err whim_page_pool_init(whim_page_pool *pool, int64_t n_page)
{
    *pool = (whim_page_pool){0};
    pool->free_ids = whim_alloc_array(n_page, sizeof *pool->free_ids);
    pool->held = whim_alloc_array(n_page, sizeof *pool->held);
    if (pool->free_ids == NULL || pool->held == NULL) {
        whim_page_pool_deinit(pool);
        return WHIM_ERR_NO_MEMORY;
    }
    pool->n_page = pool->n_free = n_page;
    for (int64_t i = 0; i < n_page; i++) {
        pool->free_ids[i] = (int32_t)(n_page - 1 - i);
    }
    return WHIM_ERR_OK;
}

void whim_page_pool_deinit(whim_page_pool *pool)
{
    whim_free(pool->free_ids);
    whim_free(pool->held);
    *pool = (whim_page_pool){0};
}

int32_t whim_page_pool_take(whim_page_pool *pool)
{
    if (pool->n_free == 0) {
        return -1;
    }
    int32_t page = pool->free_ids[--pool->n_free];
    pool->held[page] = 1;
    return page;
}

void whim_page_pool_give(whim_page_pool *pool, int32_t page)
{
    whim_check(page >= 0 && page < pool->n_page && pool->held[page]);
    pool->held[page] = 0;
    pool->free_ids[pool->n_free++] = page;
}
