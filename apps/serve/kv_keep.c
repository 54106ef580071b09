/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/kv_keep.h"

#include <stddef.h>

/* Pages on their way to the disk take up to 64 MiB: on a small machine the model needs them more,
 * and what nobody asked for refuses no start. */
static const int64_t least_memory = INT64_C(1) << 30;

const char *kv_keep_reason(int32_t n_node, int64_t available)
{
    if (n_node > 1) {
        return "each machine would need a folder of its own; --kv-dir names it";
    }
    return available < least_memory
               ? "less than 1 GiB of memory is available; with --kv-dir they are kept all the same"
               : NULL;
}
