/* SPDX-License-Identifier: Apache-2.0 */
/* One file of pages on disk. A head of 64 bytes names format, space and page size; records of equal
 * size follow. A record's head has a checksum of its own, so that an index can be made without
 * reading the pages, and the checksum of its page. Numbers are little-endian. A file is written
 * front to back once and never changed.
 * Threads: one at a time. */
#ifndef WHIM_KV_DISK_SEGMENT_H
#define WHIM_KV_DISK_SEGMENT_H

#include "base/err.h"
#include "kv/prefix_tree.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct whim_disk_segment {
    int fd; /* -1: closed */
    int32_t number;
    int32_t n_record;
    int64_t page_bytes;
    int32_t page_len;
} whim_disk_segment;

/* A 64-bit checksum that is quick on large pieces. Not against forgers: who can write the folder
 * owns the cache. */
uint64_t whim_disk_sum(uint64_t seed, const void *bytes, int64_t n);

/* Bytes of one record, and of a file with n of them. */
int64_t whim_disk_record_bytes(int64_t page_bytes, int32_t page_len);
int64_t whim_disk_segment_bytes(const whim_disk_segment *segment);

/* A new file; it must not be there. */
WHIM_MUST_CHECK whim_err whim_disk_segment_create(whim_disk_segment *segment, int dir_fd,
                                                  int32_t number, uint64_t space,
                                                  int64_t page_bytes, int32_t page_len,
                                                  whim_diag *diag);

/* Open an old one. CORRUPT: its head is not of this format, space and page size. Half a record at
 * its end is left out; *torn says so. */
WHIM_MUST_CHECK whim_err whim_disk_segment_open(whim_disk_segment *segment, int dir_fd,
                                                int32_t number, uint64_t space, int64_t page_bytes,
                                                int32_t page_len, bool *torn, whim_diag *diag);
void whim_disk_segment_close(whim_disk_segment *segment);

/* The file's name: "pages-00000012.kv"; and the number of such a name, or -1. */
void whim_disk_segment_name(int32_t number, char *buf, int64_t n);
int32_t whim_disk_segment_number(const char *name);

/* Write a record at the end. After an error the file is cut back to whole records. */
WHIM_MUST_CHECK whim_err whim_disk_segment_add(whim_disk_segment *segment,
                                               const whim_prefix_key *key, const int32_t *tokens,
                                               const void *page);

/* The key of a record; false when its head is damaged. */
bool whim_disk_segment_key(const whim_disk_segment *segment, int32_t record, whim_prefix_key *key);

/* Read a page; false unless it is whole and of this key and these tokens. */
bool whim_disk_segment_read(const whim_disk_segment *segment, int32_t record,
                            const whim_prefix_key *key, const int32_t *tokens, void *page);

#endif
