/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the KV types. */
#include "tensor/kv_type.h"

#include <strings.h>

static const struct {
    const char *name;
    int64_t bytes, scale_bytes;
} types[] = {
#define WHIM_KV_TYPE(name, bytes, scale_bytes) {#name, bytes, scale_bytes},
#include "tensor/kv_type.def"
#undef WHIM_KV_TYPE
};

const char *whim_kv_type_name(whim_kv_type type)
{
    return types[type].name;
}

bool whim_kv_type_from_name(const char *name, whim_kv_type *out)
{
    for (int32_t i = 0; i < WHIM_KV_TYPE_COUNT; i++) {
        if (strcasecmp(name, types[i].name) == 0) {
            *out = (whim_kv_type)i;
            return true;
        }
    }
    return false;
}

int64_t whim_kv_vector_bytes(whim_kv_type type, int64_t n)
{
    return n * types[type].bytes + types[type].scale_bytes;
}
