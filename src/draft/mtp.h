/* SPDX-License-Identifier: Apache-2.0 */
/* MTP: a layer like the model's own that is in its files, under "mtp.", and proposes token after
 * token (draft/serial.h).
 *     feature of the model: its residual stream after the last layer, normalised as for its head
 *     layer: x = fc [norm(embedding) | norm(feature)], then a layer of the model that attends
 *     proposal: the model's head of y = norm(x); feature of its own: y
 * Threads: as the stream. */
#ifndef WHIM_DRAFT_MTP_H
#define WHIM_DRAFT_MTP_H

#include "draft/draft.h"

extern const whim_draft_kind whim_draft_mtp;

/* The layer of an open model as a draft's checkpoint, whose files stay the model's. NOT_FOUND where
 * there is none. `path` is the model's, for messages. */
WHIM_MUST_CHECK whim_err whim_mtp_open(whim_ckpt *draft, const whim_ckpt *model, const char *path,
                                       whim_diag *diag);

#endif
