/* SPDX-License-Identifier: Apache-2.0 */
/* Columns on block edges, zeros around a rank's own, and cut groups put together. */
#include "layers/ranks/own_cols.h"

/* --- what is whose ---------------------------------------------------------------------------- */

/* The groups that a run begins or ends inside of. */
static int32_t cuts_of(whim_part run, int64_t group, int64_t found[2])
{
    int64_t first = run.at / group, last = (run.at + run.n) / group;
    bool begins = run.n > 0 && run.at % group != 0;
    bool ends = run.n > 0 && (run.at + run.n) % group != 0;
    int32_t n = 0;
    if (begins) {
        found[n++] = first;
    }
    if (ends && !(begins && first == last)) {
        found[n++] = last;
    }
    return n;
}

/* Run i's part of a group. */
static whim_cut_group cut_make(const whim_own_cols *cols, int32_t i, whim_part run, int64_t number)
{
    int64_t at = number * cols->group, end = at + cols->group, run_end = run.at + run.n;
    int64_t from = at > run.at ? at : run.at, to = end < run_end ? end : run_end;
    int64_t shift = cols->own[i].at - run.at; /* from the matrix's columns to those that are kept */
    return (whim_cut_group){.at = at + shift, .own = {from + shift, to - from}};
}

/* The place of a group among those that were met so far, at the end if it is new. */
static int32_t place_of(int64_t *met, int32_t n_met, int64_t number)
{
    int32_t i = 0;
    while (i < n_met && met[i] != number) {
        i++;
    }
    met[i] = number;
    return i;
}

/* All ranks walk all runs in the same order, so that a group has one place and one taker. */
static whim_err cuts_make(whim_own_cols *out, const whim_col_runs *runs, whim_arena *arena)
{
    int64_t found[2];
    int32_t n_all = runs->n_rank * runs->n_run, n_end = 0;
    for (int32_t i = 0; i < n_all; i++) {
        n_end += cuts_of(runs->runs[i], runs->group, found);
    }
    if (n_end == 0) {
        return WHIM_ERR_OK;
    }
    int64_t *met = whim_arena_alloc_array(arena, n_end, sizeof *met);
    out->here = whim_arena_alloc_array(arena, 2 * (int64_t)runs->n_run, sizeof *out->here);
    if (met == NULL || out->here == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    for (int32_t i = 0; i < n_all; i++) {
        int32_t n = cuts_of(runs->runs[i], runs->group, found);
        for (int32_t j = 0; j < n; j++) {
            int32_t place = place_of(met, out->n_cut, found[j]);
            bool is_new = place == out->n_cut;
            out->n_cut += is_new;
            if (i / runs->n_run == runs->rank) {
                whim_cut_group *cut = &out->here[out->n_here++];
                *cut = cut_make(out, i % runs->n_run, runs->runs[i], found[j]);
                cut->place = place;
                cut->takes = is_new;
            }
        }
    }
    return WHIM_ERR_OK;
}

whim_err whim_own_cols_make(whim_own_cols *out, const whim_col_runs *runs, whim_arena *arena)
{
    const whim_part *mine = runs->runs + (int64_t)runs->rank * runs->n_run;
    *out = (whim_own_cols){.n_run = runs->n_run, .group = runs->group};
    out->held = whim_arena_alloc_array(arena, runs->n_run, sizeof *out->held);
    out->own = whim_arena_alloc_array(arena, runs->n_run, sizeof *out->own);
    if (out->held == NULL || out->own == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    for (int32_t i = 0; i < runs->n_run; i++) {
        out->held[i] = whim_part_widen(mine[i], runs->block);
        out->own[i] = (whim_part){out->width + mine[i].at - out->held[i].at, mine[i].n};
        out->width += out->held[i].n;
        out->padded = out->padded || out->held[i].n > mine[i].n;
    }
    return runs->group > 1 ? cuts_make(out, runs, arena) : WHIM_ERR_OK;
}

/* --- in a pass -------------------------------------------------------------------------------- */

/* y = x, columns of two matrices; NULL: zeros. */
static whim_err copy(whim_stream *s, const float *x, int64_t x_stride, float *y, int64_t y_stride,
                     int64_t n_row, int64_t n_col)
{
    return whim_op_gather_rows(s, &(whim_gather_rows_args){
                                      .x = x,
                                      .x_stride = x_stride,
                                      .y = y,
                                      .y_stride = y_stride,
                                      .n_src = x != NULL ? n_row : 0,
                                      .n_row = n_row,
                                      .n_col = n_col,
                                  });
}

static whim_err clear(whim_stream *s, float *x, int64_t stride, int64_t n_row, int64_t from,
                      int64_t to)
{
    return from < to ? copy(s, NULL, stride, x + from, stride, n_row, to - from) : WHIM_ERR_OK;
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

/* Every column of `space` is one rank's and zero elsewhere: the sum is exact. */
whim_err whim_own_cols_mend(const whim_own_cols *cols, whim_stream *s, float *x, float *space,
                            int64_t n_row)
{
    int64_t width = whim_own_cols_cut_width(cols);
    if (width == 0) {
        return WHIM_ERR_OK;
    }
    WHIM_TRY(clear(s, space, width, n_row, 0, width));
    for (int32_t i = 0; i < cols->n_here; i++) {
        const whim_cut_group *cut = &cols->here[i];
        float *to = space + cut->place * cols->group + cut->own.at - cut->at;
        WHIM_TRY(copy(s, x + cut->own.at, cols->width, to, width, n_row, cut->own.n));
    }
    WHIM_TRY(whim_op_all_reduce(
        s,
        &(whim_all_reduce_args){.x = space, .n_row = n_row, .n_col = width, .site = "cut groups"}));
    for (int32_t i = 0; i < cols->n_here; i++) {
        const whim_cut_group *cut = &cols->here[i];
        const float *from = space + cut->place * cols->group;
        WHIM_TRY(cut->takes
                     ? copy(s, from, width, x + cut->at, cols->width, n_row, cols->group)
                     : clear(s, x, cols->width, n_row, cut->own.at, cut->own.at + cut->own.n));
    }
    return WHIM_ERR_OK;
}
