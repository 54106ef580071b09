/* SPDX-License-Identifier: Apache-2.0 */
/* Qwen3-Next: as Qwen3.5 with experts (models/qwen3_5.c), but the projections of its gated delta nets are two, in which
 * the parts of each key head lie together. */
#include "models/decoder_model.h"

static whim_err qwen3_next_bind(const whim_config *config, whim_arena *arena, whim_binder *binder,
                                whim_model **out, whim_diag *diag)
{
    static const whim_layer_traits traits = {
        .qk_norm = WHIM_QK_NORM_HEADS, .gated = true, .norm_at_zero = true, .gdn_grouped = true};
    return whim_decoder_model_bind(config, &traits, arena, binder, out, diag);
}

extern const whim_model_def whim_model_qwen3_next;
const whim_model_def whim_model_qwen3_next = {
    .arch = "qwen3_next",
    .bind = qwen3_next_bind,
    .layers = whim_decoder_model_layers,
    .forward = whim_decoder_model_forward,
};
