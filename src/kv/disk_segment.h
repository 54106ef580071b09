/* SPDX-License-Identifier: Apache-2.0 */
/* One file of pages, or of the states that pages carry. A head of 64 bytes names format, space and
 * sizes; records of equal size follow. A record's head has the checksum of its item and one of its
 * own, so that an index can be made without reading the items. Numbers are little-endian. Records
 * are only appended, never changed.
 * Threads: one at a time. */
#ifndef WHIM_KV_DISK_SEGMENT_H
#define WHIM_KV_DISK_SEGMENT_H

#include "base/err.h"
#include "kv/prefix_tree.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum whim_disk_kind {
    WHIM_DISK_PAGE,
    WHIM_DISK_STATE, /* of a recurrent model, after the last token of the page with the same key */
    WHIM_DISK_KINDS,
} whim_disk_kind;

/* The largest page or state: a size in a file is trusted up to here. */
#define WHIM_DISK_ITEM_MAX (INT64_C(1) << 32)

/* What all records of a file have in common. */
typedef struct whim_disk_form {
    uint8_t space[WHIM_SHA256_BYTES]; /* a sum of its text */
    whim_disk_kind kind;
    int32_t page_len;   /* tokens of a page */
    int64_t item_bytes; /* of a page or a state */
} whim_disk_form;

typedef struct whim_disk_segment {
    int fd; /* -1: closed */
    int32_t number;
    int32_t n_record;
    int32_t n_old; /* of them, those that were there when it was opened */
    whim_disk_form form;
} whim_disk_segment;

/* A 64-bit checksum that is quick on large pieces. It does not stop forgers: whoever can write to
 * the folder owns the cache. */
uint64_t whim_disk_sum(uint64_t seed, const void *bytes, int64_t n);

/* Bytes of one record, and of a file with n of them. */
int64_t whim_disk_record_bytes(int64_t item_bytes, int32_t page_len);
int64_t whim_disk_segment_bytes(const whim_disk_segment *segment);

/* Make a new file, which must not exist. FULL: the disk is full. */
WHIM_MUST_CHECK whim_err whim_disk_segment_create(whim_disk_segment *segment, int dir_fd,
                                                  int32_t number, const whim_disk_form *form,
                                                  whim_diag *diag);

/* Open an existing file, to read it and, unless `read_only`, to add to it. CORRUPT: its head does
 * not have this form. A torn record at its end is left out; *torn says so. */
WHIM_MUST_CHECK whim_err whim_disk_segment_open(whim_disk_segment *segment, int dir_fd,
                                                int32_t number, const whim_disk_form *form,
                                                bool read_only, bool *torn, whim_diag *diag);
void whim_disk_segment_close(whim_disk_segment *segment);

/* The file's name: "pages-00000012.kv", "states-00000013.kv"; and the number of such a name, or
 * -1. */
void whim_disk_segment_name(whim_disk_kind kind, int32_t number, char *buf, int64_t n);
int32_t whim_disk_segment_number(const char *name, whim_disk_kind *kind);

/* Write a record at the end. After an error the file has the same records as before. FULL: the disk
 * is full. */
WHIM_MUST_CHECK whim_err whim_disk_segment_add(whim_disk_segment *segment,
                                               const whim_prefix_key *key, const int32_t *tokens,
                                               const void *item);

/* The key of a record; false if its head is damaged. */
bool whim_disk_segment_key(const whim_disk_segment *segment, int32_t record, whim_prefix_key *key);

/* The same with its tokens and its item; false if any part is damaged. */
bool whim_disk_segment_get(const whim_disk_segment *segment, int32_t record, whim_prefix_key *key,
                           int32_t *tokens, void *item);

/* Read an item; false unless it is whole and has this key and these tokens. */
bool whim_disk_segment_read(const whim_disk_segment *segment, int32_t record,
                            const whim_prefix_key *key, const int32_t *tokens, void *item);

#endif
