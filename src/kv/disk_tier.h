/* SPDX-License-Identifier: Apache-2.0 */
/* KV pages on disk: what the prefix tree drops is kept in files, and found again by later requests
 * and after a restart; so are the states of recurrent models, each under the key of the page that
 * carries it.
 *
 * A folder holds one sub-folder for each space (a hash of the text that names model, layout, level
 * and numerics); in it lie segment files that are only ever appended to. A record is a page or a
 * state with its key, its tokens and two checksums, of its head and of the rest.
 *
 * Invariants:
 *  1. An item is given back only when key, tokens, size and checksums are right; anything torn,
 *     stale or foreign is ignored, with one log line for each file.
 *  2. A crash at any moment loses nothing but cache.
 *  3. The files of all spaces never take more than the limit, but for what other processes write
 *     within a second: the oldest files go first, whoever's they are. An item that is put again
 *     while its file is about to go gets a new copy.
 *  4. put never waits for the disk: what does not fit in the bounded queue is dropped and counted.
 *  5. A disk that is full or fails is left alone for a while; no file is made that holds nothing.
 * Threads: all calls from one owner; one thread of its own writes. */
#ifndef WHIM_KV_DISK_TIER_H
#define WHIM_KV_DISK_TIER_H

#include "base/err.h"
#include "base/report/log.h"
#include "kv/disk_segment.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct whim_disk_tier whim_disk_tier;

/* Memory for items that wait to be written, of each of so many ranks, unless a cfg says otherwise;
 * never less than four pages and two states. */
int64_t whim_disk_queue_bytes(int64_t page_bytes, int64_t state_bytes, int32_t page_len,
                              int32_t n_rank);

typedef struct whim_disk_tier_cfg {
    const char *dir;   /* made when it is not there, for this user only */
    const char *space; /* what the pages depend on, as text */
    const char *about; /* in words, for who looks into the folder; NULL: the same */
    int64_t page_bytes;
    int64_t state_bytes; /* of a model with recurrent states; 0: it has none */
    int32_t page_len;    /* tokens of a page */
    int64_t max_bytes;   /* of all spaces; 0: a tenth of the free disk, and at most 20 GB */
    int64_t part, parts; /* of the limit this space may have so much; 0: all */
    int64_t queue_bytes; /* items waiting to be written; 0: 64 MiB */
    int64_t lock_ns;     /* how long to wait for another process that has the space open */
    int64_t pause_ns;    /* how long a disk that failed is left alone; 0: 10 s */
    bool read_only;      /* look only: no lock, and what is put is dropped */
    whim_log *log;
} whim_disk_tier_cfg;

/* Reads the index of what is there (heads only). BUSY: another process has the space open.
 * INVALID: the limit holds no two pages. */
WHIM_MUST_CHECK whim_err whim_disk_tier_open(const whim_disk_tier_cfg *cfg, whim_disk_tier **out,
                                             whim_diag *diag);

/* Writes what is queued, then closes. */
void whim_disk_tier_close(whim_disk_tier *tier);

/* What of a limit is a space's that has `part` of all `parts`; parts of 0: all of it. */
int64_t whim_disk_share(int64_t limit, int64_t part, int64_t parts);

/* Keep an item (copied). One that is there is not written again, unless its file is about to go, or
 * it was found to be damaged. False: the queue is full, and it was dropped; to try again may
 * help. */
bool whim_disk_tier_put(whim_disk_tier *tier, whim_disk_kind kind, const whim_prefix_key *key,
                        const int32_t *tokens, const void *item);

/* Whether put would have nothing to do. */
bool whim_disk_tier_knows(whim_disk_tier *tier, whim_disk_kind kind, const whim_prefix_key *key);

/* Read an item; false when it is not there, or what is there is not it. */
bool whim_disk_tier_get(whim_disk_tier *tier, whim_disk_kind kind, const whim_prefix_key *key,
                        const int32_t *tokens, void *item);

/* Whether it seems to be there; get may still find that it is not. */
bool whim_disk_tier_has(whim_disk_tier *tier, whim_disk_kind kind, const whim_prefix_key *key);

/* Call fn for every item of a kind that is whole, until it fails; what was damaged is left out.
 * Only of a tier that is read_only: nothing moves meanwhile but the end of its files. */
typedef whim_err whim_disk_item_fn(void *ctx, whim_disk_kind kind, const whim_prefix_key *key,
                                   const int32_t *tokens, const void *item);
WHIM_MUST_CHECK whim_err whim_disk_tier_each(whim_disk_tier *tier, whim_disk_kind kind,
                                             whim_disk_item_fn *fn, void *ctx, whim_diag *diag);

typedef struct whim_disk_tier_stats {
    int64_t n_page, n_state, bytes;             /* there now, of this space */
    int64_t queued;                             /* bytes that wait to be written */
    int64_t n_put, n_got, n_dropped, n_refused; /* since the start */
    int64_t n_error;                            /* of the disk */
    int64_t n_lost; /* put since the start, and gone again to make room */
    int64_t limit;  /* of all spaces, as it was when last looked at */
} whim_disk_tier_stats;
whim_disk_tier_stats whim_disk_tier_get_stats(whim_disk_tier *tier);

/* The same without waiting; false: the disk is at work, and *out as it was. */
bool whim_disk_tier_try_stats(whim_disk_tier *tier, whim_disk_tier_stats *out);

#endif
