/* SPDX-License-Identifier: Apache-2.0 */
/* Llama (2, 3.x) and models of its layout such as SmolLM2: full rotary positions, optional biases, no norm of
 * queries and keys. GGUF files keep the rows of q and k as adjacent pairs; binding puts them back
 * (whim_config.qk_paired). */
#include "models/decoder_model.h"

static whim_err llama_bind(const whim_config *config, whim_arena *arena, whim_binder *binder,
                           whim_model **out, whim_diag *diag)
{
    static const whim_layer_traits traits = {.qk_norm = WHIM_QK_NORM_NONE};
    return whim_decoder_model_bind(config, &traits, arena, binder, out, diag);
}

extern const whim_model_def whim_model_llama;
const whim_model_def whim_model_llama = {
    .arch = "llama",
    .configure = whim_decoder_model_rotates_all,
    .bind = llama_bind,
    .layers = whim_decoder_model_layers,
    .forward = whim_decoder_model_forward,
};
