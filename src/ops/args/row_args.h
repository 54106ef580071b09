/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of the ops that work row by row on F32 matrices. All pointers are device memory;
 * strides are in elements. Unless said otherwise outputs must not overlap inputs, but may be the
 * same matrix where a row is replaced in place (same pointer, same stride). */
#ifndef WHIM_OPS_ARGS_ROW_ARGS_H
#define WHIM_OPS_ARGS_ROW_ARGS_H

#include <stdint.h>

/* y = x / sqrt(mean(x^2) + eps) * w, the sum of squares in 16 lanes (base/math/fmath.h). In place
 * is fine. */
typedef struct whim_rmsnorm_args {
    const float *x; /* [n_row, n_col] */
    int64_t x_stride;
    const float *w; /* [n_col] */
    float eps;
    float *y; /* [n_row, n_col] */
    int64_t y_stride;
    int64_t n_row, n_col;
} whim_rmsnorm_args;

/* x += y. A y_stride of 0 adds the same row to all (a bias). */
typedef struct whim_add_args {
    float *x; /* [n_row, n_col], in and out */
    int64_t x_stride;
    const float *y; /* [n_row, n_col] or [n_col] */
    int64_t y_stride;
    int64_t n_row, n_col;
} whim_add_args;

/* x += delta; y = rmsnorm(x): the seam between two blocks of a layer. */
typedef struct whim_add_rmsnorm_args {
    float *x; /* [n_row, n_col], in and out: the residual stream */
    int64_t x_stride;
    const float *delta; /* [n_row, n_col] */
    int64_t delta_stride;
    const float *w; /* [n_col] */
    float eps;
    float *y; /* [n_row, n_col] */
    int64_t y_stride;
    int64_t n_row, n_col;
} whim_add_rmsnorm_args;

/* y = silu(gate) * up, silu(g) = g / (1 + exp(-g)). y may be gate or up. */
typedef struct whim_swiglu_args {
    const float *gate; /* [n_row, n_col] */
    int64_t gate_stride;
    const float *up; /* [n_row, n_col] */
    int64_t up_stride;
    float *y; /* [n_row, n_col] */
    int64_t y_stride;
    int64_t n_row, n_col;
} whim_swiglu_args;

/* y[i] = x[rows[i]], or x[i] when rows is NULL. A row id outside 0 .. n_src-1 gives zeros. */
typedef struct whim_gather_rows_args {
    const float *x; /* [n_src, n_col] */
    int64_t x_stride;
    const int32_t *rows; /* [n_row], or NULL */
    float *y;            /* [n_row, n_col] */
    int64_t y_stride;
    int64_t n_src, n_row, n_col;
} whim_gather_rows_args;

/* tokens[i] = results[j * result_stride] where refs[i] is -2 - j for a j of 0 .. n_result-1, else
 * refs[i]: tokens that an earlier pass chose, without a way round by the host. */
typedef struct whim_result_tokens_args {
    const int32_t *refs;    /* [n_row] */
    const int32_t *results; /* [n_result, result_stride] */
    int64_t result_stride;
    int32_t *tokens; /* [n_row]; may be refs */
    int64_t n_row, n_result;
} whim_result_tokens_args;

enum { WHIM_TOPK_MAX = 64 };

/* The k_top largest of each row, largest first and the lower column first among equals: the order
 * of tensor/rank_key.h, in which -0 equals 0 and NaN ranks as +inf. A row of fewer columns is
 * filled up with value -inf and id -1. */
typedef struct whim_topk_args {
    const float *x; /* [n_row, n_col] */
    int64_t x_stride;
    float *values; /* [n_row, k_top], dense: as in x */
    int32_t *ids;  /* [n_row, k_top], dense: columns */
    int64_t n_row, n_col;
    int64_t k_top; /* 1 .. WHIM_TOPK_MAX */
} whim_topk_args;

/* y[i] = x[i] + by, and what is below 0 stays: ids of all rows of a table as those of a part of it,
 * or the other way round. */
typedef struct whim_shift_ids_args {
    const int32_t *x; /* [n_row] */
    int32_t *y;       /* [n_row]; may be x */
    int64_t n_row;
    int32_t by;
} whim_shift_ids_args;

/* y[r] = x[r], or -1 throughout where marks[r] is below 0 or there is no row r: ids of rows among
 * which some are padding. */
typedef struct whim_mask_ids_args {
    const int32_t *x;     /* [n_src, n_col] */
    const int32_t *marks; /* [n_src] */
    int32_t *y;           /* [n_row, n_col]; must not overlap x */
    int64_t n_src, n_row, n_col;
} whim_mask_ids_args;

/* The k_top best of n_col that were found already, in the order of topk by value and id. Those with
 * an id below 0 are none; filled up as topk does. */
typedef struct whim_merge_topk_args {
    const float *values; /* [n_row, n_col], dense */
    const int32_t *ids;  /* [n_row, n_col], dense; no id twice in a row */
    float *top_values;   /* [n_row, k_top], dense */
    int32_t *top_ids;    /* [n_row, k_top], dense */
    int64_t n_row, n_col;
    int64_t k_top; /* 1 .. WHIM_TOPK_MAX */
} whim_merge_topk_args;

#endif
