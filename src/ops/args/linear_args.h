/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of the ops on weight matrices. All pointers are device memory; strides are in elements.
 * Rows are independent: the bits of a row never depend on the other rows of the call. */
#ifndef WHIM_OPS_ARGS_LINEAR_ARGS_H
#define WHIM_OPS_ARGS_LINEAR_ARGS_H

#include "tensor/act.h"
#include "tensor/dtype.h"
#include "tensor/quant.h"

#include <stdint.h>

/* A packed weight matrix, [n outputs, k inputs], in the layout that the device's pack_weight
 * wrote. */
typedef struct whim_weight {
    whim_dtype dtype;
    int64_t n, k;
    const void *data;
} whim_weight;

/* y[r] = row ids[r] of w, as F32. An id outside 0 .. n-1 gives a row of zeros (padding). */
typedef struct whim_embed_args {
    whim_weight w;
    const int32_t *ids; /* [n_row] */
    float *y;           /* [n_row, k] */
    int64_t y_stride;
    int64_t n_row;
} whim_embed_args;

/* Rows stored as another type (tensor/act.h has the rules). */
typedef struct whim_narrow_args {
    const float *x; /* [n_row, n_col] */
    int64_t x_stride;
    whim_act y_type;
    void *y; /* [n_row, n_col] of y_type; both and the stride are whole blocks */
    int64_t y_stride;
    int64_t n_row, n_col;
} whim_narrow_args;

/* y = x w^T + bias. With rows of F32:
 *   float types  acc = fma(w, x, acc) in F32 over k in order
 *   FP8          the same inside a block from 0, then acc = fma(sum of the block, d, acc)
 *   (whim_fp8_dot_step) block types  x is stored as Q8 first, then group by group as
 *   whim_group_dot_step
 * Rows that are stored as another type are loaded (whim_act_load) and then as those of F32, but
 * where scales can stay outside of the sum:
 *   Q8 with block types  group by group as whim_group_dot_step: the bits of F32 rows
 *   FP8 with FP8         acc = fma(sum over the block of the products of the codes' values, d of w
 *   * d of x, acc)
 * The bias comes last. */
typedef struct whim_linear_args {
    whim_weight w;
    const void *x; /* [n_row, k] of x_type; whole blocks, as is the stride */
    int64_t x_stride;
    whim_act x_type;
    const float *bias; /* [n], or NULL */
    float *y;          /* [n_row, n]; must not overlap x */
    int64_t y_stride;
    int64_t n_row;
} whim_linear_args;

/* y = silu(x gate^T + gate_bias) * (x up^T + up_bias): the first half of an MLP. Products as
 * linear, the rest as swiglu. */
typedef struct whim_linear_swiglu_args {
    whim_weight gate, up; /* both [n, k]; the types may differ */
    const float *x;       /* [n_row, k] */
    int64_t x_stride;
    const float *gate_bias; /* [n], or NULL */
    const float *up_bias;   /* [n], or NULL */
    float *y;               /* [n_row, n]; must not overlap x */
    int64_t y_stride;
    int64_t n_row;
} whim_linear_swiglu_args;

/* The k_top largest outputs of each row of x w^T + bias and where they are: linear, then topk. For
 * the head of a model, whose outputs are many and of which few matter. */
typedef struct whim_linear_topk_args {
    whim_weight w;
    const float *x; /* [n_row, k] */
    int64_t x_stride;
    const float *bias; /* [n], or NULL */
    float *values;     /* [n_row, k_top], dense */
    int32_t *ids;      /* [n_row, k_top], dense */
    int64_t n_row;
    int64_t k_top; /* 1 .. WHIM_TOPK_MAX */
} whim_linear_topk_args;

#endif
