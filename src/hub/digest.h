/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums of files as the hub names them. Threads: stateless. */
#ifndef WHIM_HUB_DIGEST_H
#define WHIM_HUB_DIGEST_H

#include "base/err.h"
#include "hub/listing.h"

#include <stdatomic.h>
#include <stdint.h>

/* The checksum of the first `bytes` of a file: by its length an etag says whether that is SHA-256
 * (64 digits) or git's, the SHA-1 of "blob BYTES", a NUL and the content (40 digits). *stop (may be
 * NULL) ends it with IO. UNSUPPORTED in builds without OpenSSL. */
WHIM_MUST_CHECK whim_err whim_hub_digest(int fd, int64_t bytes, const char *etag,
                                         const atomic_bool *stop, const char *path,
                                         char hex[WHIM_HUB_ETAG_MAX], whim_diag *diag);

#endif
