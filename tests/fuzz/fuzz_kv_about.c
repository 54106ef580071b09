/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the file that says what a folder of pages is of: sizes that are believed are such as
 * pages have, and give the same line again. */
#include "base/alloc.h"
#include "fuzz_file.h"
#include "kv/disk_about.h"
#include "kv/disk_segment.h"
#include "ops/args/attn_args.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    whim_disk_space space;
    char again[WHIM_DISK_SIZES];
    char *about = whim_alloc((int64_t)n + 1), *whole = whim_alloc((int64_t)n + 1);
    FUZZ_CHECK(about != NULL && whole != NULL);
    if (n > 0) {
        memcpy(about, data, n);
        memcpy(whole, data, n);
    }
    if (whim_disk_about_parse(about, &space)) {
        FUZZ_CHECK(space.page_len > 0 && space.page_len <= WHIM_PAGE_LEN_MAX);
        FUZZ_CHECK(space.page_bytes > 0 && space.page_bytes <= WHIM_DISK_ITEM_MAX);
        FUZZ_CHECK(space.state_bytes >= 0 && space.state_bytes <= WHIM_DISK_ITEM_MAX);
        FUZZ_CHECK(space.text >= about && space.text <= about + n);
        whim_disk_space_sizes(&space, again);
        FUZZ_CHECK(strstr(whole, space.text) != NULL && strstr(whole, again) != NULL);
    }
    whim_free(about);
    whim_free(whole);
    return 0;
}
