/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors and pass of an MLP. */
#include "layers/mlp.h"

whim_part whim_mlp_part(const whim_layer_row *row, const whim_config *config, int32_t l,
                        const whim_binder *binder)
{
    int32_t rank, n_rank = whim_binder_wide(binder, &rank);
    if (n_rank == 1) {
        return (whim_part){0, row->d_ff};
    }
    whim_param down = {.n = config->d_model, .k = row->d_ff};
    int64_t block = whim_bind_block(binder, &down, NULL, "layers.%d.mlp.down_proj.weight", l);
    return whim_part_width(row->d_ff, block, n_rank, rank);
}

void whim_mlp_bind(whim_mlp *mlp, const whim_layer_row *row, const whim_config *config, int32_t l,
                   whim_binder *binder)
{
    int64_t d = config->d_model, ff = row->share.d_ff;
    int32_t rank;
    const whim_part *part = whim_binder_wide(binder, &rank) > 1 ? &row->share.ff : NULL;
    whim_projection_cut rows = {.rows = part};
    whim_projection_cut cols = {.cols = part, .n_col_run = part != NULL, .no_bias = rank > 0};
    const whim_projection_spec projections[] = {
        {&mlp->gate, ff, d, 0, row->mlp_bias, "mlp.gate_proj", rows},
        {&mlp->up, ff, d, 0, row->mlp_bias, "mlp.up_proj", rows},
        {&mlp->down, d, ff, 0, row->mlp_bias, "mlp.down_proj", cols},
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
