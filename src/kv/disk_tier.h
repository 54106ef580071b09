/* SPDX-License-Identifier: Apache-2.0 */
/* KV pages on disk. Pages that the prefix tree drops are kept in files, where later requests find
 * them, also after a restart. So are the states of recurrent models, each under the key of the page
 * that carries it.
 *
 * A folder has one sub-folder for each space, which is named by a hash of the text that says model,
 * layout, level and numerics. In it are segment files, to which records are only appended. A record
 * is a page or a state with its key, its tokens and two checksums: of its head, and of the rest.
 *
 * Invariants:
 *  1. An item is returned only if key, tokens, size and checksums are right. Anything torn, stale
 *     or foreign is ignored, with one log line for each file.
 *  2. A crash at any moment loses only cached items.
 *  3. The files of all spaces never take more than the limit, except for what other processes write
 *     within a second. The oldest files are deleted first, whatever their space. An item that is
 *     put again while its file is about to be deleted gets a new copy.
 *  4. put never waits for the disk. An item that does not fit into the bounded queue is dropped and
 *     counted.
 *  5. After a disk was full or failed, it is not used for a while. No empty file is made.
 * Threads: all calls from one owner; one thread of its own writes. */
#ifndef WHIM_KV_DISK_TIER_H
#define WHIM_KV_DISK_TIER_H

#include "base/err.h"
#include "base/report/log.h"
#include "kv/disk_segment.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct whim_disk_tier whim_disk_tier;

/* The default memory of each of n_rank ranks for items that wait to be written: at least four pages
 * and two states. */
int64_t whim_disk_queue_bytes(int64_t page_bytes, int64_t state_bytes, int32_t page_len,
                              int32_t n_rank);

typedef struct whim_disk_tier_cfg {
    const char *dir;   /* made if it does not exist, for this user only */
    const char *space; /* what the pages depend on, as text */
    const char *about; /* in words, for people who look into the folder; NULL: the same */
    int64_t page_bytes;
    int64_t state_bytes; /* of a model with recurrent states; 0: it has none */
    int32_t page_len;    /* tokens of a page */
    int64_t max_bytes;   /* of all spaces; 0: a tenth of the free disk, and at most 20 GB */
    int64_t part, parts; /* the share of the limit that this space may take; 0: all */
    int64_t queue_bytes; /* items waiting to be written; 0: 64 MiB */
    int64_t lock_ns;     /* how long to wait for another process that has the space open */
    int64_t pause_ns;    /* how long a disk that failed is not used; 0: 10 s */
    bool read_only;      /* no lock is taken, and what is put is dropped */
    whim_log *log;
} whim_disk_tier_cfg;

/* Reads the index of the files that exist (only the heads of records). BUSY: another process has
 * the space open. INVALID: the limit has no room for two pages. */
WHIM_MUST_CHECK whim_err whim_disk_tier_open(const whim_disk_tier_cfg *cfg, whim_disk_tier **out,
                                             whim_diag *diag);

/* Writes what is queued, then closes. */
void whim_disk_tier_close(whim_disk_tier *tier);

/* A space's share of a limit, if it has `part` of all `parts`; all of it if parts is 0. */
int64_t whim_disk_share(int64_t limit, int64_t part, int64_t parts);

/* Keep an item (copied). An item that is there is not written again, unless its file is about to be
 * deleted or the item was found to be damaged. False: the queue is full and the item was dropped;
 * trying again may help. */
bool whim_disk_tier_put(whim_disk_tier *tier, whim_disk_kind kind, const whim_prefix_key *key,
                        const int32_t *tokens, const void *item);

/* Whether put would have nothing to do. */
bool whim_disk_tier_knows(whim_disk_tier *tier, whim_disk_kind kind, const whim_prefix_key *key);

/* Read an item; false if it is not there, or something else is in its place. */
bool whim_disk_tier_get(whim_disk_tier *tier, whim_disk_kind kind, const whim_prefix_key *key,
                        const int32_t *tokens, void *item);

/* Whether it seems to be there; get may still find that it is not. */
bool whim_disk_tier_has(whim_disk_tier *tier, whim_disk_kind kind, const whim_prefix_key *key);

/* Call fn for every item of a kind, until it fails; damaged items are left out. The tier must be
 * read_only: then only the ends of its files change meanwhile. */
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
    int64_t limit;  /* of all spaces, when it was last computed */
} whim_disk_tier_stats;
whim_disk_tier_stats whim_disk_tier_get_stats(whim_disk_tier *tier);

/* The same without waiting; false if the disk is busy, and *out is unchanged. */
bool whim_disk_tier_try_stats(whim_disk_tier *tier, whim_disk_tier_stats *out);

#endif
