/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of the rotary-position ops. All pointers are device memory; strides are in elements. */
#ifndef WHIM_OPS_ARGS_ROPE_ARGS_H
#define WHIM_OPS_ARGS_ROPE_ARGS_H

#include <stdint.h>

/* cos and sin of position * freq, angle in double, times scale: made once per step for all
 * layers. */
typedef struct whim_rope_table_args {
    const int32_t *positions; /* [n_row] */
    const double *freqs;      /* [n_freq], n_freq = rotary_dim / 2 */
    double scale;             /* 1, or YaRN's attention factor */
    float *cos_sin;           /* [n_row, 2 * n_freq]: all cosines, then all sines */
    int64_t n_row, n_freq;
} whim_rope_table_args;

/* Rotate the first 2 * n_freq dimensions of every head in place, half-split:
 * (a, b) = (x[i], x[i + n_freq]) -> (a cos - b sin, b cos + a sin), each by one product and one
 * fma. */
typedef struct whim_rope_args {
    float *x; /* [n_row, n_head, d_head], in and out */
    int64_t x_stride;
    const float *cos_sin; /* [n_row, 2 * n_freq] */
    int64_t n_row, n_head, d_head, n_freq;
} whim_rope_args;

/* From the fused product [q | k | v]: add the bias, split, normalise each head of q and k, rotate.
 * With a gate (Qwen3.5) a head of q has 2 d_head columns, q and then its gate, which is only
 * copied. Without heads of q only k and v are made. */
typedef struct whim_split_qkv_rmsnorm_rope_args {
    const float
        *qkv; /* [n_row, (n_head + 2 n_kv) d_head]; (2 n_head + 2 n_kv) d_head with a gate */
    int64_t qkv_stride;
    const float *bias;   /* [columns of qkv], or NULL */
    const float *q_norm; /* [d_head], or NULL: no norm of q and k */
    const float *k_norm; /* [d_head], NULL exactly when q_norm is */
    float eps;
    const float *cos_sin; /* [n_row, 2 * n_freq] */
    float *q;             /* [n_row, n_head, d_head], dense */
    float *k;             /* [n_row, n_kv, d_head], dense */
    float *v;             /* [n_row, n_kv, d_head], dense */
    float *gate;          /* [n_row, n_head, d_head], dense, or NULL */
    int64_t n_row, n_head, n_kv, d_head, n_freq;
} whim_split_qkv_rmsnorm_rope_args;

/* The norm over all heads of all ranks, first half: the sums of squares of this rank's q and k,
 * beside each other so that one all-reduce carries both. A head is summed in 16 lanes
 * (base/math/fmath.h), heads are added in order. n_kv may be less than the rank has: a head of k
 * that several ranks hold counts at one of them. */
typedef struct whim_qk_sumsq_args {
    const float *qkv; /* [n_row, q and k and more]: heads of q, then heads of k */
    int64_t qkv_stride;
    float *sums; /* [n_row, 2]: of q, of k */
    int64_t n_row, n_head, n_kv, d_head;
} whim_qk_sumsq_args;

/* rmsnorm with a given sum of squares, over more columns than are here:
 * y = x / sqrt(sum / width + eps) * w. */
typedef struct whim_rmsnorm_sumsq_args {
    const float *x; /* [n_row, n_col] */
    int64_t x_stride;
    const float *sums; /* [n_row] */
    int64_t sum_stride;
    int64_t width;  /* columns that the sum is of */
    const float *w; /* [n_col] */
    float eps;
    float *y; /* [n_row, n_col]; overlaps nothing */
    int64_t y_stride;
    int64_t n_row, n_col;
} whim_rmsnorm_sumsq_args;

/* Second half, from this rank's product [q | k | v] and the sums over all ranks: split, normalise q
 * and k each as one row, rotate. A bias belongs into the product, because the sums must see it. */
typedef struct whim_split_qkv_tp_rmsnorm_rope_args {
    const float *qkv; /* [n_row, (n_head + 2 n_kv) d_head] */
    int64_t qkv_stride;
    const float *sums;        /* [n_row, 2]: of q, of k */
    int64_t q_width, k_width; /* columns of q and k on all ranks together */
    const float *q_norm;      /* [n_head * d_head]: this rank's part */
    const float *k_norm;      /* [n_kv * d_head]: this rank's part */
    float eps;
    const float *cos_sin; /* [n_row, 2 * n_freq] */
    float *q;             /* [n_row, n_head, d_head], dense */
    float *k;             /* [n_row, n_kv, d_head], dense */
    float *v;             /* [n_row, n_kv, d_head], dense */
    int64_t n_row, n_head, n_kv, d_head, n_freq;
} whim_split_qkv_tp_rmsnorm_rope_args;

#endif
