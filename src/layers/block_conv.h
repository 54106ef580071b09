/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions within a draft's block, around a sublayer (DFlash2): side 0 on its input x, side 1
 * on its output. The taps of a row are what the file has and what the row's own x adds to that.
 * Threads: as the stream. */
#ifndef WHIM_LAYERS_BLOCK_CONV_H
#define WHIM_LAYERS_BLOCK_CONV_H

#include "layers/batch.h"
#include "layers/layer_table.h"
#include "layers/projection.h"

typedef struct whim_block_conv {
    const float *base;  /* [2, n_tap, d_model] */
    whim_weight deltas; /* [2 * n_tap * d_model / group, d_model] */
} whim_block_conv;

/* Floats of a row's deltas, of both sides. */
static inline int64_t whim_block_conv_deltas(const whim_layer_row *row, int64_t d_model)
{
    return row->conv_tap > 0 ? 2 * row->conv_tap * (d_model / row->conv_group) : 0;
}

/* Declare the tensors of layer l's convolution `name`. */
void whim_block_conv_bind(whim_block_conv *conv, const whim_layer_row *row, int64_t d_model,
                          const char *name, int32_t l, whim_binder *binder);

/* y = convolution of x, both [n_row, d_model] and not the same. deltas: [n_row,
 * whim_block_conv_deltas], the product of side 0's x. */
WHIM_MUST_CHECK whim_err whim_block_conv_forward(const whim_block_conv *conv,
                                                 const whim_layer_row *row, int32_t side,
                                                 whim_stream *s, const whim_batch *batch,
                                                 const float *x, const float *deltas, float *y);

/* y = x * scale, channel by channel; scale: [d_model] */
WHIM_MUST_CHECK whim_err whim_rows_scale(whim_stream *s, const whim_batch *batch, const float *x,
                                         const float *scale, int64_t d_model, float *y);

#endif
