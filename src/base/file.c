/* SPDX-License-Identifier: Apache-2.0 */
/* Files and paths over POSIX calls. */
#include "base/file.h"

#include "base/alloc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

whim_path_type whim_path_get_type(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        return WHIM_PATH_NONE;
    }
    if (S_ISREG(st.st_mode)) {
        return WHIM_PATH_FILE;
    }
    return S_ISDIR(st.st_mode) ? WHIM_PATH_DIR : WHIM_PATH_OTHER;
}

whim_err whim_file_open(const char *path, int *fd, int64_t *bytes, whim_diag *diag)
{
    *fd = -1;
    int opened;
    do {
        /* Without O_NONBLOCK, opening a pipe would wait for its writer. */
        opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    } while (opened < 0 && errno == EINTR);
    if (opened < 0) {
        whim_err err = errno == ENOENT || errno == ENOTDIR ? WHIM_ERR_NOT_FOUND : WHIM_ERR_IO;
        return whim_fail(diag, err, "%s: cannot open: %s", path, strerror(errno));
    }
    struct stat st;
    if (fstat(opened, &st) != 0) {
        int saved = errno;
        close(opened);
        return whim_fail(diag, WHIM_ERR_IO, "%s: cannot read its size: %s", path, strerror(saved));
    }
    if (!S_ISREG(st.st_mode)) {
        close(opened);
        return whim_fail(diag, WHIM_ERR_INVALID, "%s: not a regular file", path);
    }
    *fd = opened;
    *bytes = (int64_t)st.st_size;
    return WHIM_ERR_OK;
}

void whim_file_close(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
}

whim_err whim_file_read_at(int fd, int64_t offset, int64_t bytes, void *dst, const char *path,
                           whim_diag *diag)
{
    char *at = dst;
    int64_t done = 0;
    while (done < bytes) {
        ssize_t got = pread(fd, at + done, (size_t)(bytes - done), (off_t)(offset + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return whim_fail(diag, WHIM_ERR_IO, "%s: cannot read %lld bytes at %lld: %s", path,
                             (long long)bytes, (long long)offset, strerror(errno));
        }
        if (got == 0) {
            return whim_fail(diag, WHIM_ERR_IO,
                             "%s: ends at byte %lld, expected %lld bytes at %lld; did the file "
                             "change or its download stop?",
                             path, (long long)(offset + done), (long long)bytes, (long long)offset);
        }
        done += got;
    }
    return WHIM_ERR_OK;
}

whim_err whim_file_read_all(const char *path, int64_t max_bytes, char **text, int64_t *bytes,
                            whim_diag *diag)
{
    int fd;
    int64_t size;
    *text = NULL;
    WHIM_TRY(whim_file_open(path, &fd, &size, diag));
    char *buffer = size > max_bytes ? NULL : whim_alloc(size + 1);
    whim_err err = size > max_bytes
                       ? whim_fail(diag, WHIM_ERR_CORRUPT, "%s: %lld bytes, expected at most %lld",
                                   path, (long long)size, (long long)max_bytes)
                   : buffer == NULL
                       ? whim_fail(diag, WHIM_ERR_NO_MEMORY, "%s: no memory to read %lld bytes",
                                   path, (long long)size)
                       : whim_file_read_at(fd, 0, size, buffer, path, diag);
    whim_file_close(fd);
    if (err != WHIM_ERR_OK) {
        whim_free(buffer);
        return err;
    }
    *text = buffer;
    *bytes = size;
    return WHIM_ERR_OK;
}

whim_err whim_file_write_failed(const char *path, int error, whim_diag *diag)
{
    return whim_fail(diag, error == ENOSPC || error == EDQUOT ? WHIM_ERR_FULL : WHIM_ERR_IO,
                     "%s cannot be written: %s", path, strerror(error));
}

static bool begins(const char *text, int64_t n, const char *with)
{
    int64_t length = (int64_t)strlen(with);
    return n >= length && strncasecmp(text, with, (size_t)length) == 0;
}

const char *whim_file_stand_in(const void *bytes, int64_t n)
{
    const char *text = bytes;
    if (begins(text, n, "version https://git-lfs")) {
        return "this is a pointer of Git LFS, not the file itself; \"git lfs pull\" in its folder "
               "fetches it";
    }
    if (begins(text, n, "<!doctype") || begins(text, n, "<html")) {
        return "this is a web page, not the file itself; fetch it again";
    }
    return NULL;
}

const char *whim_file_is_stand_in(int fd)
{
    char first[32];
    ssize_t n = pread(fd, first, sizeof first, 0);
    return n > 0 ? whim_file_stand_in(first, n) : NULL;
}

whim_err whim_file_create(const char *path, int *fd, whim_diag *diag)
{
    *fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return *fd >= 0 ? WHIM_ERR_OK : whim_file_write_failed(path, errno, diag);
}

whim_err whim_file_write_at(int fd, int64_t offset, const void *src, int64_t bytes,
                            const char *path, whim_diag *diag)
{
    const char *at = src;
    int64_t done = 0;
    while (done < bytes) {
        ssize_t put = pwrite(fd, at + done, (size_t)(bytes - done), (off_t)(offset + done));
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return whim_file_write_failed(path, put < 0 ? errno : EIO, diag);
        }
        done += put;
    }
    return WHIM_ERR_OK;
}

whim_err whim_file_finish(int *fd, const char *path, whim_diag *diag)
{
    int error = fsync(*fd) != 0 && errno != EINVAL ? errno : 0; /* EINVAL: it cannot be synced */
    error = close(*fd) != 0 && error == 0 ? errno : error;
    *fd = -1;
    return error == 0 ? WHIM_ERR_OK : whim_file_write_failed(path, error, diag);
}

whim_err whim_file_write_all(const char *path, const void *src, int64_t bytes, whim_diag *diag)
{
    int fd;
    WHIM_TRY(whim_file_create(path, &fd, diag));
    whim_err err = whim_file_write_at(fd, 0, src, bytes, path, diag);
    if (err == WHIM_ERR_OK) {
        return whim_file_finish(&fd, path, diag);
    }
    close(fd);
    return err;
}

char *whim_path_join(whim_arena *arena, const char *dir, const char *name)
{
    int64_t n_dir = (int64_t)strlen(dir);
    int64_t n_name = (int64_t)strlen(name);
    while (n_dir > 1 && dir[n_dir - 1] == '/') {
        n_dir--;
    }
    char *path = whim_arena_alloc(arena, n_dir + n_name + 2);
    if (path != NULL) {
        memcpy(path, dir, (size_t)n_dir);
        if (n_dir > 0 && path[n_dir - 1] != '/') {
            path[n_dir++] = '/';
        }
        memcpy(path + n_dir, name, (size_t)n_name + 1);
    }
    return path;
}

bool whim_path_has_suffix(const char *path, const char *suffix)
{
    size_t n = strlen(path), m = strlen(suffix);
    return n > m && strcmp(path + n - m, suffix) == 0;
}

const char *whim_path_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

bool whim_path_is_plain_name(const char *name)
{
    if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        return false;
    }
    for (const char *c = name; *c != '\0'; c++) {
        const unsigned char byte = (unsigned char)*c, next = (unsigned char)c[1];
        bool c1 = byte == 0xc2 && next >= 0x80 && next < 0xa0; /* controls, too */
        if (*c == '/' || *c == '\\' || byte < 0x20 || byte == 0x7f || c1) {
            return false;
        }
    }
    return true;
}

static int name_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool names_append(whim_arena *arena, char ***names, int64_t n, const char *name)
{
    char **grown = whim_arena_grow(arena, *names, n, sizeof *grown);
    char *copy = whim_arena_strndup(arena, name, (int64_t)strlen(name));
    *names = grown != NULL ? grown : *names;
    if (grown != NULL) {
        grown[n] = copy;
    }
    return grown != NULL && copy != NULL;
}

whim_err whim_dir_list(whim_arena *arena, const char *dir, char ***names, int64_t *n_name,
                       whim_diag *diag)
{
    *names = NULL;
    *n_name = 0;
    DIR *handle = opendir(dir);
    if (handle == NULL) {
        whim_err err = errno == ENOENT || errno == ENOTDIR ? WHIM_ERR_NOT_FOUND : WHIM_ERR_IO;
        return whim_fail(diag, err, "%s: cannot list the directory: %s", dir, strerror(errno));
    }
    whim_err err = WHIM_ERR_OK;
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(handle);
        if (entry == NULL) {
            if (errno != 0) {
                err = whim_fail(diag, WHIM_ERR_IO, "%s: cannot list the directory: %s", dir,
                                strerror(errno));
            }
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (!names_append(arena, names, *n_name, entry->d_name)) {
            err = whim_fail(diag, WHIM_ERR_NO_MEMORY, "%s: no memory to list the directory", dir);
            break;
        }
        (*n_name)++;
    }
    closedir(handle);
    if (err == WHIM_ERR_OK && *n_name > 1) {
        qsort(*names, (size_t)*n_name, sizeof **names, name_compare);
    }
    return err;
}
