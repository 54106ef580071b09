/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/ranks/meet.h"

#include "ops/ops.h"

enum { COL_UNIT = 16 }; /* floats of a cache line */

whim_err whim_rows_get(const whim_rows *rows, const float **x)
{
    *x = rows->x;
    return rows->owed == WHIM_OWED_NOTHING ? WHIM_ERR_OK : WHIM_ERR_INVALID;
}

const whim_meet *whim_meet_make(int64_t d_model, whim_binder *binder)
{
    int32_t n = binder->n_wide, span = binder->n_rank;
    if (n <= 1) {
        return NULL;
    }
    whim_meet *meet = whim_arena_alloc(&binder->arena, sizeof *meet);
    int64_t *cols = whim_arena_alloc_array(&binder->arena, 2 * (int64_t)n, sizeof *cols);
    if (meet == NULL || cols == NULL) {
        binder->failed = true;
        return NULL;
    }
    for (int32_t r = 0; r < n; r++) {
        cols[r] = whim_part_blocks(d_model, COL_UNIT, span, r % span).n;
        cols[n + r] = r % span == 0;
    }
    *meet = (whim_meet){.n_rank = n,
                        .rank = binder->wide_rank,
                        .n_group = n / span,
                        .group = binder->wide_rank / span,
                        .span = span,
                        .d_model = d_model,
                        .own = whim_part_blocks(d_model, COL_UNIT, span, binder->rank),
                        .cols = cols,
                        .marks = cols + n};
    return meet;
}

/* y = x, or zeros where that is NULL */
static whim_err copy(whim_stream *s, const float *x, int64_t x_stride, float *y, int64_t n_row,
                     int64_t n_col)
{
    return whim_op_gather_rows(s, &(whim_gather_rows_args){.x = x,
                                                           .x_stride = x_stride,
                                                           .y = y,
                                                           .y_stride = n_col,
                                                           .n_src = x != NULL ? n_row : 0,
                                                           .n_row = n_row,
                                                           .n_col = n_col});
}

whim_err whim_meet_gather(const whim_meet *meet, whim_stream *s, const whim_rows *delta,
                          int64_t n_row, int64_t n_each, float *part, float *x, float *all)
{
    int64_t d = meet->d_model;
    if (delta->owed != WHIM_OWED_GROUP) {
        return WHIM_ERR_INVALID;
    }
    WHIM_TRY(copy(s, NULL, d, delta->x + n_row * d, n_each - n_row, d));
    WHIM_TRY(
        whim_op_reduce_scatter_v(s, &(whim_reduce_scatter_v_args){.x = delta->x,
                                                                  .cols = meet->cols,
                                                                  .y = part,
                                                                  .n_row = n_each,
                                                                  .n_rank = meet->span,
                                                                  .rank = meet->rank % meet->span,
                                                                  .site = "mixer of a group"}));
    WHIM_TRY(whim_op_add(s, &(whim_add_args){.x = part,
                                             .x_stride = meet->own.n,
                                             .y = x + meet->own.at,
                                             .y_stride = d,
                                             .n_row = n_row,
                                             .n_col = meet->own.n}));
    WHIM_TRY(whim_op_all_gather_v(s, &(whim_all_gather_v_args){.x = part,
                                                               .cols = meet->cols,
                                                               .y = all,
                                                               .n_row = n_each,
                                                               .n_rank = meet->n_rank,
                                                               .rank = meet->rank,
                                                               .site = "rows of groups",
                                                               .among = WHIM_AMONG_ALL}));
    return copy(s, all + meet->group * d, meet->n_group * d, x, n_row, d);
}

whim_err whim_meet_mark(const whim_meet *meet, whim_stream *s, const int32_t *tokens, int64_t n_row,
                        int64_t n_each, int32_t *own, int32_t *marks)
{
    WHIM_TRY(whim_op_mask_ids(
        s,
        &(whim_mask_ids_args){
            .x = tokens, .marks = tokens, .y = own, .n_src = n_row, .n_row = n_each, .n_col = 1}));
    /* bits travel as they are */
    return whim_op_all_gather_v(s, &(whim_all_gather_v_args){.x = (const void *)own,
                                                             .cols = meet->marks,
                                                             .y = (void *)marks,
                                                             .n_row = n_each,
                                                             .n_rank = meet->n_rank,
                                                             .rank = meet->rank,
                                                             .site = "padding of groups",
                                                             .among = WHIM_AMONG_ALL});
}

whim_err whim_meet_scatter(const whim_meet *meet, whim_stream *s, const whim_rows *all,
                           int64_t n_each, float *part, whim_rows *y)
{
    if (all->owed != WHIM_OWED_ALL) {
        return WHIM_ERR_INVALID;
    }
    WHIM_TRY(whim_op_reduce_scatter_v(s, &(whim_reduce_scatter_v_args){.x = all->x,
                                                                       .cols = meet->cols,
                                                                       .y = part,
                                                                       .n_row = n_each,
                                                                       .n_rank = meet->n_rank,
                                                                       .rank = meet->rank,
                                                                       .site = "mlp of groups",
                                                                       .among = WHIM_AMONG_ALL}));
    y->owed = WHIM_OWED_NOTHING;
    return whim_op_all_gather_v(s, &(whim_all_gather_v_args){.x = part,
                                                             .cols = meet->cols,
                                                             .y = y->x,
                                                             .n_row = n_each,
                                                             .n_rank = meet->span,
                                                             .rank = meet->rank % meet->span,
                                                             .site = "rows of a group"});
}
