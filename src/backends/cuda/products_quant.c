/* SPDX-License-Identifier: Apache-2.0 */
/* Products of more than a few rows with groups of 32 integers by mma_quant.cuh: which of its forms.
 * All have the law's bits, so that this decides about speed alone. */
#include "backends/cuda/launch.h"

/* The first of a type's kernels, or the count: other types have none. */
static whim_cuda_kernel first_kernel(whim_dtype dtype)
{
    switch ((int)dtype) {
    case WHIM_DTYPE_Q4_0:
        return WHIM_CUDA_K_mm_q4_0_32;
    case WHIM_DTYPE_Q4_1:
        return WHIM_CUDA_K_mm_q4_1_32;
    case WHIM_DTYPE_Q8_0:
        return WHIM_CUDA_K_mm_q8_0_32;
    default:
        return WHIM_CUDA_KERNEL_COUNT;
    }
}

bool whim_cuda_is_quant_wide(const whim_cuda_device *dev, const whim_weight *w, int64_t n_row)
{
    return dev->has_wide && n_row > WHIM_CUDA_FEW && w->k > 0 &&
           w->k % (WHIM_CUDA_QW_GROUPS * WHIM_GROUP) == 0 &&
           first_kernel(w->dtype) != WHIM_CUDA_KERNEL_COUNT;
}

/* Forms of a kernel, in the order of kernels.def. */
static const struct {
    int32_t rows, tiles, threads, per_mp;
} forms[] = {
    {32, 4, WHIM_CUDA_QW_THREADS_1, 3},
    {64, 4, WHIM_CUDA_QW_THREADS_1, 2},
    {WHIM_CUDA_QW_ROWS, 8, WHIM_CUDA_QW_THREADS_2, 1},
};

enum { FORMS = sizeof forms / sizeof forms[0] };

static int32_t form_of(int64_t n_row)
{
    return (n_row > forms[0].rows) + (n_row > forms[1].rows);
}

int32_t whim_cuda_quant_shared(int32_t i, whim_cuda_kernel *kernel)
{
    static const whim_dtype types[] = {WHIM_DTYPE_Q4_0, WHIM_DTYPE_Q4_1, WHIM_DTYPE_Q8_0};
    if (i >= FORMS * (int32_t)(sizeof types / sizeof types[0])) {
        return 0;
    }
    *kernel = first_kernel(types[i / FORMS]) + (whim_cuda_kernel)(i % FORMS);
    return whim_cuda_qw_bytes(types[i / FORMS], forms[i % FORMS].tiles, forms[i % FORMS].rows);
}

whim_err whim_cuda_quant_launch(whim_stream *base, whim_dtype dtype, whim_cuda_few_args *a)
{
    const whim_cuda_device *dev = ((const whim_cuda_stream *)base)->dev;
    int32_t form = form_of(a->n_row), rows = forms[form].rows;
    whim_cuda_tiles_args args = {a->x, a->x_stride, a->n_row, a->k, a->tiles, rows};
    int64_t n = whim_cuda_ceil_div(a->n_row, 32) * (a->k / WHIM_GROUP / WHIM_CUDA_QW_GROUPS);
    int64_t n_item =
        whim_cuda_product_items(a, forms[form].tiles) * whim_cuda_ceil_div(a->n_row, rows);
    int64_t most = forms[form].per_mp * dev->n_multiprocessor;
    WHIM_TRY(whim_cuda_launch(base, WHIM_CUDA_K_tiles_q8, whim_cuda_items(n, 256), &args));
    return whim_cuda_launch(base, first_kernel(dtype) + (whim_cuda_kernel)form,
                            (whim_cuda_shape){n_item < most ? n_item : most, 1, forms[form].threads,
                                              whim_cuda_qw_bytes(dtype, forms[form].tiles, rows)},
                            a);
}
