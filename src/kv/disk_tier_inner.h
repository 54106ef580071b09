/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the disk tier share. */
#ifndef WHIM_KV_DISK_TIER_INNER_H
#define WHIM_KV_DISK_TIER_INNER_H

#include "base/thread.h"
#include "kv/disk_folder.h"
#include "kv/disk_index.h"
#include "kv/disk_tier.h"

#include <pthread.h>

enum { WHIM_DISK_SEGMENTS = 256 };

/* An item that waits to be written. */
typedef struct whim_disk_waiting {
    struct whim_disk_waiting *next;
    whim_disk_kind kind;
    whim_prefix_key key;
    const char *item;
    int32_t tokens[]; /* and the item behind them */
} whim_disk_waiting;

struct whim_disk_tier {
    whim_disk_tier_cfg cfg;
    whim_disk_form forms[WHIM_DISK_KINDS];
    char space[WHIM_DISK_SPACE_NAME];
    int dir_fd, lock_fd;
    whim_thread thread;
    bool running;
    pthread_mutex_t lock; /* over what follows */
    pthread_cond_t more;
    whim_disk_waiting *first, *last; /* the first is being written */
    int64_t queued;
    bool closing;
    whim_disk_index index[WHIM_DISK_KINDS];
    whim_disk_segment segments[WHIM_DISK_SEGMENTS]; /* oldest first */
    int32_t n_segment, next_number;
    int64_t bytes;      /* of all of them */
    int64_t limit, own; /* of all spaces, and this one's part of it, as last looked at */
    int64_t paused_ns;  /* the disk is left alone until then */
    int64_t looked_ns;  /* when others were last looked at; 0: never */
    whim_disk_others others;
    whim_disk_tier_stats stats;
    whim_log_limit quiet;
};

static inline int64_t whim_disk_tier_record(const whim_disk_tier *t, whim_disk_kind kind)
{
    return whim_disk_record_bytes(t->forms[kind].item_bytes, t->cfg.page_len);
}

/* --- disk_writer.c ---------------------------------------------------------------------------- */

/* What is in the folder, and how much it may be. Under the lock, or before there is a thread; the
 * lock is open while the disk works. */
void whim_disk_look(whim_disk_tier *tier);

/* Remove files, oldest first, until there is room for n bytes more; false: there is none. As
 * whim_disk_look. */
bool whim_disk_make_room(whim_disk_tier *tier, int64_t n);

/* The thread: writes what is queued, and keeps the limit. */
void whim_disk_write_all(void *tier);

#endif
