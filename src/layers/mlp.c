/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors and pass of an MLP. */
#include "layers/mlp.h"

void whim_mlp_bind(whim_mlp *mlp, const whim_layer_row *row, const whim_config *config, int32_t l,
                   whim_binder *binder)
{
    int64_t d = config->d_model, ff = row->d_ff;
    const whim_projection_spec projections[] = {
        {&mlp->gate, ff, d, 0, row->mlp_bias, "mlp.gate_proj"},
        {&mlp->up, ff, d, 0, row->mlp_bias, "mlp.up_proj"},
        {&mlp->down, d, ff, 0, row->mlp_bias, "mlp.down_proj"},
    };
    whim_projections_bind(projections, sizeof projections / sizeof projections[0], l, binder);
}

void whim_mlp_pass_init(whim_mlp_pass *p, const whim_layer_table *table, int64_t n_row,
                        whim_bump *bump)
{
    int64_t widest = 0;
    for (int32_t l = 0; l < table->n_layer; l++) {
        const whim_layer_row *row = &table->rows[l];
        bool wider = row->mlp == WHIM_MLP_SWIGLU && row->d_ff > widest;
        widest = wider ? row->d_ff : widest;
    }
    p->act = whim_bump_rows(bump, n_row, widest);
}

whim_err whim_mlp_forward(const whim_mlp *mlp, const whim_mlp_pass *p, whim_stream *s,
                          const float *x, int64_t n_row, float *y)
{
    WHIM_TRY(whim_op_linear_swiglu(s, &(whim_linear_swiglu_args){
                                          .gate = mlp->gate.w,
                                          .up = mlp->up.w,
                                          .x = x,
                                          .x_stride = mlp->gate.w.k,
                                          .gate_bias = mlp->gate.bias,
                                          .up_bias = mlp->up.bias,
                                          .y = p->act,
                                          .y_stride = mlp->gate.w.n,
                                          .n_row = n_row,
                                      }));
    return whim_project(s, &mlp->down, p->act, n_row, y, mlp->down.w.n);
}
