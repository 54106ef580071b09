/* SPDX-License-Identifier: Apache-2.0 */
/* The ops: which kernel, and how many blocks of how many threads. Kernels walk all items whatever
 * the grid, so these numbers decide about speed alone. */
#include "backends/cuda/cuda.h"

enum { MAX_GRID = 1 << 30, MAX_GRID_Y = 65535 };

typedef struct shape {
    int64_t blocks, pieces; /* of the grid */
    int32_t threads;        /* of a block */
} shape;

static whim_err launch(whim_stream *base, whim_cuda_kernel kernel, shape g, const void *args)
{
    whim_cuda_stream *s = (whim_cuda_stream *)base;
    if (g.blocks <= 0 || g.pieces <= 0) {
        return WHIM_ERR_OK;
    }
    void *params[] = {(void *)(uintptr_t)args};
    WHIM_TRY(whim_cuda_enter(s->dev));
    return whim_cuda_error(s->dev->cu->cuLaunchKernel(
        s->dev->kernels[kernel], (unsigned)(g.blocks < MAX_GRID ? g.blocks : MAX_GRID),
        (unsigned)(g.pieces < MAX_GRID_Y ? g.pieces : MAX_GRID_Y), 1, (unsigned)g.threads, 1, 1, 0,
        s->handle, params, NULL));
}

static int64_t ceil_div(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit;
}

/* Rows whose elements are on their own. */
static shape elements(int64_t n_row, int64_t n_col)
{
    return (shape){n_row, ceil_div(n_col, WHIM_CUDA_PIECE), 256};
}

/* A block for each item. */
static shape items(int64_t n, int32_t threads)
{
    return (shape){n, 1, threads};
}

/* The op's own arguments are the kernel's. */
#define OP(name, grid)                                                        \
    static whim_err op_##name(whim_stream *base, const whim_##name##_args *a) \
    {                                                                         \
        return launch(base, WHIM_CUDA_K_##name, grid, a);                     \
    }
OP(embed, items(a->n_row, 128))
OP(rmsnorm, items(a->n_col > 0 ? a->n_row : 0, a->n_col > 256 ? 256 : 64))
OP(add, elements(a->n_row, a->n_col))
OP(add_rmsnorm, items(a->n_col > 0 ? a->n_row : 0, 256))
OP(swiglu, elements(a->n_row, a->n_col))
OP(gather_rows, elements(a->n_row, a->n_col))
OP(result_tokens, items(ceil_div(a->n_row, 128), 128))
OP(topk, items(a->n_row, a->n_col > 4096 ? 1024 : 128))
OP(moe_topk, items(a->n_row, 128))
OP(gated_add, elements(a->n_row, a->n_col))
OP(rope_table, items(a->n_row, 64))
OP(rope, items(a->n_row * a->n_head, 64))
OP(split_qkv_rmsnorm_rope, items(a->n_row *(a->n_head + 2 * a->n_kv), 64))
OP(qk_sumsq, items(2 * a->n_row, 64))
OP(rmsnorm_sumsq, items(a->n_row, 128))
OP(kv_write, items(2 * a->n_row * a->kv.n_kv, 32))
OP(kv_read, items(2 * a->n_row * a->kv.n_kv, 32))
OP(page_zero, ((shape){a->n_id, ceil_div(a->page_bytes, 1 << 14), 256}))
OP(sigmoid_gate, elements(a->n_row, a->n_col))
OP(rmsnorm_gated, items(a->n_col > 0 ? a->n_row : 0, 64))

static whim_err op_attn_paged(whim_stream *base, const whim_attn_paged_args *a)
{
    static const whim_cuda_kernel kernels[WHIM_KV_TYPE_COUNT] = {
        [WHIM_KV_F32] = WHIM_CUDA_K_attn_f32,
        [WHIM_KV_BF16] = WHIM_CUDA_K_attn_bf16,
        [WHIM_KV_F16] = WHIM_CUDA_K_attn_f16,
        [WHIM_KV_Q8] = WHIM_CUDA_K_attn_q8,
    };
    return whim_cuda_op_accepts(base->device, WHIM_OP_attn_paged, a)
               ? launch(base, kernels[a->kv.type], items(a->n_row * a->n_head, 128), a)
               : WHIM_ERR_UNSUPPORTED;
}

static whim_err op_copy_bytes(whim_stream *base, const whim_copy_bytes_args *a)
{
    whim_cuda_stream *s = (whim_cuda_stream *)base;
    WHIM_TRY(whim_cuda_enter(s->dev));
    return a->bytes == 0
               ? WHIM_ERR_OK
               : whim_cuda_error(s->dev->cu->cuMemcpyDtoDAsync_v2((uint64_t)(uintptr_t)a->dst,
                                                                  (uint64_t)(uintptr_t)a->src,
                                                                  (size_t)a->bytes, s->handle));
}

static whim_err op_narrow(whim_stream *base, const whim_narrow_args *a)
{
    enum { WARPS = 4 };
    if (a->y_type == WHIM_ACT_Q8) {
        int64_t n = a->n_row * (a->n_col / WHIM_GROUP);
        return launch(base, WHIM_CUDA_K_narrow_q8, items(ceil_div(n, WARPS), 32 * WARPS), a);
    }
    return a->y_type == WHIM_ACT_BF16
               ? launch(base, WHIM_CUDA_K_narrow_bf16, elements(a->n_row, a->n_col), a)
               : WHIM_ERR_UNSUPPORTED;
}

/* --- products --------------------------------------------------------------------------------- */

static bool is_quant(const whim_weight *w)
{
    return whim_dtype_get(w->dtype)->kind == WHIM_DTYPE_KIND_QUANT;
}

/* The first of a form's kernels. */
static whim_cuda_kernel linear_kernel(whim_dtype dtype)
{
    switch ((int)dtype) {
    case WHIM_DTYPE_F32:
        return WHIM_CUDA_K_linear_f32_1;
    case WHIM_DTYPE_BF16:
        return WHIM_CUDA_K_linear_bf16_1;
    case WHIM_DTYPE_F16:
        return WHIM_CUDA_K_linear_f16_1;
    case WHIM_DTYPE_FP8:
        return WHIM_CUDA_K_linear_fp8_1;
    case WHIM_DTYPE_Q4_0:
        return WHIM_CUDA_K_linear_q4_0_1;
    case WHIM_DTYPE_Q4_1:
        return WHIM_CUDA_K_linear_q4_1_1;
    case WHIM_DTYPE_Q8_0:
        return WHIM_CUDA_K_linear_q8_0_1;
    default:
        return WHIM_CUDA_K_linear_wide_1;
    }
}

/* Rows as products with a weight take them: Q8 blocks for QUANT types. */
static int64_t blocks_bytes(const whim_weight *w, int64_t n_row)
{
    return is_quant(w) ? whim_act_bytes(WHIM_ACT_Q8, n_row * w->k) : 0;
}

static whim_err blocks_make(whim_stream *base, const float *x, int64_t x_stride, int64_t n_row,
                            int64_t n_col, void **blocks)
{
    WHIM_TRY(whim_workspace_take(base, whim_act_bytes(WHIM_ACT_Q8, n_row * n_col), blocks));
    return op_narrow(base, &(whim_narrow_args){
                               .x = x,
                               .x_stride = x_stride,
                               .y_type = WHIM_ACT_Q8,
                               .y = *blocks,
                               .y_stride = n_col,
                               .n_row = n_row,
                               .n_col = n_col,
                           });
}

static whim_err op_linear(whim_stream *base, const whim_linear_args *a)
{
    if (!whim_cuda_op_accepts(base->device, WHIM_OP_linear, a)) {
        return WHIM_ERR_UNSUPPORTED;
    }
    whim_cuda_linear_args args = {.op = *a};
    if (is_quant(&a->w)) {
        void *blocks;
        WHIM_TRY(blocks_make(base, a->x, a->x_stride, a->n_row, a->w.k, &blocks));
        args.blocks = blocks;
    }
    int32_t choice = a->n_row == 1 ? 0 : a->n_row <= 4 ? 1 : 2;
    static const int32_t rows[] = {1, 4, 16}, threads[] = {32, 32, 128};
    shape g = items(ceil_div(a->w.n, threads[choice]) * ceil_div(a->n_row, rows[choice]),
                    threads[choice]);
    return launch(base, linear_kernel(a->w.dtype) + (whim_cuda_kernel)choice, g, &args);
}

/* --- experts ---------------------------------------------------------------------------------- */

enum { PAIRS_KERNEL = 3 }; /* after the first of a form */

static int64_t round64(int64_t bytes)
{
    return ceil_div(bytes, 64) * 64;
}

static int64_t experts_bytes(const whim_moe_experts_args *a)
{
    int64_t n_pair = a->n_row * a->k_top, d = a->gate.k, ff = a->down.k;
    bool narrow = is_quant(&a->gate) || is_quant(&a->up);
    return 2 * round64(n_pair * ff * 4) + round64(n_pair * d * 4) +
           round64(blocks_bytes(&a->down, n_pair)) +
           (narrow ? round64(whim_act_bytes(WHIM_ACT_Q8, a->n_row * d)) : 0);
}

static whim_err pairs_run(whim_stream *base, const whim_moe_experts_args *a,
                          const whim_cuda_pairs_args *p)
{
    whim_cuda_pairs_args args = *p;
    args.ids = a->ids;
    args.n_pair = a->n_row * a->k_top;
    args.n_expert = a->n_expert;
    return launch(base, linear_kernel(p->w.dtype) + PAIRS_KERNEL,
                  items(args.n_pair * ceil_div(p->n, 32), 32), &args);
}

/* Gate and up of all pairs, SwiGLU, down, and the sum over a row's experts. */
static whim_err op_moe_experts(whim_stream *base, const whim_moe_experts_args *a)
{
    int64_t n_pair = a->n_row * a->k_top, d = a->gate.k, ff = a->down.k;
    void *act, *up, *out, *x = NULL, *rows;
    WHIM_TRY(whim_workspace_take(base, n_pair * ff * 4, &act));
    WHIM_TRY(whim_workspace_take(base, n_pair * ff * 4, &up));
    WHIM_TRY(whim_workspace_take(base, n_pair * d * 4, &out));
    if (is_quant(&a->gate) || is_quant(&a->up)) {
        WHIM_TRY(blocks_make(base, a->x, a->x_stride, a->n_row, d, &x));
    }
    const whim_weight *first[] = {&a->gate, &a->up};
    float *to[] = {act, up};
    for (int i = 0; i < 2; i++) {
        WHIM_TRY(pairs_run(base, a,
                           &(whim_cuda_pairs_args){
                               .w = *first[i],
                               .x = is_quant(first[i]) ? x : a->x,
                               .x_stride = a->x_stride,
                               .per = a->k_top,
                               .y = to[i],
                               .n = ff,
                           }));
    }
    WHIM_TRY(op_swiglu(base, &(whim_swiglu_args){act, ff, up, ff, act, ff, n_pair, ff}));
    rows = act;
    if (is_quant(&a->down)) {
        WHIM_TRY(blocks_make(base, act, ff, n_pair, ff, &rows));
    }
    WHIM_TRY(pairs_run(base, a,
                       &(whim_cuda_pairs_args){
                           .w = a->down, .x = rows, .x_stride = ff, .per = 1, .y = out, .n = d}));
    whim_cuda_moe_sum_args sum = {.op = *a, .out = out};
    return launch(base, WHIM_CUDA_K_moe_sum, elements(a->n_row, d), &sum);
}

/* --- the gated delta net ---------------------------------------------------------------------- */

/* States are written after all rows have been read. */
static whim_err op_gdn_conv(whim_stream *base, const whim_gdn_conv_args *a)
{
    WHIM_TRY(launch(base, WHIM_CUDA_K_gdn_conv, elements(a->n_row, a->n_chan), a));
    return launch(base, WHIM_CUDA_K_gdn_conv_state, elements(a->n_seq, a->n_chan), a);
}

static whim_err op_gdn_scan(whim_stream *base, const whim_gdn_scan_args *a)
{
    whim_cuda_stream *s = (whim_cuda_stream *)base;
    int64_t bytes = a->n_row * a->n_value * a->d_value * 4;
    if (bytes > 0) {
        WHIM_TRY(whim_cuda_enter(s->dev));
        WHIM_TRY(whim_cuda_error(
            s->dev->cu->cuMemsetD8Async((uint64_t)(uintptr_t)a->out, 0, (size_t)bytes, s->handle)));
    }
    int64_t per_head = ceil_div(a->d_value, whim_cuda_scan_columns(a->d_key));
    return launch(base, WHIM_CUDA_K_gdn_scan, items(a->n_seq * a->n_value * per_head, 32), a);
}

/* --- sample ----------------------------------------------------------------------------------- */

enum { SAMPLE_SLOTS = 64 };

static int64_t sample_slots(const whim_sample_args *a)
{
    return a->n_row < SAMPLE_SLOTS ? a->n_row : SAMPLE_SLOTS;
}

static int64_t sample_bytes(const whim_sample_args *a)
{
    return sample_slots(a) * whim_sample_slot_bytes(a->n_col);
}

static whim_err op_sample(whim_stream *base, const whim_sample_args *a)
{
    whim_cuda_sample_args args = {.op = *a};
    WHIM_TRY(whim_workspace_take(base, sample_bytes(a), &args.space));
    return launch(base, WHIM_CUDA_K_sample, items(sample_slots(a), 512), &args);
}

/* --- the table -------------------------------------------------------------------------------- */

bool whim_cuda_op_accepts(whim_device *base, int32_t op, const void *args)
{
    const whim_cuda_device *dev = (const whim_cuda_device *)base;
    switch (op) {
    case WHIM_OP_linear:
        return ((const whim_linear_args *)args)->x_type == WHIM_ACT_F32;
    case WHIM_OP_narrow: {
        whim_act type = ((const whim_narrow_args *)args)->y_type;
        return type == WHIM_ACT_Q8 || type == WHIM_ACT_BF16;
    }
    case WHIM_OP_attn_paged:
        return ((const whim_attn_paged_args *)args)->kv.d_head <= WHIM_CUDA_MAX_HEAD;
    default:
        return whim_ops_has(&dev->ops, (whim_op)op);
    }
}

int64_t whim_cuda_op_workspace(whim_device *base, int32_t op, const void *args)
{
    (void)base;
    switch (op) {
    case WHIM_OP_linear: {
        const whim_linear_args *a = args;
        return blocks_bytes(&a->w, a->n_row);
    }
    case WHIM_OP_moe_experts:
        return experts_bytes(args);
    case WHIM_OP_sample:
        return sample_bytes(args);
    default:
        return 0;
    }
}

void whim_cuda_ops_init(whim_ops *ops)
{
    *ops = (whim_ops){
        .embed = op_embed,
        .narrow = op_narrow,
        .linear = op_linear,
        .rmsnorm = op_rmsnorm,
        .add = op_add,
        .add_rmsnorm = op_add_rmsnorm,
        .swiglu = op_swiglu,
        .gather_rows = op_gather_rows,
        .result_tokens = op_result_tokens,
        .topk = op_topk,
        .sample = op_sample,
        .moe_topk = op_moe_topk,
        .moe_experts = op_moe_experts,
        .gated_add = op_gated_add,
        .rope_table = op_rope_table,
        .rope = op_rope,
        .split_qkv_rmsnorm_rope = op_split_qkv_rmsnorm_rope,
        .qk_sumsq = op_qk_sumsq,
        .rmsnorm_sumsq = op_rmsnorm_sumsq,
        .kv_write = op_kv_write,
        .kv_read = op_kv_read,
        .page_zero = op_page_zero,
        .attn_paged = op_attn_paged,
        .sigmoid_gate = op_sigmoid_gate,
        .rmsnorm_gated = op_rmsnorm_gated,
        .gdn_conv = op_gdn_conv,
        .gdn_scan = op_gdn_scan,
        .copy_bytes = op_copy_bytes,
    };
}
