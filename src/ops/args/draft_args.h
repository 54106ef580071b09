/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of what only drafts do (draft/dflash.h). All pointers are device memory; strides are in
 * elements. Rows q_start[s] .. q_start[s+1]-1 of a batch are the block of sequence s; rows after
 * q_start[n_seq] are padding. */
#ifndef WHIM_OPS_ARGS_DRAFT_ARGS_H
#define WHIM_OPS_ARGS_DRAFT_ARGS_H

#include <stdbool.h>
#include <stdint.h>

/* One token for each row of outputs, in order, where what came before has a say. Row i is row
 * rows[i] of the batch and has the k_top best of its logits. In a block
 *     score[c] = u[c] + sum over j of (p[j] * gate[i][j]) * after[i][c][j],
 *     u[c] = cap(values[i][c] * scale), cap(x) = cap tanh(x / cap)
 * with p the row of `before` of the token that was chosen last, at first of the block's first row;
 * without gate it is p[j] alone. The sum is in 16 lanes (base/math/fmath.h), and the best score has
 * the order of tensor/rank_key.h. Candidates with ids below 0 are none.
 * told[i] is the score of the choice or, with sure_w, how sure the draft is of it:
 *     sure_bias + (sum of z[i] * sure_w + sum of p * the rest of sure_w), each in 16 lanes.
 * Rows of no block get token -1 and 0. */
typedef struct whim_pick_chain_args {
    const float *values;    /* [n_row, k_top] */
    const int32_t *ids;     /* [n_row, k_top] */
    const float *before;    /* [n_src + n_row * k_top, rank]: of the batch's rows, of candidates */
    const float *after;     /* [n_row * k_top, rank] of candidates */
    const float *gate;      /* [n_row, rank], or NULL */
    const float *z;         /* [n_row, n_hidden], or NULL without sure_w */
    const float *sure_w;    /* [n_hidden], or [n_hidden + rank] with sure_of_pairs; or NULL */
    const float *sure_bias; /* [1], or NULL without sure_w */
    const int32_t *rows;    /* [n_row] */
    const int32_t *q_start; /* [n_seq + 1] */
    int32_t *tokens;        /* [n_row], out_stride apart */
    float *told;            /* the same */
    int64_t out_stride;
    int64_t n_row, n_src, n_seq, k_top, rank, n_hidden;
    float scale, cap; /* cap 0: none */
    bool sure_of_pairs;
} whim_pick_chain_args;

enum { WHIM_BLOCK_CONV_MAX_TAP = 16 };

/* y[t] = sum over tap of (base[tap] + delta[t][tap]) * x[t - tap], channel by channel: acc =
 * fma(base + delta, x, acc) from 0, taps in order; those before the block's first row are left out.
 * Channels share a delta in groups, and without delta base stands alone. Padding gets zeros. */
typedef struct whim_block_conv_args {
    const float *x; /* [n_row, n_col] */
    int64_t x_stride;
    const float *base;  /* [n_tap, n_col] */
    const float *delta; /* [n_row, n_tap * n_col / group], or NULL */
    int64_t delta_stride;
    const int32_t *q_start; /* [n_seq + 1] */
    float *y;               /* [n_row, n_col] */
    int64_t y_stride;
    int64_t n_row, n_seq, n_col, n_tap, group;
} whim_block_conv_args;

#endif
