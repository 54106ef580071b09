/* SPDX-License-Identifier: Apache-2.0 */
/* A model architecture: one file in this folder that exports one `const whim_model_def
 * whim_model_<file>`; the build lists the folder, and nothing else needs editing. That file holds
 * all that is known of an architecture: how its files name it and its tensors, what they leave
 * unsaid, its published sizes, its layers. A model has no I/O, no device names and no way to the
 * outside but its arguments.
 * Threads: a model belongs to the thread of its stream. */
#ifndef WHIM_MODELS_MODEL_H
#define WHIM_MODELS_MODEL_H

#include "base/arena.h"
#include "base/err.h"
#include "device/device.h"
#include "layers/batch.h"
#include "layers/head.h"
#include "layers/layer_table.h"
#include "models/tool_words.h"
#include "weights/arch.h"
#include "weights/bind.h"

/* A name in "tokenizer.ggml.pre" that means what another does (text/files/pre_names.c). */
typedef struct whim_pre_alias {
    const char *name, *means;
} whim_pre_alias;

typedef struct whim_model whim_model;
typedef struct whim_model_def whim_model_def;

struct whim_model_def {
    whim_arch arch;               /* its files */
    whim_layer_traits traits;     /* its layers */
    const whim_tool_words *tools; /* how it writes calls, where no other does so; NULL: as others */
    const whim_pre_alias *pre;    /* ends with an entry without a name; NULL: none */

    /* Refuse what this file cannot do; nothing is allocated yet. NULL: it can do all that the
     * configuration may say. */
    whim_err (*configure)(const whim_config *config, whim_diag *diag);

    /* Make the model in `arena` and declare all its tensors. */
    whim_err (*bind)(const whim_model_def *def, const whim_config *config, whim_arena *arena,
                     whim_binder *binder, whim_model **out, whim_diag *diag);

    /* The table of its layers, which says what pages and state slots hold. */
    const whim_layer_table *(*layers)(const whim_model *model);

    /* Its two ends, which a draft borrows. */
    const whim_head *(*head)(const whim_model *model);

    /* Floats that its draft needs of a row to take it in a later pass (whim_batch.late); 0: it has
     * no draft, or one that takes every row at once. */
    int64_t late_cols;

    /* Queue one pass. A batch without rows queues all ops as well, because other ranks may wait
     * for them. */
    whim_err (*forward)(whim_model *model, whim_stream *s, const whim_batch *batch, whim_out *out);

    /* Queue what is left of one when only recurrent states are to go on, by rows that a pass before
     * has kept (batch->kept). Models without such states need none. */
    whim_err (*advance)(whim_model *model, whim_stream *s, const whim_batch *batch,
                        whim_bump *scratch);
};

/* The architecture's definition by its name; NOT_FOUND lists the known ones in diag. */
WHIM_MUST_CHECK whim_err whim_model_find(const char *arch, const whim_model_def **out,
                                         whim_diag *diag);

/* How the i-th of all models writes calls, NULL where it has no way of its own. */
int32_t whim_model_count(void);
const whim_tool_words *whim_model_tool_words(int32_t i);

/* What a pre-tokeniser's name of n bytes means, or NULL when it is no alias. */
const char *whim_model_pre_alias(const char *name, int64_t n);

/* What files may be, for those who open them. */
const whim_arch_list *whim_model_archs(void);

#endif
