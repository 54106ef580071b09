/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a hub's answer about a repository: a line for the pick, then the JSON. Every name
 * that is kept must be safe, every checksum one, and a choice made of them. */
#include "hub/choose.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_listing(const whim_hub_listing *listing)
{
    if (!whim_hub_is_hex(listing->commit, 40)) {
        abort();
    }
    for (int64_t i = 0; i < listing->n_file; i++) {
        const whim_hub_file *file = &listing->files[i];
        if (!whim_hub_name_is_safe(file->name) || file->bytes < -1 ||
            (file->etag[0] != '\0' && !whim_hub_is_hex(file->etag, 40) &&
             !whim_hub_is_hex(file->etag, 64)) ||
            whim_hub_listing_find(listing, file->name) != file) {
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char from[] = "answer";
    char pick[64] = "";
    whim_hub_listing listing;
    whim_hub_choice choice;
    whim_diag diag = {""};
    whim_str text = {0};
    const uint8_t *line = memchr(data, '\n', n);
    if (line == NULL) {
        return 0;
    }
    size_t n_pick = (size_t)(line - data) < sizeof pick ? (size_t)(line - data) : sizeof pick - 1;
    memcpy(pick, data, n_pick);
    n -= (size_t)(line + 1 - data);
    if (whim_hub_listing_parse(&listing, (const char *)line + 1, (int64_t)n, from, &diag) ==
        WHIM_ERR_OK) {
        check_listing(&listing);
        if (whim_hub_choose(&choice, &listing, "o/n", pick, &diag) == WHIM_ERR_OK) {
            if (choice.n_file < 1 || choice.n_file > listing.n_file) {
                abort();
            }
            whim_hub_choice_left_out(&choice, &listing, &text);
            whim_str_deinit(&text);
        } else if (diag.text[0] == '\0') {
            abort();
        }
    } else if (strstr(diag.text, from) == NULL) {
        abort();
    }
    whim_hub_listing_deinit(&listing);
    return 0;
}
