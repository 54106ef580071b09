/* SPDX-License-Identifier: Apache-2.0 */
/* Drafts: small models that propose what another may say next. A kind is told by its files; a model
 * with its draft is a model, whatever the kind.
 * Threads: plain data. */
#ifndef WHIM_DRAFT_DRAFT_H
#define WHIM_DRAFT_DRAFT_H

#include "models/model.h"

/* What a model with its draft is made of. The draft's tensors are declared to `binder`; those of
 * the model are to `target_binder` already, where rows of its head for `tokens`
 * [draft->draft.n_token] may be declared, too (NULL: all tokens may be proposed). */
typedef struct whim_draft_parts {
    const whim_config *draft, *target;
    const int32_t *tokens; /* outlives the load */
    whim_binder *binder, *target_binder;
    whim_arena *arena;
} whim_draft_parts;

typedef struct whim_draft_kind {
    const whim_arch *arch; /* how its files describe themselves */

    /* Refuse a draft that was made for another model. `path` is the draft's, for messages. */
    whim_err (*check)(const whim_config *draft, const whim_config *target, const char *path,
                      whim_diag *diag);

    /* A model with its draft: its definition `def`, in the arena, has the target's place, and
     * `model` likewise. */
    whim_err (*bind)(const whim_draft_parts *parts, const whim_model_def **def, whim_model **model,
                     whim_diag *diag);
} whim_draft_kind;

/* What a draft's files may be, for whim_ckpt_open; one opened so, with a word about whole models
 * where it is one; and its kind. */
const whim_arch_list *whim_draft_archs(void);
WHIM_MUST_CHECK whim_err whim_draft_open(whim_ckpt *draft, const char *path, whim_diag *diag);
const whim_draft_kind *whim_draft_kind_of(const whim_config *draft);

/* The tokens that its best are, [draft.n_token] in `arena`; NULL: these themselves. */
WHIM_MUST_CHECK whim_err whim_draft_tokens_read(const whim_ckpt *draft, const char *path,
                                                whim_arena *arena, int32_t **out, whim_diag *diag);

/* Find what was declared to its binder: all tensors, whole and with values that are numbers. Else
 * it would propose nonsense, which shows in nothing but the speed. */
WHIM_MUST_CHECK whim_err whim_draft_find(whim_binder *binder, const whim_ckpt *draft,
                                         whim_device *device, const char *path, whim_diag *diag);

/* For `check`: what is the same for all kinds. */
WHIM_MUST_CHECK whim_err whim_draft_check(const whim_config *draft, const whim_config *target,
                                          const char *path, whim_diag *diag);

/* A count of the draft that is not the model's. */
WHIM_MUST_CHECK whim_err whim_draft_differs(const char *path, const char *field, int64_t has,
                                            int64_t wanted, whim_diag *diag);

#endif
