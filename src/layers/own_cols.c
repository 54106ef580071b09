/* SPDX-License-Identifier: Apache-2.0 */
/* Columns on block edges, and zeros around a rank's own. */
#include "layers/own_cols.h"

whim_err whim_own_cols_make(whim_own_cols *out, const whim_part *runs, int32_t n_run, int64_t block,
                            whim_arena *arena)
{
    *out = (whim_own_cols){.n_run = n_run};
    out->held = whim_arena_alloc_array(arena, n_run, sizeof *out->held);
    out->own = whim_arena_alloc_array(arena, n_run, sizeof *out->own);
    if (out->held == NULL || out->own == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    for (int32_t i = 0; i < n_run; i++) {
        out->held[i] = whim_part_widen(runs[i], block);
        out->own[i] = (whim_part){out->width + runs[i].at - out->held[i].at, runs[i].n};
        out->width += out->held[i].n;
        out->padded = out->padded || out->held[i].n > runs[i].n;
    }
    return WHIM_ERR_OK;
}

static whim_err clear(whim_stream *s, float *x, int64_t stride, int64_t n_row, int64_t from,
                      int64_t to)
{
    if (from >= to) {
        return WHIM_ERR_OK;
    }
    /* Rows of a matrix that has none are zeros. */
    return whim_op_gather_rows(s, &(whim_gather_rows_args){
                                      .x_stride = stride,
                                      .y = x + from,
                                      .y_stride = stride,
                                      .n_row = n_row,
                                      .n_col = to - from,
                                  });
}

whim_err whim_own_cols_clear(const whim_own_cols *cols, whim_stream *s, float *x, int64_t n_row)
{
    int64_t at = 0;
    for (int32_t i = 0; i < cols->n_run; i++) {
        WHIM_TRY(clear(s, x, cols->width, n_row, at, cols->own[i].at));
        at = cols->own[i].at + cols->own[i].n;
    }
    return clear(s, x, cols->width, n_row, at, cols->width);
}
