/* SPDX-License-Identifier: Apache-2.0 */
/* What models that are the decoder (layers/decoder.h) and nothing else have in common: slots of
 * their whim_model_def. Such a model's file is data.
 * Threads: as the stream. */
#ifndef WHIM_MODELS_DECODER_MODEL_H
#define WHIM_MODELS_DECODER_MODEL_H

#include "layers/decoder.h"
#include "models/model.h"

#define WHIM_DECODER_MODEL                                                  \
    .bind = whim_decoder_model_bind, .layers = whim_decoder_model_layers,   \
    .head = whim_decoder_model_head, .forward = whim_decoder_model_forward, \
    .advance = whim_decoder_model_advance

/* For `configure`: refuses rotary positions over a part of a head. */
WHIM_MUST_CHECK whim_err whim_decoder_model_rotates_all(const whim_config *config, whim_diag *diag);

WHIM_MUST_CHECK whim_err whim_decoder_model_bind(const whim_model_def *def,
                                                 const whim_config *config, whim_arena *arena,
                                                 whim_binder *binder, whim_model **out,
                                                 whim_diag *diag);

const whim_layer_table *whim_decoder_model_layers(const whim_model *model);

const whim_head *whim_decoder_model_head(const whim_model *model);

WHIM_MUST_CHECK whim_err whim_decoder_model_forward(whim_model *model, whim_stream *s,
                                                    const whim_batch *batch, whim_out *out);

WHIM_MUST_CHECK whim_err whim_decoder_model_advance(whim_model *model, whim_stream *s,
                                                    const whim_batch *batch, whim_bump *scratch);

#endif
