/* SPDX-License-Identifier: Apache-2.0 */
/* The ops: which kernel, and how many blocks of how many threads. Kernels walk all items whatever
 * the grid, so these numbers decide about speed alone. */
#include "backends/cuda/launch.h"

enum { MAX_GRID = 1 << 30, MAX_GRID_Y = 65535 };

/* Start a kernel, or where the GPU can, let it come while the last one ends (common.cuh). */
static int kernel_start(const whim_cuda_stream *s, whim_cuda_kernel kernel, whim_cuda_shape g,
                        void **params)
{
    whim_cu_launch_attribute early = {.id = WHIM_CU_LAUNCH_PROGRAMMATIC, .value = {1}};
    whim_cu_launch_config config = {
        .grid = {(unsigned)(g.blocks < MAX_GRID ? g.blocks : MAX_GRID),
                 (unsigned)(g.pieces < MAX_GRID_Y ? g.pieces : MAX_GRID_Y), 1},
        .block = {(unsigned)g.threads, 1, 1},
        .shared_bytes = (unsigned)g.shared_bytes,
        .stream = s->handle,
        .attributes = &early,
        .n_attribute = s->dev->starts_early ? 1 : 0,
    };
    return s->dev->cu->cuLaunchKernelEx(&config, s->dev->kernels[kernel], params, NULL);
}

static whim_cuda_shape split_shape(const whim_split_qkv_rmsnorm_rope_args *a)
{
    return whim_cuda_items(a->n_row * (a->n_head + 2 * a->n_kv), 64);
}

/* Heads of 64 or 128 that are rotated as a whole, with BF16 pages. */
static bool is_plain_split(const whim_cuda_split_args *a)
{
    return (a->split.d_head == 64 || a->split.d_head == 128) &&
           a->split.n_freq == a->split.d_head / 2 && a->split.gate == NULL &&
           (a->store.slots == NULL || a->store.kv.type == WHIM_KV_BF16);
}

static whim_err plain_split(whim_stream *base, const whim_cuda_split_args *a)
{
    enum { HALVES = WHIM_CUDA_SPLIT_THREADS / 16 };
    int64_t n_row = a->split.n_row, n_all = a->split.n_head + 2 * a->split.n_kv;
    int64_t blocks = n_row >= WHIM_CUDA_SPLIT_ROWS ? whim_cuda_ceil_div(n_row, HALVES) * n_all
                                                   : whim_cuda_ceil_div(n_row * n_all, HALVES);
    return whim_cuda_launch(base,
                            a->split.d_head == 64 ? WHIM_CUDA_K_split_64 : WHIM_CUDA_K_split_128,
                            whim_cuda_items(blocks, WHIM_CUDA_SPLIT_THREADS), a);
}

static whim_cuda_shape choice_shape(const whim_moe_topk_args *a)
{
    int64_t n_block = a->n_expert <= WHIM_CUDA_MOE_FEW
                          ? whim_cuda_ceil_div(a->n_row, WHIM_CUDA_MOE_THREADS / 32)
                          : a->n_row;
    return whim_cuda_items(n_block, WHIM_CUDA_MOE_THREADS);
}

/* Only one kind waits at a time: a split comes after the products before it. */
whim_err whim_cuda_flush(whim_stream *base)
{
    whim_cuda_stream *s = (whim_cuda_stream *)base;
    whim_split_qkv_rmsnorm_rope_args split = s->split;
    whim_moe_topk_args choice = s->choice;
    WHIM_TRY(whim_cuda_products_flush(base));
    if (choice.n_row > 0) {
        s->choice.n_row = 0;
        return whim_cuda_launch(base, WHIM_CUDA_K_moe_topk, choice_shape(&choice), &choice);
    }
    if (split.n_row == 0) {
        return WHIM_ERR_OK;
    }
    whim_cuda_split_args alone = {.split = split};
    s->split.n_row = 0;
    return is_plain_split(&alone) ? plain_split(base, &alone)
                                  : whim_cuda_launch(base, WHIM_CUDA_K_split_qkv_rmsnorm_rope,
                                                     split_shape(&split), &split);
}

whim_err whim_cuda_launch(whim_stream *base, whim_cuda_kernel kernel, whim_cuda_shape g,
                          const void *args)
{
    whim_cuda_stream *s = (whim_cuda_stream *)base;
    WHIM_TRY(whim_cuda_flush(base));
    s->made.x = NULL;
    if (g.blocks <= 0 || g.pieces <= 0) {
        return WHIM_ERR_OK;
    }
    void *params[] = {(void *)(uintptr_t)args};
    WHIM_TRY(whim_cuda_enter(s->dev));
    return whim_cuda_error(kernel_start(s, kernel, g, params));
}

/* Norms: a block for each row, with as many threads as can help. */
static whim_cuda_shape norm_rows(int64_t n_row, int64_t n_col)
{
    int32_t threads = n_col <= 256 ? 64 : n_col <= 1024 ? 256 : 512;
    return whim_cuda_items(n_col > 0 ? n_row : 0, threads);
}

/* The op's own arguments are the kernel's. */
#define OP(name, grid)                                                        \
    static whim_err op_##name(whim_stream *base, const whim_##name##_args *a) \
    {                                                                         \
        return whim_cuda_launch(base, WHIM_CUDA_K_##name, grid, a);           \
    }
OP(embed, whim_cuda_elements(a->n_row, a->w.k))
OP(add, whim_cuda_elements(a->n_row, a->n_col))
OP(swiglu, whim_cuda_elements(a->n_row, a->n_col))
OP(gather_rows, whim_cuda_elements(a->n_row, a->n_col))
OP(result_tokens, whim_cuda_items(whim_cuda_ceil_div(a->n_row, 128), 128))
OP(topk, whim_cuda_items(a->n_row, a->n_col > 4096 ? 1024 : 128))
OP(gated_add, whim_cuda_elements(a->n_row, a->n_col))
OP(rope_table, whim_cuda_items(a->n_row, 64))
OP(rope, whim_cuda_items(a->n_row * a->n_head, 64))
OP(qk_sumsq, whim_cuda_items(2 * a->n_row, 64))
OP(rmsnorm_sumsq, whim_cuda_items(a->n_row, 128))
OP(kv_read, whim_cuda_items(2 * a->n_row * a->kv.n_kv, 32))
OP(page_zero, ((whim_cuda_shape){a->n_id, whim_cuda_ceil_div(a->page_bytes, 1 << 14), 256, 0}))
OP(sigmoid_gate, whim_cuda_elements(a->n_row, a->n_col))
OP(pick_chain, whim_cuda_items(a->n_seq > 0 ? a->n_seq : 1, 256))
OP(block_conv, whim_cuda_elements(a->n_row, a->n_col))
OP(rmsnorm_gated, whim_cuda_items(a->n_col > 0 ? a->n_row : 0, 64))

/* A split waits for the kv_write of its k and v. */
static whim_err op_split_qkv_rmsnorm_rope(whim_stream *base,
                                          const whim_split_qkv_rmsnorm_rope_args *a)
{
    WHIM_TRY(whim_cuda_flush(base));
    ((whim_cuda_stream *)base)->split = *a;
    return WHIM_ERR_OK;
}

/* A choice for very few rows waits for the experts. */
static whim_err op_moe_topk(whim_stream *base, const whim_moe_topk_args *a)
{
    if (a->n_row > WHIM_CUDA_EX_CHOICES || a->n_expert > WHIM_CUDA_MOE_FEW) {
        return whim_cuda_launch(base, WHIM_CUDA_K_moe_topk, choice_shape(a), a);
    }
    WHIM_TRY(whim_cuda_flush(base));
    ((whim_cuda_stream *)base)->choice = *a;
    return WHIM_ERR_OK;
}

static whim_err op_kv_write(whim_stream *base, const whim_kv_write_args *a)
{
    whim_cuda_stream *s = (whim_cuda_stream *)base;
    whim_cuda_split_args both = {s->split, *a};
    if (both.split.n_row > 0 && both.split.n_row == a->n_row && both.split.k == a->k &&
        both.split.v == a->v && both.split.n_kv == a->kv.n_kv &&
        both.split.d_head == a->kv.d_head && a->kv.type != WHIM_KV_Q8) {
        s->split.n_row = 0;
        return is_plain_split(&both) ? plain_split(base, &both)
                                     : whim_cuda_launch(base, WHIM_CUDA_K_split_store,
                                                        split_shape(&both.split), &both);
    }
    return whim_cuda_launch(base, WHIM_CUDA_K_kv_write,
                            whim_cuda_items(2 * a->n_row * a->kv.n_kv, 32), a);
}

/* Norms leave their rows as a product takes them, too. */
#define NORM(name)                                                                             \
    static whim_err op_##name(whim_stream *base, const whim_##name##_args *a)                  \
    {                                                                                          \
        whim_cuda_##name##_args args = {                                                       \
            *a, whim_cuda_made_place(base, WHIM_CUDA_MADE_NORM, a->n_row, a->n_col)};          \
        WHIM_TRY(                                                                              \
            whim_cuda_launch(base, WHIM_CUDA_K_##name, norm_rows(a->n_row, a->n_col), &args)); \
        whim_cuda_made_set(base, a->y, a->y_stride, a->n_row, a->n_col, args.left);            \
        return WHIM_ERR_OK;                                                                    \
    }
NORM(rmsnorm)
NORM(add_rmsnorm)

/* --- attention -------------------------------------------------------------------------------- */

enum { ATTN_FEW_ROWS = 64, ATTN_SHARED_ROWS = 8, ATTN_SEGMENTS = 128, ATTN_BLOCKS = 512 };
enum { ATTN_CLUSTERS = 128 }; /* of four blocks: most of a GPU's find room at once */
enum { ATTN_PARTS = ATTN_SHARED_ROWS * ATTN_SEGMENTS }; /* segments of all rows, at most */

static bool is_few_attn(const whim_attn_paged_args *a)
{
    return a->n_row <= ATTN_FEW_ROWS && a->n_row * a->n_head <= WHIM_CUDA_ATTN_ITEMS;
}

/* Segments of a row that blocks may share; the lists of pages are counted together. */
static int64_t attn_segments(const whim_attn_paged_args *a)
{
    int64_t n = whim_cuda_ceil_div(a->max_pages * a->kv.page_len, WHIM_KV_SEGMENT);
    n = n < ATTN_SEGMENTS ? n : ATTN_SEGMENTS;
    return n > 1 ? n : 0;
}

/* Never less for more rows, of which a step may have fewer. */
static int64_t attn_bytes(const whim_attn_paged_args *a)
{
    int64_t n_part = a->n_row * attn_segments(a);
    n_part = n_part < ATTN_PARTS ? n_part : ATTN_PARTS;
    return n_part * a->n_head * (a->kv.d_head + 2) * 4;
}

static whim_cuda_attn_args attn_few_args(whim_stream *base, const whim_attn_paged_args *a)
{
    int64_t n_segment = attn_segments(a), most = a->n_row > 0 ? ATTN_PARTS / a->n_row : 0;
    return (whim_cuda_attn_args){
        .op = *a,
        .ended = (int32_t *)(uintptr_t)((whim_cuda_stream *)base)->ended,
        .n_segment = n_segment < most ? n_segment : most,
    };
}

/* Blocks that share an item's segments, where there are n_block in all. */
static int64_t attn_pieces(int64_t n_block, int64_t n_item, int64_t n_segment)
{
    int64_t pieces = n_item > 0 ? n_block / n_item : 0;
    pieces = pieces < n_segment ? pieces : n_segment;
    return pieces > 1 ? pieces : 1;
}

static whim_err attn_few(whim_stream *base, const whim_attn_paged_args *a)
{
    static const whim_cuda_kernel kernels[WHIM_KV_TYPE_COUNT] = {
        [WHIM_KV_F32] = WHIM_CUDA_K_attn_few_f32,
        [WHIM_KV_BF16] = WHIM_CUDA_K_attn_few_bf16,
        [WHIM_KV_F16] = WHIM_CUDA_K_attn_few_f16,
        [WHIM_KV_Q8] = WHIM_CUDA_K_attn_few_q8,
    };
    whim_cuda_attn_args args = attn_few_args(base, a);
    int64_t n_item = a->n_row * a->n_head, n_block = a->n_row <= ATTN_SHARED_ROWS ? ATTN_BLOCKS : 0;
    void *parts;
    WHIM_TRY(whim_workspace_take(base, attn_bytes(a), &parts));
    args.parts = parts;
    return whim_cuda_launch(base, kernels[a->kv.type],
                            (whim_cuda_shape){n_item, attn_pieces(n_block, n_item, args.n_segment),
                                              512, WHIM_CUDA_ATTN_RING},
                            &args);
}

/* On the matrix unit: BF16 pages whose vectors of 16 bytes are aligned. One model's are, or not. */
static bool is_matrix_attn(const whim_attn_paged_args *a)
{
    uintptr_t odd =
        (uintptr_t)a->kv.pages | (uintptr_t)a->kv.page_stride | (uintptr_t)a->kv.layer_offset;
    return a->n_head > 0 && a->kv.type == WHIM_KV_BF16 && a->kv.d_head % 16 == 0 &&
           a->kv.d_head <= WHIM_CUDA_MX_HEAD && a->n_head / a->kv.n_kv <= WHIM_CUDA_MX_GROUP &&
           odd % 16 == 0;
}

/* Both have the same bits: attn_wide.cuh, or any heads on any GPU. */
static whim_err attn_many(whim_stream *base, const whim_attn_paged_args *a)
{
    int64_t group = a->n_head / a->kv.n_kv, d = a->kv.d_head;
    bool large = d > 64, wide = (d == 64 || d == 128) && ((whim_cuda_stream *)base)->dev->has_wide;
    int64_t n_block =
        whim_cuda_ceil_div(a->n_row, (wide ? WHIM_CUDA_MW_PAIRS : WHIM_CUDA_MX_PAIRS) / group) *
        a->kv.n_kv;
    if (wide) {
        return whim_cuda_launch(
            base, large ? WHIM_CUDA_K_attn_wide_128 : WHIM_CUDA_K_attn_wide_64,
            (whim_cuda_shape){n_block, 1, WHIM_CUDA_MW_THREADS, whim_cuda_mw_bytes((int32_t)d)}, a);
    }
    return whim_cuda_launch(
        base, large ? WHIM_CUDA_K_attn_mma_128 : WHIM_CUDA_K_attn_mma_64,
        (whim_cuda_shape){n_block, 1, 128, large ? WHIM_CUDA_MX_BYTES_128 : WHIM_CUDA_MX_BYTES_64},
        a);
}

static whim_err attn_matrix(whim_stream *base, const whim_attn_paged_args *a)
{
    bool wide = a->kv.d_head > 64;
    int64_t n_item = a->n_row * a->kv.n_kv;
    whim_cuda_shape g = {n_item, 1, 128, wide ? WHIM_CUDA_MX_BYTES_128 : WHIM_CUDA_MX_BYTES_64};
    if (!is_few_attn(a)) {
        return attn_many(base, a);
    }
    whim_cuda_attn_args args = attn_few_args(base, a);
    void *parts;
    WHIM_TRY(whim_workspace_take(base, attn_bytes(a), &parts));
    int64_t width = a->n_head * a->kv.d_head;
    args.parts = parts;
    whim_cuda_kernel kernel = wide ? WHIM_CUDA_K_attn_mma_few_128 : WHIM_CUDA_K_attn_mma_few_64;
    args.left = whim_cuda_made_place(base, WHIM_CUDA_MADE_OTHER, a->n_row, width);
    if (a->n_row <= ATTN_SHARED_ROWS && ((whim_cuda_stream *)base)->dev->has_clusters) {
        kernel = wide ? WHIM_CUDA_K_attn_cluster_128 : WHIM_CUDA_K_attn_cluster_64;
        g.blocks = n_item * WHIM_CUDA_MC_BLOCKS;
        g.shared_bytes = wide ? WHIM_CUDA_MC_BYTES_128 : WHIM_CUDA_MC_BYTES_64;
        g.pieces = attn_pieces(ATTN_CLUSTERS, n_item, args.n_segment);
    } else {
        g.pieces = attn_pieces(a->n_row > ATTN_SHARED_ROWS ? 2 * ATTN_BLOCKS : ATTN_BLOCKS, n_item,
                               args.n_segment);
    }
    WHIM_TRY(whim_cuda_launch(base, kernel, g, &args));
    whim_cuda_made_set(base, a->out, width, a->n_row, width, args.left);
    return WHIM_ERR_OK;
}

static whim_err op_attn_paged(whim_stream *base, const whim_attn_paged_args *a)
{
    static const whim_cuda_kernel kernels[WHIM_KV_TYPE_COUNT] = {
        [WHIM_KV_F32] = WHIM_CUDA_K_attn_f32,
        [WHIM_KV_BF16] = WHIM_CUDA_K_attn_bf16,
        [WHIM_KV_F16] = WHIM_CUDA_K_attn_f16,
        [WHIM_KV_Q8] = WHIM_CUDA_K_attn_q8,
    };
    if (!whim_cuda_op_accepts(base->device, WHIM_OP_attn_paged, a)) {
        return WHIM_ERR_UNSUPPORTED;
    }
    if (is_matrix_attn(a)) {
        return attn_matrix(base, a);
    }
    if (is_few_attn(a)) {
        return attn_few(base, a);
    }
    return whim_cuda_launch(base, kernels[a->kv.type], whim_cuda_items(a->n_row * a->n_head, 128),
                            a);
}

/* --- copies ----------------------------------------------------------------------------------- */

static whim_err op_copy_bytes(whim_stream *base, const whim_copy_bytes_args *a)
{
    whim_cuda_stream *s = (whim_cuda_stream *)base;
    WHIM_TRY(whim_cuda_flush(base));
    s->made.x = NULL;
    WHIM_TRY(whim_cuda_enter(s->dev));
    return a->bytes == 0
               ? WHIM_ERR_OK
               : whim_cuda_error(s->dev->cu->cuMemcpyDtoDAsync_v2((uint64_t)(uintptr_t)a->dst,
                                                                  (uint64_t)(uintptr_t)a->src,
                                                                  (size_t)a->bytes, s->handle));
}

/* --- the gated delta net ---------------------------------------------------------------------- */

/* States are written after all rows have been read. */
static whim_err op_gdn_conv(whim_stream *base, const whim_gdn_conv_args *a)
{
    WHIM_TRY(
        whim_cuda_launch(base, WHIM_CUDA_K_gdn_conv, whim_cuda_elements(a->n_row, a->n_chan), a));
    return whim_cuda_launch(base, WHIM_CUDA_K_gdn_conv_state,
                            whim_cuda_elements(a->n_seq, a->n_chan), a);
}

static whim_err op_gdn_scan(whim_stream *base, const whim_gdn_scan_args *a)
{
    whim_cuda_stream *s = (whim_cuda_stream *)base;
    int64_t bytes = a->n_row * a->n_value * a->d_value * 4;
    if (bytes > 0) {
        WHIM_TRY(whim_cuda_flush(base));
        WHIM_TRY(whim_cuda_enter(s->dev));
        WHIM_TRY(whim_cuda_error(
            s->dev->cu->cuMemsetD8Async((uint64_t)(uintptr_t)a->out, 0, (size_t)bytes, s->handle)));
    }
    int64_t per_head = whim_cuda_ceil_div(a->d_value, whim_cuda_scan_columns(a->d_key));
    return whim_cuda_launch(base, WHIM_CUDA_K_gdn_scan,
                            whim_cuda_items(a->n_seq * a->n_value * per_head, 32), a);
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
    return whim_cuda_launch(base, WHIM_CUDA_K_sample, whim_cuda_items(sample_slots(a), 512), &args);
}

/* --- the table -------------------------------------------------------------------------------- */

bool whim_cuda_op_accepts(whim_device *base, int32_t op, const void *args)
{
    const whim_cuda_device *dev = (const whim_cuda_device *)base;
    switch (op) {
    case WHIM_OP_linear:
        return ((const whim_linear_args *)args)->x_type == WHIM_ACT_F32;
    case WHIM_OP_linear_swiglu:
        return whim_cuda_fuses_swiglu(args);
    case WHIM_OP_narrow: {
        whim_act type = ((const whim_narrow_args *)args)->y_type;
        return type == WHIM_ACT_Q8 || type == WHIM_ACT_BF16;
    }
    case WHIM_OP_attn_paged:
        return ((const whim_attn_paged_args *)args)->kv.d_head <= WHIM_CUDA_MAX_HEAD;
    case WHIM_OP_moe_experts: /* results apart are for ranks, which are not here yet */
        return ((const whim_moe_experts_args *)args)->weights != NULL &&
               ((const whim_moe_experts_args *)args)->x_type == WHIM_ACT_F32;
    default:
        return whim_ops_has(&dev->ops, (whim_op)op);
    }
}

int64_t whim_cuda_op_workspace(whim_device *base, int32_t op, const void *args)
{
    const whim_cuda_device *dev = (const whim_cuda_device *)base;
    switch (op) {
    case WHIM_OP_linear: {
        const whim_linear_args *a = args;
        return whim_cuda_linear_bytes(dev, &a->w, a->n_row);
    }
    case WHIM_OP_linear_swiglu: {
        const whim_linear_swiglu_args *a = args;
        return whim_cuda_linear_bytes(dev, &a->gate, a->n_row);
    }
    case WHIM_OP_moe_experts:
        return whim_cuda_experts_bytes(dev, args);
    case WHIM_OP_attn_paged:
        return attn_bytes(args);
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
        .narrow = whim_cuda_narrow,
        .linear = whim_cuda_linear,
        .linear_swiglu = whim_cuda_linear_swiglu,
        .rmsnorm = op_rmsnorm,
        .add = op_add,
        .add_rmsnorm = op_add_rmsnorm,
        .swiglu = op_swiglu,
        .gather_rows = op_gather_rows,
        .result_tokens = op_result_tokens,
        .topk = op_topk,
        .sample = op_sample,
        .moe_topk = op_moe_topk,
        .moe_experts = whim_cuda_moe_experts,
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
        .pick_chain = op_pick_chain,
        .block_conv = op_block_conv,
    };
}
