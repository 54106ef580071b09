/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/ranks/whole_rows.h"

enum { OUT_UNIT = 16 }; /* outputs that devices pack together */

const whim_whole_rows *whim_whole_rows_make(const whim_part *runs, int32_t n_run, int64_t n_out,
                                            whim_binder *binder)
{
    int32_t n = binder->n_rank;
    if (!binder->whole_sums) {
        return NULL;
    }
    whim_whole_rows *whole = whim_arena_alloc(&binder->arena, sizeof *whole);
    int64_t *cols = whim_arena_alloc_array(&binder->arena, 2 * (int64_t)n, sizeof *cols);
    if (whole == NULL || cols == NULL || runs == NULL) {
        binder->failed = true;
        return NULL;
    }
    *whole = (whim_whole_rows){.n_rank = n,
                               .rank = binder->rank,
                               .n_run = n_run,
                               .runs = runs,
                               .in_cols = cols,
                               .out_cols = cols + n,
                               .own = whim_part_blocks(n_out, OUT_UNIT, n, binder->rank)};
    for (int32_t r = 0; r < n; r++) {
        cols[n + r] = whim_part_blocks(n_out, OUT_UNIT, n, r).n;
        for (int32_t i = 0; i < n_run; i++) {
            cols[r] += runs[(int64_t)r * n_run + i].n;
        }
        whole->width += cols[r];
    }
    return whole;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void whim_whole_widths_add(whim_whole_widths *widths, const whim_whole_rows *whole)
{
    if (whole != NULL) {
        widths->width = larger(widths->width, whole->width);
        widths->placed = larger(widths->placed, whole->n_run > 1 ? whole->width : 0);
        widths->part = larger(widths->part, whole->own.n);
    }
}

whim_whole_space whim_whole_space_take(whim_bump *bump, const whim_whole_widths *widths,
                                       int64_t n_row)
{
    return (whim_whole_space){.gathered = whim_bump_rows(bump, n_row, widths->width),
                              .placed = whim_bump_rows(bump, n_row, widths->placed),
                              .part = whim_bump_rows(bump, n_row, widths->part)};
}

static whim_err gather(const whim_whole_rows *whole, whim_stream *s, const float *x,
                       const int64_t *cols, int64_t n_row, float *y, const char *site)
{
    return whim_op_all_gather_v(s, &(whim_all_gather_v_args){.x = x,
                                                             .cols = cols,
                                                             .y = y,
                                                             .n_row = n_row,
                                                             .n_rank = whole->n_rank,
                                                             .rank = whole->rank,
                                                             .site = site});
}

/* Ranks that have several runs of columns each, as they lie in the matrix. */
static whim_err place(const whim_whole_rows *whole, whim_stream *s, int64_t n_row,
                      const whim_whole_space *space)
{
    int64_t at = 0;
    for (int32_t i = 0; i < whole->n_rank * whole->n_run; i++) {
        const whim_part *run = &whole->runs[i];
        WHIM_TRY(whim_op_gather_rows(s, &(whim_gather_rows_args){.x = space->gathered + at,
                                                                 .x_stride = whole->width,
                                                                 .y = space->placed + run->at,
                                                                 .y_stride = whole->width,
                                                                 .n_src = n_row,
                                                                 .n_row = n_row,
                                                                 .n_col = run->n}));
        at += run->n;
    }
    return WHIM_ERR_OK;
}

whim_err whim_whole_rows_project(const whim_whole_rows *whole, whim_stream *s,
                                 const whim_projection *p, const float *x, int64_t n_row,
                                 const whim_whole_space *space, float *y)
{
    bool placed = whole->n_run > 1;
    WHIM_TRY(gather(whole, s, x, whole->in_cols, n_row, space->gathered, "heads"));
    WHIM_TRY(placed ? place(whole, s, n_row, space) : WHIM_ERR_OK);
    WHIM_TRY(whim_project(s, p, placed ? space->placed : space->gathered, n_row, space->part,
                          whole->own.n));
    return gather(whole, s, space->part, whole->out_cols, n_row, y, "outputs");
}
