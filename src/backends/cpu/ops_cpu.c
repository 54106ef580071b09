/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's table of ops: each pushes one command with its level's kernel, except the products,
 * which quantise their activations first when the weights are block-quantised. */
#include "backends/cpu/moe_plan.h"
#include "backends/cpu/stream.h"
#include "ops/compose/compose.h"

#include <assert.h>

static_assert(sizeof(whim_cpu_product_args) <= WHIM_OP_ARGS_MAX, "command too small");
static_assert(sizeof(whim_cpu_quantize_args) <= WHIM_OP_ARGS_MAX, "command too small");
static_assert(sizeof(whim_cpu_attn_args) <= WHIM_OP_ARGS_MAX, "command too small");
static_assert(sizeof(whim_cpu_sample_args) <= WHIM_OP_ARGS_MAX, "command too small");

/* Workspace of `sample`: on many cores not every one has a large vocabulary of its own. */
#define SAMPLE_BYTES (INT64_C(64) << 20)

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
#define WHIM_COMM(name)
#include "ops/ops.def"
#undef WHIM_OP

/* What narrows the rows for weights of a type; NULL: they stay F32. */
static whim_cpu_kernel *narrow_kernel(const whim_cpu_kernels *level, whim_dtype dtype)
{
    return whim_cpu_form_of(dtype) != NULL ? level->quantize_act
           : whim_cpu_wants_bf16(dtype)    ? level->round_act
                                           : NULL;
}

/* Few rows: every worker makes them for itself. The limit weighs making them again (0.2 ns for an
 * element's norm, 0.6 for its int8 form on a Neoverse V1) against the barriers that fall away,
 * which are the dearer the more workers there are. */
static bool few(const whim_cpu_stream *s, int64_t n_row, int64_t n_col)
{
    int64_t count = s->dev->workers.count, limit = 1024 + 256 * count;
    limit = limit < WHIM_CPU_OWN_ELEMS ? limit : WHIM_CPU_OWN_ELEMS;
    return count > 1 && n_row > 0 && n_col > 0 && n_col <= limit && n_row <= limit / n_col;
}

/* A norm; `norm` says what it computes. */
static whim_err push_norm(whim_cpu_stream *s, whim_op op, whim_cpu_kernel *kernel, const void *args,
                          const whim_add_rmsnorm_args *norm)
{
    if (!few(s, norm->n_row, norm->n_col)) {
        return push_op(s, op, kernel, args);
    }
    return whim_cpu_push_later(s, op, kernel, args, norm);
}

static whim_err op_rmsnorm(whim_stream *base, const whim_rmsnorm_args *a)
{
    whim_cpu_stream *s = (whim_cpu_stream *)base;
    whim_add_rmsnorm_args norm = {
        .x = (float *)a->x, /* only read: there is nothing to add */
        .x_stride = a->x_stride,
        .w = a->w,
        .eps = a->eps,
        .y = a->y,
        .y_stride = a->y_stride,
        .n_row = a->n_row,
        .n_col = a->n_col,
    };
    return push_norm(s, WHIM_OP_rmsnorm, s->dev->kernels->rmsnorm, a, &norm);
}

static whim_err op_add_rmsnorm(whim_stream *base, const whim_add_rmsnorm_args *a)
{
    whim_cpu_stream *s = (whim_cpu_stream *)base;
    return push_norm(s, WHIM_OP_add_rmsnorm, s->dev->kernels->add_rmsnorm, a, a);
}

/* Whether a worker's own memory holds the narrow form of few rows: BF16 rows are padded. */
static bool own_fits(const whim_cpu_stream *s, const whim_cpu_product_args *a)
{
    return !whim_cpu_wants_bf16(a->w.dtype) || narrow_kernel(s->dev->kernels, a->w.dtype) == NULL ||
           whim_cpu_bf16_act_bytes(a->n_row, a->w.k) <= WHIM_CPU_OWN_NARROW;
}

/* Does the product read what the waiting norm gives, and leave alone what it needs? */
static bool reads_norm(const whim_cpu_stream *s, const whim_cpu_product_args *a)
{
    const whim_add_rmsnorm_args *norm = &s->later.norm;
    if (s->later.n_access == 0 || !own_fits(s, a) || a->x != norm->y || a->w.k != norm->n_col ||
        a->n_row != norm->n_row || (a->n_row > 1 && a->x_stride != norm->y_stride)) {
        return false;
    }
    whim_access accesses[WHIM_ACCESS_MAX];
    whim_access_product(a, s->dev->workers.count, accesses);
    for (int32_t i = 0; i < s->later.n_access; i++) {
        if (whim_access_overlap(&accesses[1], &s->later.accesses[i])) {
            return false;
        }
    }
    return true;
}

static bool same_access(const whim_access *a, const whim_access *b)
{
    return a->at == b->at && a->row_bytes == b->row_bytes && a->stride == b->stride &&
           a->n_row == b->n_row;
}

/* Note what the workers' own rows are made from; true when they have just that. */
static bool keep(whim_cpu_stream *s, const whim_cpu_product_args *args, const whim_access *accesses)
{
    whim_cpu_kept kept = {.x = accesses[0],
                          .norm = args->own.norm,
                          .eps = args->own.eps,
                          .narrow = narrow_kernel(s->dev->kernels, args->w.dtype)};
    if (args->own.delta != NULL) {
        kept.delta = accesses[2];
    }
    bool same = same_access(&kept.x, &s->kept.x) && same_access(&kept.delta, &s->kept.delta) &&
                kept.norm == s->kept.norm && kept.eps == s->kept.eps &&
                kept.narrow == s->kept.narrow;
    s->kept = kept;
    return same;
}

/* A product of rows that each worker makes for itself. `norm`: what waits and gives the rows, or
 * NULL. */
static whim_err push_own(whim_cpu_stream *s, const whim_cpu_product_args *p,
                         const whim_add_rmsnorm_args *norm)
{
    whim_cpu_product_args args = *p;
    args.own.used = true;
    if (norm != NULL) {
        args.x = norm->x;
        args.x_stride = norm->x_stride;
        args.own.delta = norm->delta;
        args.own.delta_stride = norm->delta_stride;
        args.own.norm = norm->w;
        args.own.eps = norm->eps;
    }
    whim_access accesses[WHIM_ACCESS_MAX];
    int32_t n = whim_access_product(&args, s->dev->workers.count, accesses);
    if (norm == NULL) {
        WHIM_TRY(whim_cpu_settle(s, accesses, n));
    }
    args.own.kept = keep(s, &args, accesses);
    return (norm != NULL ? whim_cpu_push_ahead : whim_cpu_push)(s, s->dev->kernels->linear, &args,
                                                                sizeof args, accesses, n);
}

/* Rows of x as int8 or BF16, as `kernel` makes them, in the stream's buffer; nothing to do when
 * they are there already, as for the second and third product of the same activations. */
static whim_err narrow_rows(whim_cpu_stream *s, whim_cpu_kernel *kernel, const float *x,
                            int64_t x_stride, int64_t n_row, int64_t k)
{
    whim_access from = {(uintptr_t)x, k * (int64_t)sizeof *x, x_stride * (int64_t)sizeof *x, n_row,
                        false};
    WHIM_TRY(whim_cpu_settle(s, &from, 1)); /* a norm that waits may still change them */
    if (s->q8_by == kernel && same_access(&from, &s->q8_from)) {
        return WHIM_ERR_OK;
    }
    whim_cpu_quantize_args args = {
        .x = x, .x_stride = x_stride, .act = s->q8, .n_row = n_row, .k = k};
    whim_access accesses[WHIM_ACCESS_MAX];
    int32_t n = whim_access_quantize(&args, accesses);
    WHIM_TRY(whim_cpu_push(s, kernel, &args, sizeof args, accesses, n));
    s->q8_from = from;
    s->q8_by = kernel;
    return WHIM_ERR_OK;
}

/* The most rows whose narrow form fits the stream's buffer; a multiple of 16, because rows may lie
 * in blocks of 16 at most. */
static int64_t rows_that_fit(const whim_cpu_kernels *level, whim_dtype dtype, int64_t k)
{
    int64_t bytes = whim_cpu_wants_bf16(dtype) ? whim_cpu_bf16_act_bytes(16, k)
                                               : whim_cpu_act_bytes(level->order, 16, k) - 64;
    bool narrow = narrow_kernel(level, dtype) != NULL && bytes > 0;
    return narrow ? (CPU_Q8_BYTES - 64) / bytes * 16 : INT64_MAX;
}

/* One product, in as many commands as the narrow form of its rows needs. `p` has everything but
 * `act`. */
static whim_err push_product(whim_cpu_stream *s, const whim_cpu_product_args *p)
{
    const whim_cpu_kernels *level = s->dev->kernels;
    whim_cpu_kernel *narrow = narrow_kernel(level, p->w.dtype);
    WHIM_TRY(whim_cpu_room(s));
    if (reads_norm(s, p)) {
        return push_own(s, p, &s->later.norm);
    }
    if (narrow != NULL && few(s, p->n_row, p->w.k) && own_fits(s, p)) {
        return push_own(s, p, NULL);
    }
    int64_t chunk = rows_that_fit(level, p->w.dtype, p->w.k);
    if (chunk == 0 && p->n_row > 0) { /* not accepted either */
        return WHIM_ERR_UNSUPPORTED;
    }
    for (int64_t row = 0, n_row; row < p->n_row; row += n_row) {
        n_row = p->n_row - row < chunk ? p->n_row - row : chunk;
        whim_cpu_product_args args = *p;
        args.x += row * p->x_stride;
        args.y = p->y != NULL ? p->y + row * p->y_stride : NULL;
        args.n_row = n_row;
        if (narrow != NULL) {
            WHIM_TRY(narrow_rows(s, narrow, args.x, p->x_stride, n_row, p->w.k));
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
    if (a->x_type != WHIM_ACT_F32) {
        return WHIM_ERR_UNSUPPORTED;
    }
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
    if (!whim_cpu_op_accepts(base->device, WHIM_OP_linear_swiglu, a)) {
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

/* The workers' finds lie in the workspace. As many rows at a time as one product takes. */
static whim_err op_linear_topk(whim_stream *base, const whim_linear_topk_args *a)
{
    whim_cpu_stream *s = (whim_cpu_stream *)base;
    int64_t chunk = rows_that_fit(s->dev->kernels, a->w.dtype, a->w.k);
    void *best;
    WHIM_TRY(whim_workspace_take(base, whim_cpu_op_workspace(base->device, WHIM_OP_linear_topk, a),
                                 &best));
    for (int64_t row = 0, n_row; row < a->n_row && chunk > 0; row += n_row) {
        n_row = a->n_row - row < chunk ? a->n_row - row : chunk;
        WHIM_TRY(push_product(s, &(whim_cpu_product_args){
                                     .w = a->w,
                                     .x = a->x + row * a->x_stride,
                                     .x_stride = a->x_stride,
                                     .bias = a->bias,
                                     .n_row = n_row,
                                     .best = best,
                                     .k_top = a->k_top,
                                 }));
        whim_cpu_merge_args merge = {best, a->values + row * a->k_top, a->ids + row * a->k_top,
                                     n_row, a->k_top};
        whim_access accesses[WHIM_ACCESS_MAX];
        int32_t n = whim_access_merge(&merge, s->dev->workers.count, accesses);
        WHIM_TRY(whim_cpu_push(s, s->dev->kernels->merge_best, &merge, sizeof merge, accesses, n));
    }
    return chunk > 0 ? WHIM_ERR_OK : WHIM_ERR_UNSUPPORTED;
}

static whim_err op_attn_paged(whim_stream *base, const whim_attn_paged_args *a)
{
    if (!whim_cpu_op_accepts(base->device, WHIM_OP_attn_paged, a)) {
        return WHIM_ERR_UNSUPPORTED;
    }
    whim_cpu_stream *s = (whim_cpu_stream *)base;
    whim_cpu_attn_args args = {.op = *a, .shared = s->attn};
    whim_access accesses[WHIM_ACCESS_MAX];
    int32_t n = whim_access_list(WHIM_OP_attn_paged, a, accesses);
    accesses[n++] = whim_access_span(s->attn, sizeof *s->attn, true);
    return whim_cpu_push(s, s->dev->kernels->attn_paged, &args, sizeof args, accesses, n);
}

static int64_t sample_slots(const whim_cpu_device *dev, const whim_sample_args *a)
{
    int64_t each = whim_sample_slot_bytes(a->n_col);
    int64_t most = each > SAMPLE_BYTES / 2 || each == 0 ? 1 : SAMPLE_BYTES / each;
    most = dev->workers.count < most ? dev->workers.count : most;
    return a->n_row < most ? a->n_row : most;
}

static whim_err op_sample(whim_stream *base, const whim_sample_args *a)
{
    whim_cpu_stream *s = (whim_cpu_stream *)base;
    whim_cpu_sample_args args = {.op = *a, .n_slot = sample_slots(s->dev, a)};
    int64_t bytes = args.n_slot * whim_sample_slot_bytes(a->n_col);
    WHIM_TRY(whim_workspace_take(base, bytes, &args.space));
    whim_access accesses[WHIM_ACCESS_MAX];
    int32_t n = whim_access_list(WHIM_OP_sample, a, accesses);
    accesses[n++] = whim_access_span(args.space, bytes, true);
    return whim_cpu_push(s, s->dev->kernels->sample, &args, sizeof args, accesses, n);
}

static whim_err op_narrow(whim_stream *base, const whim_narrow_args *a)
{
    return whim_cpu_op_accepts(base->device, WHIM_OP_narrow, a) ? plain_narrow(base, a)
                                                                : WHIM_ERR_UNSUPPORTED;
}

static bool product_accepts(const whim_cpu_device *dev, const whim_weight *w)
{
    return rows_that_fit(dev->kernels, w->dtype, w->k) > 0;
}

/* Types of rows that ops here store, and take as they were stored. */
static bool rows_accepted(whim_act type)
{
    return type == WHIM_ACT_F32 || type == WHIM_ACT_BF16 || type == WHIM_ACT_Q8;
}

bool whim_cpu_op_accepts(whim_device *base, int32_t op, const void *args)
{
    const whim_cpu_device *dev = (const whim_cpu_device *)base;
    switch (op) {
    case WHIM_OP_linear: {
        const whim_linear_args *a = args;
        return a->x_type == WHIM_ACT_F32 && product_accepts(dev, &a->w);
    }
    case WHIM_OP_narrow:
        return rows_accepted(((const whim_narrow_args *)args)->y_type) &&
               ((const whim_narrow_args *)args)->y_type != WHIM_ACT_F32;
    case WHIM_OP_moe_experts:
        return rows_accepted(((const whim_moe_experts_args *)args)->x_type);
    case WHIM_OP_linear_swiglu: {
        const whim_linear_swiglu_args *a = args;
        return a->gate.dtype == a->up.dtype && product_accepts(dev, &a->gate);
    }
    case WHIM_OP_linear_topk:
        return product_accepts(dev, &((const whim_linear_topk_args *)args)->w);
    case WHIM_OP_attn_paged: {
        const whim_kv_view *kv = &((const whim_attn_paged_args *)args)->kv;
        return kv->d_head <= WHIM_CPU_MAX_HEAD_DIM && kv->page_len == WHIM_CPU_PAGE;
    }
    case WHIM_OP_kv_write:
        return ((const whim_kv_write_args *)args)->kv.page_len == WHIM_CPU_PAGE;
    case WHIM_OP_kv_read:
        return ((const whim_kv_read_args *)args)->kv.page_len == WHIM_CPU_PAGE;
    default:
        return whim_ops_has(&dev->ops, (whim_op)op);
    }
}

int64_t whim_cpu_op_workspace(whim_device *base, int32_t op, const void *args)
{
    const whim_cpu_device *dev = (const whim_cpu_device *)base;
    if (op == WHIM_OP_linear_topk) {
        const whim_linear_topk_args *a = args;
        int64_t most = rows_that_fit(dev->kernels, a->w.dtype, a->w.k);
        most = a->n_row < most ? a->n_row : most;
        return dev->workers.count * most * a->k_top * (int64_t)sizeof(whim_cpu_best);
    }
    if (op == WHIM_OP_sample) {
        const whim_sample_args *a = args;
        return sample_slots(dev, a) * whim_sample_slot_bytes(a->n_col);
    }
    return op == WHIM_OP_moe_experts ? whim_cpu_moe_space_bytes(args) : 0;
}

void whim_cpu_ops_init(whim_ops *ops)
{
    *ops = (whim_ops){
#define WHIM_OP(name) .name = plain_##name,
#define WHIM_COMM(name)
#include "ops/ops.def"
#undef WHIM_OP
    };
    ops->linear = op_linear;
    ops->narrow = op_narrow;
    ops->rmsnorm = op_rmsnorm;
    ops->add_rmsnorm = op_add_rmsnorm;
    ops->attn_paged = op_attn_paged;
    ops->linear_swiglu = op_linear_swiglu;
    ops->linear_topk = op_linear_topk;
    ops->moe_experts = whim_cpu_op_moe_experts;
    ops->sample = op_sample;
    whim_cpu_comm_ops_init(ops);
}
