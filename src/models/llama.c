/* SPDX-License-Identifier: Apache-2.0 */
/* Llama (2, 3.x) and models of its layout such as SmolLM2: full rotary positions, optional biases, no norm of
 * queries and keys. GGUF files keep the rows of q and k as adjacent pairs; binding puts them back
 * (whim_config.qk_paired). */
#include "models/dense.h"

static whim_err llama_bind(const whim_config *config, whim_arena *arena, whim_binder *binder,
                           whim_model **out, whim_diag *diag)
{
    static const whim_decoder_traits traits = {.qk_norm = WHIM_QK_NORM_NONE};
    return whim_dense_bind(config, &traits, arena, binder, out, diag);
}

extern const whim_model_def whim_model_llama;
const whim_model_def whim_model_llama = {
    .arch = "llama",
    .configure = whim_dense_configure,
    .bind = llama_bind,
    .forward = whim_dense_forward,
};
