/* SPDX-License-Identifier: Apache-2.0 */
/* Products with FP8 matrices: which kernel of mma_fp8.cuh. All have the same bits, so that this
 * decides about speed alone. */
#include "backends/cuda/launch.h"

enum { TILES = 2, THREADS = 256 }; /* of a block */

/* By the rows that a block has. */
static const struct {
    int32_t rows;
    whim_cuda_kernel kernel;
} forms[] = {
    {8, WHIM_CUDA_K_mm_fp8_1},
    {16, WHIM_CUDA_K_mm_fp8_2},
    {32, WHIM_CUDA_K_mm_fp8_4},
};

enum { LAST = sizeof forms / sizeof forms[0] - 1 };

whim_err whim_cuda_fp8_launch(whim_stream *base, whim_cuda_few_args *a)
{
    int32_t f = 0;
    int64_t n_item = 0, each = a->swiglu ? 1 : TILES;
    while (f < LAST && forms[f].rows < a->n_row) {
        f++;
    }
    for (int32_t i = 0; i < (a->swiglu ? 1 : a->n_matrix); i++) {
        n_item += whim_cuda_ceil_div(whim_cuda_ceil_div(a->matrix[i].n, WHIM_CUDA_TILE), each);
    }
    if (a->n_row > WHIM_CUDA_MF_ROWS) { /* those may have been left in larger tiles */
        ((whim_cuda_stream *)base)->made.x = NULL;
    }
    WHIM_TRY(whim_cuda_tiles_make(base, a, WHIM_CUDA_TILE));
    return whim_cuda_launch(
        base, forms[f].kernel,
        whim_cuda_items(n_item * whim_cuda_ceil_div(a->n_row, forms[f].rows), THREADS), a);
}
