/* SPDX-License-Identifier: Apache-2.0 */
/* Files of one commit into the cache, several at once and large ones in several pieces. Each file
 * is checked and then appears under its names; one that does not arrive ends the whole, and what
 * came of the others is kept.
 * Threads: the call blocks and uses threads of its own. */
#ifndef WHIM_HUB_FETCH_H
#define WHIM_HUB_FETCH_H

#include "hub/partial.h"
#include "hub/transfer.h"

/* Pieces of large files; tests have smaller ones. */
enum { WHIM_HUB_PIECE_BYTES = 32 << 20 };

/* Fetch the files (their etags and sizes known) that are in neither the cache nor another process's
 * hands by the time that they could be. */
WHIM_MUST_CHECK whim_err whim_hub_fetch(const whim_hub_cfg *cfg, const whim_hub_repo *repo,
                                        const char *commit, whim_hub_file *const *files,
                                        int64_t n_file, int64_t piece_bytes, whim_diag *diag);

/* --- between its halves: fetch.c prepares and ends it, fetch_piece.c does the transfers ------ */

/* Fields say which lock they are under; the others do not change while workers run. */

/* One blob on its way. */
typedef struct whim_hub_blob_job {
    const whim_hub_file *file;
    int lock_fd;
    char path[WHIM_HUB_PATH_MAX]; /* of the partial */
    whim_hub_partial partial;
    pthread_mutex_t lock;
    /* Under the lock. */
    char url[WHIM_HUB_URL_MAX]; /* where a redirect led the last time; "" : ask the hub */
    bool streamed;              /* the server sends no ranges: one worker takes the whole */
    bool finishing;
} whim_hub_blob_job;

typedef struct whim_hub_piece_job {
    whim_hub_blob_job *blob;
    int32_t piece;
} whim_hub_piece_job;

typedef struct whim_hub_fetch_run {
    const whim_hub_cfg *cfg;
    const whim_hub_repo *repo;
    const char *commit;
    whim_hub_blob_job *blobs;
    int64_t n_blob;
    whim_hub_piece_job *pieces;
    int64_t n_piece;
    whim_hub_conn **conns; /* [cfg->n_connection], made by their workers */
    atomic_bool failed;
    pthread_mutex_t lock;
    /* Under the lock. */
    int64_t done, total;
    whim_err err; /* the first failure, and its words */
    whim_diag *diag;
    const char *waiting_for;
} whim_hub_fetch_run;

/* Tell the user: a few words, then a file's name. */
void whim_hub_fetch_say(whim_hub_fetch_run *f, const char *what, const char *name);

/* Fetch one piece (an item of whim_parallel_for) and, when it was the last of its blob, check and
 * name that. */
whim_err whim_hub_piece_run(void *ctx, int64_t item, int32_t worker);

#endif
