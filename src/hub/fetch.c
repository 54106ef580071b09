/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces, workers, checksums. */
#include "hub/fetch.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/thread.h"
#include "hub/digest.h"
#include "hub/partial.h"
#include "hub/transfer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { SLACK_BYTES = 4 << 20 }; /* for tables, links and what others write meanwhile */

/* One blob on its way. */
typedef struct blob_job {
    const whim_hub_file *file;
    int lock_fd;
    char path[WHIM_HUB_PATH_MAX]; /* of the partial */
    whim_hub_partial partial;
    pthread_mutex_t lock;
    /* Under the lock. */
    char url[WHIM_HUB_URL_MAX]; /* where a redirect led the last time; "" : ask the hub */
    bool streamed;              /* the server sends no ranges: one worker takes the whole */
    bool finishing;
} blob_job;

typedef struct piece_job {
    blob_job *blob;
    int32_t piece;
} piece_job;

typedef struct fetch {
    const whim_hub_cfg *cfg;
    const whim_hub_repo *repo;
    const char *commit;
    blob_job *blobs;
    int64_t n_blob;
    piece_job *pieces;
    int64_t n_piece;
    whim_hub_conn **conns; /* [cfg->n_connection], made by their workers */
    atomic_bool failed;
    pthread_mutex_t lock;
    /* Under the lock. */
    int64_t done, total;
    whim_err err; /* the first failure, and its words */
    whim_diag *diag;
    const char *waiting_for;
} fetch;

static void report(fetch *f, int64_t fresh)
{
    pthread_mutex_lock(&f->lock);
    f->done += fresh;
    if (f->cfg->progress != NULL) {
        f->cfg->progress(f->cfg->ctx, f->done, f->total);
    }
    pthread_mutex_unlock(&f->lock);
}

static void say(fetch *f, const char *what, const char *name)
{
    char line[WHIM_HUB_NAME_MAX + 128];
    pthread_mutex_lock(&f->lock);
    if (f->cfg->say != NULL) {
        snprintf(line, sizeof line, "%s %s", what, name);
        f->cfg->say(f->cfg->ctx, line);
    }
    pthread_mutex_unlock(&f->lock);
}

/* The first failure counts; others follow from it. */
static whim_err fail_once(fetch *f, whim_err err, const blob_job *blob, const whim_diag *diag)
{
    pthread_mutex_lock(&f->lock);
    if (f->err == WHIM_ERR_OK) {
        f->err = err;
        *f->diag = *diag;
        if (err != WHIM_ERR_FULL && err != WHIM_ERR_NOT_FOUND) { /* those name it themselves */
            whim_diag_prefix(f->diag, "%s: ", blob->file->name);
        }
    }
    pthread_mutex_unlock(&f->lock);
    atomic_store(&f->failed, true);
    return err;
}

/* --- one transfer ------------------------------------------------------------------------------- */

/* Where the bytes of a transfer go. */
typedef struct landing {
    fetch *f;
    blob_job *blob;
    int64_t at, end;
    int64_t fresh; /* bytes that were not there before */
    bool begun;
    bool streams, stands_by; /* no ranges: this worker takes the whole file, or another does */
} landing;

/* The head of the answer: is it what was asked for? */
static whim_err landing_begin(landing *l, const whim_hub_reply *reply, whim_diag *diag)
{
    int64_t bytes = l->blob->partial.bytes;
    l->begun = true;
    if (reply->status == 206) {
        if (reply->range_from != l->at ||
            (reply->range_total >= 0 && reply->range_total != bytes)) {
            return whim_fail(diag, WHIM_ERR_CORRUPT,
                             "the server sends bytes from %lld of %lld, asked for were those from "
                             "%lld of %lld",
                             (long long)reply->range_from, (long long)reply->range_total,
                             (long long)l->at, (long long)bytes);
        }
        return WHIM_ERR_OK;
    }
    if (reply->bytes >= 0 && reply->bytes != bytes) {
        return whim_fail(diag, WHIM_ERR_CORRUPT, "the server sends %lld bytes, expected %lld",
                         (long long)reply->bytes, (long long)bytes);
    }
    if (l->at == 0 && l->end == bytes) {
        return WHIM_ERR_OK;
    }
    pthread_mutex_lock(&l->blob->lock);
    l->stands_by = l->blob->streamed;
    l->streams = !l->stands_by;
    l->blob->streamed = true;
    pthread_mutex_unlock(&l->blob->lock);
    l->at = 0;
    l->end = bytes;
    return l->stands_by ? WHIM_ERR_FULL : WHIM_ERR_OK;
}

static whim_err land(void *ctx, const whim_hub_reply *reply, const char *bytes, int64_t n,
                     whim_diag *diag)
{
    landing *l = ctx;
    int64_t fresh;
    if (!l->begun) {
        WHIM_TRY(landing_begin(l, reply, diag));
    }
    if (n > l->end - l->at) {
        return whim_fail(diag, WHIM_ERR_CORRUPT, "the server sends more than the %lld bytes due",
                         (long long)l->end);
    }
    WHIM_TRY(whim_hub_partial_write(&l->blob->partial, l->at, bytes, n, &fresh, diag));
    l->at += n;
    l->fresh += fresh;
    report(l->f, fresh);
    return WHIM_ERR_OK;
}

/* The address to ask: the one that a redirect led to, or the hub's own. */
static bool url_choose(fetch *f, blob_job *blob, char url[WHIM_HUB_URL_MAX])
{
    pthread_mutex_lock(&blob->lock);
    bool known = blob->url[0] != '\0';
    snprintf(url, WHIM_HUB_URL_MAX, "%s", blob->url);
    pthread_mutex_unlock(&blob->lock);
    if (!known) {
        whim_str text = {0};
        whim_str_printf(&text, "%s/%s/resolve/%s/", f->cfg->endpoint, f->repo->ref->id, f->commit);
        whim_hub_url_encode(&text, blob->file->name, true);
        snprintf(url, WHIM_HUB_URL_MAX, "%s", whim_str_text(&text));
        whim_str_deinit(&text);
    }
    return known;
}

static void url_remember(blob_job *blob, const char *url)
{
    pthread_mutex_lock(&blob->lock);
    snprintf(blob->url, sizeof blob->url, "%s", url);
    pthread_mutex_unlock(&blob->lock);
}

/* One try for the bytes from .. to of a blob. *done: they are there, or somebody else sees to them. */
static whim_err span_try(fetch *f, whim_hub_conn *conn, blob_job *blob, landing *l,
                         whim_hub_reply *reply, bool *done, whim_diag *diag)
{
    char url[WHIM_HUB_URL_MAX];
    bool known = url_choose(f, blob, url);
    bool whole = l->at == 0 && l->end == blob->partial.bytes;
    whim_hub_request request = {
        .url = url, .from = l->at, .to = whole ? 0 : l->end, .sink = land, .ctx = l};
    *done = false;
    whim_err err = whim_hub_try(conn, &request, reply, diag);
    if (l->stands_by) {
        *done = true;
        return WHIM_ERR_OK;
    }
    if (err != WHIM_ERR_OK) {
        return err;
    }
    if (reply->status == 200 || reply->status == 206) {
        url_remember(blob, reply->url);
        *done = l->at == l->end;
        reply->may_retry = true;
        return *done ? WHIM_ERR_OK
                     : whim_fail(diag, WHIM_ERR_IO, "the server sent %lld bytes too few",
                                 (long long)(l->end - l->at));
    }
    if (known) { /* addresses given out for a while run out */
        url_remember(blob, "");
        reply->may_retry = true;
    }
    return whim_hub_refusal(f->cfg, f->repo->ref, blob->file->name, reply, diag);
}

/* The bytes of a piece, or (piece < 0) of the whole blob, tried until they are there or hope is lost. */
static whim_err span_fetch(fetch *f, whim_hub_conn *conn, blob_job *blob, int32_t piece,
                           whim_diag *diag)
{
    for (int32_t n_try = 0;;) {
        whim_hub_reply reply;
        bool done;
        landing l = {.f = f, .blob = blob, .at = 0, .end = blob->partial.bytes};
        if (piece >= 0) {
            l.at = whim_hub_partial_start(&blob->partial, piece) +
                   whim_hub_partial_good(&blob->partial, piece);
            l.end = whim_hub_partial_end(&blob->partial, piece);
            if (l.at == l.end) {
                return WHIM_ERR_OK;
            }
        }
        whim_err err = span_try(f, conn, blob, &l, &reply, &done, diag);
        if (done) {
            return WHIM_ERR_OK;
        }
        n_try = l.fresh > 0 ? 1 : n_try + 1;
        piece = l.streams ? -1 : piece;
        if (!reply.may_retry || n_try >= f->cfg->n_try || (reply.is_unreached && n_try >= 2) ||
            !whim_hub_back_off(conn, n_try, &reply)) {
            return err;
        }
    }
}

/* --- one blob ----------------------------------------------------------------------------------- */

static whim_err blob_check(fetch *f, blob_job *blob, bool *right, char hex[WHIM_HUB_ETAG_MAX],
                           whim_diag *diag)
{
    whim_hub_partial_seal(&blob->partial);
    WHIM_TRY(whim_hub_digest(blob->partial.fd, blob->partial.bytes, blob->file->etag, f->cfg->stop,
                             blob->path, hex, diag));
    *right = strcmp(hex, blob->file->etag) == 0;
    return WHIM_ERR_OK;
}

/* All bytes are there: check, and give the blob its names. Wrong ones are fetched once more, in one go. */
static whim_err blob_finish(fetch *f, whim_hub_conn *conn, blob_job *blob, whim_diag *diag)
{
    char path[WHIM_HUB_PATH_MAX], hex[WHIM_HUB_ETAG_MAX] = "";
    bool right = false;
    WHIM_TRY(blob_check(f, blob, &right, hex, diag));
    if (!right) {
        say(f, "wrong checksum, fetching once more:", blob->file->name);
        report(f, -whim_hub_partial_total(&blob->partial));
        WHIM_TRY(whim_hub_partial_reset(&blob->partial, diag));
        url_remember(blob, "");
        WHIM_TRY(span_fetch(f, conn, blob, -1, diag));
        WHIM_TRY(blob_check(f, blob, &right, hex, diag));
    }
    if (!right) {
        whim_hub_partial_discard(&blob->partial);
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "the checksum is %s, the hub says %s, twice; not kept. Something between "
                         "here and %s changes what it carries",
                         hex, blob->file->etag, f->cfg->endpoint);
    }
    WHIM_TRY(whim_hub_blob_path(f->repo, blob->file->etag, "", path, diag));
    WHIM_TRY(whim_hub_partial_publish(&blob->partial, path, diag));
    return whim_hub_link(f->repo, f->commit, blob->file, diag);
}

static whim_err piece_run(void *ctx, int64_t item, int32_t worker)
{
    fetch *f = ctx;
    piece_job *job = &f->pieces[item];
    blob_job *blob = job->blob;
    whim_diag diag = {""};
    whim_err err = WHIM_ERR_OK;
    if (atomic_load(&f->failed)) {
        return WHIM_ERR_IO;
    }
    if (f->conns[worker] == NULL) {
        err = whim_hub_conn_create(f->cfg, &f->failed, &f->conns[worker], &diag);
    }
    if (err == WHIM_ERR_OK && blob->partial.bytes > 0) {
        err = span_fetch(f, f->conns[worker], blob, job->piece, &diag);
    }
    if (err == WHIM_ERR_OK) {
        bool whole = whim_hub_partial_total(&blob->partial) == blob->partial.bytes;
        pthread_mutex_lock(&blob->lock);
        bool mine = whole && !blob->finishing;
        blob->finishing |= mine;
        pthread_mutex_unlock(&blob->lock);
        err = mine ? blob_finish(f, f->conns[worker], blob, &diag) : WHIM_ERR_OK;
    }
    return err == WHIM_ERR_OK ? err : fail_once(f, err, blob, &diag);
}

/* --- before and after --------------------------------------------------------------------------- */

static void tell_waiting(void *ctx)
{
    fetch *f = ctx;
    say(f, "waiting for another process, which fetches", f->waiting_for);
}

/* Lock a blob. *there: somebody else has brought it, and it is linked. */
static whim_err blob_lock(fetch *f, blob_job *blob, bool *there, whim_diag *diag)
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

/* A job for each blob that has to come; in one order for all processes, so that no two wait for each other. */
static whim_err blobs_begin(fetch *f, whim_hub_file **files, int64_t n_file, whim_diag *diag)
{
    qsort(files, (size_t)n_file, sizeof *files, by_etag);
    for (int64_t i = 0; i < n_file; i++) {
        blob_job *blob = &f->blobs[f->n_blob];
        bool there = false;
        if (i > 0 && strcmp(files[i - 1]->etag, files[i]->etag) == 0) {
            continue; /* the same content under two names; linked at the end */
        }
        *blob = (blob_job){.file = files[i], .lock_fd = -1, .partial = {.fd = -1}};
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

static whim_err space_check(fetch *f, whim_diag *diag)
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
        "%s needs %s more, and %s has %s left: free some space, or let HF_HUB_CACHE name "
        "a folder on another disk",
        f->repo->ref->id, want, f->repo->cache, have);
}

/* Open the partial files and cut them into pieces. */
static whim_err pieces_begin(fetch *f, int64_t piece_bytes, whim_diag *diag)
{
    int64_t n = 0;
    for (int64_t i = 0; i < f->n_blob; i++) {
        blob_job *blob = &f->blobs[i];
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
            f->pieces[f->n_piece++] = (piece_job){.blob = &f->blobs[i], .piece = j};
        }
    }
    return WHIM_ERR_OK;
}

static void fetch_end(fetch *f)
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
    fetch f = {.cfg = cfg, .repo = repo, .commit = commit, .diag = diag};
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
    err = whim_parallel_for(cfg->n_connection, f.n_piece, piece_run, &f);
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
