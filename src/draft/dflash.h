/* SPDX-License-Identifier: Apache-2.0 */
/* DFlash: a few layers that propose a block of tokens in one pass. They read the model's residual
 * stream at some of its layers (features) and have no embedding and no head of their own.
 *     append: g = norm(fc F); keys and values of all its layers from g, for each row of the model
 *     block:  the last token and masks pass the layers; row j proposes the token j places on
 * DSpark is a DFlash whose row j proposes the token j + 1 places on (anchor-first), chosen with the
 * token before it in view (draft/chain.h). DFlash2 has such a choice, too, and convolutions within
 * a block (layers/block_conv.h); of the model's rows none are convolved.
 * A model with its draft is a model: its table has the draft's layers behind its own, so their keys
 * and values are in the same pages, and every pass of the model appends what it computed.
 * Threads: as the stream. */
#ifndef WHIM_DRAFT_DFLASH_H
#define WHIM_DRAFT_DFLASH_H

#include "draft/draft.h"

extern const whim_draft_kind whim_draft_dflash;

/* What its config.json says, and what that must have in common with the model's. */
extern const whim_arch whim_dflash_arch;

/* What it takes where files are silent. */
void whim_dflash_defaults(whim_config *config);

/* In GGUF files (dflash_gguf.c). */
extern const whim_gguf_arch whim_dflash_gguf[];
extern const whim_spelling whim_dflash_gguf_names[], whim_dflash_gguf_whole[];
WHIM_MUST_CHECK whim_err whim_dflash_gguf_finish(whim_ckpt *ckpt, whim_diag *diag);

WHIM_MUST_CHECK whim_err whim_dflash_check(const whim_config *draft, const whim_config *target,
                                           const char *path, whim_diag *diag);

#endif
