/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of files that were read before, in a small text file: one line for each, device, inode,
 * size, time of the last change of content and of the inode, sum. Lines that are not so are left
 * out; the file is replaced as a whole, so of two processes that add to it at once one may lose its
 * lines, which are then found again by reading.
 * Threads: one at a time. */
#ifndef WHIM_WEIGHTS_SUM_MEMORY_H
#define WHIM_WEIGHTS_SUM_MEMORY_H

#include "base/sha256.h"

#include <stdbool.h>
#include <stdint.h>

/* More than that, and the oldest are forgotten. */
enum { WHIM_SUM_MEMORY_LINES = 1024 };

/* A file as it was when it was read. */
typedef struct whim_sum_of_file {
    uint64_t device, inode;
    int64_t bytes, written_ns, changed_ns;
    uint8_t sum[WHIM_SHA256_BYTES];
} whim_sum_of_file;

typedef struct whim_sum_memory {
    whim_sum_of_file *files; /* oldest first */
    int64_t n, cap;
    bool changed;
} whim_sum_memory;

/* What an open file is, without the sum; false: it cannot be told. */
bool whim_sum_of_file_look(int fd, whim_sum_of_file *out);

/* Whether a file is still what it was; sums are not compared. */
bool whim_sum_of_file_is_same(const whim_sum_of_file *a, const whim_sum_of_file *b);

/* {0} before; a path of NULL, or one that cannot be read, gives none. */
void whim_sum_memory_read(whim_sum_memory *memory, const char *path);
void whim_sum_memory_parse(whim_sum_memory *memory, const char *text);
void whim_sum_memory_deinit(whim_sum_memory *memory);

/* The sum of a file that is still the same, into `file`; false: it is not known. */
bool whim_sum_memory_find(const whim_sum_memory *memory, whim_sum_of_file *file);

/* In place of what is known of the same inode. Without memory it is not remembered. */
void whim_sum_memory_add(whim_sum_memory *memory, const whim_sum_of_file *file);

/* Write it if there is something new. A failure costs another reading, no more. */
void whim_sum_memory_write(const whim_sum_memory *memory, const char *path);

#endif
