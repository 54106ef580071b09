/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of what joins the finds of ranks: shift_ids, mask_ids, merge_topk. */
#include "checkop/harness.h"

#include "ops/ops.h"

#include <math.h>
#include <string.h>

enum { N_QUICK = 8, N_RANDOM = 60 };

static void shift_build(checkop_case *c, int64_t n_row, int32_t by)
{
    checkop_call *call = checkop_call_add(c, WHIM_OP_shift_ids);
    whim_shift_ids_args *a = (void *)call->args.bytes;
    a->n_row = n_row;
    a->by = by;
    int32_t x = checkop_ids(c, "x", n_row, -3, 200);
    CHECKOP_BIND(c, call, shift_ids, x, x, 4);
    checkop_operands(c, call, CHECKOP_JUNK, 1);
    CHECKOP_SUBJECT(c, call, shift_ids, n_row);
    c->traffic = 8.0 * (double)n_row;
    checkop_say(c, "n_row=%lld by=%d", (long long)n_row, by);
}

static void shift_make(checkop_case *c, int32_t index)
{
    static const int64_t rows[] = {0, 1, 70001};
    int64_t n_row = index < 3 ? rows[index] : checkop_range(&c->rng, 1, 300);
    shift_build(c, n_row, (int32_t)checkop_range(&c->rng, -250, 250));
}

static bool shift_bench(checkop_case *c, int32_t i)
{
    return i < 1 && (shift_build(c, 512, 1), true);
}

static const char *shift_arguments(int32_t i, void *args)
{
    whim_shift_ids_args *a = args;
    void *p = checkop_somewhere;
    *a = (whim_shift_ids_args){.x = p, .y = p, .n_row = 2, .by = -1};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->x = NULL, "x = NULL";
    case 3:
        return a->y = NULL, "y = NULL";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_shift_ids = {3, 20, 5, shift_make, shift_arguments, shift_bench};

/* --- mask_ids --------------------------------------------------------------------------------- */

typedef struct mask_shape {
    int64_t src, rows, cols;
} mask_shape;

static void mask_build(checkop_case *c, const mask_shape *s)
{
    checkop_call *call = checkop_call_add(c, WHIM_OP_mask_ids);
    whim_mask_ids_args *a = (void *)call->args.bytes;
    a->n_src = s->src;
    a->n_row = s->rows;
    a->n_col = s->cols;
    int32_t x = checkop_ids(c, "x", s->src * s->cols, -3, 200);
    int32_t marks = checkop_ids(c, "marks", s->src, -2, 5);
    CHECKOP_BIND(c, call, mask_ids, x, x, 0);
    CHECKOP_BIND(c, call, mask_ids, marks, marks, 0);
    checkop_operands(c, call, CHECKOP_JUNK, 1);
    CHECKOP_SUBJECT(c, call, mask_ids, 0);
    c->traffic = 8.0 * (double)(s->rows * s->cols);
    checkop_say(c, "n_src=%lld n_row=%lld n_col=%lld", (long long)s->src, (long long)s->rows,
                (long long)s->cols);
}

static void mask_make(checkop_case *c, int32_t index)
{
    static const mask_shape shapes[] = {{0, 0, 3}, {0, 4, 3}, {5, 0, 2}, {70001, 70003, 2}};
    int64_t rows = checkop_range(&c->rng, 1, 200);
    mask_shape s = {checkop_pick(&c->rng, rows, rows + 3, checkop_range(&c->rng, 0, rows)), rows,
                    checkop_range(&c->rng, 1, 16)};
    mask_build(c, index < 4 ? &shapes[index] : &s);
}

static bool mask_bench(checkop_case *c, int32_t i)
{
    return i < 1 && (mask_build(c, &(mask_shape){500, 512, 8}), true);
}

static const char *mask_arguments(int32_t i, void *args)
{
    whim_mask_ids_args *a = args;
    void *p = checkop_somewhere;
    *a = (whim_mask_ids_args){.x = p, .marks = p, .y = p, .n_src = 2, .n_row = 2, .n_col = 2};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->n_src = -1, "n_src < 0";
    case 3:
        return a->n_col = -1, "n_col < 0";
    case 4:
        return a->x = NULL, "x = NULL";
    case 5:
        return a->marks = NULL, "marks = NULL";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_mask_ids = {4, 30, 6, mask_make, mask_arguments, mask_bench};

/* --- merge_topk ------------------------------------------------------------------------------- */

typedef struct merge_shape {
    int64_t rows, cols, k;
} merge_shape;

static const merge_shape hostile[] = {{0, 8, 2},   {1, 1, 1},    {3, 0, 4},   {5, 7, 64},
                                      {2, 64, 64}, {3, 1024, 5}, {33, 14, 1}, {CHECKOP_MANY, 4, 2}};
enum { N_HOSTILE = sizeof hostile / sizeof hostile[0] };

/* Few different values, some of them no numbers. The values are a case's second buffer. */
static void merge_refill(checkop_case *c)
{
    static const float odd[] = {-INFINITY, INFINITY, NAN, -0.0f, 0.0f};
    checkop_buf *b = &c->buf[1];
    for (int64_t i = 0; i < b->rows * b->cols; i++) {
        float x = (float)checkop_range(&c->rng, -6, 6) * 0.5f;
        x = checkop_chance(&c->rng, 12) ? odd[checkop_range(&c->rng, 0, 4)] : x;
        memcpy(b->init + b->head + 4 * i, &x, 4);
    }
}

static void merge_build(checkop_case *c, const merge_shape *s)
{
    int32_t *list;
    int32_t ids = checkop_given(c, "ids", s->rows * s->cols, &list);
    for (int64_t r = 0; r < s->rows; r++) {
        int32_t *row = list + r * s->cols;
        for (int64_t i = 0; i < s->cols; i++) {
            row[i] = (int32_t)(3 * i);
        }
        checkop_shuffle(&c->rng, row, s->cols);
        for (int64_t i = 0; i < s->cols; i++) {
            row[i] = checkop_chance(&c->rng, 8) ? -1 : row[i];
        }
    }
    checkop_call *call = checkop_call_add(c, WHIM_OP_merge_topk);
    whim_merge_topk_args *a = (void *)call->args.bytes;
    a->n_row = s->rows;
    a->n_col = s->cols;
    a->k_top = s->k;
    CHECKOP_BIND(c, call, merge_topk, ids, ids, 4 * s->cols);
    checkop_operands(c, call, CHECKOP_GIVEN, 1);
    CHECKOP_SUBJECT(c, call, merge_topk, s->rows);
    c->refill = merge_refill;
    merge_refill(c);
    c->traffic = 8.0 * (double)(s->rows * s->cols);
    checkop_say(c, "rows=%lld cols=%lld k=%lld", (long long)s->rows, (long long)s->cols,
                (long long)s->k);
}

static void merge_make(checkop_case *c, int32_t index)
{
    merge_shape s = {checkop_range(&c->rng, 1, 20), checkop_range(&c->rng, 1, 200),
                     checkop_pick(&c->rng, 1, 64, checkop_range(&c->rng, 1, 64))};
    merge_build(c, index < N_HOSTILE ? &hostile[index] : &s);
}

static bool merge_bench(checkop_case *c, int32_t i)
{
    return i < 1 && (merge_build(c, &(merge_shape){8, 128, 16}), true);
}

static const char *merge_arguments(int32_t i, void *args)
{
    whim_merge_topk_args *a = args;
    void *p = checkop_somewhere;
    *a = (whim_merge_topk_args){
        .values = p, .ids = p, .top_values = p, .top_ids = p, .n_row = 2, .n_col = 4, .k_top = 2};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->n_col = -1, "n_col < 0";
    case 3:
        return a->k_top = 0, "k_top = 0";
    case 4:
        return a->k_top = 65, "k_top > 64";
    case 5:
        return a->ids = NULL, "ids = NULL";
    case 6:
        return a->top_values = NULL, "top_values = NULL";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_merge_topk = {N_HOSTILE,  N_RANDOM,        N_QUICK,
                                                merge_make, merge_arguments, merge_bench};
