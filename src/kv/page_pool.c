/* SPDX-License-Identifier: Apache-2.0 */
/* A stack of free page ids and a count for each page. */
#include "kv/page_pool.h"

#include "base/alloc.h"
#include "base/check.h"

#include <stddef.h>

whim_err whim_page_pool_init(whim_page_pool *pool, int64_t n_page, int32_t page_len)
{
    *pool = (whim_page_pool){.page_len = page_len};
    pool->free_ids = whim_alloc_array(n_page, sizeof *pool->free_ids);
    pool->refs = whim_alloc_array(n_page, sizeof *pool->refs);
    if (pool->free_ids == NULL || pool->refs == NULL) {
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
    whim_free(pool->refs);
    *pool = (whim_page_pool){0};
}

int32_t whim_page_pool_take(whim_page_pool *pool)
{
    if (pool->n_free == 0) {
        return -1;
    }
    int32_t page = pool->free_ids[--pool->n_free];
    pool->refs[page] = 1;
    return page;
}

static void check_held(const whim_page_pool *pool, int32_t page)
{
    whim_check(page >= 0 && page < pool->n_page && pool->refs[page] > 0);
}

void whim_page_pool_ref(whim_page_pool *pool, int32_t page)
{
    check_held(pool, page);
    whim_check(pool->refs[page] < INT32_MAX);
    if (++pool->refs[page] == 2 && pool->on_share != NULL) {
        pool->on_share(pool->share_ctx, page);
    }
}

void whim_page_pool_give(whim_page_pool *pool, int32_t page)
{
    check_held(pool, page);
    int32_t left = --pool->refs[page];
    if (left == 0) {
        pool->free_ids[pool->n_free++] = page;
    } else if (left == 1 && pool->on_share != NULL) {
        pool->on_share(pool->share_ctx, page);
    }
}
