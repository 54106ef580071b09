/* SPDX-License-Identifier: Apache-2.0 */
/* What a repository holds at one commit: the hub's answer about it, or what is in a snapshot on
 * disk.
 * Invariants: 1. every name is safe (see ref.h) and occurs once; names that are not are counted and
 * forgotten;
 * 2. an etag is "" or a checksum, 40 or 64 digits; 3. bytes are -1 (unknown) or fit a file.
 * Threads: a listing belongs to its caller. */
#ifndef WHIM_HUB_LISTING_H
#define WHIM_HUB_LISTING_H

#include "base/arena.h"
#include "base/err.h"
#include "hub/ref.h"

#include <stdbool.h>
#include <stdint.h>

enum { WHIM_HUB_ETAG_MAX = 65, WHIM_HUB_FILES_MAX = 200000 };

/* Of one file: so many files of that size still have a sum in 64 bits. */
#define WHIM_HUB_SIZE_MAX (INT64_C(1) << 45)

typedef struct whim_hub_file {
    const char *name; /* with slashes, below the repository */
    int64_t bytes;    /* -1: unknown */
    /* SHA-256 of a large file, git's checksum of another, "": unknown */
    char etag[WHIM_HUB_ETAG_MAX];
} whim_hub_file;

typedef struct whim_hub_listing {
    whim_arena arena;
    char commit[41];
    whim_hub_file *files; /* sorted by name */
    int64_t n_file, cap_file;
    int64_t n_unsafe; /* names that were dropped */
} whim_hub_listing;

void whim_hub_listing_deinit(whim_hub_listing *listing);

/* The answer of /api/models/ID/revision/REV?blobs=true; `from` is for messages. Deinit in any
 * case. */
WHIM_MUST_CHECK whim_err whim_hub_listing_parse(whim_hub_listing *listing, const char *text,
                                                int64_t n, const char *from, whim_diag *diag);

/* The files below a folder whose links lead somewhere; NOT_FOUND when there is no folder. Deinit in
 * any case. */
WHIM_MUST_CHECK whim_err whim_hub_listing_read(whim_hub_listing *listing, const char *folder,
                                               whim_diag *diag);

/* By name, or NULL. */
whim_hub_file *whim_hub_listing_find(const whim_hub_listing *listing, const char *name);

#endif
