/* SPDX-License-Identifier: Apache-2.0 */
/* Qwen3 (dense): as Llama, but each head of the queries and keys is normalised over its d_head values, with a
 * weight of its own, before it is rotated. d_head is a number of the configuration, not d_model / n_head. */
#include "layers/decoder.h"
#include "models/model.h"

struct whim_model {
    whim_decoder *decoder;
};

static whim_err qwen3_configure(const whim_config *config, whim_diag *diag)
{
    if (config->rope.rotary_dim != config->d_head) {
        return whim_fail(
            diag, WHIM_ERR_UNSUPPORTED,
            "rotary positions over %d of %d dimensions of a head: qwen3 models rotate all",
            config->rope.rotary_dim, config->d_head);
    }
    return WHIM_ERR_OK;
}

static whim_err qwen3_bind(const whim_config *config, whim_arena *arena, whim_binder *binder,
                           whim_model **out, whim_diag *diag)
{
    static const whim_decoder_traits traits = {.qk_norm = true};
    whim_model *model = whim_arena_alloc(arena, sizeof *model);
    if (model == NULL) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for the model");
    }
    WHIM_TRY(whim_decoder_bind(config, &traits, arena, binder, &model->decoder, diag));
    *out = model;
    return WHIM_ERR_OK;
}

static whim_err qwen3_forward(whim_model *model, whim_stream *s, const whim_batch *batch,
                              whim_out *out)
{
    return whim_decoder_forward(model->decoder, s, batch, out);
}

extern const whim_model_def whim_model_qwen3;
const whim_model_def whim_model_qwen3 = {
    .arch = "qwen3",
    .configure = qwen3_configure,
    .bind = qwen3_bind,
    .forward = qwen3_forward,
};
