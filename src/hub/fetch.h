/* SPDX-License-Identifier: Apache-2.0 */
/* Files of one commit into the cache, several at once and large ones in several pieces. Each file
 * is checked and then appears under its names; one that does not arrive ends the whole, and what
 * came of the others is kept.
 * Threads: the call blocks and uses threads of its own. */
#ifndef WHIM_HUB_FETCH_H
#define WHIM_HUB_FETCH_H

#include "hub/cache.h"
#include "hub/hub.h"

/* Pieces of large files; tests have smaller ones. */
enum { WHIM_HUB_PIECE_BYTES = 32 << 20 };

/* Fetch the files (their etags and sizes known) that are in neither the cache nor another process's
 * hands by the time that they could be. */
WHIM_MUST_CHECK whim_err whim_hub_fetch(const whim_hub_cfg *cfg, const whim_hub_repo *repo,
                                        const char *commit, whim_hub_file *const *files,
                                        int64_t n_file, int64_t piece_bytes, whim_diag *diag);

#endif
