/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors and pass of a convolution. */
#include "layers/block_conv.h"

void whim_block_conv_bind(whim_block_conv *conv, const whim_layer_row *row, int64_t d_model,
                          const char *name, int32_t l, whim_binder *binder)
{
    whim_param base = {.values = &conv->base, .n = 2 * row->conv_tap, .k = d_model, .n_outer = 2};
    whim_param deltas = {
        .weight = &conv->deltas, .n = whim_block_conv_deltas(row, d_model), .k = d_model};
    whim_bind(binder, &base, "layers.%d.%s.base_kernel", l, name);
    whim_bind(binder, &deltas, "layers.%d.%s.kernel_projection.weight", l, name);
}

whim_err whim_block_conv_forward(const whim_block_conv *conv, const whim_layer_row *row,
                                 int32_t side, whim_stream *s, const whim_batch *batch,
                                 const float *x, const float *deltas, float *y)
{
    int64_t d = conv->deltas.k, width = conv->deltas.n;
    return whim_op_block_conv(s,
                              &(whim_block_conv_args){.x = x,
                                                      .x_stride = d,
                                                      .base = conv->base + side * row->conv_tap * d,
                                                      .delta = deltas + side * width / 2,
                                                      .delta_stride = width,
                                                      .q_start = batch->q_start,
                                                      .y = y,
                                                      .y_stride = d,
                                                      .n_row = batch->n_row,
                                                      .n_seq = batch->n_seq,
                                                      .n_col = d,
                                                      .n_tap = row->conv_tap,
                                                      .group = row->conv_group});
}

whim_err whim_rows_scale(whim_stream *s, const whim_batch *batch, const float *x,
                         const float *scale, int64_t d_model, float *y)
{
    return whim_op_block_conv(s, &(whim_block_conv_args){.x = x,
                                                         .x_stride = d_model,
                                                         .base = scale,
                                                         .q_start = batch->q_start,
                                                         .y = y,
                                                         .y_stride = d_model,
                                                         .n_row = batch->n_row,
                                                         .n_seq = batch->n_seq,
                                                         .n_col = d_model,
                                                         .n_tap = 1,
                                                         .group = d_model});
}
