/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU as a device: memory, caps, opening. */
#include "backends/cuda/cuda.h"
#include "backends/cuda/images.h"
#include "backends/cuda/launch.h"

#include "base/alloc.h"
#include "base/os/cpu.h"

#include <stdio.h>
#include <string.h>

/* Attributes of a device, by the driver's numbers. */
enum { ATTR_MULTIPROCESSORS = 16, ATTR_MAJOR = 75, ATTR_MINOR = 76 };

/* Those of a kernel. */
enum { FUNC_MAX_SHARED = 8, FUNC_CARVEOUT = 9 };

/* Machine code for this has the unit of mma_wide.cuh; newer GPUs have another. */
enum { WIDE_CAPABILITY = 90, N_WIDE = 20 };

/* Kernels use what came with this one. */
enum { OLDEST_MAJOR = 8 };

/* What a kernel may start before is recorded in graphs by drivers from 12.4 on. */
enum { EARLY_CAPABILITY = 90, EARLY_DRIVER = 12040 };

whim_err whim_cuda_error(int status)
{
    return status == 0                       ? WHIM_ERR_OK
           : status == WHIM_CU_OUT_OF_MEMORY ? WHIM_ERR_NO_MEMORY
                                             : WHIM_ERR_DEVICE;
}

whim_err whim_cuda_enter(whim_cuda_device *dev)
{
    return whim_cuda_error(dev->cu->cuCtxSetCurrent(dev->context));
}

static whim_err cuda_fail(const whim_cuda_device *dev, int status, const char *what,
                          whim_diag *diag)
{
    return whim_fail(diag, whim_cuda_error(status), "GPU %d: %s: %s (%d)", dev->handle, what,
                     whim_cu_error_text(dev->cu, status), status);
}

/* --- memory ----------------------------------------------------------------------------------- */

static whim_err cuda_buf_alloc(whim_device *base, int64_t bytes, void **out, whim_diag *diag)
{
    whim_cuda_device *dev = (whim_cuda_device *)base;
    size_t size = bytes > 0 ? (size_t)bytes : 1;
    uint64_t ptr = 0;
    WHIM_TRY(whim_cuda_enter(dev));
    int status = dev->cu->cuMemAlloc_v2(&ptr, size);
    if (status == 0) {
        status = dev->cu->cuMemsetD8_v2(ptr, 0, size);
        status = status != 0 ? status : dev->cu->cuStreamSynchronize(NULL);
        if (status != 0) {
            (void)dev->cu->cuMemFree_v2(ptr);
        }
    }
    if (status != 0) {
        char what[96];
        snprintf(what, sizeof what, "no buffer of %lld bytes", (long long)bytes);
        return cuda_fail(dev, status, what, diag);
    }
    *out = (void *)(uintptr_t)ptr;
    return WHIM_ERR_OK;
}

static void cuda_buf_free(whim_device *base, void *ptr, int64_t bytes)
{
    whim_cuda_device *dev = (whim_cuda_device *)base;
    (void)bytes;
    if (whim_cuda_enter(dev) == WHIM_ERR_OK) {
        (void)dev->cu->cuMemFree_v2((uint64_t)(uintptr_t)ptr);
    }
}

/* Graphs take some of what nobody plans with: recording one must not find all of it taken. */
enum { KEPT_BYTES = 256 << 20, KEPT_SHARE = 16 };

static int64_t cuda_mem_available(whim_device *base)
{
    whim_cuda_device *dev = (whim_cuda_device *)base;
    size_t left = 0, total;
    if (whim_cuda_enter(dev) != WHIM_ERR_OK || dev->cu->cuMemGetInfo_v2(&left, &total) != 0) {
        return 0;
    }
    size_t kept = left / KEPT_SHARE < KEPT_BYTES ? left / KEPT_SHARE : KEPT_BYTES;
    return (int64_t)(left - kept);
}

static whim_err cuda_host_alloc(whim_device *base, int64_t bytes, void **out, whim_diag *diag)
{
    whim_cuda_device *dev = (whim_cuda_device *)base;
    size_t size = bytes > 0 ? (size_t)bytes : 1;
    WHIM_TRY(whim_cuda_enter(dev));
    int status = dev->cu->cuMemHostAlloc(out, size, 0);
    if (status != 0) {
        return cuda_fail(dev, status, "no pinned memory", diag);
    }
    memset(*out, 0, size);
    return WHIM_ERR_OK;
}

static void cuda_host_free(whim_device *base, void *ptr, int64_t bytes)
{
    whim_cuda_device *dev = (whim_cuda_device *)base;
    (void)bytes;
    if (whim_cuda_enter(dev) == WHIM_ERR_OK) {
        (void)dev->cu->cuMemFreeHost(ptr);
    }
}

/* After a fault every call of a context fails. */
static whim_err cuda_check(whim_device *base, whim_diag *diag)
{
    whim_cuda_device *dev = (whim_cuda_device *)base;
    int status = dev->cu->cuCtxSetCurrent(dev->context);
    status = status != 0 ? status : dev->cu->cuStreamSynchronize(NULL);
    return status == 0 ? WHIM_ERR_OK
                       : cuda_fail(dev, status,
                                   "lost, and only a new process can have it again (the system's "
                                   "log, dmesg, may name an Xid)",
                                   diag);
}

/* --- opening ---------------------------------------------------------------------------------- */

static void cuda_close(whim_device *base)
{
    whim_cuda_device *dev = (whim_cuda_device *)base;
    if (dev->context != NULL) {
        (void)dev->cu->cuCtxSetCurrent(dev->context);
        if (dev->module != NULL) {
            (void)dev->cu->cuModuleUnload(dev->module);
        }
        (void)dev->cu->cuCtxSetCurrent(NULL);
        (void)dev->cu->cuDevicePrimaryCtxRelease_v2(dev->handle);
    }
    whim_free(dev);
}

static const whim_device_vt device_vt = {
    .close = cuda_close,
    .buf_alloc = cuda_buf_alloc,
    .buf_free = cuda_buf_free,
    .host_alloc = cuda_host_alloc,
    .host_free = cuda_host_free,
    .mem_available = cuda_mem_available,
    .check = cuda_check,
    .weight_bytes = whim_cuda_weight_bytes,
    .pack_weight = whim_cuda_pack_weight,
    .stream_open = whim_cuda_stream_open,
    .op_accepts = whim_cuda_op_accepts,
    .op_workspace = whim_cuda_op_workspace,
};

static whim_err kernels_find(whim_cuda_device *dev, whim_diag *diag)
{
    static const char *const names[] = {
#define WHIM_CUDA_KERNEL(name) "k_" #name,
#include "backends/cuda/kernels.def"
#undef WHIM_CUDA_KERNEL
    };
    for (int32_t i = 0; i < WHIM_CUDA_KERNEL_COUNT; i++) {
        int status = dev->cu->cuModuleGetFunction(&dev->kernels[i], dev->module, names[i]);
        if (status != 0) {
            return cuda_fail(dev, status, names[i], diag);
        }
    }
    return WHIM_ERR_OK;
}

static int kernel_allow(const whim_cuda_device *dev, whim_cuda_kernel kernel, int bytes)
{
    whim_cu_handle handle = dev->kernels[kernel];
    int status = dev->cu->cuFuncSetAttribute(handle, FUNC_MAX_SHARED, bytes);
    return status != 0 ? status : dev->cu->cuFuncSetAttribute(handle, FUNC_CARVEOUT, 100);
}

static int quant_allow(const whim_cuda_device *dev)
{
    static const struct {
        whim_cuda_kernel kernel;
        whim_dtype dtype;
    } many[] = {
        {WHIM_CUDA_K_many_q4_0, WHIM_DTYPE_Q4_0},
        {WHIM_CUDA_K_many_q4_1, WHIM_DTYPE_Q4_1},
        {WHIM_CUDA_K_many_q8_0, WHIM_DTYPE_Q8_0},
        {WHIM_CUDA_K_many_wide, WHIM_DTYPE_Q4_K},
    };
    int status = 0;
    for (size_t i = 0; i < sizeof many / sizeof many[0] && status == 0; i++) {
        status = kernel_allow(dev, many[i].kernel,
                              whim_cuda_mq_bytes(many[i].dtype, WHIM_CUDA_MQ_THREADS));
    }
    whim_cuda_kernel kernel;
    int32_t bytes;
    for (int32_t i = 0; dev->has_wide && (bytes = whim_cuda_quant_shared(i, &kernel)) > 0; i++) {
        status = status != 0 ? status : kernel_allow(dev, kernel, bytes);
    }
    return status;
}

static int experts_allow(const whim_cuda_device *dev)
{
    static const whim_cuda_kernel few[] = {WHIM_CUDA_K_experts_few_up,
                                           WHIM_CUDA_K_experts_few_down},
                                  many[] = {WHIM_CUDA_K_experts_many_up,
                                            WHIM_CUDA_K_experts_many_down};
    int status = 0;
    for (int32_t i = 0; i < 2 && status == 0 && dev->has_wide; i++) {
        status = kernel_allow(dev, few[i], whim_cuda_experts_bytes_of(WHIM_CUDA_EX_FEW));
        status = status != 0
                     ? status
                     : kernel_allow(dev, many[i], whim_cuda_experts_bytes_of(WHIM_CUDA_EX_MANY));
    }
    return status;
}

static int quant_and_experts_allow(const whim_cuda_device *dev)
{
    int status = quant_allow(dev);
    return status != 0 ? status : experts_allow(dev);
}

/* Some kernels hold more shared memory than one may without asking, and all that a multiprocessor
 * has is for them. */
static whim_err kernels_allow(whim_cuda_device *dev, whim_diag *diag)
{
    const struct {
        whim_cuda_kernel kernel;
        int bytes;
    } large[] = {
        {WHIM_CUDA_K_mm_bulk_128, whim_cuda_bulk_bytes(128)}, /* the first N_WIDE: not everywhere */
        {WHIM_CUDA_K_mm_bulk_192, whim_cuda_bulk_bytes(192)},
        {WHIM_CUDA_K_mm_fp8_bulk_128, whim_cuda_pb_bytes(128)},
        {WHIM_CUDA_K_mm_fp8_rows_16, WHIM_CUDA_MR_BYTES},
        {WHIM_CUDA_K_mm_fp8_rows_32, WHIM_CUDA_MR_BYTES},
        {WHIM_CUDA_K_mm_fp8_rows_64, WHIM_CUDA_MR_BYTES},
        {WHIM_CUDA_K_mm_fp8_rows_split_16, WHIM_CUDA_MR_BYTES},
        {WHIM_CUDA_K_mm_fp8_rows_split_32, WHIM_CUDA_MR_BYTES},
        {WHIM_CUDA_K_mm_fp8_rows_split_64, WHIM_CUDA_MR_BYTES},
        {WHIM_CUDA_K_mm_fp8_few_3, whim_cuda_pf_bytes(3, true)},
        {WHIM_CUDA_K_mm_fp8_few_4, whim_cuda_pf_bytes(4, true)},
        {WHIM_CUDA_K_mm_rows_4, WHIM_CUDA_MR_BYTES},
        {WHIM_CUDA_K_mm_rows_12, WHIM_CUDA_MR_BYTES},
        {WHIM_CUDA_K_mm_rows_split_4, WHIM_CUDA_MR_BYTES},
        {WHIM_CUDA_K_mm_rows_split_9, WHIM_CUDA_MR_BYTES},
        {WHIM_CUDA_K_mm_rows_split_13, WHIM_CUDA_MR_BYTES},
        {WHIM_CUDA_K_attn_wide_64, whim_cuda_mw_bytes(64)},
        {WHIM_CUDA_K_attn_wide_128, whim_cuda_mw_bytes(128)},
        {WHIM_CUDA_K_mm_wide_64, whim_cuda_mm_bytes(64)},
        {WHIM_CUDA_K_mm_wide_split_64, whim_cuda_mm_bytes(64)},
        {WHIM_CUDA_K_many_f32, WHIM_CUDA_MF32_BYTES(WHIM_CUDA_MF32_TILES, WHIM_CUDA_MF32_ROWS)},
        {WHIM_CUDA_K_some_f32, WHIM_CUDA_MF32_BYTES(1, WHIM_CUDA_FEW)},
        {WHIM_CUDA_K_few_f32_1, WHIM_CUDA_FEW_STAGES_1},
        {WHIM_CUDA_K_few_f16_1, WHIM_CUDA_FEW_STAGES_1},
        {WHIM_CUDA_K_few_f32_8, WHIM_CUDA_FEW_STAGES_8},
        {WHIM_CUDA_K_few_f16_8, WHIM_CUDA_FEW_STAGES_8},
        {WHIM_CUDA_K_mm_few_2, whim_cuda_mf_bytes(2, dev->has_wide)},
        {WHIM_CUDA_K_mm_few_3, whim_cuda_mf_bytes(3, dev->has_wide)},
        {WHIM_CUDA_K_mm_few_4, whim_cuda_mf_bytes(4, dev->has_wide)},
        {WHIM_CUDA_K_mm_fp8_few_2, whim_cuda_pf_bytes(2, dev->has_wide)},
        {WHIM_CUDA_K_mm_8, whim_cuda_mm_bytes(8)},
        {WHIM_CUDA_K_mm_16, whim_cuda_mm_bytes(16)},
        {WHIM_CUDA_K_mm_32, whim_cuda_mm_bytes(32)},
        {WHIM_CUDA_K_mm_64, whim_cuda_mm_bytes(64)},
        {WHIM_CUDA_K_mm_split_8, whim_cuda_mm_bytes(8)},
        {WHIM_CUDA_K_mm_split_16, whim_cuda_mm_bytes(16)},
        {WHIM_CUDA_K_mm_split_32, whim_cuda_mm_bytes(32)},
        {WHIM_CUDA_K_mm_split_64, whim_cuda_mm_bytes(64)},
        {WHIM_CUDA_K_mm_128, whim_cuda_mm_bytes(128)},
        {WHIM_CUDA_K_attn_mma_64, WHIM_CUDA_MX_BYTES_64},
        {WHIM_CUDA_K_attn_mma_128, WHIM_CUDA_MX_BYTES_128},
        {WHIM_CUDA_K_attn_mma_few_64, WHIM_CUDA_MX_BYTES_64},
        {WHIM_CUDA_K_attn_mma_few_128, WHIM_CUDA_MX_BYTES_128},
        {WHIM_CUDA_K_attn_cluster_64, WHIM_CUDA_MC_BYTES_64},
        {WHIM_CUDA_K_attn_cluster_128, WHIM_CUDA_MC_BYTES_128},
        {WHIM_CUDA_K_attn_few_f32, WHIM_CUDA_ATTN_RING},
        {WHIM_CUDA_K_attn_few_bf16, WHIM_CUDA_ATTN_RING},
        {WHIM_CUDA_K_attn_few_f16, WHIM_CUDA_ATTN_RING},
        {WHIM_CUDA_K_attn_few_q8, WHIM_CUDA_ATTN_RING},
    };
    int status = quant_and_experts_allow(dev);
    for (size_t i = dev->has_wide ? 0 : N_WIDE; i < sizeof large / sizeof large[0]; i++) {
        status = status != 0 ? status : kernel_allow(dev, large[i].kernel, large[i].bytes);
    }
    return status == 0 ? WHIM_ERR_OK
                       : cuda_fail(dev, status, "no shared memory for a kernel", diag);
}

/* Clusters of one block on each multiprocessor that the GPU's groups of those have room for. */
static whim_err clusters_count(whim_cuda_device *dev, whim_diag *diag)
{
    whim_cu_launch_config config = {
        .grid = {WHIM_CUDA_MR_BLOCKS, 1, 1},
        .block = {WHIM_CUDA_MR_THREADS, 1, 1},
        .shared_bytes = WHIM_CUDA_MR_BYTES,
    };
    int n = 0;
    int status = dev->cu->cuOccupancyMaxActiveClusters(
        &n, dev->kernels[WHIM_CUDA_K_mm_rows_split_13], &config);
    dev->n_cluster = n;
    return status == 0 ? WHIM_ERR_OK : cuda_fail(dev, status, "no count of clusters", diag);
}

static whim_err kernels_load(whim_cuda_device *dev, int32_t capability, whim_diag *diag)
{
    whim_cu_image image;
    if (!whim_cu_image_choose(whim_cu_images(), capability, &image)) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "this program has no kernels for a GPU of capability %d.%d: one that is "
                         "built with make CUDA=1 has them from 8.0 on",
                         (int)capability / 10, (int)capability % 10);
    }
    int status = dev->cu->cuModuleLoadData(&dev->module, image.data);
    if (status != 0) {
        return cuda_fail(dev, status, "the kernels cannot be loaded", diag);
    }
    snprintf(dev->base.caps.isa, sizeof dev->base.caps.isa, "%s_%d",
             image.kind % 2 != 0 ? "compute" : "sm", (int)(image.kind / 2));
    snprintf(dev->base.caps.levels, sizeof dev->base.caps.levels, "%s", dev->base.caps.isa);
    dev->has_wide = image.kind == 2 * WIDE_CAPABILITY;
    WHIM_TRY(kernels_find(dev, diag));
    WHIM_TRY(kernels_allow(dev, diag));
    return dev->has_wide ? clusters_count(dev, diag) : WHIM_ERR_OK;
}

/* Copies to the GPU take turns, so more than some do not help. */
static int32_t loaders(const whim_device_cfg *cfg)
{
    enum { MOST = 32 };
    int32_t usable = whim_os_cpu_count();
    int32_t n = cfg->n_thread > 0 && cfg->n_thread < usable ? cfg->n_thread : usable;
    return n < MOST ? n : MOST;
}

static void caps_fill(whim_cuda_device *dev, const whim_device_cfg *cfg)
{
    whim_device_caps *caps = &dev->base.caps;
    char name[64] = "GPU";
    size_t bytes = 0;
    (void)dev->cu->cuDeviceGetName(name, sizeof name, dev->handle);
    (void)dev->cu->cuDeviceTotalMem_v2(&bytes, dev->handle);
    double left = (double)cuda_mem_available(&dev->base) / (1 << 30);
    caps->n_thread = 1;
    caps->n_loader = loaders(cfg);
    caps->page_len = WHIM_CUDA_PAGE;
    caps->workspace_bytes = WHIM_CUDA_STREAM_BYTES;
    caps->pack_row_granule = WHIM_CUDA_TILE;
    caps->graph_capture = true;
    caps->narrows = true;
    for (int32_t t = 0; t < WHIM_DTYPE_COUNT; t++) {
        bool is_quant = whim_dtype_get((whim_dtype)t)->kind == WHIM_DTYPE_KIND_QUANT;
        caps->acts[t] = is_quant ? WHIM_ACT_Q8 : WHIM_ACT_F32;
    }
    snprintf(caps->summary, sizeof caps->summary,
             "%s, %.1f of %.1f GiB free, %d multiprocessors, driver for CUDA %d.%d", name, left,
             (double)bytes / (1 << 30), (int)dev->n_multiprocessor, (int)dev->cu->version / 1000,
             (int)dev->cu->version % 1000 / 10);
}

static const char *context_hint(int status)
{
    return status == WHIM_CU_OUT_OF_MEMORY
               ? "no memory for a context, other processes have it (nvidia-smi shows them)"
           : status == WHIM_CU_UNAVAILABLE || status == WHIM_CU_IN_USE
               ? "another process has it to itself (exclusive mode; nvidia-smi shows it)"
               : "no context";
}

static whim_err gpu_start(whim_cuda_device *dev, int32_t index, whim_diag *diag)
{
    const whim_cu_driver *cu = dev->cu;
    int major = 0, minor = 0, n_mp = 0, status = cu->cuDeviceGet(&dev->handle, index);
    status = status != 0 ? status : cu->cuDeviceGetAttribute(&major, ATTR_MAJOR, dev->handle);
    status = status != 0 ? status : cu->cuDeviceGetAttribute(&minor, ATTR_MINOR, dev->handle);
    status =
        status != 0 ? status : cu->cuDeviceGetAttribute(&n_mp, ATTR_MULTIPROCESSORS, dev->handle);
    if (status != 0) {
        return cuda_fail(dev, status, "no answer", diag);
    }
    if (major < OLDEST_MAJOR) {
        char name[64] = "";
        (void)cu->cuDeviceGetName(name, sizeof name, dev->handle);
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "GPU %d (%s) has capability %d.%d, and %d.0 is the oldest that will do: "
                         "use another, or --backend cpu",
                         dev->handle, name, major, minor, OLDEST_MAJOR);
    }
    dev->n_multiprocessor = n_mp;
    dev->has_clusters = major >= 9;
    dev->starts_early = major * 10 + minor >= EARLY_CAPABILITY && cu->version >= EARLY_DRIVER;
    status = cu->cuDevicePrimaryCtxRetain(&dev->context, dev->handle);
    if (status != 0) {
        dev->context = NULL;
        return cuda_fail(dev, status, context_hint(status), diag);
    }
    WHIM_TRY(whim_cuda_enter(dev));
    return kernels_load(dev, major * 10 + minor, diag);
}

static whim_err cuda_device_open(int32_t index, const whim_device_cfg *cfg, whim_device **out,
                                 whim_diag *diag)
{
    const void *images = whim_cu_images();
    const whim_cu_driver *cu;
    whim_cu_image first;
    if (cfg->n_part > 1) {
        return whim_fail(
            diag, WHIM_ERR_UNSUPPORTED,
            "%d ranks: this backend has a model on one GPU; leave --tp, --cp, --dp and --ep out, "
            "or use --backend cpu",
            (int)cfg->n_part);
    }
    WHIM_TRY(whim_cu_driver_get(&cu, diag)); /* first: without a GPU nobody misses kernels */
    if (!whim_cu_image_next(&images, &first)) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "this program was built without kernels for GPUs: make CUDA=1 builds "
                         "them");
    }
    if (index < 0 || index >= cu->n_device) {
        return whim_fail(diag, WHIM_ERR_NOT_FOUND, "GPUs have the numbers 0 to %d; not %d",
                         (int)cu->n_device - 1, (int)index);
    }
    whim_cuda_device *dev = whim_alloc(sizeof *dev);
    if (dev == NULL) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for a device");
    }
    dev->base.vt = &device_vt;
    dev->cu = cu;
    whim_cuda_ops_init(&dev->ops);
    whim_ops_fill(&dev->ops);
    whim_err err = gpu_start(dev, index, diag);
    if (err == WHIM_ERR_OK && cfg->isa != NULL && strcmp(cfg->isa, dev->base.caps.isa) != 0) {
        err = whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                        "--isa %s: a GPU has one level of its own, %s; leave --isa out", cfg->isa,
                        dev->base.caps.isa);
    }
    if (err != WHIM_ERR_OK) {
        cuda_close(&dev->base);
        return err;
    }
    caps_fill(dev, cfg);
    *out = &dev->base;
    return WHIM_ERR_OK;
}

static int32_t cuda_device_count(void)
{
    const whim_cu_driver *cu;
    const void *images = whim_cu_images();
    whim_cu_image first;
    return whim_cu_image_next(&images, &first) && whim_cu_driver_get(&cu, NULL) == WHIM_ERR_OK
               ? cu->n_device
               : 0;
}

const whim_backend whim_backend_cuda = {
    .name = "cuda",
    .preferred = true,
    .device_count = cuda_device_count,
    .device_open = cuda_device_open,
};
