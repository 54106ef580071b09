/* SPDX-License-Identifier: Apache-2.0 */
/* From a name to a model in the cache. */
#include "base/alloc.h"
#include "base/file.h"
#include "hub/cache.h"
#include "hub/fetch.h"
#include "hub/hub.h"
#include "hub/transfer.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_LISTING_BYTES = 64 << 20, MAX_INDEX_ROUNDS = 64 };

/* One pull from beginning to end. */
typedef struct pull {
    const whim_hub_cfg *cfg;
    const whim_hub_ref *ref;
    whim_hub_repo repo;
    whim_hub_conn *conn;
    whim_hub_listing listing;
    whim_hub_choice choice;
    whim_hub_reply reply; /* to what was asked last */
    whim_diag *diag;
} pull;

static void say(const pull *p, whim_str *line)
{
    if (p->cfg->say != NULL && line->len > 0) {
        p->cfg->say(p->cfg->ctx, whim_str_text(line));
    }
    whim_str_deinit(line);
}

/* --- what the hub says ------------------------------------------------------------------------ */

static whim_err collect(void *ctx, const whim_hub_reply *reply, const char *bytes, int64_t n,
                        whim_diag *diag)
{
    whim_str *text = ctx;
    (void)reply;
    if (text->len + n > MAX_LISTING_BYTES) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED, "the hub's answer is longer than %d MiB",
                         MAX_LISTING_BYTES >> 20);
    }
    whim_str_append_n(text, bytes, n);
    return text->failed ? whim_fail(diag, WHIM_ERR_NO_MEMORY, "out of memory") : WHIM_ERR_OK;
}

/* A request whose answer must be good, tried again as long as that makes sense. */
static whim_err ask(pull *p, whim_hub_request *request, const whim_str *url, const char *what)
{
    whim_hub_reply *reply = &p->reply;
    request->url = whim_str_text(url);
    if (url->failed) {
        return whim_fail(p->diag, WHIM_ERR_NO_MEMORY, "out of memory");
    }
    for (int32_t n_try = 1;; n_try++) {
        whim_err err = whim_hub_try(p->conn, request, reply, p->diag);
        bool good = reply->status == 200 || (request->head && reply->status / 100 == 3);
        if (err == WHIM_ERR_OK && good) {
            return WHIM_ERR_OK;
        }
        if (err == WHIM_ERR_OK) {
            err = whim_hub_refusal(p->cfg, p->ref, what, reply, p->diag);
        }
        if (!reply->may_retry || n_try >= p->cfg->n_try || (reply->is_unreached && n_try >= 2) ||
            !whim_hub_back_off(p->conn, n_try, reply)) {
            return err;
        }
        if (request->sink == collect) {
            whim_str_clear(request->ctx);
        }
    }
}

static whim_err listing_get(pull *p)
{
    whim_str url = {0}, text = {0};
    whim_str_printf(&url, "%s/api/models/%s/revision/", p->cfg->endpoint, p->ref->id);
    whim_hub_url_encode(&url, p->ref->rev, false);
    whim_str_append(&url, "?blobs=true");
    whim_hub_request request = {.small = true, .sink = collect, .ctx = &text};
    whim_err err = ask(p, &request, &url, "");
    if (err == WHIM_ERR_OK) {
        err = whim_hub_listing_parse(&p->listing, whim_str_text(&text), text.len,
                                     "the hub's answer", p->diag);
    }
    whim_str_deinit(&url);
    whim_str_deinit(&text);
    return err;
}

/* Size and checksum of a file, where the listing did not tell (mirrors may not). */
static whim_err file_ask(pull *p, whim_hub_file *file)
{
    whim_str url = {0};
    const whim_hub_reply *reply = &p->reply;
    whim_str_printf(&url, "%s/%s/resolve/%s/", p->cfg->endpoint, p->ref->id, p->listing.commit);
    whim_hub_url_encode(&url, file->name, true);
    whim_hub_request request = {.head = true};
    whim_err err = ask(p, &request, &url, file->name);
    if (err == WHIM_ERR_OK) {
        const char *etag = reply->linked_etag[0] != '\0' ? reply->linked_etag : reply->etag;
        bool good = whim_hub_is_hex(etag, 40) || whim_hub_is_hex(etag, 64);
        file->bytes = reply->linked_bytes >= 0   ? reply->linked_bytes
                      : reply->status / 100 == 2 ? reply->bytes
                                                 : -1;
        snprintf(file->etag, sizeof file->etag, "%.64s", good ? etag : "");
        if (!good || file->bytes < 0) {
            err = whim_fail(p->diag, WHIM_ERR_UNSUPPORTED,
                            "%s: %s gives no size and checksum, so it could not be checked",
                            file->name, p->cfg->endpoint);
        }
    }
    whim_str_deinit(&url);
    return err;
}

/* --- what is there ---------------------------------------------------------------------------- */

/* Whether a blob's content is what its name says; it is deleted when not. */
static whim_err blob_verify(pull *p, const whim_hub_file *file, const char *path, bool *right)
{
    char hex[WHIM_HUB_ETAG_MAX] = "";
    int fd;
    int64_t bytes;
    WHIM_TRY(whim_file_open(path, &fd, &bytes, p->diag));
    whim_err err = whim_hub_digest(fd, bytes, file->etag, p->cfg->stop, path, hex, p->diag);
    whim_file_close(fd);
    WHIM_TRY(err);
    *right = strcmp(hex, file->etag) == 0;
    if (!*right) {
        whim_str line = {0};
        whim_str_printf(&line, "%s in the cache is damaged, downloading it again", file->name);
        say(p, &line);
        if (unlink(path) != 0) {
            return whim_fail(p->diag, WHIM_ERR_IO, "%s: damaged, and cannot be deleted", path);
        }
    }
    return WHIM_ERR_OK;
}

/* Whether a file of the choice is in the snapshot, with the content that the hub has. */
static whim_err is_there(pull *p, const whim_hub_file *file, bool *there)
{
    char path[WHIM_HUB_PATH_MAX], blob[WHIM_HUB_PATH_MAX];
    WHIM_TRY(whim_hub_snapshot_path(&p->repo, p->listing.commit, file->name, path, p->diag));
    WHIM_TRY(whim_hub_blob_path(&p->repo, file->etag, "", blob, p->diag));
    *there = whim_hub_is_file(path, file->bytes);
    bool has_blob = whim_hub_is_file(blob, file->bytes);
    if (p->cfg->verify && (*there || has_blob)) {
        bool right = true;
        WHIM_TRY(blob_verify(p, file, has_blob ? blob : path, &right));
        *there &= right;
        has_blob &= right;
    }
    if (!*there && has_blob) {
        WHIM_TRY(whim_hub_link(&p->repo, p->listing.commit, file, p->diag));
        *there = true;
    }
    return WHIM_ERR_OK;
}

static void say_plan(const pull *p, int64_t n_missing, int64_t bytes_missing)
{
    whim_str line = {0};
    int64_t bytes = 0;
    char all[32], some[32];
    for (int64_t i = 0; i < p->choice.n_file; i++) {
        bytes += p->choice.files[i]->bytes;
    }
    whim_format_bytes(all, sizeof all, bytes);
    whim_format_bytes(some, sizeof some, bytes_missing);
    whim_str_printf(&line, "%s at %.12s: %lld file%s, %s", p->ref->id, p->listing.commit,
                    (long long)p->choice.n_file, p->choice.n_file == 1 ? "" : "s", all);
    if (p->choice.entry != NULL) {
        whim_str_printf(&line, ", %s", p->choice.entry);
    }
    if (n_missing < p->choice.n_file) {
        whim_str_printf(&line, n_missing == 0 ? "; all in the cache" : "; to fetch: %lld, %s",
                        (long long)n_missing, some);
    }
    say(p, &line);
}

/* Fetch what of the choice is not there. */
static whim_err choice_fetch(pull *p, bool first)
{
    int64_t n = 0, bytes = 0;
    whim_hub_file **missing = whim_alloc_array(p->choice.n_file, sizeof *missing);
    if (missing == NULL) {
        return whim_fail(p->diag, WHIM_ERR_NO_MEMORY, "out of memory");
    }
    whim_err err = WHIM_ERR_OK;
    for (int64_t i = 0; i < p->choice.n_file; i++) {
        whim_hub_file *file = p->choice.files[i];
        bool there = false;
        if (file->etag[0] == '\0' || file->bytes < 0) {
            WHIM_TRY_OUT(file_ask(p, file));
        }
        WHIM_TRY_OUT(is_there(p, file, &there));
        if (!there) {
            missing[n++] = file;
            bytes += file->bytes;
        }
    }
    if (first) {
        say_plan(p, n, bytes);
    }
    err = whim_hub_fetch(p->cfg, &p->repo, p->listing.commit, missing, n, WHIM_HUB_PIECE_BYTES,
                         p->diag);
out:
    whim_free(missing);
    return err;
}

/* Shards that the index names and that were not recognised by their names. */
static whim_err index_fetch(pull *p, const char *folder)
{
    for (int i = 0; i < MAX_INDEX_ROUNDS; i++) {
        whim_hub_listing here = {.n_file = 0};
        const char *shard = NULL;
        whim_err err = whim_hub_listing_read(&here, folder, p->diag);
        if (err == WHIM_ERR_OK) {
            err = whim_hub_shard_missing(&here, folder, &shard, p->diag);
        }
        if (err == WHIM_ERR_OK && shard != NULL &&
            whim_hub_choice_add(&p->choice, &p->listing, shard) != WHIM_ERR_OK) {
            err = whim_fail(
                p->diag, WHIM_ERR_NOT_FOUND,
                "%s lists %s, which the repository does not have: the model is incomplete there",
                "model.safetensors.index.json", shard);
        }
        bool more = shard != NULL;
        whim_hub_listing_deinit(&here);
        WHIM_TRY(err);
        if (!more) {
            return WHIM_ERR_OK;
        }
        WHIM_TRY(choice_fetch(p, false));
    }
    return whim_fail(p->diag, WHIM_ERR_UNSUPPORTED, "%s: the index has too many odd names",
                     p->ref->id);
}

/* --- the whole -------------------------------------------------------------------------------- */

static whim_err pull_run(pull *p, char path[WHIM_HUB_PATH_MAX])
{
    char folder[WHIM_HUB_PATH_MAX];
    whim_str line = {0};
    WHIM_TRY(whim_hub_repo_init(&p->repo, p->cfg->cache, p->ref, p->diag));
    WHIM_TRY(whim_hub_conn_create(p->cfg, NULL, &p->conn, p->diag));
    WHIM_TRY(listing_get(p));
    WHIM_TRY(whim_hub_choose(&p->choice, &p->listing, p->ref->id, p->ref->pick, p->diag));
    whim_hub_choice_left_out(&p->choice, &p->listing, &line);
    say(p, &line);
    WHIM_TRY(choice_fetch(p, true));
    WHIM_TRY(whim_hub_snapshot_path(&p->repo, p->listing.commit, "", folder, p->diag));
    if (p->choice.entry == NULL) {
        WHIM_TRY(index_fetch(p, folder));
    }
    /* Last, so that nobody finds half a model under this name. In a cache that cannot be written it
     * stays as it is. */
    whim_err err = whim_hub_commit_write(&p->repo, p->listing.commit, p->diag);
    if (err != WHIM_ERR_OK && access(p->repo.root, W_OK) == 0) {
        return err;
    }
    return whim_hub_snapshot_path(&p->repo, p->listing.commit,
                                  p->choice.entry != NULL ? p->choice.entry : "", path, p->diag);
}

static whim_err offline_get(const whim_hub_cfg *cfg, const whim_hub_ref *ref,
                            char path[WHIM_HUB_PATH_MAX], whim_diag *diag)
{
    whim_err err = whim_hub_cached(cfg->cache, ref, false, path, diag);
    if (err == WHIM_ERR_NOT_FOUND) {
        size_t n = strlen(diag->text);
        snprintf(diag->text + n, sizeof diag->text - n,
                 "; HF_HUB_OFFLINE is set, so nothing is fetched");
    }
    return err;
}

whim_err whim_hub_pull(const whim_hub_cfg *cfg, const whim_hub_ref *ref,
                       char path[WHIM_HUB_PATH_MAX], whim_diag *diag)
{
    pull p = {.cfg = cfg, .ref = ref, .diag = diag};
    if (cfg->offline) {
        return offline_get(cfg, ref, path, diag);
    }
    whim_err err = pull_run(&p, path);
    whim_hub_listing_deinit(&p.listing);
    whim_hub_conn_destroy(p.conn);
    if (err == WHIM_ERR_NO_MEMORY) { /* not everybody who returns it says it */
        whim_fail(diag, err, "out of memory");
    }
    return err;
}

whim_err whim_hub_get(const whim_hub_cfg *cfg, const whim_hub_ref *ref,
                      char path[WHIM_HUB_PATH_MAX], whim_diag *diag)
{
    if (cfg->offline) {
        return offline_get(cfg, ref, path, diag);
    }
    if (whim_hub_cached(cfg->cache, ref, true, path, diag) == WHIM_ERR_OK) {
        return WHIM_ERR_OK;
    }
    return whim_hub_pull(cfg, ref, path, diag);
}
