/* SPDX-License-Identifier: Apache-2.0 */
/* Products with BF16 matrices: which kernel of mma.cuh. All have the same bits, so that this
 * decides about speed alone. */
#include "backends/cuda/launch.h"

/* Blocks of outputs that a launch has. */
static int64_t output_blocks(const whim_cuda_few_args *a)
{
    int64_t n = 0, each = a->swiglu ? WHIM_CUDA_MM_OUTPUTS / 2 : WHIM_CUDA_MM_OUTPUTS;
    for (int32_t i = 0; i < (a->swiglu ? 1 : a->n_matrix); i++) {
        n += whim_cuda_ceil_div(a->matrix[i].n, each);
    }
    return n;
}

/* Whether mma_rows.cuh takes rows of k columns: none of them are left to other kernels then, so
 * that its tiles are the only ones of such rows. */
static bool is_some_rows(const whim_cuda_device *dev, int64_t n_row, int64_t k)
{
    return dev->has_wide && n_row > WHIM_CUDA_MF_ROWS && n_row <= WHIM_CUDA_MADE_ROWS && k > 0 &&
           k % WHIM_CUDA_MM_K == 0;
}

/* Rows of a tile that products of up to WHIM_CUDA_MADE_ROWS rows take. */
static int32_t tile_rows(const whim_cuda_device *dev, int64_t n_row, int64_t k)
{
    return is_some_rows(dev, n_row, k)
               ? (int32_t)whim_cuda_ceil_div(n_row, WHIM_CUDA_TILE) * WHIM_CUDA_TILE
               : WHIM_CUDA_TILE;
}

whim_cuda_left whim_cuda_made_place(whim_stream *base, int32_t which, int64_t n_row, int64_t k)
{
    const whim_cuda_stream *s = (const whim_cuda_stream *)base;
    uint16_t *tiles = (uint16_t *)(uintptr_t)s->tiles + which * (int64_t)WHIM_CUDA_MADE;
    bool fits = n_row > 0 && n_row <= WHIM_CUDA_MADE_ROWS && k % WHIM_CUDA_MM_K == 0 &&
                whim_cuda_tiles_bytes(n_row, k) <= 2 * WHIM_CUDA_MADE;
    return (whim_cuda_left){fits ? tiles : NULL, tile_rows(s->dev, n_row, k)};
}

void whim_cuda_made_set(whim_stream *base, const float *x, int64_t x_stride, int64_t n_row,
                        int64_t k, whim_cuda_left left)
{
    if (left.tiles != NULL) {
        ((whim_cuda_stream *)base)->made = (whim_cuda_made){x, x_stride, n_row, k, left.tiles};
    }
}

static bool is_made(const whim_cuda_made *m, const whim_cuda_few_args *a)
{
    return m->x != NULL && m->x == a->x && m->x_stride == a->x_stride && m->n_row == a->n_row &&
           m->k == a->k;
}

/* The rows as tiles of `rows`: as the last kernel left them (few, then, and tile_rows), or in the
 * memory that was taken. */
whim_err whim_cuda_tiles_make(whim_stream *base, whim_cuda_few_args *a, int32_t rows)
{
    const whim_cuda_made *made = &((whim_cuda_stream *)base)->made;
    if (is_made(made, a)) {
        a->tiles = made->tiles;
        return WHIM_ERR_OK;
    }
    whim_cuda_tiles_args args = {a->x, a->x_stride, a->n_row, a->k, a->tiles, rows};
    int64_t n = whim_cuda_ceil_div(a->n_row, WHIM_CUDA_TILE) * WHIM_CUDA_TILE *
                whim_cuda_ceil_div(a->k, WHIM_CUDA_MM_K) * (WHIM_CUDA_MM_K / 8);
    return whim_cuda_launch(base, WHIM_CUDA_K_tiles_bf16,
                            whim_cuda_items(whim_cuda_ceil_div(n, 128), 128), &args);
}

/* Kernels by the rows that a block has. */
typedef struct mm_form {
    int32_t rows, threads;
    whim_cuda_kernel whole, split;
} mm_form;

static const mm_form forms[] = {
    {8, 128, WHIM_CUDA_K_mm_8, WHIM_CUDA_K_mm_split_8},
    {16, 256, WHIM_CUDA_K_mm_16, WHIM_CUDA_K_mm_split_16},
    {32, 256, WHIM_CUDA_K_mm_32, WHIM_CUDA_K_mm_split_32},
    {64, 256, WHIM_CUDA_K_mm_64, WHIM_CUDA_K_mm_split_64},
    {128, 256, WHIM_CUDA_K_mm_128, WHIM_CUDA_K_mm_128},
};

enum { LAST = sizeof forms / sizeof forms[0] - 1 };

/* The kernel for blocks of `rows` rows; with split, clusters share their k. */
static whim_cuda_kernel kernel_of(const whim_cuda_device *dev, const mm_form *form, bool split)
{
    if (form->rows == 64 && dev->has_wide) {
        return split ? WHIM_CUDA_K_mm_wide_split_64 : WHIM_CUDA_K_mm_wide_64;
    }
    return split ? form->split : form->whole;
}

int64_t whim_cuda_product_items(const whim_cuda_few_args *a, int64_t n_tile)
{
    int64_t n = 0, each = a->swiglu ? n_tile / 2 : n_tile;
    for (int32_t i = 0; i < (a->swiglu ? 1 : a->n_matrix); i++) {
        n += whim_cuda_ceil_div(whim_cuda_ceil_div(a->matrix[i].n, WHIM_CUDA_TILE), each);
    }
    return n;
}

whim_err whim_cuda_few_launch(whim_stream *base, whim_cuda_few_args *a,
                              const whim_cuda_few_form *form)
{
    const whim_cuda_device *dev = ((const whim_cuda_stream *)base)->dev;
    int64_t n_mp = dev->n_multiprocessor, least = INT64_MAX;
    int32_t n_tile = 0;
    for (int32_t t = form->most_tiles; t >= 2; t--) {
        int64_t most = whim_cuda_ceil_div(whim_cuda_product_items(a, t), n_mp) * t;
        if (most < least && (t != 3 || !a->swiglu)) {
            least = most;
            n_tile = t;
        }
    }
    int64_t n_item = whim_cuda_product_items(a, n_tile);
    WHIM_TRY(whim_cuda_tiles_make(base, a, WHIM_CUDA_TILE));
    return whim_cuda_launch(base, form->first + (whim_cuda_kernel)(n_tile - 2),
                            (whim_cuda_shape){n_item < n_mp ? n_item : n_mp, 1, form->threads,
                                              form->bytes(n_tile, dev->has_wide)},
                            a);
}

/* Many rows (mma_bulk.cuh): two multiprocessors take an item together, of 128 or 192 rows,
 * whichever lets them end sooner. False: there is too little to do for them. */
enum { BULK_BLOCKS = 2, BULK_THREADS = 384 };

static int64_t bulk_items(const whim_cuda_few_args *a, int32_t rows)
{
    int64_t n = 0, each = BULK_BLOCKS * WHIM_CUDA_MM_OUTPUTS / (a->swiglu ? 2 : 1);
    for (int32_t i = 0; i < (a->swiglu ? 1 : a->n_matrix); i++) {
        n += whim_cuda_ceil_div(a->matrix[i].n, each);
    }
    return n * whim_cuda_ceil_div(a->n_row, rows);
}

static bool bulk_choose(const whim_cuda_device *dev, const whim_cuda_few_args *a, int32_t *rows)
{
    enum { COST_128 = 6, COST_192 = 7 }; /* of an item, as both are bound by the cache */
    int64_t at_once = dev->n_multiprocessor / BULK_BLOCKS;
    int64_t few = whim_cuda_ceil_div(bulk_items(a, 128), at_once) * COST_128;
    int64_t many = whim_cuda_ceil_div(bulk_items(a, 192), at_once) * COST_192;
    *rows = few < many ? 128 : 192;
    return dev->has_wide && a->n_row > WHIM_CUDA_MADE_ROWS && a->k > 0 &&
           a->k % WHIM_CUDA_MM_K == 0 && 2 * bulk_items(a, *rows) >= at_once;
}

static whim_err bulk_launch(whim_stream *base, whim_cuda_few_args *a, int32_t rows)
{
    int64_t at_once = ((const whim_cuda_stream *)base)->dev->n_multiprocessor / BULK_BLOCKS;
    int64_t n_item = bulk_items(a, rows);
    WHIM_TRY(whim_cuda_tiles_make(base, a, rows));
    return whim_cuda_launch(base, rows == 128 ? WHIM_CUDA_K_mm_bulk_128 : WHIM_CUDA_K_mm_bulk_192,
                            (whim_cuda_shape){BULK_BLOCKS * (n_item < at_once ? n_item : at_once),
                                              1, BULK_THREADS, whim_cuda_bulk_bytes(rows)},
                            a);
}

/* 9 to 64 rows (mma_rows.cuh). Where all clusters together can have a chunk of k of all outputs at
 * once, they share k; else a block on each multiprocessor goes through items of all k. */
typedef struct some_form {
    int32_t n_tile;
    whim_cuda_kernel kernel;
} some_form;

static whim_err some_launch(whim_stream *base, whim_cuda_few_args *a)
{
    static const some_form split[] = {{4, WHIM_CUDA_K_mm_rows_split_4},
                                      {9, WHIM_CUDA_K_mm_rows_split_9},
                                      {13, WHIM_CUDA_K_mm_rows_split_13}},
                           whole[] = {{4, WHIM_CUDA_K_mm_rows_4}, {12, WHIM_CUDA_K_mm_rows_12}};
    const whim_cuda_device *dev = ((const whim_cuda_stream *)base)->dev;
    int64_t n = whim_cuda_product_items(a, a->swiglu ? 2 : 1) * (a->swiglu ? 2 : 1), n_item, blocks;
    int64_t n_mp = dev->n_multiprocessor;
    const some_form *form = NULL;
    for (int32_t i = 2; i >= 0 && !a->swiglu; i--) {
        form = n <= split[i].n_tile * (int64_t)dev->n_cluster ? &split[i] : form;
    }
    if (form != NULL) {
        n_item = whim_cuda_ceil_div(n, form->n_tile);
        blocks = n_item * WHIM_CUDA_MR_BLOCKS;
    } else {
        int64_t few = whim_cuda_ceil_div(whim_cuda_ceil_div(n, 4), n_mp) * 4;
        int64_t many = whim_cuda_ceil_div(whim_cuda_ceil_div(n, 12), n_mp) * 12;
        form = &whole[few < many ? 0 : 1];
        n_item = whim_cuda_ceil_div(n, form->n_tile);
        blocks = n_item < n_mp ? n_item : n_mp;
    }
    WHIM_TRY(whim_cuda_tiles_make(base, a, tile_rows(dev, a->n_row, a->k)));
    return whim_cuda_launch(base, form->kernel,
                            (whim_cuda_shape){blocks, 1, WHIM_CUDA_MR_THREADS, WHIM_CUDA_MR_BYTES},
                            a);
}

/* Few blocks share their k. */
whim_err whim_cuda_mm_launch(whim_stream *base, whim_cuda_few_args *a)
{
    const whim_cuda_device *dev = ((const whim_cuda_stream *)base)->dev;
    int64_t n_out = output_blocks(a), n_mp = dev->n_multiprocessor;
    int32_t f = 0, rows;
    if (a->n_row <= WHIM_CUDA_MF_ROWS &&
        n_out * WHIM_CUDA_MM_OUTPUTS * a->k * 2 >= WHIM_CUDA_MF_BYTES) {
        const whim_cuda_few_form few = {WHIM_CUDA_K_mm_few_2, 128, 4, whim_cuda_mf_bytes};
        return whim_cuda_few_launch(base, a, &few);
    }
    if (is_some_rows(dev, a->n_row, a->k)) {
        return some_launch(base, a);
    }
    if (bulk_choose(dev, a, &rows)) {
        return bulk_launch(base, a, rows);
    }
    while (f < LAST && forms[f].rows < a->n_row) {
        f++;
    }
    f -= f == LAST && n_out * whim_cuda_ceil_div(a->n_row, forms[f].rows) < n_mp;
    int64_t n_block = n_out * whim_cuda_ceil_div(a->n_row, forms[f].rows);
    bool split = f < LAST && dev->has_clusters && n_block < n_mp;
    WHIM_TRY(whim_cuda_tiles_make(base, a, WHIM_CUDA_TILE));
    return whim_cuda_launch(base, kernel_of(dev, &forms[f], split),
                            (whim_cuda_shape){split ? n_block * WHIM_CUDA_MM_CHUNKS : n_block, 1,
                                              forms[f].threads, whim_cuda_mm_bytes(forms[f].rows)},
                            a);
}
