/* SPDX-License-Identifier: Apache-2.0 */
/* split_qkv_rmsnorm_rope as a composition: copy each part out, add its bias, norm, rotate. */
#include "ops/compose/compose.h"

typedef struct part {
    float *dst;
    const float *norm;
    int64_t column, n_head;
    int64_t step; /* columns from head to head */
    bool rotate;
} part;

/* Copy columns out, as many heads at once as lie beside each other, and add their bias. */
static whim_err copy_part(whim_stream *s, const whim_split_qkv_rmsnorm_rope_args *a, const part *p)
{
    int64_t width = p->n_head * a->d_head, n_run = p->step == a->d_head ? 1 : p->n_head;
    for (int64_t i = 0; i < n_run; i++) {
        int64_t column = p->column + i * p->step;
        float *dst = p->dst + i * a->d_head;
        WHIM_TRY(whim_op_gather_rows(s, &(whim_gather_rows_args){
                                            .x = a->qkv + column,
                                            .x_stride = a->qkv_stride,
                                            .y = dst,
                                            .y_stride = width,
                                            .n_src = a->n_row,
                                            .n_row = a->n_row,
                                            .n_col = width / n_run,
                                        }));
        if (a->bias != NULL) {
            WHIM_TRY(whim_op_add(s, &(whim_add_args){
                                        .x = dst,
                                        .x_stride = width,
                                        .y = a->bias + column,
                                        .y_stride = 0,
                                        .n_row = a->n_row,
                                        .n_col = width / n_run,
                                    }));
        }
    }
    return WHIM_ERR_OK;
}

static whim_err compose_part(whim_stream *s, const whim_split_qkv_rmsnorm_rope_args *a,
                             const part *p)
{
    int64_t width = p->n_head * a->d_head;
    WHIM_TRY(copy_part(s, a, p));
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
    int64_t d = a->d_head, q_step = a->gate != NULL ? 2 * d : d;
    int64_t k_at = a->n_head * q_step, v_at = k_at + a->n_kv * d;
    const part parts[] = {
        {a->q, a->q_norm, 0, a->n_head, q_step, true},
        {a->k, a->k_norm, k_at, a->n_kv, d, true},
        {a->v, NULL, v_at, a->n_kv, d, false},
        {a->gate, NULL, d, a->n_head, q_step, false},
    };
    for (int i = 0; i < (a->gate != NULL ? 4 : 3); i++) {
        WHIM_TRY(compose_part(s, a, &parts[i]));
    }
    return WHIM_ERR_OK;
}
