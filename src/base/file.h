/* SPDX-License-Identifier: Apache-2.0 */
/* Files and paths: whole small files, exact reads and writes at an offset, directory listings.
 * Every failure names the path and the reason in the diag.
 * Threads: stateless; reads at an offset may run on one descriptor from several threads. */
#ifndef WHIM_BASE_FILE_H
#define WHIM_BASE_FILE_H

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum whim_path_type {
    WHIM_PATH_NONE, /* nothing there, or not reachable */
    WHIM_PATH_FILE,
    WHIM_PATH_DIR,
    WHIM_PATH_OTHER, /* device, socket, pipe */
} whim_path_type;

/* What a path leads to, links followed. */
whim_path_type whim_path_get_type(const char *path);

/* Open a regular file for reading and tell its size. The caller closes. */
WHIM_MUST_CHECK whim_err whim_file_open(const char *path, int *fd, int64_t *bytes, whim_diag *diag);

/* Negative descriptors are legal and ignored. */
void whim_file_close(int fd);

/* Exactly `bytes` at `offset`; the end of the file before that is an error. `path` for messages. */
WHIM_MUST_CHECK whim_err whim_file_read_at(int fd, int64_t offset, int64_t bytes, void *dst,
                                           const char *path, whim_diag *diag);

/* A whole file of at most `max_bytes`, with a NUL after it. The caller frees with whim_free. */
WHIM_MUST_CHECK whim_err whim_file_read_all(const char *path, int64_t max_bytes, char **text,
                                            int64_t *bytes, whim_diag *diag);

/* What a file is that stands where another should be: a pointer of Git LFS, a web page. A part of a
 * sentence about it, or NULL when its first bytes look like neither. */
const char *whim_file_stand_in(const void *bytes, int64_t n);
const char *whim_file_is_stand_in(int fd); /* the same of a file */

/* A new file for writing; one that exists already is an error. The caller ends it with
 * whim_file_finish, or closes. */
WHIM_MUST_CHECK whim_err whim_file_create(const char *path, int *fd, whim_diag *diag);

/* All `bytes` at `offset`. */
WHIM_MUST_CHECK whim_err whim_file_write_at(int fd, int64_t offset, const void *src, int64_t bytes,
                                            const char *path, whim_diag *diag);

/* Bring it to the disk and close it; *fd becomes -1, whatever happens. */
WHIM_MUST_CHECK whim_err whim_file_finish(int *fd, const char *path, whim_diag *diag);

/* The three in one, for a small file. */
WHIM_MUST_CHECK whim_err whim_file_write_all(const char *path, const void *src, int64_t bytes,
                                             whim_diag *diag);

/* The message about a failed write, by its errno: FULL when there is no space, else IO. */
whim_err whim_file_write_failed(const char *path, int error, whim_diag *diag);

/* "dir/name" in the arena, or NULL without memory. */
char *whim_path_join(whim_arena *arena, const char *dir, const char *name);

/* Whether a name ends so, with something before it. */
bool whim_path_has_suffix(const char *path, const char *suffix);

/* The part after the last slash. */
const char *whim_path_base(const char *path);

/* Whether a name from outside is safe as an entry of one directory: not empty, not "." or "..",
 * no slash, no control character. */
bool whim_path_is_plain_name(const char *name);

/* The names in a directory except "." and "..", sorted by bytes, in the arena. */
WHIM_MUST_CHECK whim_err whim_dir_list(whim_arena *arena, const char *dir, char ***names,
                                       int64_t *n_name, whim_diag *diag);

#endif
