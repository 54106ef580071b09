/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/disk_about.h"

#include "kv/disk_segment.h"
#include "ops/args/attn_args.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

void whim_disk_space_sizes(const whim_disk_space *space, char out[WHIM_DISK_SIZES])
{
    snprintf(out, WHIM_DISK_SIZES, "\npages of %d tokens, %lld bytes, states of %lld",
             space->page_len, (long long)space->page_bytes, (long long)space->state_bytes);
}

void whim_disk_space_sum(const whim_disk_space *space, uint8_t out[WHIM_SHA256_BYTES])
{
    whim_sha256 sum;
    char sizes[WHIM_DISK_SIZES];
    whim_disk_space_sizes(space, sizes);
    whim_sha256_init(&sum);
    whim_sha256_add(&sum, space->text, (int64_t)strlen(space->text));
    whim_sha256_add(&sum, sizes, (int64_t)strlen(sizes));
    whim_sha256_end(&sum, out);
}

void whim_disk_space_name(const uint8_t space[WHIM_SHA256_BYTES], char name[WHIM_DISK_SPACE_NAME])
{
    for (int i = 0; i < (WHIM_DISK_SPACE_NAME - 1) / 2; i++) {
        snprintf(name + (ptrdiff_t)2 * i, 3, "%02x", space[i]);
    }
}

/* Its sizes are limited as those of a file for another machine are (archive.c). */
static bool sizes_parse(const char *line, whim_disk_space *space)
{
    char again[WHIM_DISK_SIZES];
    long long page_bytes, state_bytes;
    if (sscanf(line, "\npages of %9d tokens, %18lld bytes, states of %18lld", &space->page_len,
               &page_bytes, &state_bytes) != 3) {
        return false;
    }
    space->page_bytes = page_bytes;
    space->state_bytes = state_bytes;
    whim_disk_space_sizes(space, again);
    return strcmp(line, again) == 0 && space->page_len > 0 &&
           space->page_len <= WHIM_PAGE_LEN_MAX && page_bytes > 0 &&
           page_bytes <= WHIM_DISK_ITEM_MAX && state_bytes >= 0 &&
           state_bytes <= WHIM_DISK_ITEM_MAX;
}

/* It is shown to users, as it is. */
static bool text_is_plain(const char *text)
{
    while (*text >= ' ' && *text <= '~') {
        text++;
    }
    return *text == '\0';
}

bool whim_disk_about_parse(char *about, whim_disk_space *space)
{
    size_t n = strlen(about);
    about[n > 0 ? n - 1 : 0] = '\0';
    char *sizes = strrchr(about, '\n');
    if (sizes == NULL || !sizes_parse(sizes, space)) {
        return false;
    }
    *sizes = '\0';
    const char *before = strrchr(about, '\n');
    space->text = before != NULL ? before + 1 : about;
    return text_is_plain(space->text);
}
