/* SPDX-License-Identifier: Apache-2.0 */
/* Rows and the experts that they chose. In BF16, where a GPU has the unit for it, as one product
 * over sorted rows (mma_experts.cuh), for any number of rows; else pair by pair in the law's
 * order. */
#include "backends/cuda/launch.h"

static int64_t round64(int64_t bytes)
{
    return whim_cuda_ceil_div(bytes, 64) * 64;
}

static bool is_quant(const whim_weight *w)
{
    return whim_dtype_get(w->dtype)->kind == WHIM_DTYPE_KIND_QUANT;
}

static int64_t blocks_bytes(const whim_weight *w, int64_t n_row)
{
    return is_quant(w) ? whim_act_bytes(WHIM_ACT_Q8, n_row * w->k) : 0;
}

static whim_err sum_launch(whim_stream *base, const whim_moe_experts_args *a, const float *out)
{
    enum { THREADS = 256 };
    whim_cuda_moe_sum_args sum = {.op = *a, .out = out};
    whim_cuda_shape g = {a->n_row, whim_cuda_ceil_div(a->gate.k, 4 * THREADS), THREADS, 0};
    return whim_cuda_launch(base, WHIM_CUDA_K_moe_sum, g, &sum);
}

/* --- sorted rows ------------------------------------------------------------------------------ */

static bool is_sorted(const whim_cuda_device *dev, const whim_moe_experts_args *a)
{
    return dev->has_wide && a->gate.dtype == WHIM_DTYPE_BF16 && a->up.dtype == WHIM_DTYPE_BF16 &&
           a->down.dtype == WHIM_DTYPE_BF16 && a->gate.k > 0 && a->down.k > 0 &&
           a->gate.k % WHIM_CUDA_MM_K == 0 && a->down.k % WHIM_CUDA_MM_K == 0 &&
           a->n_expert <= WHIM_MOE_MAX_EXPERT;
}

/* Whose memory an op takes, in this order. */
typedef struct sorted_bytes {
    int64_t plan, pair, rows, act, out;
} sorted_bytes;

static sorted_bytes sorted_bytes_of(const whim_moe_experts_args *a)
{
    int64_t n_pair = a->n_row * a->k_top, n_slot = whim_cuda_experts_slots(n_pair, a->n_expert);
    int64_t n_item = whim_cuda_experts_items(n_pair, a->n_expert);
    return (sorted_bytes){
        .plan = (1 + n_item) * (int64_t)sizeof(whim_cuda_experts_item),
        .pair = n_slot * (int64_t)sizeof(int32_t),
        .rows = n_slot * a->gate.k * 2,
        .act = n_slot * a->down.k * 2,
        .out = n_pair * a->gate.k * 4,
    };
}

/* Weights are read once whatever the rows are, as long as these are few for each expert. */
static bool is_many(int64_t n_pair, int64_t n_expert)
{
    return n_pair >= n_expert * WHIM_CUDA_EX_FEW;
}

/* Blocks go through the items, whose number only the GPU knows. */
static whim_err sorted_launch(whim_stream *base, const whim_cuda_experts_args *a, bool swiglu)
{
    bool many = a->plan.blocks > 1;
    int64_t n_mp = ((const whim_cuda_stream *)base)->dev->n_multiprocessor;
    whim_cuda_kernel kernel = swiglu
                                  ? many ? WHIM_CUDA_K_experts_many_up : WHIM_CUDA_K_experts_few_up
                              : many ? WHIM_CUDA_K_experts_many_down
                                     : WHIM_CUDA_K_experts_few_down;
    return whim_cuda_launch(
        base, kernel,
        (whim_cuda_shape){n_mp / a->plan.blocks * a->plan.blocks, 1, WHIM_CUDA_EX_THREADS,
                          whim_cuda_experts_bytes_of(many ? WHIM_CUDA_EX_MANY : WHIM_CUDA_EX_FEW)},
        a);
}

/* The choice that waits for these experts, or none. */
static whim_moe_topk_args choice_take(whim_stream *base, const whim_cuda_experts_args *a)
{
    whim_cuda_stream *s = (whim_cuda_stream *)base;
    whim_moe_topk_args choice = s->choice;
    if (choice.ids != a->ids || choice.n_row * choice.k_top != a->n_pair ||
        choice.n_expert != a->n_expert) {
        choice.n_row = 0;
    } else {
        s->choice.n_row = 0;
    }
    return choice;
}

static whim_err sort_launch(whim_stream *base, const whim_cuda_experts_args *a)
{
    enum { THREADS = 256, BLOCKS = 16 };
    int64_t n_mp = ((const whim_cuda_stream *)base)->dev->n_multiprocessor;
    if (a->n_pair <= WHIM_CUDA_EX_PAIRS && a->plan.blocks == 1 &&
        a->n_expert <= WHIM_CUDA_MOE_FEW) {
        int64_t n_block = whim_cuda_ceil_div(a->n_pair * (a->k / 8), WHIM_CUDA_EX_SORTERS);
        whim_cuda_experts_sort_args args = {*a, choice_take(base, a)};
        return whim_cuda_launch(
            base, WHIM_CUDA_K_experts_sort,
            whim_cuda_items(n_block < n_mp ? n_block : n_mp, WHIM_CUDA_EX_SORTERS), &args);
    }
    WHIM_TRY(whim_cuda_launch(base, WHIM_CUDA_K_experts_plan, whim_cuda_items(1, 1024), a));
    return whim_cuda_launch(base, WHIM_CUDA_K_experts_rows, whim_cuda_items(n_mp * BLOCKS, THREADS),
                            a);
}

static whim_err sorted_run(whim_stream *base, const whim_moe_experts_args *a)
{
    int64_t n_pair = a->n_row * a->k_top, d = a->gate.k, ff = a->down.k;
    sorted_bytes bytes = sorted_bytes_of(a);
    void *plan, *pair, *rows, *act, *out;
    WHIM_TRY(whim_workspace_take(base, bytes.plan, &plan));
    WHIM_TRY(whim_workspace_take(base, bytes.pair, &pair));
    WHIM_TRY(whim_workspace_take(base, bytes.rows, &rows));
    WHIM_TRY(whim_workspace_take(base, bytes.act, &act));
    WHIM_TRY(whim_workspace_take(base, bytes.out, &out));
    whim_cuda_experts_args args = {
        .plan = {plan, (whim_cuda_experts_item *)plan + 1, pair,
                 is_many(n_pair, a->n_expert) ? 2 : 1},
        .ids = a->ids,
        .n_pair = n_pair,
        .per = a->k_top,
        .n_expert = a->n_expert,
        .x = a->x,
        .x_stride = a->x_stride,
        .w = {a->gate.data, a->up.data},
        .tiles = rows,
        .left = act,
        .k = d,
        .n = ff,
        .n_unit = whim_moe_pitch(ff) / WHIM_CUDA_TILE,
    };
    WHIM_TRY(sort_launch(base, &args));
    WHIM_TRY(sorted_launch(base, &args, true));
    args.w[0] = a->down.data;
    args.tiles = act;
    args.y = out;
    args.k = ff;
    args.n = d;
    args.n_unit = whim_moe_pitch(d) / WHIM_CUDA_TILE;
    WHIM_TRY(sorted_launch(base, &args, false));
    return sum_launch(base, a, out);
}

/* --- pair by pair ----------------------------------------------------------------------------- */

int64_t whim_cuda_experts_bytes(const whim_cuda_device *dev, const whim_moe_experts_args *a)
{
    int64_t n_pair = a->n_row * a->k_top, d = a->gate.k, ff = a->down.k;
    bool narrow = is_quant(&a->gate) || is_quant(&a->up);
    if (is_sorted(dev, a)) {
        sorted_bytes b = sorted_bytes_of(a);
        return round64(b.plan) + round64(b.pair) + round64(b.rows) + round64(b.act) +
               round64(b.out);
    }
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
    return whim_cuda_launch(base, whim_cuda_pairs_kernel(p->w.dtype),
                            whim_cuda_items(args.n_pair * whim_cuda_ceil_div(p->n, 32), 32), &args);
}

static whim_err blocks_make(whim_stream *base, const float *x, int64_t x_stride, int64_t n_row,
                            int64_t n_col, void *blocks)
{
    return whim_cuda_narrow(
        base, &(whim_narrow_args){x, x_stride, WHIM_ACT_Q8, blocks, n_col, n_row, n_col});
}
/* Gate and up of all pairs, SwiGLU, down, and the sum over a row's experts. */
whim_err whim_cuda_moe_experts(whim_stream *base, const whim_moe_experts_args *a)
{
    int64_t n_pair = a->n_row * a->k_top, d = a->gate.k, ff = a->down.k;
    void *act, *up, *out, *x = NULL, *rows;
    if (!whim_cuda_op_accepts(base->device, WHIM_OP_moe_experts, a)) {
        return WHIM_ERR_UNSUPPORTED;
    }
    if (n_pair <= 0) {
        return WHIM_ERR_OK; /* nobody would make a plan, and the old one would be followed */
    }
    if (is_sorted(((const whim_cuda_stream *)base)->dev, a)) {
        return sorted_run(base, a);
    }
    WHIM_TRY(whim_workspace_take(base, n_pair * ff * 4, &act));
    WHIM_TRY(whim_workspace_take(base, n_pair * ff * 4, &up));
    WHIM_TRY(whim_workspace_take(base, n_pair * d * 4, &out));
    if (is_quant(&a->gate) || is_quant(&a->up)) {
        WHIM_TRY(whim_workspace_take(base, whim_act_bytes(WHIM_ACT_Q8, a->n_row * d), &x));
        WHIM_TRY(blocks_make(base, a->x, a->x_stride, a->n_row, d, x));
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
    WHIM_TRY(whim_op_swiglu(base, &(whim_swiglu_args){act, ff, up, ff, act, ff, n_pair, ff}));
    rows = act;
    if (is_quant(&a->down)) {
        WHIM_TRY(whim_workspace_take(base, blocks_bytes(&a->down, n_pair), &rows));
        WHIM_TRY(blocks_make(base, act, ff, n_pair, ff, rows));
    }
    WHIM_TRY(pairs_run(base, a,
                       &(whim_cuda_pairs_args){
                           .w = a->down, .x = rows, .x_stride = ff, .per = 1, .y = out, .n = d}));
    return sum_launch(base, a, out);
}
