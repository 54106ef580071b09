/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/disk_folder.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { ABOUT_MAX = 2048 };

#define MOST_BYTES (INT64_C(20) * 1000 * 1000 * 1000)

/* Format 1 had 16 digits. */
static bool is_space(const char *name)
{
    size_t n = strlen(name);
    return (n == 16 || n == WHIM_DISK_SPACE_NAME - 1) && strspn(name, "0123456789abcdef") == n;
}

/* --- what is there ---------------------------------------------------------------------------- */

/* What the file in a space's folder says, cut out of `about`; false: it does not give the folder
 * its name. */
static bool about_read(const char *dir, const char *name, char *about, whim_disk_space *space)
{
    char path[4096], own[WHIM_DISK_SPACE_NAME], *bytes = NULL;
    uint8_t sum[WHIM_SHA256_BYTES];
    int64_t n;
    if (snprintf(path, sizeof path, "%s/%s/" WHIM_DISK_ABOUT, dir, name) >= (int)sizeof path ||
        whim_file_read_all(path, ABOUT_MAX - 1, &bytes, &n, NULL) != WHIM_ERR_OK) {
        return false;
    }
    snprintf(about, ABOUT_MAX, "%s", bytes);
    whim_free(bytes);
    if (!whim_disk_about_parse(about, space)) {
        return false;
    }
    whim_disk_space_sum(space, sum);
    whim_disk_space_name(sum, own);
    return strcmp(own, name) == 0;
}

/* Call fn for each until it says that this is it. */
static bool spaces_look(const char *dir, bool (*fn)(void *ctx, const whim_disk_space *space),
                        void *ctx)
{
    whim_arena arena;
    char **names, about[ABOUT_MAX];
    int64_t n = 0;
    bool found = false;
    whim_disk_space space;
    whim_arena_init(&arena);
    if (whim_dir_list(&arena, dir, &names, &n, NULL) != WHIM_ERR_OK) {
        n = 0;
    }
    for (int64_t i = 0; i < n && !found; i++) {
        found = is_space(names[i]) && about_read(dir, names[i], about, &space) && fn(ctx, &space);
    }
    whim_arena_reset(&arena);
    return found;
}

static bool is_wanted(void *ctx, const whim_disk_space *space)
{
    whim_disk_space *wanted = ctx;
    if (strcmp(space->text, wanted->text) != 0) {
        return false;
    }
    wanted->page_len = space->page_len;
    wanted->page_bytes = space->page_bytes;
    wanted->state_bytes = space->state_bytes;
    return true;
}

bool whim_disk_space_find(const char *dir, whim_disk_space *space)
{
    return spaces_look(dir, is_wanted, space);
}

static bool list_it(void *ctx, const whim_disk_space *space)
{
    whim_str_printf(ctx, "  %s\n", space->text);
    return false;
}

void whim_disk_space_list(const char *dir, whim_str *out)
{
    (void)spaces_look(dir, list_it, out);
}

int64_t whim_disk_folder_share(int64_t available, int64_t used)
{
    int64_t tenth = (available + used) / 10;
    return tenth < MOST_BYTES ? tenth : MOST_BYTES;
}

int64_t whim_disk_folder_default(int dir_fd, int64_t used)
{
    struct statvfs st;
    if (fstatvfs(dir_fd, &st) != 0) {
        return 0;
    }
    return whim_disk_folder_share((int64_t)st.f_bavail * (int64_t)st.f_frsize, used);
}

int64_t whim_disk_folder_limit(const char *dir)
{
    char parent[4096];
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && snprintf(parent, sizeof parent, "%s", dir) < (int)sizeof parent) {
        fd = open(dirname(parent), O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* it would be made there */
    }
    int64_t limit =
        fd >= 0 ? whim_disk_folder_default(fd, whim_disk_folder_others(dir, NULL).bytes) : 0;
    whim_file_close(fd);
    return limit;
}

static bool stat_in(const char *dir, const char *space, const char *name, struct stat *st)
{
    char path[4096];
    return snprintf(path, sizeof path, "%s/%s/%s", dir, space, name) < (int)sizeof path &&
           lstat(path, st) == 0 && S_ISREG(st->st_mode);
}

static void space_each(whim_arena *arena, const char *dir, const char *space, whim_disk_file_fn *fn,
                       void *ctx)
{
    char **names, *path = whim_path_join(arena, dir, space);
    int64_t n;
    struct stat st;
    whim_disk_kind kind;
    if (path == NULL || whim_dir_list(arena, path, &names, &n, NULL) != WHIM_ERR_OK) {
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        if (whim_disk_segment_number(names[i], &kind) >= 0 && stat_in(dir, space, names[i], &st)) {
            whim_disk_file file = {.bytes = st.st_size,
                                   .written_ns =
                                       st.st_mtim.tv_sec * WHIM_NS_PER_S + st.st_mtim.tv_nsec};
            snprintf(file.space, sizeof file.space, "%s", space);
            snprintf(file.name, sizeof file.name, "%s", names[i]);
            fn(ctx, &file);
        }
    }
}

void whim_disk_folder_each(const char *dir, whim_disk_file_fn *fn, void *ctx)
{
    whim_arena arena;
    char **names;
    int64_t n;
    whim_arena_init(&arena);
    if (whim_dir_list(&arena, dir, &names, &n, NULL) == WHIM_ERR_OK) {
        for (int64_t i = 0; i < n; i++) {
            if (is_space(names[i])) {
                space_each(&arena, dir, names[i], fn, ctx);
            }
        }
    }
    whim_arena_reset(&arena);
}

typedef struct look {
    whim_disk_others others;
    const char *own;
} look;

static void look_at(void *ctx, const whim_disk_file *file)
{
    look *l = ctx;
    whim_disk_others *o = &l->others;
    if (l->own != NULL && strcmp(file->space, l->own) == 0) {
        return;
    }
    o->bytes += file->bytes;
    if (o->oldest.name[0] == '\0' || file->written_ns < o->oldest.written_ns) {
        o->oldest = *file;
    }
}

whim_disk_others whim_disk_folder_others(const char *dir, const char *own)
{
    look l = {.own = own};
    whim_disk_folder_each(dir, look_at, &l);
    return l.others;
}

/* --- spaces ----------------------------------------------------------------------------------- */

static void count_file(void *ctx, const whim_disk_file *file)
{
    (void)file;
    ++*(int64_t *)ctx;
}

/* Where others could have the lock, the folder stays. Who opens it at the same time finds out that
 * its lock is no more, and makes another. */
static void space_remove(const char *dir, const char *space)
{
    char path[4096];
    int64_t n_file = 0;
    whim_arena arena;
    whim_arena_init(&arena);
    space_each(&arena, dir, space, count_file, &n_file);
    whim_arena_reset(&arena);
    if (n_file > 0 || snprintf(path, sizeof path, "%s/%s", dir, space) >= (int)sizeof path) {
        return;
    }
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    int lock = fd < 0 ? -1 : openat(fd, "lock", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) == 0)) {
        unlinkat(fd, WHIM_DISK_ABOUT, 0);
        unlinkat(fd, "lock", 0);
        rmdir(path);
    }
    whim_file_close(lock);
    whim_file_close(fd);
}

void whim_disk_folder_remove(const char *dir, const whim_disk_file *file)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s/%s", dir, file->space, file->name) < (int)sizeof path) {
        unlink(path);
        space_remove(dir, file->space);
    }
}

/* Whoever has it may be about to end; whoever removed the folder has taken the file with it. */
static bool lock_take(int dir_fd, int64_t lock_ns, int *lock_fd)
{
    int64_t until = whim_clock_ns() + lock_ns;
    for (;;) {
        struct stat st;
        *lock_fd = openat(dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (*lock_fd >= 0 && flock(*lock_fd, LOCK_EX | LOCK_NB) == 0 && fstat(*lock_fd, &st) == 0 &&
            st.st_nlink > 0) {
            return true;
        }
        whim_file_close(*lock_fd);
        *lock_fd = -1;
        if (whim_clock_ns() >= until) {
            return false;
        }
        whim_clock_sleep_ns(10 * WHIM_NS_PER_MS);
    }
}

static whim_err make(const char *path, const char *what, whim_diag *diag)
{
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        return whim_fail(diag, WHIM_ERR_IO, "%s%s: %s", what, path, strerror(errno));
    }
    return WHIM_ERR_OK;
}

whim_err whim_disk_space_open(const char *dir, const char *space, int64_t lock_ns, int *dir_fd,
                              int *lock_fd, whim_diag *diag)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", dir, space) >= (int)sizeof path) {
        return whim_fail(diag, WHIM_ERR_INVALID, "--kv-dir %s: the name is too long", dir);
    }
    if (lock_fd != NULL) {
        WHIM_TRY(make(dir, "--kv-dir ", diag));
        WHIM_TRY(make(path, "", diag));
    }
    *dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (*dir_fd < 0) {
        return whim_fail(diag, WHIM_ERR_IO, "%s: %s", path, strerror(errno));
    }
    if (lock_fd != NULL && !lock_take(*dir_fd, lock_ns, lock_fd)) {
        return whim_fail(diag, WHIM_ERR_BUSY,
                         "%s is in use by another whimbrel with this model; give this one another "
                         "--kv-dir",
                         path);
    }
    return WHIM_ERR_OK;
}
