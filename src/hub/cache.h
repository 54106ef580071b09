/* SPDX-License-Identifier: Apache-2.0 */
/* The cache that Hugging Face's own tools use, so that what one of them fetched the other finds:
 *     CACHE/models--ORG--NAME/blobs/ETAG            content, named by its checksum
 *                            /snapshots/COMMIT/...  the repository's names, relative links to blobs
 *                            /refs/REV              the commit that a branch or tag led to
 *     CACHE/.locks/models--ORG--NAME/ETAG.lock      held by flock while a blob is fetched
 * A blob that is half there is ETAG.whimbrel.incomplete (see partial.h): their own incomplete files
 * grow from the front, and must not be mistaken for ours.
 * Threads: stateless; several processes may work on one cache. */
#ifndef WHIM_HUB_CACHE_H
#define WHIM_HUB_CACHE_H

#include "hub/choose.h"
#include "hub/listing.h"
#include "hub/ref.h"

#include <stdatomic.h>

enum { WHIM_HUB_PATH_MAX = 4096 };

/* One repository of a cache. */
typedef struct whim_hub_repo {
    const char *cache;
    const whim_hub_ref *ref;
    char folder[WHIM_HUB_ID_MAX + 16]; /* "models--ORG--NAME" */
    char root[WHIM_HUB_PATH_MAX];      /* CACHE/folder */
} whim_hub_repo;

WHIM_MUST_CHECK whim_err whim_hub_repo_init(whim_hub_repo *repo, const char *cache,
                                            const whim_hub_ref *ref, whim_diag *diag);

/* Paths; FULL with a message when they are too long. `buf` has WHIM_HUB_PATH_MAX bytes. */
WHIM_MUST_CHECK whim_err whim_hub_path(char *buf, whim_diag *diag, const char *fmt, ...)
    WHIM_PRINTF(3, 4);
WHIM_MUST_CHECK whim_err whim_hub_blob_path(const whim_hub_repo *repo, const char *etag,
                                            const char *suffix, char *buf, whim_diag *diag);
WHIM_MUST_CHECK whim_err whim_hub_snapshot_path(const whim_hub_repo *repo, const char *commit,
                                                const char *name, char *buf, whim_diag *diag);

/* Make the folders that lead to a file. */
WHIM_MUST_CHECK whim_err whim_hub_make_folders(const char *path, whim_diag *diag);

/* The commit that the revision means here; NOT_FOUND when the cache does not know it. */
WHIM_MUST_CHECK whim_err whim_hub_commit_read(const whim_hub_repo *repo, char commit[41],
                                              whim_diag *diag);

/* Remember it, unless the revision is the commit itself or it is known already. */
WHIM_MUST_CHECK whim_err whim_hub_commit_write(const whim_hub_repo *repo, const char *commit,
                                               whim_diag *diag);

/* Whether a file is there with this size (negative: any), links followed. */
bool whim_hub_is_file(const char *path, int64_t bytes);

/* Put a blob into a snapshot: by a relative link, or where links cannot be made by moving it. */
WHIM_MUST_CHECK whim_err whim_hub_link(const whim_hub_repo *repo, const char *commit,
                                       const whim_hub_file *file, whim_diag *diag);

/* The first shard that the index of a snapshot lists and `listing` does not have, in the
 * listing's arena; NULL: none, or no index. */
WHIM_MUST_CHECK whim_err whim_hub_shard_missing(whim_hub_listing *listing, const char *folder,
                                                const char **name, whim_diag *diag);

/* The checksum of the first `bytes` of a file: by its length an etag says whether that is SHA-256
 * (64 digits) or git's, the SHA-1 of "blob BYTES", a NUL and the content (40 digits). *stop (may be
 * NULL) ends it with IO. UNSUPPORTED in builds without OpenSSL. */
WHIM_MUST_CHECK whim_err whim_hub_digest(int fd, int64_t bytes, const char *etag,
                                         const atomic_bool *stop, const char *path,
                                         char hex[WHIM_HUB_ETAG_MAX], whim_diag *diag);

/* The model in the cache: `path` is its folder or GGUF file. NOT_FOUND with what is missing; a
 * model without a tokenizer is missing it only when `whole`. */
WHIM_MUST_CHECK whim_err whim_hub_cached(const char *cache, const whim_hub_ref *ref, bool whole,
                                         char path[WHIM_HUB_PATH_MAX], whim_diag *diag);

#endif
