/* SPDX-License-Identifier: Apache-2.0 */
/* What the cache holds, for people who want to see or delete it: its repositories, the models in
 * their snapshots (shelf.c), and their removal (remove.c).
 * Threads: a shelf belongs to its caller; several processes may work on one cache. */
#ifndef WHIM_HUB_SHELF_H
#define WHIM_HUB_SHELF_H

#include "base/arena.h"
#include "hub/cache.h"

#include <stdbool.h>
#include <stdint.h>

/* The repositories of models, as ORG/NAME, sorted, in the arena; none when there is no cache. */
WHIM_MUST_CHECK whim_err whim_hub_shelf_ids(whim_arena *arena, const char *cache, char ***ids,
                                            int64_t *n, whim_diag *diag);

/* A model in the cache, by a name that leads to it: a folder, or one GGUF file. Texts are in the
 * shelf's arena. */
typedef struct whim_hub_item {
    const char *name;    /* ORG/NAME[@REV][:PICK] */
    const char *path;    /* its folder or file; "" where there is none */
    const char *missing; /* why it is not whole; "": it is */
    int64_t bytes;       /* of its files, also where other revisions share them */
    int64_t used;        /* when one was read last, seconds since 1970; 0: not known */
} whim_hub_item;

typedef struct whim_hub_shelf {
    whim_arena arena;
    whim_hub_item *items; /* by repository */
    int64_t n, cap;
} whim_hub_shelf;

/* Deinit in any case. */
WHIM_MUST_CHECK whim_err whim_hub_shelf_read(whim_hub_shelf *shelf, const char *cache,
                                             whim_diag *diag);
void whim_hub_shelf_deinit(whim_hub_shelf *shelf);

/* Delete a model: the whole repository where `all`, else the revision, or with a pick one GGUF file
 * of it. What other revisions use stays. *freed is in bytes. NOT_FOUND when it is not there, BUSY
 * when another process fetches it. */
WHIM_MUST_CHECK whim_err whim_hub_remove(const char *cache, const whim_hub_ref *ref, bool all,
                                         int64_t *freed, whim_diag *diag);

#endif
