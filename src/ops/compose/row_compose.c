/* SPDX-License-Identifier: Apache-2.0 */
/* Fused row ops as compositions. */
#include "ops/compose/compose.h"

whim_err whim_compose_add_rmsnorm(whim_stream *s, const whim_add_rmsnorm_args *a)
{
    WHIM_TRY(whim_op_add(s, &(whim_add_args){
                                .x = a->x,
                                .x_stride = a->x_stride,
                                .y = a->delta,
                                .y_stride = a->delta_stride,
                                .n_row = a->n_row,
                                .n_col = a->n_col,
                            }));
    return whim_op_rmsnorm(s, &(whim_rmsnorm_args){
                                  .x = a->x,
                                  .x_stride = a->x_stride,
                                  .w = a->w,
                                  .eps = a->eps,
                                  .y = a->y,
                                  .y_stride = a->y_stride,
                                  .n_row = a->n_row,
                                  .n_col = a->n_col,
                              });
}
