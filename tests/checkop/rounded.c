/* SPDX-License-Identifier: Apache-2.0 */
/* Products on levels that round activations to BF16 for a unit that takes no others, and attention
 * over BF16 pages on levels that add it up on such a unit. Sums of products differ from the law's
 * in proportion to sum |w x|, not to the result, so `linear` is judged by that; attention by the
 * largest value that could have been weighed; experts of a GPU's sorted rows by both products, and by
 * what rounding between them may tip. What is made of products otherwise (a chosen id, a program's
 * later values) has no bound and is judged by rows alone and by thread counts only. */
#include "checkop/compare.h"

#include "tensor/half.h"
#include "tensor/quant.h"

#include <math.h>
#include <string.h>

/* Experts that a GPU may have as one product of sorted rows; others have the law's bits there. */
static bool is_sorted(const whim_moe_experts_args *a)
{
    enum { STAGE = 64 };
    return a->gate.dtype == WHIM_DTYPE_BF16 && a->up.dtype == WHIM_DTYPE_BF16 &&
           a->down.dtype == WHIM_DTYPE_BF16 && a->gate.k % STAGE == 0 && a->down.k % STAGE == 0;
}

static bool is_product(const checkop_call *call, const checkop_run *run)
{
    whim_op op = call->op;
    return op == WHIM_OP_linear || op == WHIM_OP_linear_swiglu || op == WHIM_OP_linear_topk ||
           (op == WHIM_OP_moe_experts &&
            (!run->rounds_first || is_sorted((const void *)call->args.bytes)));
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
        product |= is_product(&c->call[i], run);
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

static double float_at(const checkop_buf *b, int64_t row, int64_t col)
{
    float value;
    memcpy(&value, b->init + b->head + row * b->stride_bytes + 4 * col, sizeof value);
    return (double)value;
}

/* A product of BF16, each factor with its own error, and how far it may be off. */
typedef struct estimate {
    double value, off;
} estimate;

static double weight_at(const checkop_buf *w, int64_t row, int64_t col)
{
    uint16_t bits;
    memcpy(&bits, w->init + w->head + row * w->stride_bytes + 2 * col, sizeof bits);
    return (double)whim_bf16_to_f32(bits);
}

/* Row `row` of x as BF16 with row `at` of w. */
static estimate product_of(const checkop_buf *w, int64_t at, const checkop_buf *x, int64_t row,
                           int64_t k)
{
    double sum = 0.0, size = 0.0;
    for (int64_t i = 0; i < k; i++) {
        double value = (double)whim_bf16_to_f32(whim_f32_to_bf16((float)float_at(x, row, i)));
        double term = weight_at(w, at, i) * value;
        sum += term;
        size += fabs(term);
    }
    return (estimate){sum, ldexp(size, -rounded_rows_bits(WHIM_OP_linear)) + 0x1p-100};
}

/* SwiGLU changes by at most 1.1 of what gate does, times up; then it is rounded to BF16, of 8 bits. */
static estimate act_of(estimate g, estimate u)
{
    double silu = g.value / (1.0 + exp(-g.value)), value = silu * u.value;
    double off = 1.1 * g.off * (fabs(u.value) + u.off) + fabs(silu) * u.off;
    return (estimate){value, off + 0x1p-8 * (fabs(value) + off)};
}

/* Column `col` of the experts of row `row`, added up. */
static estimate experts_of(const checkop_case *c, const whim_moe_experts_args *a, int64_t row,
                           int64_t col)
{
    const checkop_buf *x = find(c, "x"), *ids = find(c, "ids"), *weights = find(c, "weights");
    const checkop_buf *gate = find(c, "gate"), *up = find(c, "up"), *down = find(c, "down");
    int64_t d = a->gate.k, ff = a->down.k;
    estimate all = {0.0, 0x1p-100};
    for (int64_t j = 0; j < a->k_top; j++) {
        int32_t e;
        memcpy(&e, ids->init + ids->head + row * ids->stride_bytes + 4 * j, sizeof e);
        double weight = float_at(weights, row, j);
        for (int64_t i = 0; i < ff && e >= 0 && e < a->n_expert; i++) {
            int64_t at = e * whim_moe_pitch(ff) + i;
            estimate act = act_of(product_of(gate, at, x, row, d), product_of(up, at, x, row, d));
            double w = weight * weight_at(down, e * whim_moe_pitch(d) + col, i);
            all.value += w * act.value;
            all.off += fabs(w) * (act.off + 0x1p-16 * (fabs(act.value) + act.off));
        }
    }
    return all;
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
    const whim_moe_experts_args *experts = (const void *)subject->args.bytes;
    if (c->n_call == 1 && run->rounds_first && subject->op == WHIM_OP_moe_experts &&
        experts->weights != NULL) {
        estimate right = experts_of(c, experts, row, col);
        return want == got || near(right.value, (double)got, right.off);
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
