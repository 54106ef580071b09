/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel is one worker's share of one op. All workers call it with the same arguments; each takes
 * the outputs that its number gives it, so that no sum is ever split between workers. Kernels of all
 * levels give the bits of the law.
 * Threads: a kernel touches its outputs and its worker's scratch only. */
#ifndef WHIM_BACKENDS_CPU_KERNELS_H
#define WHIM_BACKENDS_CPU_KERNELS_H

#include "backends/cpu/packing.h"
#include "ops/ops.h"

enum {
    WHIM_CPU_SCRATCH = 256 * 1024, /* bytes of scratch of each worker */
    WHIM_CPU_MAX_HEAD_DIM =
        16384, /* two vectors of this size fit the scratch, with room to spare */
};

typedef struct whim_cpu_worker {
    struct whim_cpu_workers *pool;
    int32_t index, count;
    void *scratch; /* WHIM_CPU_SCRATCH bytes, aligned to 64 */
} whim_cpu_worker;

/* This worker's part [begin, end) of n equal items. */
static inline void whim_cpu_share(const whim_cpu_worker *w, int64_t n, int64_t *begin, int64_t *end)
{
    *begin = n * w->index / w->count;
    *end = n * (w->index + 1) / w->count;
}

typedef void whim_cpu_kernel(const void *args, const whim_cpu_worker *worker);

/* The two halves of `linear` for block types: rows of x as int8, then int8 times packed tiles. */
typedef struct whim_cpu_quantize_args {
    const float *x; /* [n_row, k] */
    int64_t x_stride;
    void *act; /* whim_cpu_act_bytes */
    int64_t n_row, k;
} whim_cpu_quantize_args;

typedef struct whim_cpu_product_args {
    whim_weight w;
    void *act;         /* n_row rows of w.k */
    const float *bias; /* [n], or NULL */
    float *y;          /* [n_row, n] */
    int64_t y_stride;
    int64_t n_row;
} whim_cpu_product_args;

/* One instruction level. `linear` takes float weights only; block types go through quantize_act and
 * product. */
typedef struct whim_cpu_kernels {
    const char *level;
    whim_cpu_order order;
    whim_cpu_bf16_order bf16_order;
    whim_cpu_kernel *quantize_act, *product;
#define WHIM_OP(name) whim_cpu_kernel *name;
#include "ops/ops.def"
#undef WHIM_OP
} whim_cpu_kernels;

#endif
