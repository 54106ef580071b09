/* SPDX-License-Identifier: Apache-2.0 */
/* The folder with the pages of all models. Each model has a folder of its own in it (a space). This
 * says how much they may take together, and which file is deleted first.
 * Threads: stateless. */
#ifndef WHIM_KV_DISK_FOLDER_H
#define WHIM_KV_DISK_FOLDER_H

#include "base/err.h"
#include "base/str.h"
#include "kv/disk_about.h"
#include "kv/disk_segment.h"

#include <stdbool.h>
#include <stdint.h>

/* Find the space with this text in a folder, by its file about.txt; its sizes go to `space`. False
 * if there is none. */
bool whim_disk_space_find(const char *dir, whim_disk_space *space);

/* Append the text of every space in the folder: a line for each, indented by two. */
void whim_disk_space_list(const char *dir, whim_str *out);

/* A file of records. */
typedef struct whim_disk_file {
    char space[WHIM_DISK_SPACE_NAME];
    char name[32];
    int64_t bytes, written_ns; /* when it was written last */
} whim_disk_file;

/* Call fn for every file of records in every space, including those of older formats. A folder that
 * cannot be read counts as empty. */
typedef void whim_disk_file_fn(void *ctx, const whim_disk_file *file);
void whim_disk_folder_each(const char *dir, whim_disk_file_fn *fn, void *ctx);

/* What all spaces except `own` take (NULL: all spaces), and their oldest file, whose bytes are 0 if
 * there is none. */
typedef struct whim_disk_others {
    int64_t bytes;
    whim_disk_file oldest;
} whim_disk_others;
whim_disk_others whim_disk_folder_others(const char *dir, const char *own);

/* The default limit for pages, which now take `used` bytes beside `available` ones: a tenth of what
 * would be free on the disk without them, and at most 20 GB. */
int64_t whim_disk_folder_share(int64_t available, int64_t used);

/* The same for the disk of an open folder; 0 if it does not say. */
int64_t whim_disk_folder_default(int dir_fd, int64_t used);

/* The same for a folder that is not open, or does not exist yet. 0 if it cannot be made. */
int64_t whim_disk_folder_limit(const char *dir);

/* Remove a file; and its space, if that was its last file and no process has the space open. */
void whim_disk_folder_remove(const char *dir, const whim_disk_file *file);

/* Open a space's folder. Missing folders are made, for this user only. With `lock_fd`, also take
 * the space's lock, which keeps out other processes of this machine, and wait up to lock_ns for it.
 * BUSY: another process has it. */
WHIM_MUST_CHECK whim_err whim_disk_space_open(const char *dir, const char *space, int64_t lock_ns,
                                              int *dir_fd, int *lock_fd, whim_diag *diag);

#endif
