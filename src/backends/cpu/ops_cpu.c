/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's table of ops: each pushes one command with its level's kernel, except the products, which
 * quantise their activations first when the weights are block-quantised. */
#include "backends/cpu/stream.h"
#include "ops/compose/compose.h"

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

/* One product, in as many commands as the int8 form of its rows needs. `p` has everything but `act`. */
static whim_err push_product(whim_cpu_stream *s, const whim_cpu_product_args *p)
{
    bool block_type = whim_cpu_form_of(p->w.dtype) != NULL;
    int64_t chunk = block_type ? rows_that_fit(s->dev->kernels->order, p->w.k) : INT64_MAX;
    if (chunk == 0 && p->n_row > 0) {
        return WHIM_ERR_UNSUPPORTED;
    }
    for (int64_t row = 0, n_row; row < p->n_row; row += n_row) {
        n_row = p->n_row - row < chunk ? p->n_row - row : chunk;
        whim_cpu_product_args args = *p;
        args.x += row * p->x_stride;
        args.y = p->y != NULL ? p->y + row * p->y_stride : NULL;
        args.n_row = n_row;
        if (block_type) {
            WHIM_TRY(quantize_rows(s, args.x, p->x_stride, n_row, p->w.k));
            args.act = s->q8;
        }
        whim_access accesses[WHIM_ACCESS_MAX];
        int32_t n = whim_access_product(&args, s->dev->workers.count, accesses);
        WHIM_TRY(whim_cpu_push(s, s->dev->kernels->linear, &args, sizeof args, accesses, n));
    }
    return WHIM_ERR_OK;
}

static whim_err op_linear(whim_stream *base, const whim_linear_args *a)
{
    return push_product((whim_cpu_stream *)base, &(whim_cpu_product_args){
                                                     .w = a->w,
                                                     .x = a->x,
                                                     .x_stride = a->x_stride,
                                                     .bias = a->bias,
                                                     .y = a->y,
                                                     .y_stride = a->y_stride,
                                                     .n_row = a->n_row,
                                                 });
}

static whim_err op_linear_swiglu(whim_stream *base, const whim_linear_swiglu_args *a)
{
    if (a->gate.dtype != a->up.dtype) {
        return whim_compose_linear_swiglu(base, a);
    }
    return push_product((whim_cpu_stream *)base, &(whim_cpu_product_args){
                                                     .w = a->gate,
                                                     .up = a->up.data,
                                                     .x = a->x,
                                                     .x_stride = a->x_stride,
                                                     .bias = a->gate_bias,
                                                     .up_bias = a->up_bias,
                                                     .y = a->y,
                                                     .y_stride = a->y_stride,
                                                     .n_row = a->n_row,
                                                 });
}

/* The workers' finds lie in the op's scratch, which is large enough unless there are hardly any outputs. Many
 * rows would need several products; they, too, take the composition. */
static whim_err op_linear_topk(whim_stream *base, const whim_linear_topk_args *a)
{
    whim_cpu_stream *s = (whim_cpu_stream *)base;
    int64_t finds = s->dev->workers.count * a->k_top * (int64_t)sizeof(whim_cpu_best);
    bool aligned = (uintptr_t)a->scratch % _Alignof(whim_cpu_best) == 0;
    if (finds > a->w.n * (int64_t)sizeof(float) || !aligned ||
        a->n_row > rows_that_fit(s->dev->kernels->order, a->w.k)) {
        return whim_compose_linear_topk(base, a);
    }
    whim_cpu_best *best = (whim_cpu_best *)a->scratch;
    WHIM_TRY(push_product(s, &(whim_cpu_product_args){
                                 .w = a->w,
                                 .x = a->x,
                                 .x_stride = a->x_stride,
                                 .bias = a->bias,
                                 .n_row = a->n_row,
                                 .best = best,
                                 .k_top = a->k_top,
                             }));
    whim_cpu_merge_args merge = {best, a->values, a->ids, a->n_row, a->k_top};
    whim_access accesses[WHIM_ACCESS_MAX];
    int32_t n = whim_access_merge(&merge, s->dev->workers.count, accesses);
    return whim_cpu_push(s, s->dev->kernels->merge_best, &merge, sizeof merge, accesses, n);
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
    ops->linear_swiglu = op_linear_swiglu;
    ops->linear_topk = op_linear_topk;
}
