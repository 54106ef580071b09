/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sha256.h"

#include <stddef.h>
#include <string.h>

/* The first 32 bits behind the point of the cube roots of the first 64 primes. */
static const uint32_t round_words[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t turn(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

/* One round; the eight words change places by their names, so that none has to move. */
#define ROUND(a, b, c, d, e, f, g, h, i)                                                          \
    do {                                                                                          \
        uint32_t one = (h) + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) +                           \
                       ((g) ^ ((e) & ((f) ^ (g)))) + round_words[i] + w[i];                       \
        (d) += one;                                                                               \
        (h) =                                                                                     \
            one + (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + (((a) & (b)) | ((c) & ((a) | (b)))); \
    } while (0)

static void words_make(uint32_t w[64], const uint8_t *block)
{
    for (int i = 0; i < 16; i++) {
        const uint8_t *b = block + (ptrdiff_t)4 * i;
        w[i] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    }
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + w[i - 7] +
               (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
}

static void block_add(uint32_t sum[8], const uint8_t *block)
{
    uint32_t w[64], a = sum[0], b = sum[1], c = sum[2], d = sum[3];
    uint32_t e = sum[4], f = sum[5], g = sum[6], h = sum[7];
    words_make(w, block);
    for (int i = 0; i < 64; i += 8) {
        ROUND(a, b, c, d, e, f, g, h, i);
        ROUND(h, a, b, c, d, e, f, g, i + 1);
        ROUND(g, h, a, b, c, d, e, f, i + 2);
        ROUND(f, g, h, a, b, c, d, e, i + 3);
        ROUND(e, f, g, h, a, b, c, d, i + 4);
        ROUND(d, e, f, g, h, a, b, c, i + 5);
        ROUND(c, d, e, f, g, h, a, b, i + 6);
        ROUND(b, c, d, e, f, g, h, a, i + 7);
    }
    const uint32_t made[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++) {
        sum[i] += made[i];
    }
}

void whim_sha256_init(whim_sha256 *sum)
{
    /* the same of the square roots of the first eight */
    *sum = (whim_sha256){.h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                               0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void whim_sha256_add(whim_sha256 *sum, const void *data, int64_t bytes)
{
    const uint8_t *at = data;
    while (bytes > 0) {
        int64_t used = (int64_t)(sum->n_byte % WHIM_SHA256_BLOCK), room = WHIM_SHA256_BLOCK - used;
        int64_t n = bytes < room ? bytes : room;
        if (n == WHIM_SHA256_BLOCK) {
            block_add(sum->h, at);
        } else {
            memcpy(sum->block + used, at, (size_t)n);
            if (n == room) {
                block_add(sum->h, sum->block);
            }
        }
        sum->n_byte += (uint64_t)n;
        at += n;
        bytes -= n;
    }
}

void whim_sha256_end(whim_sha256 *sum, uint8_t out[WHIM_SHA256_BYTES])
{
    const uint8_t mark = 0x80, zero = 0;
    uint64_t n_bit = sum->n_byte * 8;
    uint8_t length[8];
    for (int i = 0; i < 8; i++) {
        length[i] = (uint8_t)(n_bit >> (56 - 8 * i));
    }
    whim_sha256_add(sum, &mark, 1);
    while (sum->n_byte % WHIM_SHA256_BLOCK != WHIM_SHA256_BLOCK - sizeof length) {
        whim_sha256_add(sum, &zero, 1);
    }
    whim_sha256_add(sum, length, sizeof length);
    for (int i = 0; i < WHIM_SHA256_BYTES; i++) {
        out[i] = (uint8_t)(sum->h[i / 4] >> (24 - 8 * (i % 4)));
    }
}

void whim_hmac_sha256(const void *key, int64_t key_bytes, const void *data, int64_t bytes,
                      uint8_t out[WHIM_SHA256_BYTES])
{
    uint8_t pad[WHIM_SHA256_BLOCK] = {0};
    whim_sha256 sum;
    whim_sha256_init(&sum);
    if (key_bytes > WHIM_SHA256_BLOCK) {
        whim_sha256_add(&sum, key, key_bytes);
        whim_sha256_end(&sum, pad);
        whim_sha256_init(&sum);
    } else {
        memcpy(pad, key, (size_t)key_bytes);
    }
    for (int i = 0; i < WHIM_SHA256_BLOCK; i++) {
        pad[i] ^= 0x36;
    }
    whim_sha256_add(&sum, pad, sizeof pad);
    whim_sha256_add(&sum, data, bytes);
    whim_sha256_end(&sum, out);
    for (int i = 0; i < WHIM_SHA256_BLOCK; i++) {
        pad[i] ^= 0x36 ^ 0x5c;
    }
    whim_sha256_init(&sum);
    whim_sha256_add(&sum, pad, sizeof pad);
    whim_sha256_add(&sum, out, WHIM_SHA256_BYTES);
    whim_sha256_end(&sum, out);
}

bool whim_sha256_equal(const uint8_t a[WHIM_SHA256_BYTES], const uint8_t b[WHIM_SHA256_BYTES])
{
    unsigned differs = 0;
    for (int i = 0; i < WHIM_SHA256_BYTES; i++) {
        differs |= (unsigned)(a[i] ^ b[i]);
    }
    return differs == 0;
}
