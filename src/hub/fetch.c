/* SPDX-License-Identifier: Apache-2.0 */
/* A fetch from its locks to its end. */
#include "hub/fetch.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { SLACK_BYTES = 4 << 20 }; /* for tables, links and what others write meanwhile */

static void tell_waiting(void *ctx)
{
    whim_hub_fetch_run *f = ctx;
    whim_hub_fetch_say(f, "waiting for another process, which fetches", f->waiting_for);
}

/* Lock a blob. *there: somebody else has brought it, and it is linked. */
static whim_err blob_lock(whim_hub_fetch_run *f, whim_hub_blob_job *blob, bool *there,
                          whim_diag *diag)
{
    char path[WHIM_HUB_PATH_MAX], suffix[64] = ".whimbrel.incomplete";
    const char *etag = blob->file->etag;
    WHIM_TRY(
        whim_hub_path(path, diag, "%s/.locks/%s/%s.lock", f->repo->cache, f->repo->folder, etag));
    WHIM_TRY(whim_hub_make_folders(path, diag));
    f->waiting_for = blob->file->name;
    WHIM_TRY(whim_hub_lock(path, &blob->lock_fd, f->cfg->stop, tell_waiting, f, diag));
    WHIM_TRY(whim_hub_blob_path(f->repo, etag, "", path, diag));
    WHIM_TRY(whim_hub_make_folders(path, diag));
    *there = whim_hub_is_file(path, blob->file->bytes);
    if (*there) {
        return whim_hub_link(f->repo, f->commit, blob->file, diag);
    }
    if (blob->lock_fd < 0) { /* nothing keeps two processes apart but their numbers */
        snprintf(suffix, sizeof suffix, ".%ld.whimbrel.incomplete", (long)getpid());
    }
    return whim_hub_blob_path(f->repo, etag, suffix, blob->path, diag);
}

static int by_etag(const void *a, const void *b)
{
    return strcmp((*(whim_hub_file *const *)a)->etag, (*(whim_hub_file *const *)b)->etag);
}

/* A job for each blob that has to come; in one order for all processes, so that no two wait for
 * each other. */
static whim_err blobs_begin(whim_hub_fetch_run *f, whim_hub_file **files, int64_t n_file,
                            whim_diag *diag)
{
    qsort(files, (size_t)n_file, sizeof *files, by_etag);
    for (int64_t i = 0; i < n_file; i++) {
        whim_hub_blob_job *blob = &f->blobs[f->n_blob];
        bool there = false;
        if (i > 0 && strcmp(files[i - 1]->etag, files[i]->etag) == 0) {
            continue; /* the same content under two names; linked at the end */
        }
        *blob = (whim_hub_blob_job){.file = files[i], .lock_fd = -1, .partial = {.fd = -1}};
        pthread_mutex_init(&blob->lock, NULL);
        f->n_blob++;
        WHIM_TRY(blob_lock(f, blob, &there, diag));
        if (there) {
            whim_file_close(blob->lock_fd);
            pthread_mutex_destroy(&blob->lock);
            f->n_blob--;
        }
    }
    return WHIM_ERR_OK;
}

static whim_err space_check(whim_hub_fetch_run *f, whim_diag *diag)
{
    struct statvfs fs;
    struct stat st;
    int64_t need = SLACK_BYTES;
    for (int64_t i = 0; i < f->n_blob; i++) {
        need += f->blobs[i].file->bytes;
        if (stat(f->blobs[i].path, &st) == 0) {
            need -= (int64_t)st.st_blocks * 512;
        }
    }
    if (f->n_blob == 0 || statvfs(f->repo->cache, &fs) != 0) {
        return WHIM_ERR_OK;
    }
    int64_t free_bytes = (int64_t)fs.f_bavail * (int64_t)fs.f_frsize;
    if (need <= free_bytes) {
        return WHIM_ERR_OK;
    }
    char want[32], have[32];
    whim_format_bytes(want, sizeof want, need);
    whim_format_bytes(have, sizeof have, free_bytes);
    return whim_fail(
        diag, WHIM_ERR_FULL,
        "%s needs %s more, and %s has %s left: free some space, or set HF_HUB_CACHE to "
        "a folder on another disk",
        f->repo->ref->id, want, f->repo->cache, have);
}

/* Open the partial files and cut them into pieces. */
static whim_err pieces_begin(whim_hub_fetch_run *f, int64_t piece_bytes, whim_diag *diag)
{
    int64_t n = 0;
    for (int64_t i = 0; i < f->n_blob; i++) {
        whim_hub_blob_job *blob = &f->blobs[i];
        WHIM_TRY(whim_hub_partial_open(&blob->partial, blob->path, blob->file->bytes, piece_bytes,
                                       diag));
        n += blob->partial.n_piece > 0 ? blob->partial.n_piece : 1;
        f->total += blob->file->bytes - whim_hub_partial_total(&blob->partial);
    }
    f->pieces = whim_alloc_array(n, sizeof *f->pieces);
    if (f->pieces == NULL) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "out of memory");
    }
    for (int64_t i = 0; i < f->n_blob; i++) {
        int32_t pieces = f->blobs[i].partial.n_piece;
        for (int32_t j = 0; j < (pieces > 0 ? pieces : 1); j++) {
            f->pieces[f->n_piece++] = (whim_hub_piece_job){.blob = &f->blobs[i], .piece = j};
        }
    }
    return WHIM_ERR_OK;
}

static void fetch_end(whim_hub_fetch_run *f)
{
    for (int64_t i = 0; i < f->n_blob; i++) {
        whim_hub_partial_close(&f->blobs[i].partial);
        whim_file_close(f->blobs[i].lock_fd);
        pthread_mutex_destroy(&f->blobs[i].lock);
    }
    for (int32_t i = 0; f->conns != NULL && i < f->cfg->n_connection; i++) {
        whim_hub_conn_destroy(f->conns[i]);
    }
    pthread_mutex_destroy(&f->lock);
    whim_free(f->blobs);
    whim_free(f->pieces);
    whim_free(f->conns);
}

whim_err whim_hub_fetch(const whim_hub_cfg *cfg, const whim_hub_repo *repo, const char *commit,
                        whim_hub_file *const *files, int64_t n_file, int64_t piece_bytes,
                        whim_diag *diag)
{
    whim_hub_fetch_run f = {.cfg = cfg, .repo = repo, .commit = commit, .diag = diag};
    whim_err err;
    if (n_file == 0) {
        return WHIM_ERR_OK;
    }
    pthread_mutex_init(&f.lock, NULL);
    whim_hub_file **sorted = whim_alloc_array(n_file, sizeof *sorted);
    f.blobs = whim_alloc_array(n_file, sizeof *f.blobs);
    f.conns = whim_alloc_array(cfg->n_connection, sizeof(whim_hub_conn *));
    if (sorted == NULL || f.blobs == NULL || f.conns == NULL) {
        err = whim_fail(diag, WHIM_ERR_NO_MEMORY, "out of memory");
        goto out;
    }
    memcpy(sorted, files, (size_t)n_file * sizeof *sorted);
    WHIM_TRY_OUT(blobs_begin(&f, sorted, n_file, diag));
    WHIM_TRY_OUT(space_check(&f, diag));
    WHIM_TRY_OUT(pieces_begin(&f, piece_bytes, diag));
    err = whim_parallel_for(cfg->n_connection, f.n_piece, whim_hub_piece_run, &f);
    if (err != WHIM_ERR_OK) {
        err = f.err;
        goto out;
    }
    for (int64_t i = 0; i < n_file; i++) {
        WHIM_TRY_OUT(whim_hub_link(repo, commit, files[i], diag));
    }
out:
    fetch_end(&f);
    whim_free(sorted);
    return err;
}
