/* SPDX-License-Identifier: Apache-2.0 */
/* Products with what follows them, as compositions. */
#include "ops/compose/compose.h"

whim_err whim_compose_linear_swiglu(whim_stream *s, const whim_linear_swiglu_args *a)
{
    int64_t n = a->gate.n;
    void *up;
    WHIM_TRY(whim_workspace_take(s, whim_law_workspace(WHIM_OP_linear_swiglu, a), &up));
    WHIM_TRY(whim_op_linear(s, &(whim_linear_args){
                                   .w = a->gate,
                                   .x = a->x,
                                   .x_stride = a->x_stride,
                                   .bias = a->gate_bias,
                                   .y = a->y,
                                   .y_stride = a->y_stride,
                                   .n_row = a->n_row,
                               }));
    WHIM_TRY(whim_op_linear(s, &(whim_linear_args){
                                   .w = a->up,
                                   .x = a->x,
                                   .x_stride = a->x_stride,
                                   .bias = a->up_bias,
                                   .y = up,
                                   .y_stride = n,
                                   .n_row = a->n_row,
                               }));
    return whim_op_swiglu(s, &(whim_swiglu_args){
                                 .gate = a->y,
                                 .gate_stride = a->y_stride,
                                 .up = up,
                                 .up_stride = n,
                                 .y = a->y,
                                 .y_stride = a->y_stride,
                                 .n_row = a->n_row,
                                 .n_col = n,
                             });
}

whim_err whim_compose_linear_topk(whim_stream *s, const whim_linear_topk_args *a)
{
    void *all;
    WHIM_TRY(whim_workspace_take(s, whim_law_workspace(WHIM_OP_linear_topk, a), &all));
    WHIM_TRY(whim_op_linear(s, &(whim_linear_args){
                                   .w = a->w,
                                   .x = a->x,
                                   .x_stride = a->x_stride,
                                   .bias = a->bias,
                                   .y = all,
                                   .y_stride = a->w.n,
                                   .n_row = a->n_row,
                               }));
    return whim_op_topk(s, &(whim_topk_args){
                               .x = all,
                               .x_stride = a->w.n,
                               .values = a->values,
                               .ids = a->ids,
                               .n_row = a->n_row,
                               .n_col = a->w.n,
                               .k_top = a->k_top,
                           });
}
