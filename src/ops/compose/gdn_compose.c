/* SPDX-License-Identifier: Apache-2.0 */
/* Fused ops of the gated delta net as compositions. */
#include "ops/compose/compose.h"

/* Columns that go from one matrix to another. */
typedef struct move {
    const float *src;
    int64_t src_stride;
    float *dst;
    int64_t dst_stride, n_col;
} move;

static whim_err move_columns(whim_stream *s, int64_t n_row, const move *moves, int n)
{
    for (int i = 0; i < n; i++) {
        WHIM_TRY(whim_op_gather_rows(s, &(whim_gather_rows_args){
                                            .x = moves[i].src,
                                            .x_stride = moves[i].src_stride,
                                            .y = moves[i].dst,
                                            .y_stride = moves[i].dst_stride,
                                            .n_src = n_row,
                                            .n_row = n_row,
                                            .n_col = moves[i].n_col,
                                        }));
    }
    return WHIM_ERR_OK;
}

/* Group g of `n_group`: its part of each of q, k, v, z, b and a. One group: the plain layout. */
static whim_err split_group(whim_stream *s, const whim_gdn_split_qkvzba_args *a, int64_t g,
                            int64_t n_group)
{
    int64_t k_all = a->n_key * a->d_key, v_all = a->n_value * a->d_value;
    int64_t k = k_all / n_group, v = v_all / n_group, h = a->n_value / n_group;
    int64_t wide = 2 * k_all + v_all, from = a->qkvz_stride;
    const float *x = a->qkvz + g * (2 * k + 2 * v), *ba = a->ba + g * 2 * h;
    const move moves[] = {
        {x, from, a->qkv + g * k, wide, k},
        {x + k, from, a->qkv + k_all + g * k, wide, k},
        {x + 2 * k, from, a->qkv + 2 * k_all + g * v, wide, v},
        {x + 2 * k + v, from, a->z + g * v, v_all, v},
        {ba, a->ba_stride, a->b + g * h, a->n_value, h},
        {ba + h, a->ba_stride, a->a + g * h, a->n_value, h},
    };
    return move_columns(s, a->n_row, moves, (int)(sizeof moves / sizeof moves[0]));
}

whim_err whim_compose_gdn_split_qkvzba(whim_stream *s, const whim_gdn_split_qkvzba_args *a)
{
    int64_t n_group = a->grouped ? a->n_key : 1;
    for (int64_t g = 0; g < n_group && a->n_row > 0; g++) {
        WHIM_TRY(split_group(s, a, g, n_group));
    }
    return WHIM_ERR_OK;
}

whim_err whim_compose_rmsnorm_gated(whim_stream *s, const whim_rmsnorm_gated_args *a)
{
    WHIM_TRY(whim_op_rmsnorm(s, &(whim_rmsnorm_args){
                                    .x = a->x,
                                    .x_stride = a->x_stride,
                                    .w = a->w,
                                    .eps = a->eps,
                                    .y = a->y,
                                    .y_stride = a->y_stride,
                                    .n_row = a->n_row,
                                    .n_col = a->n_col,
                                }));
    return whim_op_swiglu(s, &(whim_swiglu_args){
                                 .gate = a->z,
                                 .gate_stride = a->z_stride,
                                 .up = a->y,
                                 .up_stride = a->y_stride,
                                 .y = a->y,
                                 .y_stride = a->y_stride,
                                 .n_row = a->n_row,
                                 .n_col = a->n_col,
                             });
}
