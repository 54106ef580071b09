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
    checkop_call *call = checkop_call_add(c, WHIM_OP_rmsnorm);
    whim_rmsnorm_args *a = (void *)call->args.bytes;
    a->x = a->y = in_place ? checkop_somewhere : NULL;
    a->x_stride = s->cols + s->pad;
    a->y_stride = a->x_stride + (!in_place && s->pad > 0 ? 2 : 0);
    a->eps = (float)checkop_pick(&c->rng, 0, 10, 100) * 1e-7f;
    a->n_row = s->rows;
    a->n_col = s->cols;
    checkop_operands(c, call, s->fill, s->offset);
    CHECKOP_SUBJECT(c, call, rmsnorm, s->rows);
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
    checkop_call *call = checkop_call_add(c, WHIM_OP_add);
    whim_add_args *a = (void *)call->args.bytes;
    a->x_stride = s->cols + s->pad;
    a->y_stride = bias ? 0 : s->cols + 2 * s->pad;
    a->n_row = s->rows;
    a->n_col = s->cols;
    checkop_operands(c, call, s->fill, s->offset);
    CHECKOP_SUBJECT(c, call, add, s->rows);
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
    checkop_call *call = checkop_call_add(c, WHIM_OP_add_rmsnorm);
    whim_add_rmsnorm_args *a = (void *)call->args.bytes;
    a->delta = a->y = over_delta ? checkop_somewhere : NULL;
    a->x_stride = s->cols + s->pad;
    a->delta_stride = s->cols + 2 * s->pad;
    a->y_stride = over_delta ? a->delta_stride : a->x_stride + (s->pad > 0 ? 1 : 0);
    a->eps = 1e-5f;
    a->n_row = s->rows;
    a->n_col = s->cols;
    checkop_operands(c, call, s->fill, s->offset);
    CHECKOP_SUBJECT(c, call, add_rmsnorm, s->rows);
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
    checkop_call *call = checkop_call_add(c, WHIM_OP_swiglu);
    whim_swiglu_args *a = (void *)call->args.bytes;
    a->y = over > 0 ? checkop_somewhere : NULL;
    a->gate = over == 1 ? a->y : NULL;
    a->up = over == 2 ? a->y : NULL;
    a->gate_stride = s->cols + s->pad;
    a->up_stride = s->cols + 2 * s->pad;
    a->y_stride = over == 1   ? a->gate_stride
                  : over == 2 ? a->up_stride
                              : a->gate_stride + (s->pad > 0 ? 3 : 0);
    a->n_row = s->rows;
    a->n_col = s->cols;
    checkop_operands(c, call, s->fill, s->offset);
    CHECKOP_SUBJECT(c, call, swiglu, s->rows);
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

/* A row alone of those without ids is a row of a smaller matrix. */
static void gather_slice(const checkop_case *c, int64_t row, checkop_call *call)
{
    whim_gather_rows_args *a = (void *)call->args.bytes;
    bool all = checkop_bound(call, offsetof(whim_gather_rows_args, rows)) < 0;
    a->n_src = all ? c->n_row - row : a->n_src;
}

static void gather_build(checkop_case *c, const row_shape *s, int64_t n_src, bool all)
{
    checkop_call *call = checkop_call_add(c, WHIM_OP_gather_rows);
    whim_gather_rows_args *a = (void *)call->args.bytes;
    a->x_stride = s->cols + 2 * s->pad;
    a->y_stride = s->cols + s->pad;
    a->n_src = n_src;
    a->n_row = s->rows;
    a->n_col = s->cols;
    if (!all) {
        a->rows = checkop_some_ids;
        int32_t rows = checkop_ids(c, "rows", s->rows, -2, (int32_t)n_src + 1);
        CHECKOP_BIND(c, call, gather_rows, rows, rows, 4);
    }
    checkop_operands(c, call, s->fill, s->offset);
    CHECKOP_SUBJECT(c, call, gather_rows, s->rows);
    c->slice = gather_slice;
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

/* --- result_tokens ---------------------------------------------------------------------------- */

static void results_build(checkop_case *c, int64_t n_row, int64_t n_result, int64_t stride)
{
    checkop_call *call = checkop_call_add(c, WHIM_OP_result_tokens);
    whim_result_tokens_args *a = (void *)call->args.bytes;
    a->result_stride = stride;
    a->n_row = n_row;
    a->n_result = n_result;
    int32_t refs = checkop_ids(c, "refs", n_row, -4 - (int32_t)n_result, 40);
    int32_t results = checkop_ids(c, "results", n_result * stride, 100, 200);
    CHECKOP_BIND(c, call, result_tokens, refs, refs, 4);
    CHECKOP_BIND(c, call, result_tokens, results, results, 0);
    checkop_operands(c, call, CHECKOP_JUNK, 1);
    CHECKOP_SUBJECT(c, call, result_tokens, n_row);
    c->traffic = 8.0 * (double)n_row;
    checkop_say(c, "n_row=%lld n_result=%lld stride=%lld", (long long)n_row, (long long)n_result,
                (long long)stride);
}

static void results_make(checkop_case *c, int32_t index)
{
    static const int64_t rows[] = {0, 1, 70001, 7};
    int64_t n_row = index < 4 ? rows[index] : checkop_range(&c->rng, 1, 300);
    int64_t n_result = index == 3 ? 0 : checkop_range(&c->rng, 1, 40);
    results_build(c, n_row, n_result, checkop_pick(&c->rng, 1, 64, checkop_range(&c->rng, 1, 9)));
}

static bool results_bench(checkop_case *c, int32_t i)
{
    return i < 1 && (results_build(c, 64, 64, 1), true);
}

static const char *results_arguments(int32_t i, void *args)
{
    whim_result_tokens_args *a = args;
    void *p = checkop_somewhere;
    *a = (whim_result_tokens_args){
        .refs = p, .results = p, .result_stride = 1, .tokens = p, .n_row = 2, .n_result = 2};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->n_result = -1, "n_result < 0";
    case 3:
        return a->result_stride = 0, "result_stride < 1";
    case 4:
        return a->refs = NULL, "refs = NULL";
    case 5:
        return a->tokens = NULL, "tokens = NULL";
    case 6:
        return a->results = NULL, "results = NULL";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_result_tokens = {
    4, 30, 6, results_make, results_arguments, results_bench};
