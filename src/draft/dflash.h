/* SPDX-License-Identifier: Apache-2.0 */
/* DFlash: a few layers that propose a block of tokens in one pass. They read the model's residual
 * stream at some of its layers (features) and have no embedding and no head of their own.
 *     append: g = norm(fc F); keys and values of all its layers from g, for each row of the model
 *     block:  the last token and masks pass the layers; row j proposes the token j places on
 * A model with its draft is a model: its table has the draft's layers behind its own, so their keys
 * and values lie in the same pages, and every pass of the model appends what it computed.
 * Threads: as the stream. */
#ifndef WHIM_DRAFT_DFLASH_H
#define WHIM_DRAFT_DFLASH_H

#include "models/model.h"

/* How drafts describe themselves, for whim_ckpt_open. */
const whim_arch_list *whim_dflash_archs(void);

/* Refuse a draft that was made for another model. `path` is the draft's, for messages. */
WHIM_MUST_CHECK whim_err whim_dflash_check(const whim_config *draft, const whim_config *target,
                                           const char *path, whim_diag *diag);

/* A model with its draft: its definition `def`, in `arena`, has the target's place, and `model`
 * likewise. The draft's tensors are declared to `binder`; those of the model are to `target_binder`
 * already, where the rows of its head for `tokens` [draft->draft.n_token] are declared, too (NULL:
 * all). */
typedef struct whim_dflash_parts {
    const whim_config *draft, *target;
    const int32_t *tokens; /* outlives the load */
    whim_binder *binder, *target_binder;
    whim_arena *arena;
} whim_dflash_parts;
WHIM_MUST_CHECK whim_err whim_dflash_bind(const whim_dflash_parts *parts,
                                          const whim_model_def **def, whim_model **model,
                                          whim_diag *diag);

#endif
