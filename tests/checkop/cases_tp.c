/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of the norm of q and k over all ranks: the sums, a norm by given sums, and the fused op. */
#include "checkop/harness.h"

#include <math.h>
#include <string.h>

typedef struct tp_shape {
    int64_t rows, n_head, n_kv, d_head, n_freq, pad, offset;
    int64_t ranks; /* the widths are those of so many ranks */
    checkop_fill fill;
} tp_shape;

static const tp_shape hostile[] = {
    {0, 2, 1, 64, 32, 0, 0, 2, CHECKOP_SANE},  {1, 12, 2, 128, 32, 0, 0, 4, CHECKOP_SANE},
    {3, 1, 1, 16, 8, 7, 1, 1, CHECKOP_SANE},   {5, 3, 3, 20, 10, 1, 1, 3, CHECKOP_WILD},
    {17, 8, 1, 80, 40, 0, 3, 8, CHECKOP_SANE}, {2, 4, 2, 256, 32, 5, 0, 2, CHECKOP_WILD},
    {7, 2, 2, 33, 16, 3, 1, 5, CHECKOP_SANE},  {4, 2, 1, 96, 0, 0, 1, 1, CHECKOP_SANE},
    {3, 4, 4, 128, 63, 1, 0, 2, CHECKOP_ANY},  {CHECKOP_MANY, 1, 1, 4, 2, 1, 1, 2, CHECKOP_SANE},
    {33, 5, 5, 17, 1, 0, 0, 7, CHECKOP_SANE},  {4, 0, 0, 32, 16, 0, 1, 3, CHECKOP_SANE},
    {3, 0, 2, 16, 8, 1, 0, 2, CHECKOP_SANE}, /* ranks without heads */
};
enum { N_HOSTILE = sizeof hostile / sizeof hostile[0], N_RANDOM = 100, N_QUICK = 12 };

static tp_shape shape_make(checkop_case *c, int32_t index)
{
    tp_shape s;
    if (index < N_HOSTILE) {
        s = hostile[index];
    } else {
        s.rows = checkop_pick(&c->rng, 1, 2, 5, checkop_range(&c->rng, 1, 50));
        s.n_kv = checkop_range(&c->rng, 1, 4);
        s.n_head = s.n_kv * checkop_range(&c->rng, 1, 8);
        s.d_head = checkop_pick(&c->rng, 16, 64, 80, 128, checkop_range(&c->rng, 2, 70));
        s.n_freq = checkop_range(&c->rng, 0, s.d_head / 2);
        s.pad = checkop_chance(&c->rng, 2) ? 0 : checkop_range(&c->rng, 1, 20);
        s.offset = checkop_range(&c->rng, 0, 5);
        s.ranks = checkop_range(&c->rng, 1, 9);
        s.fill = checkop_chance(&c->rng, 4) ? CHECKOP_WILD : CHECKOP_SANE;
    }
    checkop_say(c,
                "rows=%lld n_head=%lld n_kv=%lld d_head=%lld n_freq=%lld pad=%lld offset=%lld "
                "ranks=%lld fill=%d",
                (long long)s.rows, (long long)s.n_head, (long long)s.n_kv, (long long)s.d_head,
                (long long)s.n_freq, (long long)s.pad, (long long)s.offset, (long long)s.ranks,
                (int)s.fill);
    return s;
}

static bool bench_shape(checkop_case *c, int32_t i, tp_shape *s)
{
    if (i >= 2) {
        return false;
    }
    *s = (tp_shape){.rows = i == 0 ? 1 : 64,
                    .n_head = 12,
                    .n_kv = 2,
                    .d_head = 128,
                    .n_freq = 32,
                    .ranks = 4,
                    .fill = CHECKOP_SANE};
    checkop_say(c, "%lld rows, 12+2+2 heads of 128", (long long)s->rows);
    return true;
}

/* Sums of squares: positive, now and then 0, huge or broken. */
static void fill_sums(checkop_case *c, int32_t buf)
{
    static const float odd[] = {0.0f, 1e-40f, 3e38f, INFINITY, NAN};
    checkop_buf *b = &c->buf[buf];
    for (int64_t i = 0; i < b->rows * b->cols; i++) {
        float x = (float)checkop_range(&c->rng, 1, 1 << 20) * 0x1p-8f;
        x = checkop_chance(&c->rng, 12) ? odd[checkop_range(&c->rng, 0, 4)] : x;
        memcpy(b->init + b->head + 4 * i, &x, 4);
    }
}

/* The sums are a case's first buffer. */
static void sums_refill(checkop_case *c)
{
    fill_sums(c, 0);
}

static int32_t given_sums(checkop_case *c, int64_t rows)
{
    int32_t sums = checkop_matrix(c, "sums", CHECKOP_IN, CHECKOP_GIVEN, rows, 2, 2, 1);
    c->refill = sums_refill;
    sums_refill(c);
    return sums;
}

/* --- qk_sumsq --------------------------------------------------------------------------------- */

static void sumsq_build(checkop_case *c, const tp_shape *s)
{
    int64_t cols = (s->n_head + s->n_kv) * s->d_head;
    checkop_call *call = checkop_call_add(c, WHIM_OP_qk_sumsq);
    whim_qk_sumsq_args *a = (void *)call->args.bytes;
    a->qkv_stride = cols + s->pad;
    a->n_row = s->rows;
    a->n_head = s->n_head;
    a->n_kv = s->n_kv;
    a->d_head = s->d_head;
    checkop_operands(c, call, s->fill, s->offset);
    CHECKOP_SUBJECT(c, call, qk_sumsq, s->rows);
    c->flops = 2.0 * (double)(s->rows * cols);
    c->traffic = 4.0 * (double)(s->rows * cols);
}

/* Every third case has no head of k to count. */
static void sumsq_make(checkop_case *c, int32_t index)
{
    tp_shape s = shape_make(c, index);
    s.n_kv = index % 3 == 2 ? 0 : s.n_kv;
    sumsq_build(c, &s);
}

static bool sumsq_bench(checkop_case *c, int32_t i)
{
    tp_shape s;
    return bench_shape(c, i, &s) && (sumsq_build(c, &s), true);
}

static const char *sumsq_arguments(int32_t i, void *args)
{
    whim_qk_sumsq_args *a = args;
    float *p = checkop_somewhere;
    *a = (whim_qk_sumsq_args){
        .qkv = p, .qkv_stride = 12, .sums = p, .n_row = 1, .n_head = 2, .n_kv = 1, .d_head = 4};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->n_head = -1, "n_head < 0";
    case 3:
        return a->qkv_stride = 11, "qkv_stride < columns";
    case 4:
        return a->sums = NULL, "sums = NULL";
    case 5:
        return a->qkv = NULL, "qkv = NULL";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_qk_sumsq = {N_HOSTILE,  N_RANDOM,        N_QUICK,
                                              sumsq_make, sumsq_arguments, sumsq_bench};

/* --- rmsnorm_sumsq ---------------------------------------------------------------------------- */

static void norm_build(checkop_case *c, const tp_shape *s)
{
    int64_t cols = s->n_head * s->d_head;
    checkop_call *call = checkop_call_add(c, WHIM_OP_rmsnorm_sumsq);
    whim_rmsnorm_sumsq_args *a = (void *)call->args.bytes;
    a->x_stride = cols + s->pad;
    a->y_stride = cols + (s->pad > 0 ? 2 : 0);
    a->sum_stride = 2;
    a->width = s->ranks * cols;
    a->eps = (float)checkop_pick(&c->rng, 0, 10, 100) * 1e-7f;
    a->n_row = s->rows;
    a->n_col = cols;
    CHECKOP_BIND(c, call, rmsnorm_sumsq, sums, given_sums(c, s->rows), 8);
    checkop_operands(c, call, s->fill, s->offset);
    CHECKOP_SUBJECT(c, call, rmsnorm_sumsq, s->rows);
    c->flops = 2.0 * (double)(s->rows * cols);
    c->traffic = 8.0 * (double)(s->rows * cols);
}

static void norm_make(checkop_case *c, int32_t index)
{
    tp_shape s = shape_make(c, index);
    norm_build(c, &s);
}

static bool norm_bench(checkop_case *c, int32_t i)
{
    tp_shape s;
    return bench_shape(c, i, &s) && (norm_build(c, &s), true);
}

static const char *norm_arguments(int32_t i, void *args)
{
    whim_rmsnorm_sumsq_args *a = args;
    float *p = checkop_somewhere;
    *a = (whim_rmsnorm_sumsq_args){.x = p,
                                   .x_stride = 8,
                                   .sums = p,
                                   .sum_stride = 2,
                                   .width = 16,
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
        return a->width = 7, "width < n_col";
    case 3:
        return a->width = -1, a->n_col = 0, "width < 0";
    case 4:
        return a->sums = NULL, "sums = NULL";
    case 5:
        return a->sum_stride = 0, "sum_stride = 0";
    case 6:
        return a->w = NULL, "w = NULL";
    case 7:
        return a->x_stride = 7, "x_stride < n_col";
    case 8:
        return a->eps = -1.0f, "eps < 0";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_rmsnorm_sumsq = {N_HOSTILE, N_RANDOM,       N_QUICK,
                                                   norm_make, norm_arguments, norm_bench};

/* --- split_qkv_tp_rmsnorm_rope ---------------------------------------------------------------- */

static void split_build(checkop_case *c, const tp_shape *s)
{
    int64_t q_cols = s->n_head * s->d_head, kv_cols = s->n_kv * s->d_head;
    int64_t cols = q_cols + 2 * kv_cols;
    checkop_call *call = checkop_call_add(c, WHIM_OP_split_qkv_tp_rmsnorm_rope);
    whim_split_qkv_tp_rmsnorm_rope_args *a = (void *)call->args.bytes;
    a->qkv_stride = cols + s->pad;
    a->q_width = s->ranks * q_cols;
    a->k_width = s->ranks * kv_cols;
    a->eps = 1e-6f;
    a->n_row = s->rows;
    a->n_head = s->n_head;
    a->n_kv = s->n_kv;
    a->d_head = s->d_head;
    a->n_freq = s->n_freq;
    CHECKOP_BIND(c, call, split_qkv_tp_rmsnorm_rope, sums, given_sums(c, s->rows), 8);
    checkop_operands(c, call, s->fill, s->offset);
    CHECKOP_BUF(c, call, split_qkv_tp_rmsnorm_rope, cos_sin)->fill = CHECKOP_SANE;
    CHECKOP_SUBJECT(c, call, split_qkv_tp_rmsnorm_rope, s->rows);
    c->flops = 8.0 * (double)(s->rows * cols);
    c->traffic = 8.0 * (double)(s->rows * cols);
}

static void split_make(checkop_case *c, int32_t index)
{
    tp_shape s = shape_make(c, index);
    split_build(c, &s);
}

static bool split_bench(checkop_case *c, int32_t i)
{
    tp_shape s;
    return bench_shape(c, i, &s) && (split_build(c, &s), true);
}

static const char *split_arguments(int32_t i, void *args)
{
    whim_split_qkv_tp_rmsnorm_rope_args *a = args;
    float *p = checkop_somewhere;
    *a = (whim_split_qkv_tp_rmsnorm_rope_args){.qkv = p,
                                               .qkv_stride = 16,
                                               .sums = p,
                                               .q_width = 16,
                                               .k_width = 8,
                                               .q_norm = p,
                                               .k_norm = p,
                                               .cos_sin = p,
                                               .q = p,
                                               .k = p,
                                               .v = p,
                                               .n_row = 1,
                                               .n_head = 2,
                                               .n_kv = 1,
                                               .d_head = 4,
                                               .n_freq = 2};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->n_head = -1, "n_head < 0";
    case 3:
        return a->qkv_stride = 15, "qkv_stride < columns";
    case 4:
        return a->k_norm = NULL, "k_norm = NULL";
    case 5:
        return a->n_freq = 3, "n_freq > d_head / 2";
    case 6:
        return a->q_width = 7, "q_width < columns of q";
    case 7:
        return a->k_width = 3, "k_width < columns of k";
    case 8:
        return a->sums = NULL, "sums = NULL";
    case 9:
        return a->v = NULL, "v = NULL";
    case 10:
        return a->eps = -1.0f, "eps < 0";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_split_qkv_tp_rmsnorm_rope = {
    N_HOSTILE, N_RANDOM, N_QUICK, split_make, split_arguments, split_bench};
