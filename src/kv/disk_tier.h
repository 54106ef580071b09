/* SPDX-License-Identifier: Apache-2.0 */
/* KV pages on disk: what the prefix tree drops is kept in files, and found again by later requests
 * and after a restart.
 *
 * A folder holds one sub-folder for each space (a hash of the text that names model, layout, level
 * and numerics); in it lie segment files that are only ever appended to. A record is a page with
 * its key, its tokens and two checksums, of its head and of the page.
 *
 * Invariants:
 *  1. A page is given back only when key, tokens, size and checksums are right; anything torn,
 *     stale or foreign is ignored, with one log line for each file.
 *  2. A crash at any moment loses nothing but cache.
 *  3. The files never take more than max_bytes: the oldest segments go first; a page that is put
 *     again while its segment is about to go gets a new copy.
 *  4. put never waits for the disk: what does not fit in the bounded queue is dropped and counted.
 * Threads: all calls from one owner; one thread of its own writes. */
#ifndef WHIM_KV_DISK_TIER_H
#define WHIM_KV_DISK_TIER_H

#include "base/err.h"
#include "base/report/log.h"
#include "kv/prefix_tree.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct whim_disk_tier whim_disk_tier;

#define WHIM_DISK_DEFAULT_BYTES (INT64_C(8) << 30)

/* Memory for pages that wait to be written, of each of so many ranks, unless a cfg says otherwise;
 * never less than four of them. */
int64_t whim_disk_queue_bytes(int64_t page_bytes, int32_t page_len, int32_t n_rank);

typedef struct whim_disk_tier_cfg {
    const char *dir;   /* made when it is not there, for this user only */
    const char *space; /* what the pages depend on, as text; other spaces' files are left alone */
    int64_t page_bytes;
    int32_t page_len;    /* tokens of a page */
    int64_t max_bytes;   /* of this space; 0: WHIM_DISK_DEFAULT_BYTES */
    int64_t queue_bytes; /* pages waiting to be written; 0: 64 MiB */
    int64_t lock_ns;     /* how long to wait for another process that has the space open */
    whim_log *log;
} whim_disk_tier_cfg;

/* Reads the index of what is there (headers only, not the pages). Another process that has the
 * space open: INVALID. */
WHIM_MUST_CHECK whim_err whim_disk_tier_open(const whim_disk_tier_cfg *cfg, whim_disk_tier **out,
                                             whim_diag *diag);

/* Writes what is queued, then closes. */
void whim_disk_tier_close(whim_disk_tier *tier);

/* Keep a page (page_bytes at `page`, copied). A page that is there is not written again, unless its
 * file is about to go, or it was found to be damaged. False: the queue is full, and it was
 * dropped. */
bool whim_disk_tier_put(whim_disk_tier *tier, const whim_prefix_key *key, const int32_t *tokens,
                        const void *page);

/* Read a page; false when it is not there, or what is there is not it. */
bool whim_disk_tier_get(whim_disk_tier *tier, const whim_prefix_key *key, const int32_t *tokens,
                        void *page);

/* Whether it seems to be there; get may still find that it is not. */
bool whim_disk_tier_has(whim_disk_tier *tier, const whim_prefix_key *key);

/* Whether put would find that it is there. */
bool whim_disk_tier_knows(whim_disk_tier *tier, const whim_prefix_key *key);

typedef struct whim_disk_tier_stats {
    int64_t n_page, bytes;                      /* there now */
    int64_t queued;                             /* bytes that wait to be written */
    int64_t n_put, n_got, n_dropped, n_refused; /* since the start */
    int64_t n_error;                            /* of the disk */
} whim_disk_tier_stats;
whim_disk_tier_stats whim_disk_tier_get_stats(whim_disk_tier *tier);

/* The same without waiting; false: the disk is at work, and *out as it was. */
bool whim_disk_tier_try_stats(whim_disk_tier *tier, whim_disk_tier_stats *out);

#endif
