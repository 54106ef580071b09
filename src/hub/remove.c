/* SPDX-License-Identifier: Apache-2.0 */
/* Models out of the cache. Links go first and content last, so that whatever happens in between no
 * link leads nowhere for long and the next removal or pull sets things right. */
#include "base/alloc.h"
#include "base/file.h"
#include "hub/shelf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_DEPTH = 8 };

/* What is said of each thing below a folder; links are not followed. */
typedef whim_err (*visitor)(void *ctx, const char *path, const struct stat *st, whim_diag *diag);

/* Everything below a folder, what is in folders before these; nothing where there is none. */
static whim_err walk(const char *folder, int depth, visitor visit, void *ctx, whim_diag *diag)
{
    whim_arena arena;
    char **names, path[WHIM_HUB_PATH_MAX];
    int64_t n = 0;
    struct stat st;
    if (lstat(folder, &st) != 0 || !S_ISDIR(st.st_mode)) {
        return WHIM_ERR_OK;
    }
    whim_arena_init(&arena);
    whim_err err = whim_dir_list(&arena, folder, &names, &n, diag);
    for (int64_t i = 0; i < n && err == WHIM_ERR_OK; i++) {
        err = whim_hub_path(path, diag, "%s/%s", folder, names[i]);
        if (err != WHIM_ERR_OK || lstat(path, &st) != 0) {
            continue;
        }
        if (S_ISDIR(st.st_mode) && depth < MAX_DEPTH) {
            err = walk(path, depth + 1, visit, ctx, diag);
        }
        err = err == WHIM_ERR_OK ? visit(ctx, path, &st, diag) : err;
    }
    whim_arena_reset(&arena);
    return err;
}

static whim_err cannot_delete(const char *path, whim_diag *diag)
{
    return whim_fail(diag, WHIM_ERR_IO, "%s: cannot be deleted: %s", path, strerror(errno));
}

/* ctx: the bytes that were freed. */
static whim_err delete_it(void *ctx, const char *path, const struct stat *st, whim_diag *diag)
{
    int64_t *freed = ctx;
    if ((S_ISDIR(st->st_mode) ? rmdir(path) : unlink(path)) != 0) {
        return cannot_delete(path, diag);
    }
    *freed += S_ISREG(st->st_mode) ? (int64_t)st->st_blocks * 512 : 0;
    return WHIM_ERR_OK;
}

static whim_err delete_tree(const char *folder, int64_t *freed, whim_diag *diag)
{
    WHIM_TRY(walk(folder, 0, delete_it, freed, diag));
    return rmdir(folder) == 0 || errno == ENOENT ? WHIM_ERR_OK : cannot_delete(folder, diag);
}

/* BUSY when somebody holds this lock of a download. */
static whim_err check_lock(void *ctx, const char *path, const struct stat *st, whim_diag *diag)
{
    const whim_hub_ref *ref = ctx;
    int fd = S_ISREG(st->st_mode) ? open(path, O_RDWR | O_CLOEXEC) : -1;
    bool busy = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    whim_file_close(fd);
    return busy ? whim_fail(diag, WHIM_ERR_BUSY,
                            "%s is being fetched by another process; stop it first", ref->id)
                : WHIM_ERR_OK;
}

/* --- content that nothing leads to ------------------------------------------------------------ */

typedef struct target_list {
    whim_arena arena;
    char **v; /* names of blobs */
    int64_t n, cap;
} target_list;

static whim_err note_target(void *ctx, const char *path, const struct stat *st, whim_diag *diag)
{
    target_list *list = ctx;
    char target[WHIM_HUB_PATH_MAX];
    ssize_t n = S_ISLNK(st->st_mode) ? readlink(path, target, sizeof target - 1) : -1;
    if (n < 0) {
        return WHIM_ERR_OK;
    }
    target[n] = '\0';
    const char *name = whim_path_base(target);
    char *copy = whim_arena_strndup(&list->arena, name, (int64_t)strlen(name));
    if (copy == NULL || !whim_grow(&list->v, list->n + 1, &list->cap, sizeof *list->v)) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "out of memory");
    }
    list->v[list->n++] = copy;
    return WHIM_ERR_OK;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

typedef struct sweeping {
    target_list used;
    int64_t *freed;
} sweeping;

static whim_err delete_unused(void *ctx, const char *path, const struct stat *st, whim_diag *diag)
{
    sweeping *s = ctx;
    const char *name = whim_path_base(path);
    bool is_used = whim_path_has_suffix(name, ".incomplete") ||
                   (s->used.n > 0 && bsearch(&name, s->used.v, (size_t)s->used.n, sizeof *s->used.v,
                                             by_text) != NULL);
    return is_used ? WHIM_ERR_OK : delete_it(s->freed, path, st, diag);
}

static whim_err delete_unused_blobs(const whim_hub_repo *repo, int64_t *freed, whim_diag *diag)
{
    sweeping s = {.freed = freed};
    char path[WHIM_HUB_PATH_MAX];
    whim_arena_init(&s.used.arena);
    whim_err err;
    WHIM_TRY_OUT(whim_hub_path(path, diag, "%s/snapshots", repo->root));
    WHIM_TRY_OUT(walk(path, 0, note_target, &s.used, diag));
    if (s.used.n > 0) {
        qsort(s.used.v, (size_t)s.used.n, sizeof *s.used.v, by_text);
    }
    WHIM_TRY_OUT(whim_hub_path(path, diag, "%s/blobs", repo->root));
    err = walk(path, 0, delete_unused, &s, diag);
out:
    whim_free(s.used.v);
    whim_arena_reset(&s.used.arena);
    return err;
}

/* --- a revision ------------------------------------------------------------------------------- */

/* ctx: a commit. A reference that leads to it would lead nowhere. */
static whim_err delete_ref(void *ctx, const char *path, const struct stat *st, whim_diag *diag)
{
    const char *commit = ctx;
    char *text;
    int64_t n;
    whim_diag ignored;
    if (!S_ISREG(st->st_mode) ||
        whim_file_read_all(path, 4096, &text, &n, &ignored) != WHIM_ERR_OK) {
        return WHIM_ERR_OK;
    }
    bool leads = strncmp(text, commit, strlen(commit)) == 0;
    whim_free(text);
    return leads && unlink(path) != 0 ? cannot_delete(path, diag) : WHIM_ERR_OK;
}

/* The files of a choice; those alone. */
static whim_err delete_picked(const whim_hub_repo *repo, const char *commit, const char *folder,
                              int64_t *freed, bool *rest, whim_diag *diag)
{
    whim_hub_listing files = {.n_file = 0};
    whim_hub_choice choice;
    char path[WHIM_HUB_PATH_MAX];
    struct stat st;
    whim_err err;
    WHIM_TRY_OUT(whim_hub_listing_read(&files, folder, diag));
    WHIM_TRY_OUT(whim_hub_choose(&choice, &files, repo->ref->id, repo->ref->pick, diag));
    *rest = choice.n_file < files.n_file;
    for (int64_t i = 0; i < choice.n_file; i++) {
        WHIM_TRY_OUT(whim_hub_snapshot_path(repo, commit, choice.files[i]->name, path, diag));
        WHIM_TRY_OUT(lstat(path, &st) == 0 ? delete_it(freed, path, &st, diag) : WHIM_ERR_OK);
    }
out:
    whim_hub_listing_deinit(&files);
    return err;
}

static whim_err remove_revision(whim_hub_repo *repo, int64_t *freed, whim_diag *diag)
{
    char commit[41], folder[WHIM_HUB_PATH_MAX], path[WHIM_HUB_PATH_MAX];
    bool rest = false;
    WHIM_TRY(whim_hub_commit_read(repo, commit, diag));
    WHIM_TRY(whim_hub_snapshot_path(repo, commit, "", folder, diag));
    if (repo->ref->pick[0] != '\0') {
        WHIM_TRY(delete_picked(repo, commit, folder, freed, &rest, diag));
    }
    if (!rest) {
        int64_t links = 0; /* a link takes no room to speak of */
        WHIM_TRY(delete_tree(folder, &links, diag));
        WHIM_TRY(whim_hub_path(path, diag, "%s/refs", repo->root));
        WHIM_TRY(walk(path, 0, delete_ref, commit, diag));
        *freed += links;
    }
    return delete_unused_blobs(repo, freed, diag);
}

/* Whether a folder has nothing in it, or is not there. */
static bool is_bare(const char *folder)
{
    return rmdir(folder) == 0 || errno == ENOENT;
}

whim_err whim_hub_remove(const char *cache, const whim_hub_ref *ref, bool all, int64_t *freed,
                         whim_diag *diag)
{
    whim_hub_repo repo;
    char locks[WHIM_HUB_PATH_MAX], path[WHIM_HUB_PATH_MAX];
    *freed = 0;
    WHIM_TRY(whim_hub_repo_init(&repo, cache, ref, diag));
    WHIM_TRY(whim_hub_path(locks, diag, "%s/.locks/%s", cache, repo.folder));
    if (whim_path_get_type(repo.root) != WHIM_PATH_DIR) {
        return whim_fail(diag, WHIM_ERR_NOT_FOUND, "the cache %s has no \"%s\"", cache, ref->id);
    }
    WHIM_TRY(walk(locks, 0, check_lock, (void *)(uintptr_t)ref, diag));
    if (!all) {
        WHIM_TRY(remove_revision(&repo, freed, diag));
        WHIM_TRY(whim_hub_path(path, diag, "%s/snapshots", repo.root));
        if (!is_bare(path)) {
            return WHIM_ERR_OK;
        }
    }
    WHIM_TRY(delete_tree(repo.root, freed, diag));
    return delete_tree(locks, freed, diag);
}
