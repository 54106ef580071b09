/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4) and HMAC (RFC 2104) with it, for proofs that two
 * programs know the same secret, and for pages that travel. libcrypto is several times as fast and
 * not in every build. Threads: stateless. */
#ifndef WHIM_BASE_SHA256_H
#define WHIM_BASE_SHA256_H

#include <stdbool.h>
#include <stdint.h>

enum { WHIM_SHA256_BYTES = 32, WHIM_SHA256_BLOCK = 64 };

typedef struct whim_sha256 {
    uint32_t h[8];
    uint64_t n_byte;
    uint8_t block[WHIM_SHA256_BLOCK];
} whim_sha256;

void whim_sha256_init(whim_sha256 *sum);
void whim_sha256_add(whim_sha256 *sum, const void *data, int64_t bytes);
void whim_sha256_end(whim_sha256 *sum, uint8_t out[WHIM_SHA256_BYTES]);

void whim_hmac_sha256(const void *key, int64_t key_bytes, const void *data, int64_t bytes,
                      uint8_t out[WHIM_SHA256_BYTES]);

/* Whether two sums are equal, in a time that does not tell where they differ. */
bool whim_sha256_equal(const uint8_t a[WHIM_SHA256_BYTES], const uint8_t b[WHIM_SHA256_BYTES]);

#endif
