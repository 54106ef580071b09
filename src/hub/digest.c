/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums by libcrypto. */
#include "hub/cache.h"

#include "base/file.h"

#include <string.h>

#ifdef WHIM_HUB

#include "base/alloc.h"

#include <openssl/evp.h>
#include <stdio.h>

enum { SLAB = 1 << 20 };

static whim_err digest_run(EVP_MD_CTX *ctx, char *slab, int fd, int64_t bytes,
                           const atomic_bool *stop, const char *path, whim_diag *diag)
{
    for (int64_t at = 0; at < bytes;) {
        int64_t n = bytes - at < SLAB ? bytes - at : SLAB;
        if (stop != NULL && atomic_load(stop)) {
            return whim_fail(diag, WHIM_ERR_IO, "stopped");
        }
        WHIM_TRY(whim_file_read_at(fd, at, n, slab, path, diag));
        if (EVP_DigestUpdate(ctx, slab, (size_t)n) != 1) {
            return whim_fail(diag, WHIM_ERR_IO, "%s: libcrypto cannot checksum it", path);
        }
        at += n;
    }
    return WHIM_ERR_OK;
}

whim_err whim_hub_digest(int fd, int64_t bytes, const char *etag, const atomic_bool *stop,
                         const char *path, char hex[WHIM_HUB_ETAG_MAX], whim_diag *diag)
{
    bool git = strlen(etag) == 40;
    char head[64];
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned int n = 0;
    whim_err err = WHIM_ERR_OK;
    char *slab = whim_alloc(SLAB);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    if (slab == NULL || ctx == NULL) {
        err = whim_fail(diag, WHIM_ERR_NO_MEMORY, "out of memory");
        goto out;
    }
    int head_len = snprintf(head, sizeof head, "blob %lld", (long long)bytes) + 1;
    if (EVP_DigestInit_ex(ctx, git ? EVP_sha1() : EVP_sha256(), NULL) != 1 ||
        (git && EVP_DigestUpdate(ctx, head, (size_t)head_len) != 1)) {
        err = whim_fail(diag, WHIM_ERR_UNSUPPORTED, "libcrypto on this machine has no %s",
                        git ? "SHA-1" : "SHA-256");
        goto out;
    }
    WHIM_TRY_OUT(digest_run(ctx, slab, fd, bytes, stop, path, diag));
    if (EVP_DigestFinal_ex(ctx, sum, &n) != 1 || 2 * n >= WHIM_HUB_ETAG_MAX) {
        err = whim_fail(diag, WHIM_ERR_IO, "%s: libcrypto cannot checksum it", path);
        goto out;
    }
    for (unsigned int i = 0; i < n; i++) {
        snprintf(hex + 2 * i, 3, "%02x", sum[i]);
    }
out:
    EVP_MD_CTX_free(ctx);
    whim_free(slab);
    return err;
}

#else

whim_err whim_hub_digest(int fd, int64_t bytes, const char *etag, const atomic_bool *stop,
                         const char *path, char hex[WHIM_HUB_ETAG_MAX], whim_diag *diag)
{
    (void)fd, (void)bytes, (void)etag, (void)stop, (void)hex;
    return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                     "%s: this build has no checksums; it was made without OpenSSL", path);
}

#endif
