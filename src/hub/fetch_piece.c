/* SPDX-License-Identifier: Apache-2.0 */
/* The transfers of a fetch: where bytes land, when they are asked for again, and what is done with
 * a whole blob. */
#include "hub/cache.h"
#include "hub/fetch.h"

#include <stdio.h>
#include <string.h>

static void report(whim_hub_fetch_run *f, int64_t fresh)
{
    pthread_mutex_lock(&f->lock);
    f->done += fresh;
    if (f->cfg->progress != NULL) {
        f->cfg->progress(f->cfg->ctx, f->done, f->total);
    }
    pthread_mutex_unlock(&f->lock);
}

void whim_hub_fetch_say(whim_hub_fetch_run *f, const char *what, const char *name)
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
static whim_err fail_once(whim_hub_fetch_run *f, whim_err err, const whim_hub_blob_job *blob,
                          const whim_diag *diag)
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

/* --- one transfer ----------------------------------------------------------------------------- */

/* Where the bytes of a transfer go. */
typedef struct landing {
    whim_hub_fetch_run *f;
    whim_hub_blob_job *blob;
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
                             "the server sends bytes from %lld of %lld instead of those from "
                             "%lld of %lld",
                             (long long)reply->range_from, (long long)reply->range_total,
                             (long long)l->at, (long long)bytes);
        }
        return WHIM_ERR_OK;
    }
    if (reply->bytes >= 0 && reply->bytes != bytes) {
        return whim_fail(diag, WHIM_ERR_CORRUPT, "the server sends %lld bytes instead of %lld",
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

/* The address to ask: the one that a redirect led to (*is_known), or the hub's own. */
static whim_err url_choose(whim_hub_fetch_run *f, whim_hub_blob_job *blob,
                           char url[WHIM_HUB_URL_MAX], bool *is_known, whim_diag *diag)
{
    whim_err err = WHIM_ERR_OK;
    pthread_mutex_lock(&blob->lock);
    *is_known = blob->url[0] != '\0';
    snprintf(url, WHIM_HUB_URL_MAX, "%s", blob->url);
    pthread_mutex_unlock(&blob->lock);
    if (!*is_known) {
        whim_str text = {0};
        whim_str_printf(&text, "%s/%s/resolve/%s/", f->cfg->endpoint, f->repo->ref->id, f->commit);
        whim_hub_url_encode(&text, blob->file->name, true);
        snprintf(url, WHIM_HUB_URL_MAX, "%s", whim_str_text(&text));
        err = text.failed ? whim_fail(diag, WHIM_ERR_NO_MEMORY, "out of memory") : WHIM_ERR_OK;
        whim_str_deinit(&text);
    }
    return err;
}

static void url_remember(whim_hub_blob_job *blob, const char *url)
{
    pthread_mutex_lock(&blob->lock);
    snprintf(blob->url, sizeof blob->url, "%s", url);
    pthread_mutex_unlock(&blob->lock);
}

/* One try for the bytes from .. to of a blob. *done: they are there, or somebody else sees to
 * them. */
static whim_err span_try(whim_hub_fetch_run *f, whim_hub_conn *conn, whim_hub_blob_job *blob,
                         landing *l, whim_hub_reply *reply, bool *done, whim_diag *diag)
{
    char url[WHIM_HUB_URL_MAX];
    bool known, whole = l->at == 0 && l->end == blob->partial.bytes;
    *done = false;
    WHIM_TRY(url_choose(f, blob, url, &known, diag));
    whim_hub_request request = {
        .url = url, .from = l->at, .to = whole ? 0 : l->end, .sink = land, .ctx = l};
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

/* The bytes of a piece, or (piece < 0) of the whole blob, tried until they are there or hope is
 * lost. */
static whim_err span_fetch(whim_hub_fetch_run *f, whim_hub_conn *conn, whim_hub_blob_job *blob,
                           int32_t piece, whim_diag *diag)
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

/* --- one blob --------------------------------------------------------------------------------- */

static whim_err blob_check(whim_hub_fetch_run *f, whim_hub_blob_job *blob, bool *right,
                           char hex[WHIM_HUB_ETAG_MAX], whim_diag *diag)
{
    whim_hub_partial_seal(&blob->partial);
    WHIM_TRY(whim_hub_digest(blob->partial.fd, blob->partial.bytes, blob->file->etag, f->cfg->stop,
                             blob->path, hex, diag));
    *right = strcmp(hex, blob->file->etag) == 0;
    return WHIM_ERR_OK;
}

/* All bytes are there: check, and give the blob its names. Wrong ones are fetched once more, in one
 * go. */
static whim_err blob_finish(whim_hub_fetch_run *f, whim_hub_conn *conn, whim_hub_blob_job *blob,
                            whim_diag *diag)
{
    char path[WHIM_HUB_PATH_MAX], hex[WHIM_HUB_ETAG_MAX] = "";
    bool right = false;
    WHIM_TRY(blob_check(f, blob, &right, hex, diag));
    if (!right) {
        whim_hub_fetch_say(f, "wrong checksum, fetching once more:", blob->file->name);
        report(f, -whim_hub_partial_total(&blob->partial));
        WHIM_TRY(whim_hub_partial_reset(&blob->partial, diag));
        url_remember(blob, "");
        WHIM_TRY(span_fetch(f, conn, blob, -1, diag));
        WHIM_TRY(blob_check(f, blob, &right, hex, diag));
    }
    if (!right) {
        whim_hub_partial_discard(&blob->partial);
        return whim_fail(
            diag, WHIM_ERR_CORRUPT,
            "the checksum is %s, twice, and the hub says %s: the file is not kept. Something "
            "between here and %s changes it",
            hex, blob->file->etag, f->cfg->endpoint);
    }
    WHIM_TRY(whim_hub_blob_path(f->repo, blob->file->etag, "", path, diag));
    WHIM_TRY(whim_hub_partial_publish(&blob->partial, path, diag));
    return whim_hub_link(f->repo, f->commit, blob->file, diag);
}

whim_err whim_hub_piece_run(void *ctx, int64_t item, int32_t worker)
{
    whim_hub_fetch_run *f = ctx;
    whim_hub_piece_job *job = &f->pieces[item];
    whim_hub_blob_job *blob = job->blob;
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
