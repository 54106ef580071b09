/* SPDX-License-Identifier: Apache-2.0 */
/* Products with FP8 matrices: which kernel of mma_fp8*.cuh. All have the same bits, so that this
 * decides about speed alone. */
#include "backends/cuda/launch.h"

/* Many rows (mma_fp8_bulk.cuh): two multiprocessors take an item together. */
static whim_err bulk_launch(whim_stream *base, whim_cuda_few_args *a)
{
    enum { ROWS = 128, BLOCKS = 2, THREADS = 384, TILES = WHIM_CUDA_MM_OUTPUTS / WHIM_CUDA_TILE };
    int64_t at_once = ((const whim_cuda_stream *)base)->dev->n_multiprocessor / BLOCKS;
    int64_t n_item =
        whim_cuda_product_items(a, BLOCKS * TILES) * whim_cuda_ceil_div(a->n_row, ROWS);
    WHIM_TRY(whim_cuda_tiles_make(base, a, ROWS));
    return whim_cuda_launch(base, WHIM_CUDA_K_mm_fp8_bulk_128,
                            (whim_cuda_shape){BLOCKS * (n_item < at_once ? n_item : at_once), 1,
                                              THREADS, whim_cuda_pb_bytes(ROWS)},
                            a);
}

/* 9 to 64 rows (mma_fp8_rows.cuh). Where all clusters together can have a chunk of k of all outputs
 * at once, they share k; else a block on each multiprocessor goes through items of all k. */
static whim_err some_launch(whim_stream *base, whim_cuda_few_args *a)
{
    enum { FORMS = 3 }; /* of 16, 32 and 64 rows */
    const whim_cuda_device *dev = ((const whim_cuda_stream *)base)->dev;
    int64_t n_tile = a->swiglu ? 2 * whim_cuda_product_items(a, 2) : whim_cuda_product_items(a, 1),
            n_mp = dev->n_multiprocessor;
    int64_t n_item = whim_cuda_ceil_div(n_tile, WHIM_CUDA_PR_TILES);
    bool split = !a->swiglu && n_item <= dev->n_cluster;
    int32_t form = (a->n_row > 16) + (a->n_row > 32) + (split ? FORMS : 0);
    int64_t blocks = split ? n_item * WHIM_CUDA_MR_BLOCKS : n_item < n_mp ? n_item : n_mp;
    int64_t rows = whim_cuda_ceil_div(a->n_row, WHIM_CUDA_TILE) * WHIM_CUDA_TILE;
    WHIM_TRY(whim_cuda_tiles_make(base, a, (int32_t)rows));
    return whim_cuda_launch(base, WHIM_CUDA_K_mm_fp8_rows_16 + (whim_cuda_kernel)form,
                            (whim_cuda_shape){blocks, 1, WHIM_CUDA_PR_THREADS, WHIM_CUDA_MR_BYTES},
                            a);
}

/* Any rows on any GPU (mma_fp8.cuh), by the rows that a block has. */
static whim_err any_launch(whim_stream *base, whim_cuda_few_args *a)
{
    enum { TILES = 2, THREADS = 256 };
    bool some = a->n_row > 16;
    int64_t n_row_block = whim_cuda_ceil_div(a->n_row, some ? 32 : 16);
    /* Those that were left may be larger tiles. */
    ((whim_cuda_stream *)base)->made.x = NULL;
    WHIM_TRY(whim_cuda_tiles_make(base, a, WHIM_CUDA_TILE));
    return whim_cuda_launch(
        base, some ? WHIM_CUDA_K_mm_fp8_4 : WHIM_CUDA_K_mm_fp8_2,
        whim_cuda_items(whim_cuda_product_items(a, TILES) * n_row_block, THREADS), a);
}

whim_err whim_cuda_fp8_launch(whim_stream *base, whim_cuda_few_args *a)
{
    const whim_cuda_device *dev = ((const whim_cuda_stream *)base)->dev;
    if (a->n_row <= WHIM_CUDA_MF_ROWS) {
        const whim_cuda_few_form few = {WHIM_CUDA_K_mm_fp8_few_2, WHIM_CUDA_PF_THREADS,
                                        dev->has_wide ? 4 : 2, whim_cuda_pf_bytes};
        return whim_cuda_few_launch(base, a, &few);
    }
    if (dev->has_wide && a->k > 0) {
        return a->n_row > WHIM_CUDA_MADE_ROWS ? bulk_launch(base, a) : some_launch(base, a);
    }
    return any_launch(base, a);
}
