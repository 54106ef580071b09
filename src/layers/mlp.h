/* SPDX-License-Identifier: Apache-2.0 */
/* The gated MLP of a layer: y = down(silu(gate(x)) * up(x)).
 * Threads: as the stream. */
#ifndef WHIM_LAYERS_MLP_H
#define WHIM_LAYERS_MLP_H

#include "layers/batch.h"
#include "layers/layer_table.h"
#include "layers/projection.h"

typedef struct whim_mlp {
    whim_projection gate, up; /* [d_ff, d_model] */
    whim_projection down;     /* [d_model, d_ff] */
} whim_mlp;

/* Buffers of a pass, wide enough for every layer and reused by each. */
typedef struct whim_mlp_pass {
    float *act; /* [n_row, d_ff] silu(gate) * up */
} whim_mlp_pass;

/* The part of layer l's width that the binder's rank has, in blocks of `down`'s type; `row` is
 * still the whole one. */
whim_part whim_mlp_part(const whim_layer_row *row, const whim_config *config, int32_t l,
                        const whim_binder *binder);

/* Declare the tensors of layer l. */
void whim_mlp_bind(whim_mlp *mlp, const whim_layer_row *row, const whim_config *config, int32_t l,
                   whim_binder *binder);

void whim_mlp_pass_init(whim_mlp_pass *p, const whim_layer_table *table, int64_t n_row,
                        whim_bump *bump);

/* y = mlp(x), both [n_row, d_model]. */
WHIM_MUST_CHECK whim_err whim_mlp_forward(const whim_mlp *mlp, const whim_mlp_pass *p,
                                          whim_stream *s, const float *x, int64_t n_row, float *y);

#endif
