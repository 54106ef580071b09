/* SPDX-License-Identifier: Apache-2.0 */
/* split_qkv_rmsnorm_rope as a composition: copy each part out, add its bias, norm, rotate. */
#include "ops/compose/compose.h"

typedef struct part {
    float *dst;
    const float *norm;
    int64_t column, n_head;
    bool rotate;
} part;

static whim_err compose_part(whim_stream *s, const whim_split_qkv_rmsnorm_rope_args *a,
                             const part *p)
{
    int64_t width = p->n_head * a->d_head;
    WHIM_TRY(whim_op_gather_rows(s, &(whim_gather_rows_args){
                                        .x = a->qkv + p->column,
                                        .x_stride = a->qkv_stride,
                                        .y = p->dst,
                                        .y_stride = width,
                                        .n_src = a->n_row,
                                        .n_row = a->n_row,
                                        .n_col = width,
                                    }));
    if (a->bias != NULL) {
        WHIM_TRY(whim_op_add(s, &(whim_add_args){
                                    .x = p->dst,
                                    .x_stride = width,
                                    .y = a->bias + p->column,
                                    .y_stride = 0,
                                    .n_row = a->n_row,
                                    .n_col = width,
                                }));
    }
    if (p->norm != NULL) {
        WHIM_TRY(whim_op_rmsnorm(s, &(whim_rmsnorm_args){
                                        .x = p->dst,
                                        .x_stride = a->d_head,
                                        .w = p->norm,
                                        .eps = a->eps,
                                        .y = p->dst,
                                        .y_stride = a->d_head,
                                        .n_row = a->n_row * p->n_head,
                                        .n_col = a->d_head,
                                    }));
    }
    if (p->rotate) {
        WHIM_TRY(whim_op_rope(s, &(whim_rope_args){
                                     .x = p->dst,
                                     .x_stride = width,
                                     .cos_sin = a->cos_sin,
                                     .n_row = a->n_row,
                                     .n_head = p->n_head,
                                     .d_head = a->d_head,
                                     .n_freq = a->n_freq,
                                 }));
    }
    return WHIM_ERR_OK;
}

whim_err whim_compose_split_qkv_rmsnorm_rope(whim_stream *s,
                                             const whim_split_qkv_rmsnorm_rope_args *a)
{
    if (a->n_row == 0) { /* the parts of a matrix without rows may lie outside of its buffer */
        return WHIM_ERR_OK;
    }
    int64_t q_cols = a->n_head * a->d_head, kv_cols = a->n_kv * a->d_head;
    const part parts[] = {
        {.dst = a->q, .norm = a->q_norm, .column = 0, .n_head = a->n_head, .rotate = true},
        {.dst = a->k, .norm = a->k_norm, .column = q_cols, .n_head = a->n_kv, .rotate = true},
        {.dst = a->v, .column = q_cols + kv_cols, .n_head = a->n_kv},
    };
    for (int i = 0; i < 3; i++) {
        WHIM_TRY(compose_part(s, a, &parts[i]));
    }
    return WHIM_ERR_OK;
}
