/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a file of pages: a head that is believed has sizes that fit the file, records lie in
 * it, and whatever is refused is refused with a message that names the file. Sums of heads and
 * records would hide all that is behind them, so inputs that begin with an S get theirs made. */
#include "base/alloc.h"
#include "base/sha256.h"
#include "fuzz_file.h"
#include "kv/archive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { FRONT = 24, PART = 40 + WHIM_ARCHIVE_SPACE, MAX_RECORDS = 1000 };

/* The length and the sum of the head, as it stands there. */
static void head_seal(uint8_t *bytes, size_t n)
{
    uint32_t n_part;
    int64_t all = (int64_t)n;
    whim_sha256 sum;
    if (n < FRONT) {
        return;
    }
    memcpy(bytes + 16, &all, sizeof all);
    memcpy(&n_part, bytes + 12, sizeof n_part);
    size_t head = FRONT + (size_t)n_part % (WHIM_ARCHIVE_PARTS + 1) * PART;
    if (head + WHIM_SHA256_BYTES <= n) {
        whim_sha256_init(&sum);
        whim_sha256_add(&sum, bytes, (int64_t)head);
        whim_sha256_end(&sum, bytes + head);
    }
}

static void read_all(const char *path)
{
    whim_archive a;
    whim_archive_item item;
    whim_diag diag = {""};
    bool more = true;
    whim_err err = whim_archive_open(&a, path, &diag);
    FUZZ_CHECK(err == WHIM_ERR_OK || strstr(diag.text, path) != NULL || err == WHIM_ERR_NO_MEMORY);
    for (int32_t i = 0; err == WHIM_ERR_OK && more && i < MAX_RECORDS; i++) {
        err = whim_archive_next(&a, &item, &more, &diag);
        if (err == WHIM_ERR_OK && more) {
            const whim_archive_part *part = &a.parts[item.part];
            volatile int32_t last = item.tokens[part->page_len - 1];
            volatile char end = ((const char *)item.item)[part->item_bytes[item.kind] - 1];
            (void)last, (void)end;
            FUZZ_CHECK(a.at <= a.bytes && item.part < a.n_part);
        }
        FUZZ_CHECK(err == WHIM_ERR_OK || strstr(diag.text, path) != NULL);
    }
    if (err == WHIM_ERR_OK && !more) {
        FUZZ_CHECK(a.at == a.bytes);
    }
    whim_archive_close(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    bool is_sealed = n > 0 && data[0] == 'S';
    size_t skip = is_sealed ? 1 : 0;
    uint8_t *bytes = whim_alloc((int64_t)n + 1);
    FUZZ_CHECK(bytes != NULL);
    if (n > skip) {
        memcpy(bytes, data + skip, n - skip);
    }
    if (is_sealed) {
        head_seal(bytes, n - skip);
    }
    read_all(fuzz_file(bytes, n - skip));
    whim_free(bytes);
    return 0;
}
