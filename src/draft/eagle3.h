/* SPDX-License-Identifier: Apache-2.0 */
/* EAGLE3: one layer that proposes token after token (draft/serial.h), from the model's residual
 * stream at some of its layers.
 *     feature of the model:  f = fc [F_1 | F_2 | F_3], parts or all of it normalised if it says so
 *     layer:  u = [norm(embedding) | norm(f)]; r = f + out(attention(u)); h = r + mlp(norm(r))
 *     proposal: head(norm(h)), over fewer tokens than the model has; feature of its own: h
 * Threads: as the stream. */
#ifndef WHIM_DRAFT_EAGLE3_H
#define WHIM_DRAFT_EAGLE3_H

#include "draft/draft.h"

extern const whim_draft_kind whim_draft_eagle3;

/* What its config.json says, and what that must have in common with the model's. */
extern const whim_arch whim_eagle3_arch;
WHIM_MUST_CHECK whim_err whim_eagle3_check(const whim_config *draft, const whim_config *target,
                                           const char *path, whim_diag *diag);

/* Boundaries that it reads of a model of n_layer layers, [draft->draft.n_feature]. */
void whim_eagle3_boundaries(const whim_config *draft, int32_t n_layer, int32_t *out);

#endif
