/* SPDX-License-Identifier: Apache-2.0 */
/* The table behind dtype.h. */
#include "tensor/dtype.h"

#include <strings.h>

static const whim_dtype_info dtype_table[WHIM_DTYPE_COUNT] = {
#define WHIM_DTYPE(name, elems, bytes, gguf_id, kind) \
    [WHIM_DTYPE_##name] = {#name, elems, bytes, gguf_id, WHIM_DTYPE_KIND_##kind},
#include "tensor/dtype.def"
#undef WHIM_DTYPE
};

const whim_dtype_info *whim_dtype_get(whim_dtype dtype)
{
    return &dtype_table[dtype];
}

bool whim_dtype_from_name(const char *name, whim_dtype *out)
{
    for (int i = 0; i < WHIM_DTYPE_COUNT; i++) {
        if (strcasecmp(name, dtype_table[i].name) == 0) {
            *out = (whim_dtype)i;
            return true;
        }
    }
    return false;
}

bool whim_dtype_from_gguf(uint32_t gguf_id, whim_dtype *out)
{
    for (int i = 0; i < WHIM_DTYPE_COUNT; i++) {
        if (dtype_table[i].gguf_id >= 0 && (uint32_t)dtype_table[i].gguf_id == gguf_id) {
            *out = (whim_dtype)i;
            return true;
        }
    }
    return false;
}

int64_t whim_dtype_row_bytes(whim_dtype dtype, int64_t n)
{
    const whim_dtype_info *info = &dtype_table[dtype];
    return n / info->block_elems * info->block_bytes;
}
