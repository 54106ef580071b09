/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of KV pages: which page ids are free. Accounting only; the memory is the runner's.
 * Invariants: a page is free exactly while there is no reference to it; ids are handed out lowest
 * first after a fresh start, last freed first later.
 * Threads: one owner. */
#ifndef WHIM_KV_PAGE_POOL_H
#define WHIM_KV_PAGE_POOL_H

#include "base/err.h"

#include <stdint.h>

typedef struct whim_page_pool {
    int32_t *free_ids; /* stack; the top is the next to go */
    int32_t *refs;     /* [n_page] 0: free */
    int64_t n_free, n_page;
    int32_t page_len; /* positions in a page; 1 for slots of another kind */
    /* Told when a page's references go from one to two or back; whoever keeps pages for later (the
     * prefix tree) learns so which of them nothing else uses. NULL: no listener. */
    void (*on_share)(void *ctx, int32_t page);
    void *share_ctx;
} whim_page_pool;

WHIM_MUST_CHECK whim_err whim_page_pool_init(whim_page_pool *pool, int64_t n_page,
                                             int32_t page_len);
void whim_page_pool_deinit(whim_page_pool *pool);

/* The next free page, with one reference, or -1. */
int32_t whim_page_pool_take(whim_page_pool *pool);

/* Take one more reference on a page that has one. Doing so for a free page is a bug and ends the
 * process. */
void whim_page_pool_ref(whim_page_pool *pool, int32_t page);

/* Drop one reference; dropping the last one frees the page. A page without references is a bug and
 * ends the process. */
void whim_page_pool_give(whim_page_pool *pool, int32_t page);

#endif
