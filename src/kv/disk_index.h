/* SPDX-License-Identifier: Apache-2.0 */
/* Where each page is on disk, by its key: an open-addressing table that grows.
 * Threads: one at a time. */
#ifndef WHIM_KV_DISK_INDEX_H
#define WHIM_KV_DISK_INDEX_H

#include "base/err.h"
#include "kv/prefix_tree.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct whim_disk_place {
    whim_prefix_key key;
    int32_t segment; /* number of the file; -1: an empty slot */
    int32_t record;  /* in it */
} whim_disk_place;

/* {0} is empty. */
typedef struct whim_disk_index {
    whim_disk_place *slots;
    int64_t n, size; /* size is a power of two, at least half of it empty */
} whim_disk_index;

void whim_disk_index_deinit(whim_disk_index *index);

/* The entry, or NULL; valid until the next change. */
whim_disk_place *whim_disk_index_find(const whim_disk_index *index, const whim_prefix_key *key);

/* Add or replace. */
WHIM_MUST_CHECK whim_err whim_disk_index_put(whim_disk_index *index, const whim_disk_place *place);

/* Forget all entries of a segment. */
WHIM_MUST_CHECK whim_err whim_disk_index_drop_segment(whim_disk_index *index, int32_t segment);

#endif
