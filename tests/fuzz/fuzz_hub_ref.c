/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as the name of a model and as that of a file. What passes must stay below the folder
 * that it is put into. */
#include "hub/ref.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Walks a path by its parts; aborts when it ever leaves the root or stays where it is. */
static void walk(const char *path)
{
    for (const char *at = path;;) {
        size_t part = strcspn(at, "/");
        if (part == 0 || (part == 1 && at[0] == '.') || (part == 2 && memcmp(at, "..", 2) == 0)) {
            abort();
        }
        if (at[part] == '\0') {
            return;
        }
        at += part + 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    whim_hub_ref ref;
    whim_diag diag = {""};
    char *text = malloc(n + 1); /* its own, so that a read past its end is seen */
    memcpy(text, data, n);
    text[n] = '\0';
    if (whim_hub_name_is_safe(text)) {
        walk(text);
    }
    if (whim_hub_ref_parse(&ref, text, &diag) == WHIM_ERR_OK) {
        if (!whim_hub_ref_looks(text)) {
            abort();
        }
        walk(ref.id);
        walk(ref.rev);
        if (ref.pick[0] != '\0') {
            walk(ref.pick);
        }
    } else if (diag.text[0] == '\0') {
        abort();
    }
    free(text);
    return 0;
}
