/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA device, private parts: one GPU with its primary context, the kernels for it, and streams
 * on it. Kernels give the bits of the law (kernels/common.cuh) or, for BF16 and FP8, of an order of
 * their own (kernels/mma.cuh, attn_mma.cuh), the same for a row alone and among others.
 * Threads: the context is made current by whoever calls; as device.h beyond that. */
#ifndef WHIM_BACKENDS_CUDA_CUDA_H
#define WHIM_BACKENDS_CUDA_CUDA_H

#include "backends/cuda/driver.h"
#include "backends/cuda/launch_args.h"
#include "ops/ops.h"

typedef enum whim_cuda_kernel {
#define WHIM_CUDA_KERNEL(name) WHIM_CUDA_K_##name,
#include "backends/cuda/kernels.def"
#undef WHIM_CUDA_KERNEL
    WHIM_CUDA_KERNEL_COUNT
} whim_cuda_kernel;

typedef struct whim_cuda_device {
    whim_device base;
    whim_ops ops;
    const whim_cu_driver *cu;
    int handle; /* the driver's number of the GPU */
    int32_t n_multiprocessor;
    int32_t n_cluster; /* of mma_rows.cuh that find room at once */
    bool has_clusters; /* blocks that read each other's shared memory */
    bool has_wide;     /* mma_wide.cuh */
    bool starts_early; /* a kernel may begin before the last one has ended */
    whim_cu_handle context, module;
    whim_cu_handle kernels[WHIM_CUDA_KERNEL_COUNT];
} whim_cuda_device;

/* Rows that the last kernel has left as BF16 tiles beside its own output: a product that comes next
 * need not make them. Norms have the first of two buffers, what products lead to the second. */
typedef struct whim_cuda_made {
    const float *x; /* NULL: none */
    int64_t x_stride, n_row, k;
    uint16_t *tiles;
} whim_cuda_made;

typedef struct whim_cuda_stream {
    whim_stream base;
    whim_cuda_device *dev;
    whim_cu_handle handle;
    bool capturing;
    whim_cuda_few_args waiting; /* products that are not started yet; none: n_matrix is 0 */
    whim_dtype waiting_type;
    whim_split_qkv_rmsnorm_rope_args split; /* that waits for its kv_write; none: n_row is 0 */
    whim_moe_topk_args choice;              /* that waits for its experts; none: n_row is 0 */
    uint64_t ended;                         /* device memory: whim_cuda_attn_args */
    uint64_t tiles;                         /* device memory: 2 * WHIM_CUDA_MADE elements */
    whim_cuda_made made;
    whim_event n_event;
    whim_cu_handle events[WHIM_STREAM_EVENTS]; /* event n at n % WHIM_STREAM_EVENTS */
} whim_cuda_stream;

/* What a stream takes for itself: `ended` and `tiles`. */
enum { WHIM_CUDA_STREAM_BYTES = WHIM_CUDA_ATTN_ENDED * 4 + 2 * 2 * WHIM_CUDA_MADE };

/* A status as an error; the context is current after it. */
WHIM_MUST_CHECK whim_err whim_cuda_error(int status);
WHIM_MUST_CHECK whim_err whim_cuda_enter(whim_cuda_device *dev);

/* weights_cuda.c */
int64_t whim_cuda_weight_bytes(whim_device *dev, whim_dtype dtype, int64_t n, int64_t k);
whim_err whim_cuda_pack_weight(whim_device *dev, const whim_pack *pack);

/* stream_cuda.c */
whim_err whim_cuda_stream_open(whim_device *dev, whim_stream **out, whim_diag *diag);

/* ops_cuda.c: start the products that wait for others of the same rows, and a split that waits.
 * Whatever is queued on a stream comes after this. */
WHIM_MUST_CHECK whim_err whim_cuda_flush(whim_stream *base);

/* ops_cuda.c */
void whim_cuda_ops_init(whim_ops *ops);
bool whim_cuda_op_accepts(whim_device *dev, int32_t op, const void *args);
int64_t whim_cuda_op_workspace(whim_device *dev, int32_t op, const void *args);

#endif
