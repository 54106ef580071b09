/* SPDX-License-Identifier: Apache-2.0 */
#include "hub/shelf.h"

#include "base/alloc.h"
#include "base/file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char prefix[] = "models--";

/* "models--ORG--NAME" as ORG/NAME: names have no "--" themselves. NULL: it is no model's folder. */
static char *id_of(whim_arena *arena, const char *folder)
{
    const char *org = folder + strlen(prefix);
    const char *split = strncmp(folder, prefix, strlen(prefix)) == 0 ? strstr(org, "--") : NULL;
    char id[WHIM_HUB_ID_MAX];
    if (split == NULL ||
        snprintf(id, sizeof id, "%.*s/%s", (int)(split - org), org, split + 2) >= (int)sizeof id) {
        return NULL;
    }
    whim_hub_ref ref;
    whim_diag ignored;
    return whim_hub_ref_parse(&ref, id, &ignored) == WHIM_ERR_OK && strcmp(ref.id, id) == 0
               ? whim_arena_strndup(arena, id, (int64_t)strlen(id))
               : NULL;
}

whim_err whim_hub_shelf_ids(whim_arena *arena, const char *cache, char ***ids, int64_t *n,
                            whim_diag *diag)
{
    char **names;
    int64_t n_name;
    *n = 0;
    if (whim_path_get_type(cache) != WHIM_PATH_DIR) {
        return WHIM_ERR_OK;
    }
    WHIM_TRY(whim_dir_list(arena, cache, &names, &n_name, diag));
    for (int64_t i = 0; i < n_name; i++) {
        char *id = id_of(arena, names[i]);
        if (id != NULL) {
            names[(*n)++] = id; /* never before what was read */
        }
    }
    *ids = names;
    return WHIM_ERR_OK;
}

/* --- models ----------------------------------------------------------------------------------- */

/* A repository while its models are looked for. */
typedef struct reading {
    whim_hub_shelf *shelf;
    const char *id, *root;          /* CACHE/models--ORG--NAME */
    whim_hub_listing refs;          /* names of branches and tags */
    const char *rev;                /* how the snapshot at hand is called: "" or "@REV" */
    char folder[WHIM_HUB_PATH_MAX]; /* of that snapshot */
    whim_hub_listing files;         /* in it */
} reading;

static whim_err item_add(reading *r, const char *pick, const char *path, const char *missing,
                         whim_hub_file *const *files, int64_t n_file)
{
    whim_hub_shelf *shelf = r->shelf;
    char name[WHIM_HUB_ID_MAX + WHIM_HUB_REV_MAX + WHIM_HUB_NAME_MAX + 4];
    whim_hub_item item = {.bytes = 0};
    snprintf(name, sizeof name, "%s%s%s%s", r->id, r->rev, pick[0] != '\0' ? ":" : "", pick);
    item.name = whim_arena_strndup(&shelf->arena, name, (int64_t)strlen(name));
    item.path = whim_arena_strndup(&shelf->arena, path, (int64_t)strlen(path));
    item.missing = whim_arena_strndup(&shelf->arena, missing, (int64_t)strlen(missing));
    for (int64_t i = 0; i < n_file; i++) {
        char file[WHIM_HUB_PATH_MAX];
        struct stat st;
        item.bytes += files[i]->bytes;
        if (snprintf(file, sizeof file, "%s/%s", r->folder, files[i]->name) < (int)sizeof file &&
            stat(file, &st) == 0 && (int64_t)st.st_atime > item.used) {
            item.used = (int64_t)st.st_atime;
        }
    }
    if (item.name == NULL || item.path == NULL || item.missing == NULL ||
        !whim_grow(&shelf->items, shelf->n + 1, &shelf->cap, sizeof item)) {
        return WHIM_ERR_NO_MEMORY;
    }
    shelf->items[shelf->n++] = item;
    return WHIM_ERR_OK;
}

/* The quantisation that a file's name ends with, if it leads to this file, else the name. */
static void pick_of(reading *r, const char *name, char *pick, size_t size)
{
    whim_hub_choice choice;
    whim_diag ignored;
    char stem[WHIM_HUB_NAME_MAX];
    snprintf(stem, sizeof stem, "%.*s", (int)(strlen(name) - strlen(".gguf")), name);
    char *part = strstr(stem, "-of-");
    if (part != NULL && part - stem > 6) {
        part[-6] = '\0'; /* "-00001-of-00002" */
    }
    const char *dash = strrchr(stem, '-'), *dot = strrchr(stem, '.');
    const char *last = dash == NULL || (dot != NULL && dot > dash) ? dot : dash;
    bool leads = last != NULL && last[1] != '\0' &&
                 whim_hub_choose(&choice, &r->files, r->id, last + 1, &ignored) == WHIM_ERR_OK &&
                 choice.entry != NULL && strcmp(choice.entry, name) == 0;
    snprintf(pick, size, "%s", leads ? last + 1 : name);
}

static whim_err take_gguf(reading *r, const char *name)
{
    char pick[WHIM_HUB_NAME_MAX], path[WHIM_HUB_PATH_MAX];
    whim_hub_choice choice;
    whim_diag diag = {""};
    pick_of(r, name, pick, sizeof pick);
    whim_err err = whim_hub_choose(&choice, &r->files, r->id, name, &diag);
    bool whole = err == WHIM_ERR_OK;
    snprintf(path, sizeof path, "%.3000s/%.1000s", r->folder, name);
    return item_add(r, pick, path, whole ? "" : diag.text, whole ? choice.files : NULL,
                    whole ? choice.n_file : 0);
}

/* A folder of safetensors, or what there is of one. */
static whim_err take_folder(reading *r)
{
    whim_hub_choice choice;
    whim_diag diag = {""};
    const char *shard = NULL, *missing = "";
    whim_err err = whim_hub_choose(&choice, &r->files, r->id, "", &diag);
    if (err == WHIM_ERR_OK && choice.entry == NULL) {
        err = whim_hub_shard_missing(&r->files, r->folder, &shard, &diag);
        missing = shard != NULL ? shard : choice.has_tokenizer ? "" : "tokenizer.json";
    }
    whim_hub_file **all = whim_alloc_array(r->files.n_file + 1, sizeof *all);
    if (all == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    for (int64_t i = 0; i < r->files.n_file; i++) {
        all[i] = &r->files.files[i];
    }
    err =
        item_add(r, "", r->folder, err == WHIM_ERR_OK ? missing : diag.text, all, r->files.n_file);
    whim_free(all);
    return err;
}

static whim_err take_snapshot(reading *r, whim_diag *diag)
{
    bool has_gguf = false, has_folder = false;
    whim_err err;
    WHIM_TRY_OUT(whim_hub_listing_read(&r->files, r->folder, diag));
    for (int64_t i = 0; i < r->files.n_file; i++) {
        has_folder |= whim_path_has_suffix(r->files.files[i].name, ".safetensors");
        if (whim_hub_gguf_head(r->files.files[i].name)) {
            has_gguf = true;
            WHIM_TRY_OUT(take_gguf(r, r->files.files[i].name));
        }
    }
    err = has_folder || !has_gguf ? take_folder(r) : WHIM_ERR_OK;
out:
    whim_hub_listing_deinit(&r->files);
    return err;
}

/* How a commit is called: by "main" it needs no name, else by the first reference that leads there,
 * else by itself. */
static void name_commit(reading *r, const char *commit, char *rev, size_t size)
{
    snprintf(rev, size, "@%s", commit);
    for (int64_t i = 0; i < r->refs.n_file; i++) {
        char path[WHIM_HUB_PATH_MAX];
        char *text;
        int64_t n;
        whim_diag ignored;
        snprintf(path, sizeof path, "%.3000s/refs/%.1000s", r->root, r->refs.files[i].name);
        if (whim_file_read_all(path, 4096, &text, &n, &ignored) != WHIM_ERR_OK) {
            continue;
        }
        bool leads = strncmp(text, commit, strlen(commit)) == 0;
        bool is_main = strcmp(r->refs.files[i].name, "main") == 0;
        if (leads && (is_main || rev[1] == commit[0])) {
            snprintf(rev, size, "%s%s", is_main ? "" : "@", is_main ? "" : r->refs.files[i].name);
        }
        whim_free(text);
        if (leads && is_main) {
            return;
        }
    }
}

/* Content that came of a model that has no snapshot yet. */
static int64_t blob_bytes(whim_arena *arena, const char *root)
{
    char path[WHIM_HUB_PATH_MAX];
    char **names;
    int64_t n, bytes = 0;
    whim_diag ignored;
    snprintf(path, sizeof path, "%.4000s/blobs", root);
    if (whim_dir_list(arena, path, &names, &n, &ignored) != WHIM_ERR_OK) {
        return 0;
    }
    for (int64_t i = 0; i < n; i++) {
        struct stat st;
        snprintf(path, sizeof path, "%.3500s/blobs/%.500s", root, names[i]);
        bytes += stat(path, &st) == 0 ? (int64_t)st.st_blocks * 512 : 0;
    }
    return bytes;
}

static whim_err take_repository(whim_hub_shelf *shelf, const char *cache, const char *id,
                                whim_diag *diag)
{
    reading *r = whim_alloc_array(1, sizeof *r);
    whim_hub_ref ref;
    whim_hub_repo repo;
    char path[WHIM_HUB_PATH_MAX], rev[WHIM_HUB_NAME_MAX + 2];
    char **commits = NULL;
    int64_t n = 0;
    whim_diag ignored;
    if (r == NULL) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "out of memory");
    }
    *r = (reading){.shelf = shelf, .id = id, .root = repo.root, .rev = rev};
    whim_err err;
    WHIM_TRY_OUT(whim_hub_ref_parse(&ref, id, diag));
    WHIM_TRY_OUT(whim_hub_repo_init(&repo, cache, &ref, diag));
    snprintf(path, sizeof path, "%.4000s/refs", repo.root);
    if (whim_hub_listing_read(&r->refs, path, &ignored) != WHIM_ERR_OK) {
        r->refs.n_file = 0;
    }
    snprintf(path, sizeof path, "%.4000s/snapshots", repo.root);
    if (whim_dir_list(&shelf->arena, path, &commits, &n, &ignored) != WHIM_ERR_OK) {
        n = 0;
    }
    for (int64_t i = 0; i < n; i++) {
        name_commit(r, commits[i], rev, sizeof rev);
        WHIM_TRY_OUT(whim_hub_snapshot_path(&repo, commits[i], "", r->folder, diag));
        WHIM_TRY_OUT(take_snapshot(r, diag));
    }
    if (n == 0) {
        rev[0] = '\0';
        whim_hub_file came = {.name = "", .bytes = blob_bytes(&shelf->arena, repo.root)};
        whim_hub_file *files[] = {&came};
        err = item_add(r, "", "", "a download that did not end; pull it again", files, 1);
    }
out:
    whim_hub_listing_deinit(&r->refs);
    whim_free(r);
    return err;
}

void whim_hub_shelf_deinit(whim_hub_shelf *shelf)
{
    whim_arena_reset(&shelf->arena);
    whim_free(shelf->items);
    *shelf = (whim_hub_shelf){.n = 0};
}

whim_err whim_hub_shelf_read(whim_hub_shelf *shelf, const char *cache, whim_diag *diag)
{
    char **ids;
    int64_t n;
    *shelf = (whim_hub_shelf){.n = 0};
    whim_arena_init(&shelf->arena);
    WHIM_TRY(whim_hub_shelf_ids(&shelf->arena, cache, &ids, &n, diag));
    for (int64_t i = 0; i < n; i++) {
        WHIM_TRY(take_repository(shelf, cache, ids[i], diag));
    }
    return WHIM_ERR_OK;
}
