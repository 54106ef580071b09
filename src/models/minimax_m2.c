/* SPDX-License-Identifier: Apache-2.0 */
/* MiniMax-M2, M2.1, M2.5 and M2.7. What differs from Llama:
 *   attention  q and k are normalised over all their heads together, with a weight for each value, before the heads are
 *              rotated; only the first rotary_dim dimensions of a head are.
 *   experts    in every layer, no shared one. Scores are sigmoids; those with the largest score + correction bias are
 *              chosen, and weighted by their scores without it, divided by their sum.
 * Published weights are e4m3 codes with a scale for each 128 x 128 of them (weights/quantised/assemble.h). */
#include "models/decoder_model.h"

static whim_err minimax_m2_configure(const whim_config *config, whim_diag *diag)
{
    if (!config->moe.sigmoid || config->moe.d_shared > 0) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "MiniMax-M2 scores experts by sigmoids and has no shared expert; the file "
                         "says otherwise");
    }
    return WHIM_ERR_OK;
}

static whim_err minimax_m2_bind(const whim_config *config, whim_arena *arena, whim_binder *binder,
                                whim_model **out, whim_diag *diag)
{
    static const whim_layer_traits traits = {.qk_norm = WHIM_QK_NORM_WHOLE};
    return whim_decoder_model_bind(config, &traits, arena, binder, out, diag);
}

extern const whim_model_def whim_model_minimax_m2;
const whim_model_def whim_model_minimax_m2 = {
    .arch = "minimax_m2",
    .configure = minimax_m2_configure,
    .bind = minimax_m2_bind,
    .layers = whim_decoder_model_layers,
    .forward = whim_decoder_model_forward,
};
