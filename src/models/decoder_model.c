/* SPDX-License-Identifier: Apache-2.0 */
/* The decoder as a model. */
#include "models/decoder_model.h"

struct whim_model {
    whim_decoder *decoder;
};

whim_err whim_decoder_model_rotates_all(const whim_config *config, whim_diag *diag)
{
    if (config->rope.rotary_dim != config->d_head) {
        return whim_fail(
            diag, WHIM_ERR_UNSUPPORTED,
            "rotary positions over %d of %d dimensions of a head: %s models rotate all",
            config->rope.rotary_dim, config->d_head, config->arch->name);
    }
    return WHIM_ERR_OK;
}

whim_err whim_decoder_model_bind(const whim_model_def *def, const whim_config *config,
                                 whim_arena *arena, whim_binder *binder, whim_model **out,
                                 whim_diag *diag)
{
    whim_model *model = whim_arena_alloc(arena, sizeof *model);
    whim_layer_table table;
    if (model == NULL ||
        whim_layer_table_make(&table, config, &def->traits, arena) != WHIM_ERR_OK) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for the model");
    }
    WHIM_TRY(whim_decoder_bind(config, &def->traits, &table, NULL, arena, binder, &model->decoder,
                               diag));
    *out = model;
    return WHIM_ERR_OK;
}

const whim_layer_table *whim_decoder_model_layers(const whim_model *model)
{
    return &model->decoder->table;
}

const whim_head *whim_decoder_model_head(const whim_model *model)
{
    return &model->decoder->head;
}

whim_err whim_decoder_model_forward(whim_model *model, whim_stream *s, const whim_batch *batch,
                                    whim_out *out)
{
    return whim_decoder_forward(model->decoder, s, batch, out);
}

whim_err whim_decoder_model_advance(whim_model *model, whim_stream *s, const whim_batch *batch,
                                    whim_bump *scratch)
{
    return whim_decoder_advance(model->decoder, s, batch, scratch);
}
