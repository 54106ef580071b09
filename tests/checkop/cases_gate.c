/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of the gates beside attention and the gated delta net, and of plain copies. */
#include "checkop/harness.h"

typedef struct gate_shape {
    int64_t rows, cols, pad, offset;
    checkop_fill fill;
} gate_shape;

static const gate_shape hostile[] = {
    {0, 64, 0, 0, CHECKOP_SANE},   {1, 1, 0, 0, CHECKOP_SANE},
    {1, 128, 0, 0, CHECKOP_SANE},  {3, 17, 5, 1, CHECKOP_SANE},
    {7, 33, 1, 1, CHECKOP_WILD},   {4, 48, 0, 0, CHECKOP_ANY},
    {2, 1000, 24, 1, CHECKOP_ANY}, {CHECKOP_MANY, 3, 1, 1, CHECKOP_SANE},
    {3, 0, 2, 0, CHECKOP_SANE},
};
enum { N_HOSTILE = sizeof hostile / sizeof hostile[0], N_RANDOM = 60, N_QUICK = 8 };

static gate_shape shape_make(checkop_case *c, int32_t index)
{
    gate_shape s;
    if (index < N_HOSTILE) {
        s = hostile[index];
    } else {
        s.rows = checkop_pick(&c->rng, 1, 2, 8, checkop_range(&c->rng, 1, 50));
        s.cols = checkop_pick(&c->rng, 16, 128, checkop_range(&c->rng, 1, 600));
        s.pad = checkop_chance(&c->rng, 2) ? 0 : checkop_range(&c->rng, 1, 20);
        s.offset = checkop_range(&c->rng, 0, 7);
        s.fill = checkop_chance(&c->rng, 3) ? CHECKOP_WILD : CHECKOP_SANE;
    }
    checkop_say(c, "rows=%lld cols=%lld pad=%lld offset=%lld fill=%d", (long long)s.rows,
                (long long)s.cols, (long long)s.pad, (long long)s.offset, (int)s.fill);
    return s;
}

static bool bench_shape(checkop_case *c, int32_t i, gate_shape *s)
{
    *s = (gate_shape){i == 0 ? 32 : 32 * 256, 128, 0, 0, CHECKOP_SANE};
    checkop_say(c, "%lld x 128", (long long)s->rows);
    return i < 2;
}

/* --- sigmoid_gate ----------------------------------------------------------------------------- */

static void sigmoid_build(checkop_case *c, const gate_shape *s)
{
    checkop_call *call = checkop_call_add(c, WHIM_OP_sigmoid_gate);
    whim_sigmoid_gate_args *a = (void *)call->args.bytes;
    a->x_stride = a->gate_stride = s->cols + s->pad;
    a->n_row = s->rows;
    a->n_col = s->cols;
    checkop_operands(c, call, s->fill, s->offset);
    CHECKOP_SUBJECT(c, call, sigmoid_gate, s->rows);
    c->flops = 12.0 * (double)(s->rows * s->cols);
    c->traffic = 12.0 * (double)(s->rows * s->cols);
}

static void sigmoid_make(checkop_case *c, int32_t index)
{
    gate_shape s = shape_make(c, index);
    sigmoid_build(c, &s);
}

static bool sigmoid_bench(checkop_case *c, int32_t i)
{
    gate_shape s;
    return bench_shape(c, i, &s) && (sigmoid_build(c, &s), true);
}

static const char *sigmoid_arguments(int32_t i, void *args)
{
    whim_sigmoid_gate_args *a = args;
    float *p = checkop_somewhere;
    *a = (whim_sigmoid_gate_args){
        .x = p, .x_stride = 8, .gate = p, .gate_stride = 8, .n_row = 2, .n_col = 8};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->x_stride = 7, "x_stride < n_col";
    case 3:
        return a->gate_stride = 7, "gate_stride < n_col";
    case 4:
        return a->gate = NULL, "gate = NULL";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_sigmoid_gate = {N_HOSTILE,    N_RANDOM,          N_QUICK,
                                                  sigmoid_make, sigmoid_arguments, sigmoid_bench};

/* --- rmsnorm_gated ---------------------------------------------------------------------------- */

static void gated_build(checkop_case *c, const gate_shape *s, bool in_place)
{
    checkop_call *call = checkop_call_add(c, WHIM_OP_rmsnorm_gated);
    whim_rmsnorm_gated_args *a = (void *)call->args.bytes;
    a->x = a->y = in_place ? checkop_somewhere : NULL;
    a->x_stride = a->z_stride = a->y_stride = s->cols + s->pad;
    a->eps = 1e-6f;
    a->n_row = s->rows;
    a->n_col = s->cols;
    checkop_operands(c, call, s->fill, s->offset);
    CHECKOP_SUBJECT(c, call, rmsnorm_gated, s->rows);
    c->flops = 16.0 * (double)(s->rows * s->cols);
    c->traffic = 12.0 * (double)(s->rows * s->cols);
}

static void gated_make(checkop_case *c, int32_t index)
{
    gate_shape s = shape_make(c, index);
    bool in_place = index % 2 == 1;
    checkop_say(c, in_place ? " in place" : "");
    gated_build(c, &s, in_place);
}

static bool gated_bench(checkop_case *c, int32_t i)
{
    gate_shape s;
    return bench_shape(c, i, &s) && (gated_build(c, &s, false), true);
}

static const char *gated_arguments(int32_t i, void *args)
{
    whim_rmsnorm_gated_args *a = args;
    float *p = checkop_somewhere;
    *a = (whim_rmsnorm_gated_args){.x = p,
                                   .x_stride = 8,
                                   .w = p,
                                   .eps = 1e-6f,
                                   .z = p,
                                   .z_stride = 8,
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
        return a->z_stride = 7, "z_stride < n_col";
    case 3:
        return a->y = NULL, "y = NULL";
    case 4:
        return a->w = NULL, "w = NULL";
    case 5:
        return a->eps = -1.0f, "eps < 0";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_rmsnorm_gated = {N_HOSTILE,  N_RANDOM,        N_QUICK,
                                                   gated_make, gated_arguments, gated_bench};

/* --- copy_bytes ------------------------------------------------------------------------------- */

static void copy_build(checkop_case *c, int64_t bytes)
{
    checkop_call *call = checkop_call_add(c, WHIM_OP_copy_bytes);
    ((whim_copy_bytes_args *)(void *)call->args.bytes)->bytes = bytes;
    CHECKOP_BIND(c, call, copy_bytes, src,
                 checkop_bytes(c, "src", CHECKOP_IN, CHECKOP_JUNK, 1, bytes, bytes, 3), 0);
    checkop_operands(c, call, CHECKOP_ZERO, 1);
    c->traffic = 2.0 * (double)bytes;
    checkop_say(c, "bytes=%lld", (long long)bytes);
}

static void copy_make(checkop_case *c, int32_t index)
{
    static const int64_t sizes[] = {0, 1, 63, 65536, 70001};
    copy_build(c, index < 5 ? sizes[index] : checkop_range(&c->rng, 1, 5000));
}

static bool copy_bench(checkop_case *c, int32_t i)
{
    return i < 1 && (copy_build(c, 2 << 20), true);
}

static const char *copy_arguments(int32_t i, void *args)
{
    whim_copy_bytes_args *a = args;
    *a =
        (whim_copy_bytes_args){.dst = checkop_somewhere, .src = checkop_somewhere + 8, .bytes = 32};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->bytes = -1, "bytes < 0";
    case 2:
        return a->dst = NULL, "dst = NULL";
    case 3:
        return a->src = NULL, "src = NULL";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_copy_bytes = {5, 10, 3, copy_make, copy_arguments, copy_bench};
