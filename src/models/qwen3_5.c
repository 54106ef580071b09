/* SPDX-License-Identifier: Apache-2.0 */
/* Qwen3.5: three layers in four are gated delta nets (layers/gated_delta.h), every fourth attends to everything. There
 * each head of q and k is normalised, the first quarter of it is rotated, and the output is multiplied by the sigmoid
 * of a gate that q_proj holds beside each head. Weights of norms are stored around 0, but for the one inside the gated
 * delta net. Checkpoints are multimodal: the text's tensors lie under model.language_model. */
#include "models/decoder_model.h"

static whim_err qwen3_5_bind(const whim_config *config, whim_arena *arena, whim_binder *binder,
                             whim_model **out, whim_diag *diag)
{
    static const whim_layer_traits traits = {
        .qk_norm = WHIM_QK_NORM_HEADS, .gated = true, .norm_at_zero = true};
    return whim_decoder_model_bind(config, &traits, arena, binder, out, diag);
}

extern const whim_model_def whim_model_qwen3_5;
const whim_model_def whim_model_qwen3_5 = {
    .arch = "qwen3_5",
    .bind = qwen3_5_bind,
    .layers = whim_decoder_model_layers,
    .forward = whim_decoder_model_forward,
};
