/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's table of ops: each pushes one command with its level's kernel, except `linear`, which
 * quantises its activations first when the weights are block-quantised. */
#include "backends/cpu/stream.h"

#include <assert.h>

static_assert(sizeof(whim_cpu_product_args) <= WHIM_OP_ARGS_MAX, "command too small");
static_assert(sizeof(whim_cpu_quantize_args) <= WHIM_OP_ARGS_MAX, "command too small");

static whim_err push_op(whim_cpu_stream *s, whim_op op, whim_cpu_kernel *kernel, const void *args)
{
    whim_access accesses[WHIM_ACCESS_MAX];
    int32_t n = whim_access_list(op, args, accesses);
    return whim_cpu_push(s, kernel, args, whim_op_args_bytes(op), accesses, n);
}

#define WHIM_OP(name)                                                               \
    static whim_err plain_##name(whim_stream *base, const whim_##name##_args *args) \
    {                                                                               \
        whim_cpu_stream *s = (whim_cpu_stream *)base;                               \
        return push_op(s, WHIM_OP_##name, s->dev->kernels->name, args);             \
    }
#include "ops/ops.def"
#undef WHIM_OP

/* Rows of x as int8 in the stream's buffer; nothing to do when they are there already, as for the second and
 * third product of the same activations. */
static whim_err quantize_rows(whim_cpu_stream *s, const float *x, int64_t x_stride, int64_t n_row,
                              int64_t k)
{
    whim_access from = {(uintptr_t)x, k * (int64_t)sizeof *x, x_stride * (int64_t)sizeof *x, n_row,
                        false};
    if (s->q8_from.at == from.at && s->q8_from.row_bytes == from.row_bytes &&
        s->q8_from.stride == from.stride && s->q8_from.n_row == from.n_row) {
        return WHIM_ERR_OK;
    }
    whim_cpu_quantize_args args = {
        .x = x, .x_stride = x_stride, .act = s->q8, .n_row = n_row, .k = k};
    whim_access accesses[WHIM_ACCESS_MAX];
    int32_t n = whim_access_quantize(&args, accesses);
    WHIM_TRY(whim_cpu_push(s, s->dev->kernels->quantize_act, &args, sizeof args, accesses, n));
    s->q8_from = from;
    return WHIM_ERR_OK;
}

/* The most rows whose int8 form fits the stream's buffer; even, because rows may lie in pairs. */
static int64_t rows_that_fit(whim_cpu_order order, int64_t k)
{
    int64_t pair_bytes = whim_cpu_act_bytes(order, 2, k) - 64;
    return pair_bytes > 0 ? (CPU_Q8_BYTES - 64) / pair_bytes * 2 : INT64_MAX;
}

static whim_err push_product(whim_cpu_stream *s, const whim_linear_args *a, void *act, int64_t row,
                             int64_t n_row)
{
    whim_cpu_product_args args = {
        .w = a->w,
        .act = act,
        .x = a->x + row * a->x_stride,
        .x_stride = a->x_stride,
        .bias = a->bias,
        .y = a->y + row * a->y_stride,
        .y_stride = a->y_stride,
        .n_row = n_row,
    };
    whim_access accesses[WHIM_ACCESS_MAX];
    int32_t n = whim_access_product(&args, accesses);
    return whim_cpu_push(s, s->dev->kernels->linear, &args, sizeof args, accesses, n);
}

static whim_err op_linear(whim_stream *base, const whim_linear_args *a)
{
    whim_cpu_stream *s = (whim_cpu_stream *)base;
    if (whim_cpu_form_of(a->w.dtype) == NULL) {
        return push_product(s, a, NULL, 0, a->n_row);
    }
    int64_t chunk = rows_that_fit(s->dev->kernels->order, a->w.k);
    if (chunk == 0 && a->n_row > 0) {
        return WHIM_ERR_UNSUPPORTED;
    }
    for (int64_t row = 0, n_row; row < a->n_row; row += n_row) {
        n_row = a->n_row - row < chunk ? a->n_row - row : chunk;
        WHIM_TRY(quantize_rows(s, a->x + row * a->x_stride, a->x_stride, n_row, a->w.k));
        WHIM_TRY(push_product(s, a, s->q8, row, n_row));
    }
    return WHIM_ERR_OK;
}

static whim_err op_attn_paged(whim_stream *base, const whim_attn_paged_args *a)
{
    if (a->kv.d_head > WHIM_CPU_MAX_HEAD_DIM) {
        return WHIM_ERR_UNSUPPORTED;
    }
    return plain_attn_paged(base, a);
}

void whim_cpu_ops_init(whim_ops *ops)
{
    *ops = (whim_ops){
#define WHIM_OP(name) .name = plain_##name,
#include "ops/ops.def"
#undef WHIM_OP
    };
    ops->linear = op_linear;
    ops->attn_paged = op_attn_paged;
    /* No kernels yet: compositions. */
    ops->linear_swiglu = NULL;
    ops->linear_topk = NULL;
}
