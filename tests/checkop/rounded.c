/* SPDX-License-Identifier: Apache-2.0 */
/* Products on levels that round activations to BF16 for a unit that takes no others, and attention
 * over BF16 pages on levels that add it up on such a unit. Sums of products differ from the law's
 * in proportion to sum |w x|, not to the result, so `linear` is judged by that; attention by the
 * largest value that could have been weighed. What is made of them (a chosen id, a program's later
 * values) has no bound and is judged by rows alone and by thread counts only. */
#include "checkop/compare.h"

#include "tensor/half.h"
#include "tensor/quant.h"

#include <math.h>
#include <string.h>

static bool is_product(whim_op op, const checkop_run *run)
{
    return op == WHIM_OP_linear || op == WHIM_OP_linear_swiglu || op == WHIM_OP_linear_topk ||
           (op == WHIM_OP_moe_experts && !run->rounds_first);
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
        product |= is_product(c->call[i].op, run);
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
#define CHECKOP_ROUNDED_ROWS(op_name, dtype_name, bits)
#include "checkop/tolerance.def"
#undef CHECKOP_TOLERANCE
#undef CHECKOP_ROUNDED
#undef CHECKOP_ROUNDED_ROWS
    return 0;
}

static int rounded_rows_bits(whim_op op)
{
#define CHECKOP_TOLERANCE(op_name, dtype_name, ulp)
#define CHECKOP_ROUNDED(op_name, dtype_name, bits)
#define CHECKOP_ROUNDED_ROWS(op_name, dtype_name, bits) \
    if (WHIM_OP_##op_name == op) {                      \
        return bits;                                    \
    }
#include "checkop/tolerance.def"
#undef CHECKOP_TOLERANCE
#undef CHECKOP_ROUNDED
#undef CHECKOP_ROUNDED_ROWS
    return 0;
}

/* How far y[row][col] may be from the law's; infinite where the row leaves BF16's range. Subnormals
 * count as zero in such units. `exact`: the product with the row as BF16. */
static double slack(const checkop_buf *w, const checkop_buf *x, int64_t row, int64_t col, int bits,
                    double *exact)
{
    enum { PIECE = 128 };
    const uint8_t *weights = w->init + w->head + col * w->stride_bytes;
    const uint8_t *values = x->init + x->head + row * x->stride_bytes;
    double sum = 0.0, lost = 0.0;
    float wide[PIECE];
    *exact = 0.0;
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
        *exact += (double)wide[i % PIECE] * (double)whim_bf16_to_f32(whim_f32_to_bf16(value));
        lost += 0x1p-126 * (a + b + 2.0);
    }
    return ldexp(sum, -bits) + lost;
}

/* The same for column `col` of attention: infinite where a value leaves BF16's range. */
static double attn_slack(const checkop_case *c, const whim_attn_paged_args *a, int64_t col,
                         int bits)
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
    return ldexp(largest, -bits) + 0x1p-120;
}

static bool near(double want, double got, double limit)
{
    return isinf(limit) || (isnan(want) && isnan(got)) || want == got || fabs(want - got) <= limit;
}

/* Columns of a bias have no stride. */
static double bias_at(const checkop_buf *bias, int64_t col)
{
    float value = 0.0f;
    if (bias != NULL) {
        memcpy(&value, bias->init + bias->head + 4 * col, sizeof value);
    }
    return (double)value;
}

bool checkop_rounded_near(const checkop_case *c, const checkop_run *run, int64_t row, int64_t col,
                          float want, float got)
{
    const checkop_buf *w = find(c, "w"), *x = find(c, "x"), *bias = find(c, "bias");
    const checkop_call *subject = &c->call[c->subject];
    if (c->n_call == 2 && is_attention_over_bf16(subject)) {
        const whim_attn_paged_args *a = (const void *)subject->args.bytes;
        int bits = run->rounds_first ? rounded_rows_bits(WHIM_OP_attn_paged)
                                     : rounded_bits(WHIM_OP_attn_paged);
        return near((double)want, (double)got, attn_slack(c, a, col, bits));
    }
    if (c->n_call != 1 || c->call[0].op != WHIM_OP_linear || w == NULL || x == NULL) {
        return true;
    }
    double exact;
    int bits = run->rounds_first ? rounded_rows_bits(WHIM_OP_linear) : rounded_bits(WHIM_OP_linear);
    double limit = slack(w, x, row, col, bits, &exact);
    if ((bias != NULL || run->rounds_first) && !isinf(limit)) { /* else a NaN would make it one */
        limit += 0x1p-23 * (fabs((double)want) + fabs((double)got)); /* the last sum is rounded */
    }
    double right = run->rounds_first && !isinf(limit) ? exact + bias_at(bias, col) : (double)want;
    return near(right, (double)got, limit);
}
