/* SPDX-License-Identifier: Apache-2.0 */
/* An arena with hooks. */
#include "base/request_pool.h"

#include <stddef.h>

struct whim_request_hook {
    whim_request_hook *older;
    void (*fn)(void *ctx);
    void *ctx;
};

void whim_request_pool_init(whim_request_pool *pool)
{
    whim_arena_init(&pool->arena);
    pool->hooks = NULL;
}

void whim_request_pool_deinit(whim_request_pool *pool)
{
    while (pool->hooks != NULL) {
        whim_request_hook *hook = pool->hooks;
        pool->hooks = hook->older;
        hook->fn(hook->ctx);
    }
    whim_arena_reset(&pool->arena);
}

whim_err whim_request_pool_defer(whim_request_pool *pool, void (*fn)(void *ctx), void *ctx)
{
    whim_request_hook *hook = whim_arena_alloc(&pool->arena, sizeof *hook);
    if (hook == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    *hook = (whim_request_hook){.older = pool->hooks, .fn = fn, .ctx = ctx};
    pool->hooks = hook;
    return WHIM_ERR_OK;
}
