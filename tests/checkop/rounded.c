/* SPDX-License-Identifier: Apache-2.0 */
/* Products on levels that round activations to BF16 for a unit that takes no others, and attention
 * over BF16 pages on levels that add it up on such a unit. Sums of products differ from the law's
 * in proportion to sum |w x|, not to the result, so `linear` is judged by that; attention by the
 * largest value that could have been weighed. What is made of them (a chosen id, a program's later
 * values) has no bound and is judged by rows alone and by thread counts only. */
#include "checkop/compare.h"

#include "tensor/quant.h"

#include <math.h>
#include <string.h>

static bool is_product(whim_op op)
{
    return op == WHIM_OP_linear || op == WHIM_OP_linear_swiglu || op == WHIM_OP_linear_topk ||
           op == WHIM_OP_moe_experts;
}

static bool is_attention_over_bf16(const checkop_call *call)
{
    const whim_attn_paged_args *a = (const void *)call->args.bytes;
    return call->op == WHIM_OP_attn_paged && a->kv.type == WHIM_KV_BF16 &&
           a->kv.d_head % 16 == 0; /* other heads are the plain loops' */
}

bool checkop_rounded(const checkop_case *c, const checkop_run *run)
{
    bool product = false, bf16 = false;
    for (int32_t i = 0; i < c->n_call; i++) {
        product |= is_product(c->call[i].op);
        if (run->attn_matrix && is_attention_over_bf16(&c->call[i])) {
            return true;
        }
    }
    for (int32_t i = 0; i < c->n_buf; i++) {
        whim_dtype dtype = c->buf[i].dtype;
        bf16 |= c->buf[i].role == CHECKOP_WEIGHT &&
                (dtype == WHIM_DTYPE_BF16 || dtype == WHIM_DTYPE_FP8);
    }
    return run->rounds_bf16 && product && bf16;
}

static const checkop_buf *find(const checkop_case *c, const char *name)
{
    for (int32_t i = 0; i < c->n_buf; i++) {
        if (strcmp(c->buf[i].name, name) == 0) {
            return &c->buf[i];
        }
    }
    return NULL;
}

static int rounded_bits(whim_op op)
{
#define CHECKOP_TOLERANCE(op_name, dtype_name, ulp)
#define CHECKOP_ROUNDED(op_name, dtype_name, bits) \
    if (WHIM_OP_##op_name == op) {                 \
        return bits;                               \
    }
#include "checkop/tolerance.def"
#undef CHECKOP_TOLERANCE
#undef CHECKOP_ROUNDED
    return 0;
}

/* How far y[row][col] may be from the law's; infinite where the row leaves BF16's range. Subnormals
 * count as zero in such units. */
static double slack(const checkop_buf *w, const checkop_buf *x, int64_t row, int64_t col)
{
    enum { PIECE = 128 };
    const uint8_t *weights = w->init + w->head + col * w->stride_bytes;
    const uint8_t *values = x->init + x->head + row * x->stride_bytes;
    double sum = 0.0, lost = 0.0;
    float wide[PIECE];
    for (int64_t i = 0; i < x->cols; i++) {
        if (i % PIECE == 0) {
            int64_t n = x->cols - i < PIECE ? x->cols - i : PIECE;
            whim_dequant_row(w->dtype, weights + whim_dtype_row_bytes(w->dtype, i), wide, n);
        }
        float value;
        memcpy(&value, values + 4 * i, sizeof value);
        double a = fabs((double)wide[i % PIECE]), b = fabs((double)value);
        if (!(a <= 0x1p60) || !(b <= 0x1p60)) {
            return INFINITY;
        }
        sum += a * b;
        lost += 0x1p-126 * (a + b + 2.0);
    }
    return ldexp(sum, -rounded_bits(WHIM_OP_linear)) + lost;
}

/* The same for column `col` of attention: infinite where a value leaves BF16's range. */
static double attn_slack(const checkop_case *c, const whim_attn_paged_args *a, int64_t col)
{
    const checkop_buf *v = find(c, "v");
    int64_t group = a->n_head / a->kv.n_kv, d = a->kv.d_head;
    int64_t column = col / d / group * d + col % d;
    double largest = 0.0;
    for (int64_t row = 0; row < v->rows; row++) {
        float value;
        memcpy(&value, v->init + v->head + row * v->stride_bytes + 4 * column, sizeof value);
        if (!(fabs((double)value) <= 0x1p60)) {
            return INFINITY;
        }
        largest = fmax(largest, fabs((double)value));
    }
    return ldexp(largest, -rounded_bits(WHIM_OP_attn_paged)) + 0x1p-120;
}

static bool near(double want, double got, double limit)
{
    return isinf(limit) || (isnan(want) && isnan(got)) || want == got || fabs(want - got) <= limit;
}

bool checkop_rounded_near(const checkop_case *c, int64_t row, int64_t col, float want, float got)
{
    const checkop_buf *w = find(c, "w"), *x = find(c, "x"), *bias = find(c, "bias");
    const checkop_call *subject = &c->call[c->subject];
    if (c->n_call == 2 && is_attention_over_bf16(subject)) {
        const whim_attn_paged_args *a = (const void *)subject->args.bytes;
        return near((double)want, (double)got, attn_slack(c, a, col));
    }
    if (c->n_call != 1 || c->call[0].op != WHIM_OP_linear || w == NULL || x == NULL) {
        return true;
    }
    double limit = slack(w, x, row, col);
    if (bias != NULL && !isinf(limit)) { /* else a NaN would make it one */
        limit +=
            0x1p-23 * (fabs((double)want) + fabs((double)got)); /* the sum with it is rounded */
    }
    return near((double)want, (double)got, limit);
}
