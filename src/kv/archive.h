/* SPDX-License-Identifier: Apache-2.0 */
/* Pages and states of a model in one file, to be carried to another machine. The file:
 *
 *   head      magic, version, number of parts, bytes of the whole file
 *   parts     for each rank that keeps some of every page: name of its space, sizes, counts
 *   sum       SHA-256 of all before it
 *   records   part after part, pages before states: key, the page's tokens, page or state, and
 *             SHA-256 of these with the record's number
 *
 * Numbers are little-endian. A reader trusts no size before it has checked the head's sum, and that
 * all sizes add up to the size of the file. It never returns a record whose sum is wrong.
 * Threads: one at a time. */
#ifndef WHIM_KV_ARCHIVE_H
#define WHIM_KV_ARCHIVE_H

#include "base/err.h"
#include "kv/disk_segment.h"

#include <stdbool.h>
#include <stdint.h>

enum { WHIM_ARCHIVE_PARTS = 64, WHIM_ARCHIVE_SPACE = 288 };

typedef struct whim_archive_part {
    char space[WHIM_ARCHIVE_SPACE]; /* whim_disk_tier_cfg.space */
    int32_t page_len;
    int64_t item_bytes[WHIM_DISK_KINDS]; /* of states 0 if the model has none */
    int64_t n[WHIM_DISK_KINDS];
} whim_archive_part;

typedef struct whim_archive {
    const char *path; /* borrowed, for messages */
    char *partial;    /* where it is written: path.part */
    int fd;
    bool writes;   /* open for writing: the parts are the caller's */
    int64_t bytes; /* of the whole file; while writing, so far */
    int64_t at;
    int32_t n_part;
    whim_archive_part *parts;
    void *record; /* room for the largest one */
    /* the next record: */
    int32_t part;
    whim_disk_kind kind;
    int64_t in_kind, number;
} whim_archive;

/* One record. Its tokens and its item are in the archive, valid until the next call. */
typedef struct whim_archive_item {
    int32_t part;
    whim_disk_kind kind;
    whim_prefix_key key;
    const int32_t *tokens;
    const void *item;
} whim_archive_item;

/* Bytes of a part's records. */
int64_t whim_archive_part_bytes(const whim_archive_part *part);

/* Open a file and read its head. CORRUPT: it is not an archive, has another version, is damaged or
 * cut off. */
WHIM_MUST_CHECK whim_err whim_archive_open(whim_archive *archive, const char *path,
                                           whim_diag *diag);

/* The next record; *more is false at the end. CORRUPT: it is damaged. */
WHIM_MUST_CHECK whim_err whim_archive_next(whim_archive *archive, whim_archive_item *out,
                                           bool *more, whim_diag *diag);

/* Make a new file, which must not exist. Only this user can read it, because it reveals what was
 * said. Until it is finished, its name ends in ".part". BUSY: a file of that name exists. `parts`
 * are borrowed. Records are added part after part and kind after kind; their counts are filled in
 * meanwhile, and the head is written at the end. */
WHIM_MUST_CHECK whim_err whim_archive_create(whim_archive *archive, const char *path,
                                             whim_archive_part *parts, int32_t n_part,
                                             whim_diag *diag);
WHIM_MUST_CHECK whim_err whim_archive_add(whim_archive *archive, const whim_archive_item *item,
                                          whim_diag *diag);
WHIM_MUST_CHECK whim_err whim_archive_finish(whim_archive *archive, whim_diag *diag);

/* Close it; legal on {.fd = -1}. A new file that was not finished is removed. */
void whim_archive_close(whim_archive *archive);

#endif
