/* SPDX-License-Identifier: Apache-2.0 */
/* Llama (2, 3.x) and models of its layout such as SmolLM2: full rotary positions, optional biases, no norm of
 * queries and keys. GGUF files keep the rows of q and k as adjacent pairs; binding puts them back
 * (whim_config.qk_paired). */
#include "layers/decoder.h"
#include "models/model.h"

struct whim_model {
    whim_decoder *decoder;
};

static whim_err llama_configure(const whim_config *config, whim_diag *diag)
{
    if (config->rope.rotary_dim != config->d_head) {
        return whim_fail(
            diag, WHIM_ERR_UNSUPPORTED,
            "rotary positions over %d of %d dimensions of a head: llama models rotate all",
            config->rope.rotary_dim, config->d_head);
    }
    return WHIM_ERR_OK;
}

static whim_err llama_bind(const whim_config *config, whim_arena *arena, whim_binder *binder,
                           whim_model **out, whim_diag *diag)
{
    static const whim_decoder_traits traits = {.qk_norm = false};
    whim_model *model = whim_arena_alloc(arena, sizeof *model);
    if (model == NULL) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for the model");
    }
    WHIM_TRY(whim_decoder_bind(config, &traits, arena, binder, &model->decoder, diag));
    *out = model;
    return WHIM_ERR_OK;
}

static whim_err llama_forward(whim_model *model, whim_stream *s, const whim_batch *batch,
                              whim_out *out)
{
    return whim_decoder_forward(model->decoder, s, batch, out);
}

extern const whim_model_def whim_model_llama;
const whim_model_def whim_model_llama = {
    .arch = "llama",
    .configure = llama_configure,
    .bind = llama_bind,
    .forward = llama_forward,
};
