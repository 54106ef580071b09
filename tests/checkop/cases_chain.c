/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of many ops on the same few matrices, queued at once: what one op writes, another reads,
 * overwrites, or leaves beside it in the same rows. They test what single ops cannot: that a device
 * waits exactly where an op needs another's output, and keeps no stale copy of an input. */
#include "checkop/harness.h"

enum { N_MATRIX = 5, COLS = 128, MAX_ROWS = 40, N_WEIGHT = 3, PROGRAM = 40 };

typedef struct program {
    checkop_case *c;
    int32_t matrix[N_MATRIX], weight[N_WEIGHT], norm;
    int64_t rows;
} program;

/* A part of a matrix: some rows from row0 on, the columns from col0 on. */
typedef struct view {
    int32_t buf;
    int64_t offset; /* bytes */
} view;

static const whim_dtype types[N_WEIGHT] = {WHIM_DTYPE_Q8_0, WHIM_DTYPE_F32, WHIM_DTYPE_Q4_1};

static view view_pick(program *p, int64_t n_row, int64_t n_col)
{
    int64_t row0 = checkop_range(&p->c->rng, 0, p->rows - n_row);
    int64_t col0 = checkop_chance(&p->c->rng, 2) ? 0 : COLS - n_col;
    return (view){p->matrix[checkop_range(&p->c->rng, 0, N_MATRIX - 1)], 4 * (row0 * COLS + col0)};
}

/* A view in another matrix than `a`'s. */
static view view_other(program *p, view a, int64_t n_row, int64_t n_col)
{
    view b = view_pick(p, n_row, n_col);
    while (b.buf == a.buf) {
        b = view_pick(p, n_row, n_col);
    }
    return b;
}

static void bind_view(program *p, checkop_call *call, size_t field, view v)
{
    checkop_bind_at(p->c, call, field, v.buf, 0);
    call->bind[call->n_bind - 1].offset = v.offset;
}
#define BIND_VIEW(p, call, op, field, v) bind_view(p, call, offsetof(whim_##op##_args, field), v)

/* One or more products of the rows x: the case for reuse of quantised activations. */
static void add_linear(program *p, view x, int64_t n_row)
{
    int32_t n = (int32_t)checkop_range(&p->c->rng, 1, 3);
    for (int32_t i = 0; i < n; i++) {
        int32_t w = (int32_t)checkop_range(&p->c->rng, 0, N_WEIGHT - 1);
        view y = view_other(p, x, n_row, 64);
        checkop_call *call = checkop_call_add(p->c, WHIM_OP_linear);
        whim_linear_args *a = (void *)call->args.bytes;
        a->w = (whim_weight){.dtype = types[w], .n = 64, .k = 64};
        a->n_row = n_row;
        a->x_stride = a->y_stride = COLS;
        CHECKOP_BIND(p->c, call, linear, w.data, p->weight[w], 0);
        BIND_VIEW(p, call, linear, x, x);
        BIND_VIEW(p, call, linear, y, y);
    }
}

/* Gate and up of the same rows; what such calls take of the workspace is the same memory. */
static void add_linear_swiglu(program *p, view x, int64_t n_row)
{
    view y = view_other(p, x, n_row, 64);
    int32_t gate = (int32_t)checkop_range(&p->c->rng, 0, N_WEIGHT - 1);
    int32_t up = (int32_t)checkop_range(&p->c->rng, 0, N_WEIGHT - 1);
    checkop_call *call = checkop_call_add(p->c, WHIM_OP_linear_swiglu);
    whim_linear_swiglu_args *a = (void *)call->args.bytes;
    a->gate = (whim_weight){.dtype = types[gate], .n = 64, .k = 64};
    a->up = (whim_weight){.dtype = types[up], .n = 64, .k = 64};
    a->n_row = n_row;
    a->x_stride = a->y_stride = COLS;
    CHECKOP_BIND(p->c, call, linear_swiglu, gate.data, p->weight[gate], 0);
    CHECKOP_BIND(p->c, call, linear_swiglu, up.data, p->weight[up], 0);
    BIND_VIEW(p, call, linear_swiglu, x, x);
    BIND_VIEW(p, call, linear_swiglu, y, y);
}

/* Often the products of a norm come right after it, as in a model. */
static void add_products_after(program *p, view x, int64_t n_row)
{
    n_row = checkop_chance(&p->c->rng, 8) ? 1 : n_row;
    if (checkop_chance(&p->c->rng, 2)) {
        add_linear(p, x, n_row);
    } else if (checkop_chance(&p->c->rng, 2)) {
        add_linear_swiglu(p, x, n_row);
    }
}

/* Also what keeps the numbers of a long program in range. */
static void add_norm(program *p, int64_t n_row)
{
    view x = view_pick(p, n_row, 64);
    view y = checkop_chance(&p->c->rng, 2) ? x : view_other(p, x, n_row, 64);
    checkop_call *call = checkop_call_add(p->c, WHIM_OP_rmsnorm);
    whim_rmsnorm_args *a = (void *)call->args.bytes;
    a->eps = 1e-5f;
    a->n_row = n_row;
    a->n_col = 64;
    a->x_stride = a->y_stride = COLS;
    CHECKOP_BIND(p->c, call, rmsnorm, w, p->norm, 0);
    BIND_VIEW(p, call, rmsnorm, x, x);
    BIND_VIEW(p, call, rmsnorm, y, y);
    add_products_after(p, y, n_row);
}

static void add_sum_norm(program *p, int64_t n_row)
{
    view x = view_pick(p, n_row, 64), delta = view_other(p, x, n_row, 64);
    view y = view_other(p, x, n_row, 64);
    y = y.buf == delta.buf ? delta : y;
    checkop_call *call = checkop_call_add(p->c, WHIM_OP_add_rmsnorm);
    whim_add_rmsnorm_args *a = (void *)call->args.bytes;
    a->eps = 1e-5f;
    a->n_row = n_row;
    a->n_col = 64;
    a->x_stride = a->delta_stride = a->y_stride = COLS;
    CHECKOP_BIND(p->c, call, add_rmsnorm, w, p->norm, 0);
    BIND_VIEW(p, call, add_rmsnorm, x, x);
    BIND_VIEW(p, call, add_rmsnorm, delta, delta);
    BIND_VIEW(p, call, add_rmsnorm, y, y);
    add_products_after(p, y, n_row);
}

/* The two halves of the columns, as gate and up of one product are. */
static void add_swiglu(program *p, int64_t n_row)
{
    view gate = view_pick(p, n_row, 64);
    gate.offset -= gate.offset % (4 * COLS);
    view up = {gate.buf, gate.offset + 4 * 64};
    view y = checkop_chance(&p->c->rng, 2) ? gate : view_other(p, gate, n_row, 64);
    checkop_call *call = checkop_call_add(p->c, WHIM_OP_swiglu);
    whim_swiglu_args *a = (void *)call->args.bytes;
    a->n_row = n_row;
    a->n_col = 64;
    a->gate_stride = a->up_stride = a->y_stride = COLS;
    BIND_VIEW(p, call, swiglu, gate, gate);
    BIND_VIEW(p, call, swiglu, up, up);
    BIND_VIEW(p, call, swiglu, y, y);
}

/* Rows of a matrix into another, of which more are read than written or fewer. */
static void add_gather(program *p, int64_t n_row, int32_t rows)
{
    view x = view_pick(p, p->rows, 64);
    checkop_call *call = checkop_call_add(p->c, WHIM_OP_gather_rows);
    whim_gather_rows_args *a = (void *)call->args.bytes;
    a->n_src = p->rows;
    a->n_row = n_row;
    a->n_col = 64;
    a->x_stride = a->y_stride = COLS;
    CHECKOP_BIND(p->c, call, gather_rows, rows, rows, 0);
    BIND_VIEW(p, call, gather_rows, x, x);
    BIND_VIEW(p, call, gather_rows, y, view_other(p, x, n_row, 64));
}

static void chain_make(checkop_case *c, int32_t index)
{
    static const char *const names[N_MATRIX] = {"a", "b", "c", "d", "e"};
    static const char *const weights[N_WEIGHT] = {"wa", "wb", "wc"};
    program p = {.c = c, .rows = index % 4 == 0 ? 1 : checkop_range(&c->rng, 2, MAX_ROWS)};
    for (int32_t i = 0; i < N_MATRIX; i++) {
        p.matrix[i] =
            checkop_matrix(c, names[i], CHECKOP_INOUT, CHECKOP_SANE, p.rows, COLS, COLS, 0);
    }
    for (int32_t i = 0; i < N_WEIGHT; i++) {
        p.weight[i] = checkop_weight(c, weights[i], types[i], 64, 64);
    }
    p.norm = checkop_matrix(c, "norm", CHECKOP_IN, CHECKOP_SANE, 1, 64, 64, 0);
    int32_t rows = checkop_ids(c, "rows", MAX_ROWS, -1, (int32_t)p.rows);
    while (c->n_call < PROGRAM) {
        int64_t n_row = checkop_chance(&c->rng, 2) ? p.rows : checkop_range(&c->rng, 1, p.rows);
        switch (checkop_range(&c->rng, 0, 6)) {
        case 0:
        case 1:
            add_linear(&p, view_pick(&p, n_row, 64), n_row);
            break;
        case 2:
            add_norm(&p, n_row);
            break;
        case 3:
            add_sum_norm(&p, n_row);
            break;
        case 4:
            add_swiglu(&p, n_row);
            break;
        case 5:
            add_linear_swiglu(&p, view_pick(&p, n_row, 64), n_row);
            break;
        default:
            add_gather(&p, n_row, rows);
            break;
        }
    }
    checkop_say(c, "%d calls, %lld rows", c->n_call, (long long)p.rows);
}

const checkop_case_family checkop_chain = {
    .n_random = 300, .n_random_quick = 20, .make = chain_make};
