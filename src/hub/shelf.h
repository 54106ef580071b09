/* SPDX-License-Identifier: Apache-2.0 */
/* What the cache holds, for people who want to see or delete it: its repositories, the models in
 * their snapshots, and the removal of these.
 * Threads: stateless; several processes may work on one cache. */
#ifndef WHIM_HUB_SHELF_H
#define WHIM_HUB_SHELF_H

#include "base/arena.h"
#include "hub/cache.h"

#include <stdbool.h>
#include <stdint.h>

/* The repositories of models, as ORG/NAME, sorted, in the arena; none when there is no cache. */
WHIM_MUST_CHECK whim_err whim_hub_shelf_ids(whim_arena *arena, const char *cache, char ***ids,
                                            int64_t *n, whim_diag *diag);

#endif
