/* SPDX-License-Identifier: Apache-2.0 */
/* What config.json says of quantised weights ("quantization_config"): how they are stored, and
 * which modules are not. Shapes, groups and bits are read from the tensors themselves (assemble.h);
 * groups must be those that are said here.
 * Threads: plain data; strings are in the arena given. */
#ifndef WHIM_WEIGHTS_QUANTISED_SCHEME_H
#define WHIM_WEIGHTS_QUANTISED_SCHEME_H

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum whim_scheme_method {
    WHIM_SCHEME_NONE,
    WHIM_SCHEME_FP8,        /* codes e4m3 with a scale for a tile, a channel or a tensor */
    WHIM_SCHEME_COMPRESSED, /* compressed-tensors: INT8, FP8, packed INT4 and INT8 */
    WHIM_SCHEME_GPTQ,
    WHIM_SCHEME_AWQ,
} whim_scheme_method;

enum { WHIM_SCHEME_MAX_GROUP = 8 };

/* One by its name, or by a regular expression ("re:" in the file), which lies compiled in the
 * arena. */
typedef struct whim_scheme_module {
    const char *name;
    void *regex; /* NULL: by its name */
} whim_scheme_module;

typedef struct whim_scheme {
    whim_scheme_method method;
    whim_scheme_module *ignore; /* modules that are not quantised */
    int64_t n_ignore;
    int32_t bits;        /* GPTQ: of weights whose g_idx is missing */
    int32_t zero_offset; /* GPTQ: what is added to a stored zero point */
    /* Columns that share a scale by config.json, for a module one of these; -1: all. None: it does
     * not say. */
    int64_t groups[WHIM_SCHEME_MAX_GROUP];
    int32_t n_group;
    int64_t tile[2]; /* bytes: rows and columns that share a scale, {0, 0}: a channel or a tensor */
} whim_scheme;

/* Read it from the text of a config.json. No such field: method NONE. An unknown method or format
 * is refused with its name. */
WHIM_MUST_CHECK whim_err whim_scheme_parse(whim_scheme *scheme, whim_arena *arena, const char *text,
                                           int64_t n, const char *path, whim_diag *diag);

/* Whether the list leaves out a module, e.g. "model.layers.0.mlp.gate": an entry fits where it is a
 * run of whole components of the name, so "gate" fits "mlp.gate" and not "mlp.gate_proj"; "model."
 * at its beginning is optional. */
bool whim_scheme_ignores(const whim_scheme *scheme, const char *module);

#endif
