/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of KV pages: which page ids are free. Accounting only; the memory is the runner's.
 * Invariants: a page is either free or held by one owner; ids are handed out lowest first after a
 * fresh start, last freed first later.
 * Threads: one owner. */
#ifndef WHIM_KV_PAGE_POOL_H
#define WHIM_KV_PAGE_POOL_H

#include "base/err.h"

#include <stdint.h>

typedef struct whim_page_pool {
    int32_t *free_ids; /* stack; the top is the next to go */
    uint8_t *held;     /* [n_page] 1 while handed out */
    int64_t n_free, n_page;
} whim_page_pool;

WHIM_MUST_CHECK whim_err whim_page_pool_init(whim_page_pool *pool, int64_t n_page);
void whim_page_pool_deinit(whim_page_pool *pool);

/* The next free page, or -1. */
int32_t whim_page_pool_take(whim_page_pool *pool);

/* Give a page back; a page that is not held is a bug and ends the process. */
void whim_page_pool_give(whim_page_pool *pool, int32_t page);

#endif
