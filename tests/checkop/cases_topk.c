/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of topk and linear_topk. Equal values are the rule here: in the same block, in different
 * blocks and tiles, as 0 and -0, and as infinities and NaN. */
#include "checkop/harness.h"

#include <math.h>
#include <string.h>

/* Floats of a GIVEN buffer: few different ones. */
static void fill_ties(checkop_case *c, int32_t buf, bool broken)
{
    static const float list[] = {-1.5f, 0.0f, -0.0f, 2.25f, -INFINITY, -3.0e38f, INFINITY, NAN};
    checkop_buf *b = &c->buf[buf];
    for (int64_t r = 0; r < b->rows; r++) {
        for (int64_t i = 0; i < b->cols; i++) {
            bool odd = broken && checkop_chance(&c->rng, 50);
            float x = list[odd ? checkop_range(&c->rng, 4, 7) : checkop_range(&c->rng, 0, 3)];
            memcpy(b->init + b->head + r * b->stride_bytes + 4 * i, &x, 4);
        }
    }
}

/* --- topk ------------------------------------------------------------------------------------- */

typedef struct topk_shape {
    int64_t rows, cols, k, pad, offset;
    checkop_fill fill; /* GIVEN: ties */
} topk_shape;

static const topk_shape hostile[] = {
    {0, 64, 5, 0, 0, CHECKOP_SANE},          {1, 1, 1, 0, 0, CHECKOP_SANE},
    {1, 1, 64, 0, 0, CHECKOP_SANE},          {3, 17, 64, 5, 1, CHECKOP_WILD},
    {3, 0, 2, 1, 0, CHECKOP_SANE},           {5, 1000, 7, 24, 1, CHECKOP_WILD},
    {4, 48, 48, 0, 0, CHECKOP_ANY},          {17, 15, 3, 0, 3, CHECKOP_ANY},
    {2, 4099, 64, 3, 1, CHECKOP_SANE},       {33, 130, 1, 1, 0, CHECKOP_GIVEN},
    {9, 129, 64, 0, 1, CHECKOP_GIVEN},       {2, 5000, 20, 0, 0, CHECKOP_GIVEN},
    {3, 200, 64, 2, 0, CHECKOP_ZERO},        {1, CHECKOP_MANY, 64, 0, 0, CHECKOP_SANE},
    {CHECKOP_MANY, 3, 2, 1, 1, CHECKOP_ANY}, {2, CHECKOP_MANY, 1, 0, 1, CHECKOP_GIVEN},
};
enum { N_HOSTILE = sizeof hostile / sizeof hostile[0] };

static void topk_refill(checkop_case *c)
{
    if (c->buf[0].fill == CHECKOP_GIVEN) {
        fill_ties(c, 0, true);
    }
}

static void topk_build(checkop_case *c, const topk_shape *s)
{
    checkop_call *call = checkop_call_add(c, WHIM_OP_topk);
    whim_topk_args *a = (void *)call->args.bytes;
    a->x_stride = s->cols + s->pad;
    a->n_row = s->rows;
    a->n_col = s->cols;
    a->k_top = s->k;
    checkop_operands(c, call, s->fill, s->offset);
    CHECKOP_SUBJECT(c, call, topk, s->rows);
    c->refill = topk_refill;
    topk_refill(c);
    c->flops = (double)(s->rows * s->cols);
    c->traffic = 4.0 * (double)(s->rows * s->cols);
}

static void topk_make(checkop_case *c, int32_t index)
{
    topk_shape s;
    if (index < N_HOSTILE) {
        s = hostile[index];
    } else {
        s.rows = checkop_pick(&c->rng, 1, 2, 8, checkop_range(&c->rng, 1, 40));
        s.cols = checkop_pick(&c->rng, 64, 128, checkop_range(&c->rng, 1, 70),
                              checkop_range(&c->rng, 1, 3000));
        s.k = checkop_pick(&c->rng, 1, 64, checkop_range(&c->rng, 1, 64));
        s.pad = checkop_chance(&c->rng, 2) ? 0 : checkop_range(&c->rng, 1, 20);
        s.offset = checkop_range(&c->rng, 0, 9);
        s.fill = (checkop_fill)checkop_pick(&c->rng, CHECKOP_GIVEN, CHECKOP_ANY, CHECKOP_SANE);
    }
    checkop_say(c, "rows=%lld cols=%lld k=%lld pad=%lld offset=%lld fill=%d", (long long)s.rows,
                (long long)s.cols, (long long)s.k, (long long)s.pad, (long long)s.offset,
                (int)s.fill);
    topk_build(c, &s);
}

static bool topk_bench(checkop_case *c, int32_t i)
{
    if (i >= 4) {
        return false;
    }
    topk_shape s = {.rows = i % 2 == 0 ? 1 : 8, .cols = 49152, .fill = CHECKOP_SANE};
    s.k = i / 2 == 0 ? 1 : 64;
    checkop_say(c, "%lld of %lld x %lld", (long long)s.k, (long long)s.rows, (long long)s.cols);
    topk_build(c, &s);
    return true;
}

static const char *topk_arguments(int32_t i, void *args)
{
    whim_topk_args *a = args;
    void *p = checkop_somewhere;
    *a = (whim_topk_args){
        .x = p, .x_stride = 4, .values = p, .ids = p, .n_row = 2, .n_col = 4, .k_top = 2};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->x_stride = 3, "x_stride < n_col";
    case 3:
        return a->k_top = 0, "k_top = 0";
    case 4:
        return a->k_top = 65, "k_top > 64";
    case 5:
        return a->values = NULL, "values = NULL";
    case 6:
        return a->ids = NULL, "ids = NULL";
    case 7:
        return a->n_row = 0, a->n_col = INT64_C(1) << 31, "more columns than ids";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_topk = {N_HOSTILE,      150,       12, topk_make,
                                          topk_arguments, topk_bench};

/* --- linear_topk ------------------------------------------------------------------------------ */

/* Where equal outputs come from. */
typedef enum tie_source {
    NO_TIES,
    REPEATED_ROWS, /* of the weight: outputs that are equal and not zero */
    ZERO_INPUT,    /* all outputs are zero, or the bias, which has few different values */
} tie_source;

typedef struct linear_topk_shape {
    whim_dtype dtype;
    int64_t rows, n, k, k_top, pad, offset;
    bool bias;
    tie_source ties;
} linear_topk_shape;

static const linear_topk_shape linear_hostile[] = {
    {WHIM_DTYPE_F32, 0, 64, 8, 5, 0, 0, false, NO_TIES},
    {WHIM_DTYPE_F32, 3, 0, 8, 5, 0, 0, false, NO_TIES},
    {WHIM_DTYPE_F32, 2, 7, 0, 5, 0, 0, true, NO_TIES},
    {WHIM_DTYPE_F32, 1, 1, 1, 64, 3, 1, false, NO_TIES},
    {WHIM_DTYPE_F32, 5, 130, 33, 64, 3, 1, true, NO_TIES},
    {WHIM_DTYPE_BF16, 17, 33, 64, 1, 0, 0, false, REPEATED_ROWS},
    {WHIM_DTYPE_F16, 3, 1000, 16, 40, 1, 1, false, REPEATED_ROWS},
    {WHIM_DTYPE_Q8_0, 1, 700, 64, 1, 0, 0, false, REPEATED_ROWS},
    {WHIM_DTYPE_Q4_1, 4, 515, 96, 64, 2, 3, false, REPEATED_ROWS},
    {WHIM_DTYPE_Q4_0, 9, 300, 32, 7, 0, 1, true, ZERO_INPUT},
    {WHIM_DTYPE_Q6_K, 2, 65, 256, 64, 0, 0, false, ZERO_INPUT},
    {WHIM_DTYPE_INT8, 3, 49, 128, 10, 1, 0, true, ZERO_INPUT},
    {WHIM_DTYPE_FP8, 3, 70, 128, 10, 1, 0, false, REPEATED_ROWS},
    {WHIM_DTYPE_Q4_1, 1, CHECKOP_MANY, 32, 64, 0, 0, false, NO_TIES},
    {WHIM_DTYPE_F32, CHECKOP_MANY, 3, 4, 2, 0, 0, true, ZERO_INPUT},
};
enum { N_LINEAR = sizeof linear_hostile / sizeof linear_hostile[0] };

/* Buffers of a case, in the order of operands.def. */
enum { BUF_W, BUF_X, BUF_BIAS };

static void linear_topk_refill(checkop_case *c)
{
    fill_ties(c, BUF_BIAS, false);
}

/* Row i of the weight is row i mod 7. */
static void repeat_rows(checkop_case *c)
{
    checkop_buf *b = &c->buf[BUF_W];
    uint8_t *rows = b->init + b->head;
    int64_t n_block = b->row_bytes / whim_dtype_get(b->dtype)->block_bytes;
    b->fill = CHECKOP_GIVEN;
    for (int64_t r = 0; r < b->rows; r++) {
        if (r < 7) {
            checkop_fill_blocks(&c->rng, b->dtype, rows + r * b->row_bytes, n_block);
        } else {
            memcpy(rows + r * b->row_bytes, rows + r % 7 * b->row_bytes, (size_t)b->row_bytes);
        }
    }
}

static void linear_topk_build(checkop_case *c, const linear_topk_shape *s)
{
    c->dtype = s->dtype;
    checkop_call *call = checkop_call_add(c, WHIM_OP_linear_topk);
    whim_linear_topk_args *a = (void *)call->args.bytes;
    a->w = (whim_weight){.dtype = s->dtype, .n = s->n, .k = s->k};
    a->x_stride = s->k + s->pad;
    a->bias = s->bias ? checkop_somewhere : NULL;
    a->n_row = s->rows;
    a->k_top = s->k_top;
    checkop_operands(c, call, s->ties == ZERO_INPUT ? CHECKOP_ZERO : CHECKOP_SANE, s->offset);
    if (s->bias && s->ties != NO_TIES) {
        c->buf[BUF_BIAS].fill = CHECKOP_GIVEN;
        c->refill = linear_topk_refill;
        linear_topk_refill(c);
    }
    if (s->ties == REPEATED_ROWS) {
        repeat_rows(c);
    }
    CHECKOP_SUBJECT(c, call, linear_topk, s->rows);
    c->flops = 2.0 * (double)(s->rows * s->n) * (double)s->k;
    c->traffic = (double)(s->n * whim_dtype_row_bytes(s->dtype, s->k));
}

static void linear_topk_make(checkop_case *c, int32_t index)
{
    linear_topk_shape s;
    checkop_rng *rng = &c->rng;
    if (index < N_LINEAR) {
        s = linear_hostile[index];
    } else {
        s.dtype = (whim_dtype)checkop_range(rng, 0, WHIM_DTYPE_I32 - 1);
        s.rows = checkop_pick(rng, 1, 2, 5, checkop_range(rng, 1, 20));
        s.n = checkop_pick(rng, 16, 64, checkop_range(rng, 1, 40), checkop_range(rng, 1, 400));
        s.k = whim_dtype_get(s.dtype)->block_elems;
        s.k *= (checkop_range(rng, 1, 256) + s.k - 1) / s.k;
        s.k_top = checkop_pick(rng, 1, 64, checkop_range(rng, 1, 64));
        s.pad = checkop_chance(rng, 2) ? 0 : checkop_range(rng, 1, 9);
        s.offset = checkop_range(rng, 0, 5);
        s.bias = checkop_chance(rng, 2);
        s.ties = (tie_source)checkop_range(rng, NO_TIES, ZERO_INPUT);
    }
    checkop_say(c, "w=%s[%lld,%lld] rows=%lld k_top=%lld pad=%lld offset=%lld%s ties=%d",
                whim_dtype_get(s.dtype)->name, (long long)s.n, (long long)s.k, (long long)s.rows,
                (long long)s.k_top, (long long)s.pad, (long long)s.offset, s.bias ? " bias" : "",
                (int)s.ties);
    linear_topk_build(c, &s);
}

static bool linear_topk_bench(checkop_case *c, int32_t i)
{
    static const whim_dtype types[] = {WHIM_DTYPE_BF16, WHIM_DTYPE_Q8_0, WHIM_DTYPE_Q4_1};
    if (i >= 12) {
        return false;
    }
    linear_topk_shape s = {.dtype = types[i / 4], .n = 49152, .k = 576};
    s.rows = i % 2 == 0 ? 1 : 8;
    s.k_top = i / 2 % 2 == 0 ? 1 : 64;
    checkop_say(c, "%lld of %s[%lld,%lld] x %lld", (long long)s.k_top,
                whim_dtype_get(s.dtype)->name, (long long)s.n, (long long)s.k, (long long)s.rows);
    linear_topk_build(c, &s);
    return true;
}

static const char *linear_topk_arguments(int32_t i, void *args)
{
    whim_linear_topk_args *a = args;
    void *p = checkop_somewhere;
    *a = (whim_linear_topk_args){.w = {.dtype = WHIM_DTYPE_Q8_0, .n = 4, .k = 32, .data = p},
                                 .x = p,
                                 .x_stride = 32,
                                 .values = p,
                                 .ids = p,
                                 .n_row = 2,
                                 .k_top = 3};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->w.k = 31, "k is not a multiple of the block";
    case 3:
        return a->x_stride = 31, "x_stride < k";
    case 4:
        return a->k_top = 0, "k_top = 0";
    case 5:
        return a->k_top = 65, "k_top > 64";
    case 6:
        return a->ids = NULL, "ids = NULL";
    case 7:
        return a->w.dtype = WHIM_DTYPE_I32, "an integer type as weight";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_linear_topk = {
    N_LINEAR, 150, 12, linear_topk_make, linear_topk_arguments, linear_topk_bench};
