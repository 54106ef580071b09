/* SPDX-License-Identifier: Apache-2.0 */
/* Qwen3 (dense): as Llama, but each head of the queries and keys is normalised over its d_head values, with a
 * weight of its own, before it is rotated. d_head is a number of the configuration, not d_model / n_head. */
#include "models/decoder_model.h"

static whim_err qwen3_bind(const whim_config *config, whim_arena *arena, whim_binder *binder,
                           whim_model **out, whim_diag *diag)
{
    static const whim_layer_traits traits = {.qk_norm = WHIM_QK_NORM_HEADS};
    return whim_decoder_model_bind(config, &traits, arena, binder, out, diag);
}

extern const whim_model_def whim_model_qwen3;
const whim_model_def whim_model_qwen3 = {
    .arch = "qwen3",
    .configure = whim_decoder_model_rotates_all,
    .bind = qwen3_bind,
    .layers = whim_decoder_model_layers,
    .forward = whim_decoder_model_forward,
};
