/* SPDX-License-Identifier: Apache-2.0 */
/* Listings from JSON and from disk. */
#include "hub/listing.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_DEPTH = 4 }; /* folders inside a snapshot that are looked into */

/* Some twenty values for a file. */
enum { LISTING_BYTES = 128 << 20, LISTING_DEPTH = 64, LISTING_VALUES = 4 << 20 };

void whim_hub_listing_deinit(whim_hub_listing *listing)
{
    whim_arena_reset(&listing->arena);
    whim_free(listing->files);
    *listing = (whim_hub_listing){.n_file = 0};
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const whim_hub_file *)a)->name, ((const whim_hub_file *)b)->name);
}

/* Sort, and drop names that are there twice. */
static void settle(whim_hub_listing *listing)
{
    int64_t kept = 0;
    if (listing->n_file > 1) {
        qsort(listing->files, (size_t)listing->n_file, sizeof *listing->files, by_name);
    }
    for (int64_t i = 0; i < listing->n_file; i++) {
        if (kept > 0 && strcmp(listing->files[kept - 1].name, listing->files[i].name) == 0) {
            listing->n_unsafe++;
        } else {
            listing->files[kept++] = listing->files[i];
        }
    }
    listing->n_file = kept;
}

whim_hub_file *whim_hub_listing_find(const whim_hub_listing *listing, const char *name)
{
    whim_hub_file key = {.name = name};
    return listing->n_file == 0 ? NULL
                                : bsearch(&key, listing->files, (size_t)listing->n_file,
                                          sizeof *listing->files, by_name);
}

static whim_err file_add(whim_hub_listing *listing, const char *name, whim_hub_file file)
{
    file.name = whim_arena_strndup(&listing->arena, name, (int64_t)strlen(name));
    if (file.name == NULL ||
        !whim_grow(&listing->files, listing->n_file + 1, &listing->cap_file, sizeof file)) {
        return WHIM_ERR_NO_MEMORY;
    }
    listing->files[listing->n_file++] = file;
    return WHIM_ERR_OK;
}

/* --- from the hub ----------------------------------------------------------------------------- */

static bool etag_take(whim_hub_file *file, const char *text)
{
    bool good = text != NULL && (whim_hub_is_hex(text, 40) || whim_hub_is_hex(text, 64));
    if (good) {
        snprintf(file->etag, sizeof file->etag, "%s", text);
    }
    return good;
}

/* One entry of "siblings": {"rfilename", "size", "blobId", "lfs": {"sha256", "size"}}. */
static whim_err sibling_take(whim_hub_listing *listing, const whim_json *value,
                             const whim_json_scope *top)
{
    whim_json_scope scope = {
        .obj = value, .path = top->path, .prefix = "siblings[].", .diag = top->diag};
    const char *name = NULL, *oid = NULL, *sha = NULL;
    const whim_json *lfs = NULL;
    whim_hub_file file = {.bytes = -1};
    if (!whim_json_is_object(value)) {
        return whim_fail(top->diag, WHIM_ERR_CORRUPT,
                         "%s: an entry of \"siblings\" is %s and not an object", top->path,
                         whim_json_kind(value));
    }
    WHIM_TRY(whim_json_require(&scope, "rfilename"));
    WHIM_TRY(whim_json_get_string(&scope, "rfilename", &name));
    if (!whim_hub_name_is_safe(name)) {
        listing->n_unsafe++;
        return WHIM_ERR_OK;
    }
    WHIM_TRY(whim_json_get_int(&scope, "size", 0, WHIM_HUB_SIZE_MAX, &file.bytes));
    WHIM_TRY(whim_json_get_string(&scope, "blobId", &oid));
    WHIM_TRY(whim_json_get_object(&scope, "lfs", &lfs));
    if (lfs != NULL) {
        whim_json_scope inner = {
            .obj = lfs, .path = top->path, .prefix = "siblings[].lfs.", .diag = top->diag};
        WHIM_TRY(whim_json_get_string(&inner, "sha256", &sha));
        WHIM_TRY(whim_json_get_int(&inner, "size", 0, WHIM_HUB_SIZE_MAX, &file.bytes));
        oid = sha; /* the blob's own id is that of the pointer */
    }
    etag_take(&file, oid);
    whim_err err = file_add(listing, name, file);
    return err == WHIM_ERR_OK ? err : whim_fail(top->diag, err, "%s: out of memory", top->path);
}

static whim_err listing_take(whim_hub_listing *listing, const whim_json_scope *scope)
{
    const char *sha = NULL;
    const whim_json *siblings = NULL;
    WHIM_TRY(whim_json_require(scope, "sha"));
    WHIM_TRY(whim_json_get_string(scope, "sha", &sha));
    if (!whim_hub_is_hex(sha, 40)) {
        return whim_fail(scope->diag, WHIM_ERR_CORRUPT,
                         "%s: \"sha\" is not a commit of 40 hexadecimal digits", scope->path);
    }
    snprintf(listing->commit, sizeof listing->commit, "%s", sha);
    WHIM_TRY(whim_json_require(scope, "siblings"));
    WHIM_TRY(whim_json_get_array(scope, "siblings", &siblings));
    int64_t n = whim_json_size(siblings);
    if (n > WHIM_HUB_FILES_MAX) {
        return whim_fail(scope->diag, WHIM_ERR_CORRUPT, "%s: %lld files, expected at most %d",
                         scope->path, (long long)n, WHIM_HUB_FILES_MAX);
    }
    for (int64_t i = 0; i < n; i++) {
        WHIM_TRY(sibling_take(listing, whim_json_at(siblings, i), scope));
    }
    settle(listing);
    return WHIM_ERR_OK;
}

whim_err whim_hub_listing_parse(whim_hub_listing *listing, const char *text, int64_t n,
                                const char *from, whim_diag *diag)
{
    whim_json *json;
    int64_t left = LISTING_VALUES;
    const whim_json_limits limits = {
        .max_bytes = LISTING_BYTES, .max_depth = LISTING_DEPTH, .values_left = &left};
    *listing = (whim_hub_listing){.n_file = 0};
    whim_arena_init(&listing->arena);
    WHIM_TRY(whim_json_parse(&json, text, n, limits, from, diag));
    whim_json_scope scope = {.obj = json, .path = from, .prefix = "", .diag = diag};
    whim_err err = listing_take(listing, &scope);
    whim_json_free(json);
    return err;
}

/* --- from disk -------------------------------------------------------------------------------- */

/* Add what lies in root/below, names beginning with `below`. */
static whim_err folder_read(whim_hub_listing *listing, const char *root, const char *below,
                            int32_t depth, whim_diag *diag)
{
    char path[PATH_MAX], name[WHIM_HUB_NAME_MAX];
    char **names;
    int64_t n;
    snprintf(path, sizeof path, "%s/%s", root, below);
    WHIM_TRY(whim_dir_list(&listing->arena, path, &names, &n, diag));
    for (int64_t i = 0; i < n; i++) {
        struct stat st;
        int len =
            snprintf(name, sizeof name, "%s%s%s", below, below[0] != '\0' ? "/" : "", names[i]);
        int full = snprintf(path, sizeof path, "%s/%s", root, name);
        if (len >= (int)sizeof name || full >= (int)sizeof path || !whim_hub_name_is_safe(name) ||
            stat(path, &st) != 0) {
            continue; /* a link that leads nowhere is a file that is not there */
        }
        if (S_ISDIR(st.st_mode) && depth < MAX_DEPTH) {
            WHIM_TRY(folder_read(listing, root, name, depth + 1, diag));
        } else if (S_ISREG(st.st_mode) && listing->n_file < WHIM_HUB_FILES_MAX) {
            /* Nobody needs more. */
            WHIM_TRY(file_add(listing, name, (whim_hub_file){.bytes = (int64_t)st.st_size}));
        }
    }
    return WHIM_ERR_OK;
}

whim_err whim_hub_listing_read(whim_hub_listing *listing, const char *folder, whim_diag *diag)
{
    *listing = (whim_hub_listing){.n_file = 0};
    whim_arena_init(&listing->arena);
    WHIM_TRY(folder_read(listing, folder, "", 0, diag));
    settle(listing);
    return WHIM_ERR_OK;
}
