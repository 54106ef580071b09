/* SPDX-License-Identifier: Apache-2.0 */
/* The folder in which pages of all models lie, each model's in a folder of its own (a space): how
 * much they may take together, and which file goes first.
 * Threads: stateless. */
#ifndef WHIM_KV_DISK_FOLDER_H
#define WHIM_KV_DISK_FOLDER_H

#include "base/err.h"
#include "base/str.h"
#include "kv/disk_about.h"
#include "kv/disk_segment.h"

#include <stdbool.h>
#include <stdint.h>

/* The space of this text in a folder, by what such files say; its sizes go to `space`. False: there
 * is none. */
bool whim_disk_space_find(const char *dir, whim_disk_space *space);

/* Append the text of every space of the folder, a line each with an indent of two. */
void whim_disk_space_list(const char *dir, whim_str *out);

/* A file of records. */
typedef struct whim_disk_file {
    char space[WHIM_DISK_SPACE_NAME];
    char name[32];
    int64_t bytes, written_ns; /* when it was written last */
} whim_disk_file;

/* Call fn for every file of records of every space, older formats' too. A folder that cannot be
 * read has none. */
typedef void whim_disk_file_fn(void *ctx, const whim_disk_file *file);
void whim_disk_folder_each(const char *dir, whim_disk_file_fn *fn, void *ctx);

/* What spaces other than `own` (NULL: none is) take, and their oldest file (bytes 0: none). */
typedef struct whim_disk_others {
    int64_t bytes;
    whim_disk_file oldest;
} whim_disk_others;
whim_disk_others whim_disk_folder_others(const char *dir, const char *own);

/* What pages may take where nobody said: a tenth of what the disk would have without the `used`
 * bytes of them, and no more than 20 GB. */
int64_t whim_disk_folder_default(int dir_fd, int64_t used);

/* The same for a folder that nobody has opened, or that is still to be made. 0: it cannot be. */
int64_t whim_disk_folder_limit(const char *dir);

/* Remove a file, and its space when that was the last one and no process has it open. */
void whim_disk_folder_remove(const char *dir, const whim_disk_file *file);

/* Open a space's folder, making what is missing, for this user only; with `lock_fd` take its lock,
 * which others of this machine then cannot, and wait up to lock_ns for it. BUSY: another process
 * has it. */
WHIM_MUST_CHECK whim_err whim_disk_space_open(const char *dir, const char *space, int64_t lock_ns,
                                              int *dir_fd, int *lock_fd, whim_diag *diag);

#endif
