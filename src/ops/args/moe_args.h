/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of the ops of a mixture of experts. All pointers are device memory; strides are in
 * elements. Rows are independent: the bits of a row never depend on the other rows of the call. */
#ifndef WHIM_OPS_ARGS_MOE_ARGS_H
#define WHIM_OPS_ARGS_MOE_ARGS_H

#include "ops/args/linear_args.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    WHIM_MOE_MAX_EXPERT = 4096,
    WHIM_MOE_ROW_GRANULE = 16, /* an expert's rows begin at a multiple of this */
};

typedef enum whim_moe_scoring { WHIM_MOE_SOFTMAX, WHIM_MOE_SIGMOID } whim_moe_scoring;

/* The experts of each row and their weights. A row's scores are
 *   SOFTMAX  e / sum16(e) with e = exp(x - max16(x))      SIGMOID  1 / (1 + exp(-x))
 * (sums and maxima in the lanes of base/math/fmath.h). The k_top experts with the largest score +
 * bias are chosen, largest first and the lower id first among equals, in the order of
 * tensor/rank_key.h. A weight is the score without the bias; if `renormalize`, divided by the sum
 * of the chosen ones, which is taken in their order; then times scale. */
typedef struct whim_moe_topk_args {
    const float *logits; /* [n_row, n_expert] */
    int64_t logits_stride;
    const float *bias; /* [n_expert], or NULL */
    float *weights;    /* [n_row, k_top], dense */
    int32_t *ids;      /* [n_row, k_top], dense */
    int64_t n_row, n_expert;
    int64_t k_top; /* 1 .. n_expert, at most WHIM_TOPK_MAX */
    whim_moe_scoring scoring;
    bool renormalize;
    float scale;
} whim_moe_topk_args;

/* Rows from one expert to the next in a stack of matrices of n rows each. */
static inline int64_t whim_moe_pitch(int64_t n)
{
    return (n + WHIM_MOE_ROW_GRANULE - 1) / WHIM_MOE_ROW_GRANULE * WHIM_MOE_ROW_GRANULE;
}

/* y[r] = sum over j of weights[r][j] * expert_id(x[r]), id = ids[r][j], with
 *   expert(x) = (silu(x gate^T) * (x up^T)) down^T
 * Products as linear, silu as swiglu; the sum begins at 0 and advances by fma, j in order. An id
 * outside 0 .. n_expert - 1 adds nothing. Without weights nothing is summed: y[r][j] is
 * expert_id(x[r]), zeros where the id is outside, and moe_sum does the rest.
 * A stack of experts is one packed weight: rows e * pitch .. e * pitch + n - 1 are expert e's, and
 * nobody reads those between them. gate and up have n = down.k rows for an expert, down has
 * gate.k. */
typedef struct whim_moe_experts_args {
    whim_weight gate, up; /* [n_expert * pitch(d_ff), d_model] */
    whim_weight down;     /* [n_expert * pitch(d_model), d_ff] */
    const void *x;        /* [n_row, d_model] of x_type; whole blocks, as is the stride */
    int64_t x_stride;
    whim_act x_type;
    const int32_t *ids;   /* [n_row, k_top], dense */
    const float *weights; /* [n_row, k_top], dense; NULL: results stay apart */
    float *y;             /* [n_row, d_model], or [n_row, k_top, d_model]; must not overlap x */
    int64_t y_stride;
    int64_t n_row, n_expert, k_top;
} whim_moe_experts_args;

/* y[r] = sum over j of weights[r][j] * x[r][j], as moe_experts sums. An id outside 0 .. n_expert -
 * 1 adds nothing. */
typedef struct whim_moe_sum_args {
    const float *x; /* [n_row, k_top, n_col] */
    int64_t x_stride;
    const int32_t *ids;    /* [n_row, k_top] */
    const float *weights;  /* [n_row, k_top] */
    int64_t choice_stride; /* of ids and weights */
    float *y;              /* [n_row, n_col] */
    int64_t y_stride;
    int64_t n_row, n_col, n_expert, k_top;
} whim_moe_sum_args;

/* x[r] += sigmoid(gate[r]) * y[r], sigmoid(g) = 1 / (1 + exp(-g)): a shared expert joins the
 * others. The product is rounded before the sum. */
typedef struct whim_gated_add_args {
    float *x; /* [n_row, n_col], in and out */
    int64_t x_stride;
    const float *gate; /* [n_row] */
    int64_t gate_stride;
    const float *y; /* [n_row, n_col] */
    int64_t y_stride;
    int64_t n_row, n_col;
} whim_gated_add_args;

#endif
