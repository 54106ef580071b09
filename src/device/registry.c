/* SPDX-License-Identifier: Apache-2.0 */
/* The backends of this build. The build lists the folders of backends/ in backends.inc; nothing
 * else in the source knows their names. */
#include "device/device.h"

#include <string.h>

#define X(name) extern const whim_backend whim_backend_##name;
#include "backends.inc"
#undef X

static const whim_backend *const backend_list[] = {
#define X(name) &whim_backend_##name,
#include "backends.inc"
#undef X
};

int32_t whim_backend_count(void)
{
    return (int32_t)(sizeof backend_list / sizeof backend_list[0]);
}

const whim_backend *whim_backend_at(int32_t i)
{
    return i >= 0 && i < whim_backend_count() ? backend_list[i] : NULL;
}

const whim_backend *whim_backend_find(const char *name)
{
    for (int32_t i = 0; i < whim_backend_count(); i++) {
        if (strcmp(backend_list[i]->name, name) == 0) {
            return backend_list[i];
        }
    }
    return NULL;
}
