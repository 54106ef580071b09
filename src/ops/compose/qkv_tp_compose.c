/* SPDX-License-Identifier: Apache-2.0 */
/* split_qkv_tp_rmsnorm_rope as a composition: q and k are normalised on their way out and then
 * rotated, v is copied. */
#include "ops/compose/compose.h"

typedef struct part {
    float *dst;
    const float *sums, *norm;
    int64_t width; /* of the norm */
    int64_t column, n_head;
} part;

static whim_err compose_part(whim_stream *s, const whim_split_qkv_tp_rmsnorm_rope_args *a,
                             const part *p)
{
    int64_t n_col = p->n_head * a->d_head;
    WHIM_TRY(whim_op_rmsnorm_sumsq(s, &(whim_rmsnorm_sumsq_args){
                                          .x = a->qkv + p->column,
                                          .x_stride = a->qkv_stride,
                                          .sums = p->sums,
                                          .sum_stride = 2,
                                          .width = p->width,
                                          .w = p->norm,
                                          .eps = a->eps,
                                          .y = p->dst,
                                          .y_stride = n_col,
                                          .n_row = a->n_row,
                                          .n_col = n_col,
                                      }));
    return whim_op_rope(s, &(whim_rope_args){
                               .x = p->dst,
                               .x_stride = n_col,
                               .cos_sin = a->cos_sin,
                               .n_row = a->n_row,
                               .n_head = p->n_head,
                               .d_head = a->d_head,
                               .n_freq = a->n_freq,
                           });
}

whim_err whim_compose_split_qkv_tp_rmsnorm_rope(whim_stream *s,
                                                const whim_split_qkv_tp_rmsnorm_rope_args *a)
{
    if (a->n_row == 0) { /* the parts of a matrix without rows may lie outside of its buffer */
        return WHIM_ERR_OK;
    }
    int64_t q_cols = a->n_head * a->d_head, kv_cols = a->n_kv * a->d_head;
    WHIM_TRY(compose_part(s, a,
                          &(part){.dst = a->q,
                                  .sums = a->sums,
                                  .norm = a->q_norm,
                                  .width = a->q_width,
                                  .column = 0,
                                  .n_head = a->n_head}));
    WHIM_TRY(compose_part(s, a,
                          &(part){.dst = a->k,
                                  .sums = a->sums + 1,
                                  .norm = a->k_norm,
                                  .width = a->k_width,
                                  .column = q_cols,
                                  .n_head = a->n_kv}));
    return whim_op_gather_rows(s, &(whim_gather_rows_args){
                                      .x = a->qkv + q_cols + kv_cols,
                                      .x_stride = a->qkv_stride,
                                      .y = a->v,
                                      .y_stride = kv_cols,
                                      .n_src = a->n_row,
                                      .n_row = a->n_row,
                                      .n_col = kv_cols,
                                  });
}
