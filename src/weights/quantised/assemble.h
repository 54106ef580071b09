/* SPDX-License-Identifier: Apache-2.0 */
/* From the tensors of a quantised safetensors checkpoint to weights as models bind them: "X.weight"
 * in one of our types, with a recipe (recipe.h), in place of X.weight and X.weight_scale_inv,
 * X.qweight, X.scales and so on.
 * Threads: one. */
#ifndef WHIM_WEIGHTS_QUANTISED_ASSEMBLE_H
#define WHIM_WEIGHTS_QUANTISED_ASSEMBLE_H

#include "weights/ckpt.h"

/* After all tensors are known. Checks shapes and scales; what does not fit is refused with its
 * name. Nothing to do for a checkpoint whose scheme is NONE. */
WHIM_MUST_CHECK whim_err whim_assemble(whim_ckpt *ckpt, whim_diag *diag);

#endif
