/* SPDX-License-Identifier: Apache-2.0 */
/* How kernels are started: by ops_cuda.c and products_cuda.c, on the thread of the stream. */
#ifndef WHIM_BACKENDS_CUDA_LAUNCH_H
#define WHIM_BACKENDS_CUDA_LAUNCH_H

#include "backends/cuda/cuda.h"

typedef struct whim_cuda_shape {
    int64_t blocks, pieces; /* of the grid */
    int32_t threads;        /* of a block */
    int32_t shared_bytes;   /* dynamic shared memory of a block */
} whim_cuda_shape;

/* Start a kernel after the products that wait (whim_cuda_flush). A grid without blocks is none.
 * What the one before it has made is forgotten. */
WHIM_MUST_CHECK whim_err whim_cuda_launch(whim_stream *base, whim_cuda_kernel kernel,
                                          whim_cuda_shape g, const void *args);

static inline int64_t whim_cuda_ceil_div(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit;
}

/* A block for each item. */
static inline whim_cuda_shape whim_cuda_items(int64_t n, int32_t threads)
{
    return (whim_cuda_shape){n, 1, threads, 0};
}

/* Rows whose elements are on their own. */
static inline whim_cuda_shape whim_cuda_elements(int64_t n_row, int64_t n_col)
{
    return (whim_cuda_shape){n_row, whim_cuda_ceil_div(n_col, WHIM_CUDA_PIECE), 256, 0};
}

/* products_cuda.c: the ops, and what others need of them. */
whim_err whim_cuda_products_flush(whim_stream *base);
whim_err whim_cuda_narrow(whim_stream *base, const whim_narrow_args *a);
whim_err whim_cuda_linear(whim_stream *base, const whim_linear_args *a);
whim_err whim_cuda_linear_swiglu(whim_stream *base, const whim_linear_swiglu_args *a);
bool whim_cuda_fuses_swiglu(const whim_linear_swiglu_args *a);
int64_t whim_cuda_linear_bytes(const whim_cuda_device *dev, const whim_weight *w, int64_t n_row);
whim_cuda_kernel whim_cuda_pairs_kernel(whim_dtype dtype);

/* products_experts.c */
whim_err whim_cuda_moe_experts(whim_stream *base, const whim_moe_experts_args *a);
int64_t whim_cuda_experts_bytes(const whim_cuda_device *dev, const whim_moe_experts_args *a);

/* products_mma.c: where an op may leave rows of x as tiles, or none; to be called before its
 * launch, and whim_cuda_made_set after it. */
enum { WHIM_CUDA_MADE_NORM, WHIM_CUDA_MADE_OTHER };
whim_cuda_left whim_cuda_made_place(whim_stream *base, int32_t which, int64_t n_row, int64_t k);
void whim_cuda_made_set(whim_stream *base, const float *x, int64_t x_stride, int64_t n_row,
                        int64_t k, whim_cuda_left left);

/* The rows of a product in its `tiles`, of `rows` each. */
whim_err whim_cuda_tiles_make(whim_stream *base, whim_cuda_few_args *a, int32_t rows);

/* Items of n_tile tiles of outputs that all matrices have. */
int64_t whim_cuda_product_items(const whim_cuda_few_args *a, int64_t n_tile);

/* Kernels for up to 8 rows, by the tiles of outputs that a block has at once. */
typedef struct whim_cuda_few_form {
    whim_cuda_kernel first; /* of two tiles */
    int32_t threads, most_tiles;
    int32_t (*bytes)(int32_t n_tile, bool deep); /* of shared memory */
} whim_cuda_few_form;

/* A block for each multiprocessor; as many tiles at once as give the one with most the least. */
whim_err whim_cuda_few_launch(whim_stream *base, whim_cuda_few_args *a,
                              const whim_cuda_few_form *form);

/* Products of any rows with BF16 matrices, whose `tiles` are made first, and with FP8 ones
 * (products_fp8.c). */
whim_err whim_cuda_mm_launch(whim_stream *base, whim_cuda_few_args *a);
whim_err whim_cuda_fp8_launch(whim_stream *base, whim_cuda_few_args *a);

/* products_quant.c: whether mma_quant.cuh takes rows, their products, and the shared memory of its
 * i-th kernel, 0 after the last. */
bool whim_cuda_is_quant_wide(const whim_cuda_device *dev, const whim_weight *w, int64_t n_row);
whim_err whim_cuda_quant_launch(whim_stream *base, whim_dtype dtype, whim_cuda_few_args *a);
int32_t whim_cuda_quant_shared(int32_t i, whim_cuda_kernel *kernel);

#endif
