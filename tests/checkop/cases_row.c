/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of the ops that work row by row on F32 matrices. */
#include "checkop/harness.h"

/* Sizes of a case: `pad` elements between rows, pointers `offset` elements after an aligned
 * address. */
typedef struct row_shape {
    int64_t rows, cols, pad, offset;
    checkop_fill fill;
} row_shape;

static const row_shape hostile[] = {
    {0, 64, 0, 0, CHECKOP_SANE},           {1, 1, 0, 0, CHECKOP_SANE},
    {1, 64, 0, 0, CHECKOP_SANE},           {3, 17, 5, 1, CHECKOP_SANE},
    {7, 33, 1, 1, CHECKOP_WILD},           {2, 576, 0, 0, CHECKOP_SANE},
    {5, 1000, 24, 1, CHECKOP_WILD},        {4, 48, 0, 0, CHECKOP_ANY},
    {17, 15, 0, 3, CHECKOP_ANY},           {33, 31, 1, 0, CHECKOP_WILD},
    {2, 4099, 3, 1, CHECKOP_SANE},         {3, 0, 2, 0, CHECKOP_SANE},
    {CHECKOP_MANY, 3, 1, 1, CHECKOP_SANE}, {CHECKOP_MANY + 1, 5, 0, 0, CHECKOP_WILD},
};
enum { N_HOSTILE = sizeof hostile / sizeof hostile[0], N_RANDOM = 150, N_QUICK = 12 };

static row_shape shape_make(checkop_case *c, int32_t index)
{
    row_shape s;
    if (index < N_HOSTILE) {
        s = hostile[index];
    } else {
        s.rows = checkop_pick(&c->rng, 1, 2, 3, 8, checkop_range(&c->rng, 1, 70));
        s.cols = checkop_pick(&c->rng, 16, 64, 576, checkop_range(&c->rng, 1, 40),
                              checkop_range(&c->rng, 1, 700));
        s.pad = checkop_chance(&c->rng, 2) ? 0 : checkop_range(&c->rng, 1, 20);
        s.offset = checkop_chance(&c->rng, 2) ? 0 : checkop_range(&c->rng, 1, 15);
        s.fill = checkop_chance(&c->rng, 3) ? CHECKOP_WILD : CHECKOP_SANE;
    }
    checkop_say(c, "rows=%lld cols=%lld stride=%lld offset=%lld fill=%d", (long long)s.rows,
                (long long)s.cols, (long long)(s.cols + s.pad), (long long)s.offset, (int)s.fill);
    return s;
}

static int32_t matrix(checkop_case *c, const char *name, checkop_role role, const row_shape *s,
                      int64_t more_pad)
{
    checkop_fill fill = role == CHECKOP_OUT ? CHECKOP_JUNK : s->fill;
    return checkop_matrix(c, name, role, fill, s->rows, s->cols, s->cols + s->pad + more_pad,
                          s->offset);
}

static int32_t vector(checkop_case *c, const char *name, int64_t n, checkop_fill fill)
{
    return checkop_matrix(c, name, CHECKOP_IN, fill, 1, n, n, 1);
}

static const row_shape bench_shapes[] = {
    {1, 576, 0, 0, CHECKOP_SANE}, {64, 576, 0, 0, CHECKOP_SANE}, {256, 4096, 0, 0, CHECKOP_SANE}};

static bool bench_shape(checkop_case *c, int32_t i, row_shape *s)
{
    if (i >= 3) {
        return false;
    }
    *s = bench_shapes[i];
    checkop_say(c, "%lld x %lld", (long long)s->rows, (long long)s->cols);
    return true;
}

#define ROW_BENCH(op, build)                           \
    static bool op##_bench(checkop_case *c, int32_t i) \
    {                                                  \
        row_shape s;                                   \
        return bench_shape(c, i, &s) && (build, true); \
    }

/* Operations and bytes for each element. */
static void bench_cost(checkop_case *c, const row_shape *s, double flops, double bytes)
{
    c->flops = flops * (double)(s->rows * s->cols);
    c->traffic = bytes * (double)(s->rows * s->cols);
}

/* --- rmsnorm ---------------------------------------------------------------------------------- */

static void rmsnorm_build(checkop_case *c, const row_shape *s, bool in_place)
{
    int32_t x = matrix(c, "x", in_place ? CHECKOP_INOUT : CHECKOP_IN, s, 0);
    int32_t y = in_place ? x : matrix(c, "y", CHECKOP_OUT, s, s->pad > 0 ? 2 : 0);
    int32_t w = vector(c, "w", s->cols, CHECKOP_SANE);
    checkop_call *call = checkop_call_add(c, WHIM_OP_rmsnorm);
    whim_rmsnorm_args *a = (void *)call->args.bytes;
    a->x_stride = c->buf[x].stride_bytes / 4;
    a->y_stride = c->buf[y].stride_bytes / 4;
    a->eps = (float)checkop_pick(&c->rng, 0, 10, 100) * 1e-7f;
    a->n_row = s->rows;
    a->n_col = s->cols;
    CHECKOP_BIND_ROWS(c, call, rmsnorm, x, x);
    CHECKOP_BIND_ROWS(c, call, rmsnorm, y, y);
    CHECKOP_BIND(c, call, rmsnorm, w, w, 0);
    CHECKOP_SUBJECT(c, rmsnorm, s->rows);
    bench_cost(c, s, 4, 8);
}

static void rmsnorm_make(checkop_case *c, int32_t index)
{
    row_shape s = shape_make(c, index);
    bool in_place = index % 3 == 1;
    checkop_say(c, in_place ? " in place" : "");
    rmsnorm_build(c, &s, in_place);
}

ROW_BENCH(rmsnorm, rmsnorm_build(c, &s, false))

static const char *rmsnorm_arguments(int32_t i, void *args)
{
    whim_rmsnorm_args *a = args;
    float *p = checkop_somewhere;
    *a = (whim_rmsnorm_args){
        .x = p, .x_stride = 8, .w = p, .eps = 1e-5f, .y = p, .y_stride = 8, .n_row = 2, .n_col = 8};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->n_col = -1, "n_col < 0";
    case 3:
        return a->x_stride = 7, "x_stride < n_col";
    case 4:
        return a->y_stride = 7, "y_stride < n_col";
    case 5:
        return a->x = NULL, "x = NULL";
    case 6:
        return a->eps = -1.0f, "eps < 0";
    case 7:
        return a->x_stride = INT64_MAX / 2, "x_stride overflows";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_rmsnorm = {N_HOSTILE,    N_RANDOM,          N_QUICK,
                                             rmsnorm_make, rmsnorm_arguments, rmsnorm_bench};

/* --- add -------------------------------------------------------------------------------------- */

static void add_build(checkop_case *c, const row_shape *s, bool bias)
{
    int32_t x = matrix(c, "x", CHECKOP_INOUT, s, 0);
    int32_t y = bias ? vector(c, "y", s->cols, s->fill) : matrix(c, "y", CHECKOP_IN, s, s->pad);
    checkop_call *call = checkop_call_add(c, WHIM_OP_add);
    whim_add_args *a = (void *)call->args.bytes;
    a->x_stride = c->buf[x].stride_bytes / 4;
    a->y_stride = bias ? 0 : c->buf[y].stride_bytes / 4;
    a->n_row = s->rows;
    a->n_col = s->cols;
    CHECKOP_BIND_ROWS(c, call, add, x, x);
    CHECKOP_BIND(c, call, add, y, y, bias ? 0 : c->buf[y].stride_bytes);
    CHECKOP_SUBJECT(c, add, s->rows);
    bench_cost(c, s, 1, 12);
}

static void add_make(checkop_case *c, int32_t index)
{
    row_shape s = shape_make(c, index);
    bool bias = index % 3 == 1;
    checkop_say(c, bias ? " y_stride=0" : "");
    add_build(c, &s, bias);
}

ROW_BENCH(add, add_build(c, &s, false))

static const char *add_arguments(int32_t i, void *args)
{
    whim_add_args *a = args;
    float *p = checkop_somewhere;
    *a = (whim_add_args){.x = p, .x_stride = 8, .y = p, .y_stride = 0, .n_row = 2, .n_col = 8};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->n_col = -8, "n_col < 0";
    case 3:
        return a->x_stride = 7, "x_stride < n_col";
    case 4:
        return a->y_stride = 7, "0 < y_stride < n_col";
    case 5:
        return a->y_stride = -8, "y_stride < 0";
    case 6:
        return a->y = NULL, "y = NULL";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_add = {N_HOSTILE, N_RANDOM,      N_QUICK,
                                         add_make,  add_arguments, add_bench};

/* --- add_rmsnorm ------------------------------------------------------------------------------ */

static void add_rmsnorm_build(checkop_case *c, const row_shape *s, bool over_delta)
{
    int32_t x = matrix(c, "x", CHECKOP_INOUT, s, 0);
    int32_t delta = matrix(c, "delta", over_delta ? CHECKOP_INOUT : CHECKOP_IN, s, s->pad);
    int32_t y = over_delta ? delta : matrix(c, "y", CHECKOP_OUT, s, s->pad > 0 ? 1 : 0);
    int32_t w = vector(c, "w", s->cols, CHECKOP_SANE);
    checkop_call *call = checkop_call_add(c, WHIM_OP_add_rmsnorm);
    whim_add_rmsnorm_args *a = (void *)call->args.bytes;
    a->x_stride = c->buf[x].stride_bytes / 4;
    a->delta_stride = c->buf[delta].stride_bytes / 4;
    a->y_stride = c->buf[y].stride_bytes / 4;
    a->eps = 1e-5f;
    a->n_row = s->rows;
    a->n_col = s->cols;
    CHECKOP_BIND_ROWS(c, call, add_rmsnorm, x, x);
    CHECKOP_BIND_ROWS(c, call, add_rmsnorm, delta, delta);
    CHECKOP_BIND_ROWS(c, call, add_rmsnorm, y, y);
    CHECKOP_BIND(c, call, add_rmsnorm, w, w, 0);
    CHECKOP_SUBJECT(c, add_rmsnorm, s->rows);
    bench_cost(c, s, 5, 16);
}

static void add_rmsnorm_make(checkop_case *c, int32_t index)
{
    row_shape s = shape_make(c, index);
    bool over_delta = index % 4 == 1;
    checkop_say(c, over_delta ? " y=delta" : "");
    add_rmsnorm_build(c, &s, over_delta);
}

ROW_BENCH(add_rmsnorm, add_rmsnorm_build(c, &s, false))

static const char *add_rmsnorm_arguments(int32_t i, void *args)
{
    whim_add_rmsnorm_args *a = args;
    float *p = checkop_somewhere;
    *a = (whim_add_rmsnorm_args){.x = p,
                                 .x_stride = 8,
                                 .delta = p,
                                 .delta_stride = 8,
                                 .w = p,
                                 .y = p,
                                 .y_stride = 8,
                                 .n_row = 2,
                                 .n_col = 8};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->n_col = -1, "n_col < 0";
    case 3:
        return a->x_stride = 7, "x_stride < n_col";
    case 4:
        return a->delta_stride = 7, "delta_stride < n_col";
    case 5:
        return a->y_stride = 7, "y_stride < n_col";
    case 6:
        return a->w = NULL, "w = NULL";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_add_rmsnorm = {
    N_HOSTILE, N_RANDOM, N_QUICK, add_rmsnorm_make, add_rmsnorm_arguments, add_rmsnorm_bench};

/* --- swiglu ----------------------------------------------------------------------------------- */

static void swiglu_build(checkop_case *c, const row_shape *s, int32_t over)
{
    int32_t gate = matrix(c, "gate", over == 1 ? CHECKOP_INOUT : CHECKOP_IN, s, 0);
    int32_t up = matrix(c, "up", over == 2 ? CHECKOP_INOUT : CHECKOP_IN, s, s->pad);
    int32_t y = over == 1   ? gate
                : over == 2 ? up
                            : matrix(c, "y", CHECKOP_OUT, s, s->pad > 0 ? 3 : 0);
    checkop_call *call = checkop_call_add(c, WHIM_OP_swiglu);
    whim_swiglu_args *a = (void *)call->args.bytes;
    a->gate_stride = c->buf[gate].stride_bytes / 4;
    a->up_stride = c->buf[up].stride_bytes / 4;
    a->y_stride = c->buf[y].stride_bytes / 4;
    a->n_row = s->rows;
    a->n_col = s->cols;
    CHECKOP_BIND_ROWS(c, call, swiglu, gate, gate);
    CHECKOP_BIND_ROWS(c, call, swiglu, up, up);
    CHECKOP_BIND_ROWS(c, call, swiglu, y, y);
    CHECKOP_SUBJECT(c, swiglu, s->rows);
    bench_cost(c, s, 20, 12);
}

static void swiglu_make(checkop_case *c, int32_t index)
{
    row_shape s = shape_make(c, index);
    int32_t over = index % 3;
    checkop_say(c, over == 0 ? "" : over == 1 ? " y=gate" : " y=up");
    swiglu_build(c, &s, over);
}

ROW_BENCH(swiglu, swiglu_build(c, &s, 0))

static const char *swiglu_arguments(int32_t i, void *args)
{
    whim_swiglu_args *a = args;
    float *p = checkop_somewhere;
    *a = (whim_swiglu_args){.gate = p,
                            .gate_stride = 8,
                            .up = p,
                            .up_stride = 8,
                            .y = p,
                            .y_stride = 8,
                            .n_row = 2,
                            .n_col = 8};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->n_col = -1, "n_col < 0";
    case 3:
        return a->gate_stride = 7, "gate_stride < n_col";
    case 4:
        return a->up_stride = 0, "up_stride < n_col";
    case 5:
        return a->y_stride = 7, "y_stride < n_col";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_swiglu = {N_HOSTILE,   N_RANDOM,         N_QUICK,
                                            swiglu_make, swiglu_arguments, swiglu_bench};

/* --- gather_rows ------------------------------------------------------------------------------ */

static void gather_build(checkop_case *c, const row_shape *s, int64_t n_src, bool all)
{
    row_shape source = *s;
    source.rows = n_src;
    int32_t x = matrix(c, "x", CHECKOP_IN, &source, s->pad);
    int32_t y = matrix(c, "y", CHECKOP_OUT, s, 0);
    checkop_call *call = checkop_call_add(c, WHIM_OP_gather_rows);
    whim_gather_rows_args *a = (void *)call->args.bytes;
    a->x_stride = c->buf[x].stride_bytes / 4;
    a->y_stride = c->buf[y].stride_bytes / 4;
    a->n_src = n_src;
    a->n_row = s->rows;
    a->n_col = s->cols;
    CHECKOP_BIND_ROWS(c, call, gather_rows, y, y);
    if (all) {
        CHECKOP_BIND_ROWS(c, call, gather_rows, x, x);
    } else {
        CHECKOP_BIND(c, call, gather_rows, x, x, 0);
        int32_t rows = checkop_ids(c, "rows", s->rows, -2, (int32_t)n_src + 1);
        CHECKOP_BIND(c, call, gather_rows, rows, rows, 4);
    }
    CHECKOP_SUBJECT(c, gather_rows, s->rows);
    bench_cost(c, s, 0, 8);
}

static void gather_make(checkop_case *c, int32_t index)
{
    row_shape s = shape_make(c, index);
    bool all = index % 3 == 1;
    int64_t n_src = all ? s.rows : checkop_pick(&c->rng, 1, 3, checkop_range(&c->rng, 1, 100));
    checkop_say(c, " n_src=%lld%s", (long long)n_src, all ? " rows=NULL" : "");
    gather_build(c, &s, n_src, all);
}

ROW_BENCH(gather, gather_build(c, &s, 256, false))

static const char *gather_arguments(int32_t i, void *args)
{
    whim_gather_rows_args *a = args;
    float *p = checkop_somewhere;
    *a = (whim_gather_rows_args){
        .x = p, .x_stride = 8, .y = p, .y_stride = 8, .n_src = 2, .n_row = 2, .n_col = 8};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->n_col = -1, "n_col < 0";
    case 3:
        return a->n_src = -1, "n_src < 0";
    case 4:
        return a->x_stride = 7, "x_stride < n_col";
    case 5:
        return a->y_stride = 7, "y_stride < n_col";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_gather_rows = {N_HOSTILE,   N_RANDOM,         N_QUICK,
                                                 gather_make, gather_arguments, gather_bench};
