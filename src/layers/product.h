/* SPDX-License-Identifier: Apache-2.0 */
/* y = x w^T of dense rows.
 * Threads: as the stream. */
#ifndef WHIM_LAYERS_PRODUCT_H
#define WHIM_LAYERS_PRODUCT_H

#include "ops/ops.h"

WHIM_MUST_CHECK static inline whim_err whim_product(whim_stream *s, const whim_weight *w,
                                                    const float *x, int64_t n_row, float *y)
{
    return whim_op_linear(s, &(whim_linear_args){
                                 .w = *w,
                                 .x = x,
                                 .x_stride = w->k,
                                 .y = y,
                                 .y_stride = w->n,
                                 .n_row = n_row,
                             });
}

#endif
