/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/ranks/cut_rows.h"

#include "ops/ops.h"

const int64_t *whim_cut_cols(int64_t width, whim_binder *binder)
{
    int32_t n = binder->n_share;
    int64_t *cols = n > 1 ? whim_arena_alloc_array(&binder->arena, n, sizeof *cols) : NULL;
    for (int32_t r = 0; r < n && cols != NULL; r++) {
        cols[r] = width;
    }
    binder->failed |= n > 1 && cols == NULL;
    return cols;
}

whim_batch whim_cut_own(const whim_batch *batch)
{
    const whim_batch_cut *cut = batch->cut;
    whim_batch own = *batch;
    own.n_row = cut->n_row;
    own.n_seq = cut->n_seq;
    own.positions = cut->positions;
    own.q_start = cut->q_start;
    own.kv_len = cut->kv_len;
    own.page_start = cut->page_start;
    return own;
}

whim_err whim_cut_select(whim_stream *s, const whim_batch *batch, const float *x, float *y,
                         int64_t n_col)
{
    return whim_op_gather_rows(s, &(whim_gather_rows_args){
                                      .x = x,
                                      .x_stride = n_col,
                                      .rows = batch->cut->own,
                                      .y = y,
                                      .y_stride = n_col,
                                      .n_src = batch->n_row,
                                      .n_row = batch->cut->n_row,
                                      .n_col = n_col,
                                  });
}

whim_err whim_cut_gather(whim_stream *s, const whim_batch *batch, int64_t n_part,
                         const int64_t *cols, const float *x, float *y, const char *site)
{
    const whim_batch_cut *cut = batch->cut;
    return whim_op_all_gather_v(s, &(whim_all_gather_v_args){.x = x,
                                                             .cols = cols,
                                                             .y = y,
                                                             .n_row = n_part * cut->n_row,
                                                             .n_rank = cut->n_rank,
                                                             .rank = cut->rank,
                                                             .site = site,
                                                             .among = WHIM_AMONG_BESIDE});
}

whim_err whim_cut_join(whim_stream *s, const whim_batch *batch, const int64_t *cols, const float *x,
                       float *gathered, float *y, int64_t stride, const char *site)
{
    const whim_batch_cut *cut = batch->cut;
    WHIM_TRY(whim_cut_gather(s, batch, 1, cols, x, gathered, site));
    return whim_op_gather_rows(s, &(whim_gather_rows_args){
                                      .x = gathered,
                                      .x_stride = cols[0],
                                      .rows = cut->places,
                                      .y = y,
                                      .y_stride = stride,
                                      .n_src = cut->n_row * cut->n_rank,
                                      .n_row = batch->n_row,
                                      .n_col = cols[0],
                                  });
}
