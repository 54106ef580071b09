/* SPDX-License-Identifier: Apache-2.0 */
/* Paths, references and links of the cache. */
#include "hub/cache.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char index_name[] = "model.safetensors.index.json";
static const whim_json_limits index_limits = {.max_bytes = 256 << 20, .max_depth = 8};

/* --- paths ------------------------------------------------------------------------------------ */

whim_err whim_hub_path(char *buf, whim_diag *diag, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(buf, WHIM_HUB_PATH_MAX, fmt, ap);
    va_end(ap);
    return n >= 0 && n < WHIM_HUB_PATH_MAX
               ? WHIM_ERR_OK
               : whim_fail(diag, WHIM_ERR_FULL,
                           "%.200s...: the path is too long; set HF_HUB_CACHE to a shorter one",
                           buf);
}

whim_err whim_hub_repo_init(whim_hub_repo *repo, const char *cache, const whim_hub_ref *ref,
                            whim_diag *diag)
{
    size_t org = strcspn(ref->id, "/");
    repo->cache = cache;
    repo->ref = ref;
    snprintf(repo->folder, sizeof repo->folder, "models--%.*s--%s", (int)org, ref->id,
             ref->id + org + 1);
    return whim_hub_path(repo->root, diag, "%s/%s", cache, repo->folder);
}

whim_err whim_hub_blob_path(const whim_hub_repo *repo, const char *etag, const char *suffix,
                            char *buf, whim_diag *diag)
{
    return whim_hub_path(buf, diag, "%s/blobs/%s%s", repo->root, etag, suffix);
}

whim_err whim_hub_snapshot_path(const whim_hub_repo *repo, const char *commit, const char *name,
                                char *buf, whim_diag *diag)
{
    return whim_hub_path(buf, diag, "%s/snapshots/%s%s%s", repo->root, commit,
                         name[0] != '\0' ? "/" : "", name);
}

whim_err whim_hub_make_folders(const char *path, whim_diag *diag)
{
    char copy[WHIM_HUB_PATH_MAX];
    WHIM_TRY(whim_hub_path(copy, diag, "%s", path));
    for (char *slash = strchr(copy + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int error = mkdir(copy, 0777) == 0 ? 0 : errno;
        if (error != 0 && error != EEXIST && whim_path_get_type(copy) != WHIM_PATH_DIR) {
            return whim_fail(diag, WHIM_ERR_IO,
                             "%s: this folder cannot be made: %s; set HF_HUB_CACHE or HF_HOME to "
                             "another place for models",
                             copy, strerror(error));
        }
        *slash = '/';
    }
    return WHIM_ERR_OK;
}

bool whim_hub_is_file(const char *path, int64_t bytes)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && (bytes < 0 || st.st_size == bytes);
}

/* --- references ------------------------------------------------------------------------------- */

static whim_err ref_path(const whim_hub_repo *repo, char *buf, whim_diag *diag)
{
    return whim_hub_path(buf, diag, "%s/refs/%s", repo->root, repo->ref->rev);
}

whim_err whim_hub_commit_read(const whim_hub_repo *repo, char commit[41], whim_diag *diag)
{
    char path[WHIM_HUB_PATH_MAX];
    char *text;
    int64_t n;
    WHIM_TRY(ref_path(repo, path, diag));
    if (whim_hub_is_hex(repo->ref->rev, 40)) {
        snprintf(commit, 41, "%.40s", repo->ref->rev);
        return WHIM_ERR_OK;
    }
    if (!whim_hub_is_file(path, -1)) {
        return whim_fail(diag, WHIM_ERR_NOT_FOUND, "the cache %s has no \"%s\" at \"%s\"",
                         repo->cache, repo->ref->id, repo->ref->rev);
    }
    WHIM_TRY(whim_file_read_all(path, 4096, &text, &n, diag));
    text[strcspn(text, " \r\n")] = '\0';
    whim_err err = WHIM_ERR_OK;
    if (whim_hub_is_hex(text, 40)) {
        snprintf(commit, 41, "%.40s", text);
    } else {
        err = whim_fail(diag, WHIM_ERR_CORRUPT, "%s: holds no commit; delete it and pull again",
                        path);
    }
    whim_free(text);
    return err;
}

whim_err whim_hub_commit_write(const whim_hub_repo *repo, const char *commit, whim_diag *diag)
{
    char path[WHIM_HUB_PATH_MAX], fresh[WHIM_HUB_PATH_MAX], known[41];
    if (whim_hub_commit_read(repo, known, diag) == WHIM_ERR_OK && strcmp(known, commit) == 0) {
        return WHIM_ERR_OK;
    }
    WHIM_TRY(ref_path(repo, path, diag));
    WHIM_TRY(whim_hub_path(fresh, diag, "%s.%ld.tmp", path, (long)getpid()));
    WHIM_TRY(whim_hub_make_folders(path, diag));
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    bool ok = fd >= 0 && write(fd, commit, 40) == 40;
    int saved = errno;
    whim_file_close(fd);
    if (!ok || rename(fresh, path) != 0) {
        saved = ok ? errno : saved;
        unlink(fresh);
        return whim_fail(diag, WHIM_ERR_IO, "%s: cannot write: %s", path, strerror(saved));
    }
    return WHIM_ERR_OK;
}

/* --- links ------------------------------------------------------------------------------------ */

whim_err whim_hub_link(const whim_hub_repo *repo, const char *commit, const whim_hub_file *file,
                       whim_diag *diag)
{
    char path[WHIM_HUB_PATH_MAX], fresh[WHIM_HUB_PATH_MAX], blob[WHIM_HUB_PATH_MAX];
    char target[WHIM_HUB_PATH_MAX] = "../../", found[WHIM_HUB_PATH_MAX];
    for (const char *slash = file->name; (slash = strchr(slash, '/')) != NULL; slash++) {
        strcat(target, "../"); /* names are far shorter than paths */
    }
    strcat(strcat(target, "blobs/"), file->etag);
    WHIM_TRY(whim_hub_snapshot_path(repo, commit, file->name, path, diag));
    WHIM_TRY(whim_hub_path(fresh, diag, "%s.%ld.tmp", path, (long)getpid()));
    WHIM_TRY(whim_hub_blob_path(repo, file->etag, "", blob, diag));
    ssize_t n = readlink(path, found, sizeof found - 1);
    if (n > 0) {
        found[n] = '\0';
        if (strcmp(found, target) == 0) {
            return WHIM_ERR_OK;
        }
    }
    if (n < 0 && whim_hub_is_file(path, file->bytes) && !whim_hub_is_file(blob, -1)) {
        return WHIM_ERR_OK; /* moved here, see below */
    }
    WHIM_TRY(whim_hub_make_folders(path, diag));
    unlink(fresh);
    bool ok = symlink(target, fresh) == 0 ? rename(fresh, path) == 0
              : errno == EPERM || errno == ENOTSUP || errno == ENOSYS
                  ? rename(blob, path) == 0 /* a file system without links */
                  : false;
    if (!ok) {
        int saved = errno;
        unlink(fresh);
        return whim_fail(diag, WHIM_ERR_IO, "%s: cannot link to %s: %s", path, target,
                         strerror(saved));
    }
    return WHIM_ERR_OK;
}

/* --- whole models ----------------------------------------------------------------------------- */

/* The first shard of the map that the listing lacks; stops there. */
static whim_err shard_find(whim_hub_listing *listing, whim_json_members *walk, const char **name)
{
    WHIM_TRY(whim_json_members_enter(walk));
    for (bool more = true;;) {
        whim_json *value;
        const char *shard = NULL;
        whim_err err = WHIM_ERR_OK;
        WHIM_TRY(whim_json_members_next(walk, &more));
        if (!more) {
            return WHIM_ERR_OK;
        }
        WHIM_TRY(whim_json_members_value(walk, &value));
        if (!whim_json_as_string(value, &shard) || !whim_hub_name_is_safe(shard)) {
            err = whim_fail(walk->diag, WHIM_ERR_CORRUPT,
                            "%s: \"weight_map.%.200s\" is not a plain file name", walk->path,
                            whim_str_text(&walk->key));
        } else if (whim_hub_listing_find(listing, shard) == NULL) {
            *name = whim_arena_strndup(&listing->arena, shard, (int64_t)strlen(shard));
            err = *name != NULL ? WHIM_ERR_OK
                                : whim_fail(walk->diag, WHIM_ERR_NO_MEMORY, "out of memory");
        }
        whim_json_free(value);
        if (err != WHIM_ERR_OK || *name != NULL) {
            return err;
        }
    }
}

static whim_err index_find(whim_hub_listing *listing, whim_json_members *walk, const char **name)
{
    for (bool more = true; *name == NULL;) {
        WHIM_TRY(whim_json_members_next(walk, &more));
        if (!more) {
            break;
        }
        bool map = strcmp(whim_str_text(&walk->key), "weight_map") == 0;
        WHIM_TRY(map ? shard_find(listing, walk, name) : whim_json_members_value(walk, NULL));
    }
    return WHIM_ERR_OK;
}

whim_err whim_hub_shard_missing(whim_hub_listing *listing, const char *folder, const char **name,
                                whim_diag *diag)
{
    char path[WHIM_HUB_PATH_MAX];
    char *text;
    int64_t n;
    whim_json_members walk;
    *name = NULL;
    if (whim_hub_listing_find(listing, "model.safetensors") != NULL ||
        whim_hub_listing_find(listing, index_name) == NULL) {
        return WHIM_ERR_OK;
    }
    WHIM_TRY(whim_hub_path(path, diag, "%s/%s", folder, index_name));
    WHIM_TRY(whim_file_read_all(path, index_limits.max_bytes, &text, &n, diag));
    whim_err err = whim_json_members_open(&walk, text, n, index_limits, path, diag);
    err = err == WHIM_ERR_OK ? index_find(listing, &walk, name) : err;
    whim_json_members_close(&walk);
    whim_free(text);
    return err;
}

whim_err whim_hub_cached(const char *cache, const whim_hub_ref *ref, bool whole,
                         char path[WHIM_HUB_PATH_MAX], whim_diag *diag)
{
    whim_hub_repo repo;
    whim_hub_listing listing = {.n_file = 0};
    whim_hub_choice choice;
    char commit[41], folder[WHIM_HUB_PATH_MAX], id[WHIM_HUB_ID_MAX + 64];
    const char *shard = NULL;
    whim_err err;
    WHIM_TRY(whim_hub_repo_init(&repo, cache, ref, diag));
    WHIM_TRY(whim_hub_commit_read(&repo, commit, diag));
    WHIM_TRY(whim_hub_snapshot_path(&repo, commit, "", folder, diag));
    snprintf(id, sizeof id, "the copy of %s in the cache", ref->id);
    WHIM_TRY_OUT(whim_hub_listing_read(&listing, folder, diag));
    WHIM_TRY_OUT(whim_hub_choose(&choice, &listing, id, ref->pick, diag));
    if (choice.entry != NULL) {
        err = whim_hub_snapshot_path(&repo, commit, choice.entry, path, diag);
        goto out;
    }
    WHIM_TRY_OUT(whim_hub_shard_missing(&listing, folder, &shard, diag));
    if (shard != NULL || (whole && !choice.has_tokenizer)) {
        err = whim_fail(diag, WHIM_ERR_NOT_FOUND, "%s is not complete: %s is missing", id,
                        shard != NULL ? shard : "tokenizer.json");
        goto out;
    }
    err = whim_hub_path(path, diag, "%s", folder);
out:
    whim_hub_listing_deinit(&listing);
    return err;
}
