/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a model of dummy weights as a GGUF file, so that another program can be timed on the same
 * bytes. The file has the configuration, every tensor that the model declares (matrices in the type
 * asked for, the embedding and the head too; vectors in F32) and the least vocabulary that a loader
 * accepts: the 256 bytes, one merge and names for the other ids.
 * Threads: one caller; it starts threads of its own and joins them. */
#ifndef WHIM_APPS_BENCH_DUMMY_GGUF_H
#define WHIM_APPS_BENCH_DUMMY_GGUF_H

#include "base/err.h"
#include "engine/engine.h"

/* Write to `path`, which must not exist yet; nothing is left there on failure. `name` is the
 * model's name inside the file. The engine is prepared with dummy weights; whether they are loaded
 * does not matter. */
WHIM_MUST_CHECK whim_err whim_dummy_gguf_write(const whim_engine *engine, const char *name,
                                               const char *path, whim_load_progress *on_progress,
                                               void *ctx, whim_diag *diag);

#endif
