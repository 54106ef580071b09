/* SPDX-License-Identifier: Apache-2.0 */
/* Qwen3-MoE (30B-A3B, 235B-A22B): as Qwen3, with experts in place of the MLP of most layers. The scores of all experts
 * are a softmax; the top_k largest are chosen and, if norm_topk_prob says so, divided by their sum. Layers of
 * mlp_only_layers, and those that decoder_sparse_step leaves out, keep an MLP. */
#include "models/decoder_model.h"

static whim_err qwen3_moe_configure(const whim_config *config, whim_diag *diag)
{
    WHIM_TRY(whim_decoder_model_rotates_all(config, diag));
    if (config->moe.sigmoid || config->moe.choice_bias || config->moe.d_shared > 0) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "Qwen3-MoE chooses experts by softmax, without a bias and without a "
                         "shared expert; the file says otherwise");
    }
    return WHIM_ERR_OK;
}

static whim_err qwen3_moe_bind(const whim_config *config, whim_arena *arena, whim_binder *binder,
                               whim_model **out, whim_diag *diag)
{
    static const whim_layer_traits traits = {.qk_norm = WHIM_QK_NORM_HEADS};
    return whim_decoder_model_bind(config, &traits, arena, binder, out, diag);
}

extern const whim_model_def whim_model_qwen3_moe;
const whim_model_def whim_model_qwen3_moe = {
    .arch = "qwen3_moe",
    .configure = qwen3_moe_configure,
    .bind = qwen3_moe_bind,
    .layers = whim_decoder_model_layers,
    .forward = whim_decoder_model_forward,
};
