/* SPDX-License-Identifier: Apache-2.0 */
/* The name of all that keys and values depend on: pages of a disk are of use to engines of the same
 * name only.
 * Threads: stateless. */
#ifndef WHIM_ENGINE_KV_SPACE_H
#define WHIM_ENGINE_KV_SPACE_H

#include "engine/engine.h"

typedef struct whim_kv_space {
    char name[192];
    uint64_t answers; /* a hash of what answers depend on: a draft changes none */
} whim_kv_space;

WHIM_MUST_CHECK whim_err whim_kv_space_make(const whim_engine *engine, whim_kv_space *out,
                                            whim_diag *diag);

#endif
