/* SPDX-License-Identifier: Apache-2.0 */
/* The name of all that keys and values depend on: pages of a disk are of use to engines of the same
 * name only.
 * Threads: one owner; a search has threads of its own. */
#ifndef WHIM_ENGINE_KV_SPACE_H
#define WHIM_ENGINE_KV_SPACE_H

#include "base/thread.h"
#include "engine/engine.h"
#include "weights/identity/identity.h"

#include <stdatomic.h>

typedef struct whim_kv_space {
    char name[224];
    uint64_t answers; /* a hash of what answers depend on: a draft changes none */
} whim_kv_space;

/* Who the weights are, looked for beside the loading of them, which reads the same files: so a disk
 * is read once. Caller's storage from begin to end; {0} was not begun. */
typedef struct whim_kv_weights {
    const whim_engine *engine;
    whim_identity_cfg cfg;
    whim_thread thread;
    bool running;
    atomic_bool stop;
    whim_err err;
    whim_diag diag;
    uint64_t written; /* as the files were at the beginning */
    char model[WHIM_IDENTITY_TEXT], draft[WHIM_IDENTITY_TEXT]; /* "": there is none */
} whim_kv_weights;

/* After prepare. `memory` is where sums of files are remembered (NULL: nowhere), and outlives it;
 * n_thread read what is not. */
void whim_kv_weights_begin(whim_kv_weights *weights, const whim_engine *engine, const char *memory,
                           int32_t n_thread);

/* Wait for it, or (cancel) for no more than its end. Both may come again. CORRUPT: a file was
 * written to since the beginning, so what was loaded meanwhile may be anything. */
WHIM_MUST_CHECK whim_err whim_kv_weights_end(whim_kv_weights *weights, whim_diag *diag);
void whim_kv_weights_cancel(whim_kv_weights *weights);

/* With weights that were not begun the name tells files apart by samples of them: enough for those
 * who keep no pages. */
WHIM_MUST_CHECK whim_err whim_kv_space_make(const whim_engine *engine,
                                            const whim_kv_weights *weights, whim_kv_space *out,
                                            whim_diag *diag);

#endif
