/* SPDX-License-Identifier: Apache-2.0 */
/* Products of rows with packed matrices. Those of few rows wait until another op comes: q, k and v
 * are then one launch, which narrows their rows once. */
#include "backends/cuda/launch.h"

#include "ops/compose/compose.h"

/* On the matrix unit for any rows: products_mma.c, products_fp8.c. */
static bool is_mm(whim_dtype dtype)
{
    return dtype == WHIM_DTYPE_BF16 || dtype == WHIM_DTYPE_FP8;
}

static bool is_quant(const whim_weight *w)
{
    return whim_dtype_get(w->dtype)->kind == WHIM_DTYPE_KIND_QUANT;
}

/* The first of a form's kernels. */
static whim_cuda_kernel linear_kernel(whim_dtype dtype)
{
    switch ((int)dtype) {
    case WHIM_DTYPE_F32:
        return WHIM_CUDA_K_few_f32_1;
    case WHIM_DTYPE_F16:
        return WHIM_CUDA_K_few_f16_1;
    case WHIM_DTYPE_Q4_0:
        return WHIM_CUDA_K_few_q4_0_1;
    case WHIM_DTYPE_Q4_1:
        return WHIM_CUDA_K_few_q4_1_1;
    case WHIM_DTYPE_Q8_0:
        return WHIM_CUDA_K_few_q8_0_1;
    default:
        return WHIM_CUDA_K_few_wide_1;
    }
}

/* Which of a form's kernels: by rows, then that of experts. */
enum { ONE_ROW, FEW_ROWS, MANY_ROWS, EXPERTS };

whim_cuda_kernel whim_cuda_pairs_kernel(whim_dtype dtype)
{
    return dtype == WHIM_DTYPE_BF16  ? WHIM_CUDA_K_pairs_bf16
           : dtype == WHIM_DTYPE_FP8 ? WHIM_CUDA_K_pairs_fp8
                                     : linear_kernel(dtype) + EXPERTS;
}

whim_err whim_cuda_narrow(whim_stream *base, const whim_narrow_args *a)
{
    enum { WARPS = 4 };
    if (a->y_type == WHIM_ACT_Q8) {
        int64_t n = a->n_row * (a->n_col / WHIM_GROUP);
        return whim_cuda_launch(base, WHIM_CUDA_K_narrow_q8,
                                whim_cuda_items(whim_cuda_ceil_div(n, WARPS), 32 * WARPS), a);
    }
    return a->y_type == WHIM_ACT_BF16 ? whim_cuda_launch(base, WHIM_CUDA_K_narrow_bf16,
                                                         whim_cuda_elements(a->n_row, a->n_col), a)
                                      : WHIM_ERR_UNSUPPORTED;
}

/* Rows as products with a weight take them: Q8 blocks for QUANT types. */
static int64_t rows_bytes(const whim_weight *w, int64_t n_row)
{
    return is_quant(w) ? whim_act_bytes(WHIM_ACT_Q8, n_row * w->k) : 0;
}

static whim_err blocks_make(whim_stream *base, const float *x, int64_t x_stride, int64_t n_row,
                            int64_t n_col, void *blocks)
{
    return whim_cuda_narrow(base, &(whim_narrow_args){
                                      .x = x,
                                      .x_stride = x_stride,
                                      .y_type = WHIM_ACT_Q8,
                                      .y = blocks,
                                      .y_stride = n_col,
                                      .n_row = n_row,
                                      .n_col = n_col,
                                  });
}

/* --- few rows, and any of BF16 and FP8 -------------------------------------------------------- */

static bool is_few(const whim_weight *w, int64_t n_row)
{
    return is_mm(w->dtype) || n_row <= WHIM_CUDA_FEW;
}

/* The rows as a product takes them; a block of threads narrows one row to Q8 by itself. */
static int64_t few_bytes(const whim_weight *w, int64_t n_row)
{
    if (is_mm(w->dtype)) {
        return whim_cuda_tiles_bytes(n_row, w->k);
    }
    return n_row == 1 && w->k <= WHIM_CUDA_FEW_K ? 0 : rows_bytes(w, n_row);
}

int64_t whim_cuda_linear_bytes(const whim_cuda_device *dev, const whim_weight *w, int64_t n_row)
{
    if (whim_cuda_is_quant_wide(dev, w, n_row)) {
        return whim_cuda_qw_tiles_bytes(n_row, w->k);
    }
    return is_few(w, n_row) ? few_bytes(w, n_row) : rows_bytes(w, n_row);
}

/* Blocks go through the tiles of outputs in turns, so that each makes its row once. */
static whim_err few_launch(whim_stream *base, whim_dtype dtype, whim_cuda_few_args *a)
{
    enum { BLOCKS = 3 }; /* on a multiprocessor */
    if (is_mm(dtype)) {
        return dtype == WHIM_DTYPE_FP8 ? whim_cuda_fp8_launch(base, a)
                                       : whim_cuda_mm_launch(base, a);
    }
    const whim_cuda_device *dev = ((const whim_cuda_stream *)base)->dev;
    whim_weight w = {.dtype = dtype, .k = a->k};
    if (whim_cuda_is_quant_wide(dev, &w, a->n_row)) {
        return whim_cuda_quant_launch(base, dtype, a);
    }
    a->has_min = whim_dtype_has_min(dtype);
    bool alone = a->n_row == 1 && few_bytes(&w, 1) == 0;
    int64_t n_tile = 0, most = (int64_t)BLOCKS * dev->n_multiprocessor;
    for (int32_t i = 0; i < (a->swiglu ? 1 : a->n_matrix); i++) {
        n_tile += whim_cuda_ceil_div(a->matrix[i].n, WHIM_CUDA_TILE);
    }
    if (!alone && is_quant(&w)) {
        WHIM_TRY(
            blocks_make(base, a->x, a->x_stride, a->n_row, a->k, (void *)(uintptr_t)a->blocks));
    }
    whim_cuda_shape g = whim_cuda_items(n_tile < most ? n_tile : most, 256);
    if (!is_quant(&w)) {
        g.threads = WHIM_CUDA_FEW_THREADS + (alone ? 0 : 32);
        g.shared_bytes = alone ? WHIM_CUDA_FEW_STAGES_1 : WHIM_CUDA_FEW_STAGES_8;
    }
    return whim_cuda_launch(
        base, linear_kernel(dtype) + (whim_cuda_kernel)(alone ? ONE_ROW : FEW_ROWS), g, a);
}

whim_err whim_cuda_products_flush(whim_stream *base)
{
    whim_cuda_stream *s = (whim_cuda_stream *)base;
    whim_cuda_few_args a = s->waiting;
    if (a.n_matrix == 0) {
        return WHIM_ERR_OK;
    }
    s->waiting.n_matrix = 0;
    return few_launch(base, s->waiting_type, &a);
}

/* Whether two matrices' outputs, [n_row, n] each, share no memory: apart, or columns of one. */
static bool outputs_apart(const whim_cuda_matrix *a, const whim_cuda_matrix *b, int64_t n_row)
{
    uintptr_t a0 = (uintptr_t)a->y, b0 = (uintptr_t)b->y, word = sizeof(float);
    uintptr_t a1 = a0 + (uintptr_t)((n_row - 1) * a->y_stride + a->n) * word;
    uintptr_t b1 = b0 + (uintptr_t)((n_row - 1) * b->y_stride + b->n) * word;
    if (a1 <= b0 || b1 <= a0) {
        return true;
    }
    uintptr_t pitch = (uintptr_t)a->y_stride * word, n = (uintptr_t)(a0 < b0 ? a->n : b->n) * word;
    uintptr_t ahead = a0 < b0 ? b0 - a0 : a0 - b0,
              later = (uintptr_t)(a0 < b0 ? b->n : a->n) * word;
    return a->y_stride == b->y_stride && ahead >= n && ahead + later <= pitch;
}

static bool may_join(const whim_cuda_stream *s, const whim_linear_args *a,
                     const whim_cuda_matrix *m)
{
    const whim_cuda_few_args *w = &s->waiting;
    bool joins = w->n_matrix > 0 && w->n_matrix < WHIM_CUDA_MATRICES &&
                 s->waiting_type == a->w.dtype && w->x == a->x && w->x_stride == a->x_stride &&
                 w->n_row == a->n_row && w->k == a->w.k;
    for (int32_t i = 0; i < w->n_matrix && joins; i++) {
        joins = outputs_apart(&w->matrix[i], m, a->n_row);
    }
    return joins;
}

/* The rows' blocks lie where the last that joins has taken memory: all that was taken before it and
 * is still needed is not there. */
static whim_err few_wait(whim_stream *base, const whim_linear_args *a)
{
    whim_cuda_stream *s = (whim_cuda_stream *)base;
    whim_cuda_matrix m = {a->w.data, a->bias, a->y, a->y_stride, a->w.n};
    void *blocks;
    if (a->n_row <= 0 || a->w.n <= 0) {
        return WHIM_ERR_OK;
    }
    if (!may_join(s, a, &m)) {
        WHIM_TRY(whim_cuda_flush(base));
        s->waiting_type = a->w.dtype;
        s->waiting = (whim_cuda_few_args){
            .x = a->x, .x_stride = a->x_stride, .n_row = a->n_row, .k = a->w.k};
    }
    WHIM_TRY(whim_workspace_take(base, whim_cuda_linear_bytes(s->dev, &a->w, a->n_row), &blocks));
    s->waiting.blocks = blocks;
    s->waiting.tiles = blocks;
    s->waiting.matrix[s->waiting.n_matrix++] = m;
    return WHIM_ERR_OK;
}

bool whim_cuda_fuses_swiglu(const whim_linear_swiglu_args *a)
{
    return is_few(&a->gate, a->n_row) && a->gate.dtype == a->up.dtype;
}

whim_err whim_cuda_linear_swiglu(whim_stream *base, const whim_linear_swiglu_args *a)
{
    void *blocks;
    if (!whim_cuda_fuses_swiglu(a)) {
        return whim_compose_linear_swiglu(base, a);
    }
    if (a->n_row <= 0 || a->gate.n <= 0) {
        return WHIM_ERR_OK;
    }
    WHIM_TRY(whim_cuda_flush(base));
    WHIM_TRY(whim_workspace_take(base, few_bytes(&a->gate, a->n_row), &blocks));
    whim_cuda_few_args args = {
        .matrix = {{a->gate.data, a->gate_bias, NULL, 0, a->gate.n},
                   {a->up.data, a->up_bias, a->y, a->y_stride, a->up.n}},
        .n_matrix = 2,
        .swiglu = 1,
        .x = a->x,
        .blocks = blocks,
        .tiles = blocks,
        .x_stride = a->x_stride,
        .n_row = a->n_row,
        .k = a->gate.k,
    };
    if (is_mm(a->gate.dtype)) {
        args.left = whim_cuda_made_place(base, WHIM_CUDA_MADE_OTHER, a->n_row, a->gate.n);
    }
    WHIM_TRY(few_launch(base, a->gate.dtype, &args));
    whim_cuda_made_set(base, a->y, a->y_stride, a->n_row, a->gate.n, args.left);
    return WHIM_ERR_OK;
}

/* --- any rows --------------------------------------------------------------------------------- */

/* A warp has a tile of outputs (many_quant.cuh): as many in a block as leave no multiprocessor
 * without one, since they share the rows. */
static whim_cuda_shape many_quant_shape(whim_stream *base, const whim_linear_args *a)
{
    int64_t n_mp = ((const whim_cuda_stream *)base)->dev->n_multiprocessor;
    int64_t n_tile = whim_cuda_ceil_div(a->w.n, WHIM_CUDA_TILE);
    int64_t n_row = whim_cuda_ceil_div(a->n_row, WHIM_CUDA_MQ_ROWS);
    int32_t warps = WHIM_CUDA_MQ_THREADS / 32;
    while (warps > 2 && whim_cuda_ceil_div(n_tile, warps) * n_row < n_mp) {
        warps /= 2;
    }
    return (whim_cuda_shape){whim_cuda_ceil_div(n_tile, warps) * n_row, 1, warps * 32,
                             whim_cuda_mq_bytes(a->w.dtype, warps * 32)};
}

/* So few outputs that each row's chain is what takes time. */
static bool is_router(const whim_linear_args *a)
{
    enum { MOST = 1024 };
    return a->w.dtype == WHIM_DTYPE_F32 && a->w.n <= MOST && a->n_row > 1;
}

/* Weights in F32 (many_float.cuh): blocks of many rows and outputs, or where those leave
 * multiprocessors without one, of few. */
static whim_err many_f32_launch(whim_stream *base, const whim_cuda_linear_args *a)
{
    enum { TILES = WHIM_CUDA_MF32_TILES, ROWS = WHIM_CUDA_MF32_ROWS };
    int64_t n_mp = ((const whim_cuda_stream *)base)->dev->n_multiprocessor;
    int64_t outputs = WHIM_CUDA_MF32_TILES * WHIM_CUDA_TILE;
    int64_t n_block =
        whim_cuda_ceil_div(a->op.w.n, outputs) * whim_cuda_ceil_div(a->op.n_row, ROWS);
    if (4 * n_block >= n_mp) {
        return whim_cuda_launch(base, WHIM_CUDA_K_many_f32,
                                (whim_cuda_shape){n_block, 1, WHIM_CUDA_MF32_THREADS(TILES),
                                                  WHIM_CUDA_MF32_BYTES(TILES, ROWS)},
                                a);
    }
    n_block = whim_cuda_ceil_div(a->op.w.n, WHIM_CUDA_TILE) *
              whim_cuda_ceil_div(a->op.n_row, WHIM_CUDA_FEW);
    return whim_cuda_launch(base, WHIM_CUDA_K_some_f32,
                            (whim_cuda_shape){n_block, 1, WHIM_CUDA_MF32_THREADS(1),
                                              WHIM_CUDA_MF32_BYTES(1, WHIM_CUDA_FEW)},
                            a);
}

whim_err whim_cuda_linear(whim_stream *base, const whim_linear_args *a)
{
    if (!whim_cuda_op_accepts(base->device, WHIM_OP_linear, a)) {
        return WHIM_ERR_UNSUPPORTED;
    }
    if ((is_few(&a->w, a->n_row) && !is_router(a)) ||
        whim_cuda_is_quant_wide(((const whim_cuda_stream *)base)->dev, &a->w, a->n_row)) {
        return few_wait(base, a);
    }
    whim_cuda_linear_args args = {.op = *a};
    if (a->w.dtype == WHIM_DTYPE_F32) {
        return many_f32_launch(base, &args);
    }
    whim_cuda_shape g =
        whim_cuda_items(whim_cuda_ceil_div(a->w.n, 128) * whim_cuda_ceil_div(a->n_row, 16), 128);
    if (is_quant(&a->w)) {
        void *blocks;
        WHIM_TRY(whim_workspace_take(base, rows_bytes(&a->w, a->n_row), &blocks));
        WHIM_TRY(blocks_make(base, a->x, a->x_stride, a->n_row, a->w.k, blocks));
        args.blocks = blocks;
        g = many_quant_shape(base, a);
    }
    return whim_cuda_launch(base, linear_kernel(a->w.dtype) + (whim_cuda_kernel)MANY_ROWS, g,
                            &args);
}
