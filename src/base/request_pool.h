/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that lives as long as one request: memory, and what must be undone at its end (pages
 * to give back, handles to close). It all ends with deinit, newest first, whichever way the request
 * ends.
 * Threads: a pool belongs to one thread at a time. */
#ifndef WHIM_BASE_REQUEST_POOL_H
#define WHIM_BASE_REQUEST_POOL_H

#include "base/arena.h"
#include "base/err.h"

typedef struct whim_request_hook whim_request_hook;

typedef struct whim_request_pool {
    whim_arena arena; /* allocate from it directly */
    whim_request_hook *hooks;
} whim_request_pool;

void whim_request_pool_init(whim_request_pool *pool);

/* Call the hooks, newest first, then free all memory. A hook may still use the pool's memory and
 * may add hooks. The pool is empty afterwards and can be used again. */
void whim_request_pool_deinit(whim_request_pool *pool);

/* Have fn(ctx) called at deinit. On failure it was not added, and undoing stays with the caller. */
WHIM_MUST_CHECK whim_err whim_request_pool_defer(whim_request_pool *pool, void (*fn)(void *ctx),
                                                 void *ctx);

#endif
