/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.cu for the CPU, as a GPU of capability __CUDA_ARCH__ / 100 has it. All static variables of
 * this unit are the kernels' shared memory: the build puts them into a section of their own. */
#include "emulated_gpu/words.h"

#define GPU_JOINED(a, b) a##b
#define GPU_JOIN(a, b) GPU_JOINED(a, b)
#define GPU_SECTION(end) GPU_JOIN(GPU_JOIN(end, gpu_shared_), GPU_CAPABILITY)

extern "C" __attribute__((visibility("hidden"))) char GPU_SECTION(__start_)[], GPU_SECTION(__stop_)[];

namespace {
template <class T> struct gpu_bare {
    typedef T type;
};
template <class T> struct gpu_bare<const T &> {
    typedef T type;
};

/* A kernel as a thread runs it. */
template <auto K> struct gpu_call;
template <class T, void (*K)(T)> struct gpu_call<K> {
    typedef typename gpu_bare<T>::type args;
    static void run(const void *a)
    {
        K(*(const args *)a);
    }
};
} // namespace

namespace gpu_unit {
/* Those that do not say how many blocks a cluster has. */
#define WHIM_CUDA_KERNEL(name) k_##name##_cluster = 1,
enum {
#include "backends/cuda/kernels.def"
};
#undef WHIM_CUDA_KERNEL

namespace {
#include "backends/cuda/kernels/kernels.cu"

const gpu_kernel kernels[] = {
#define WHIM_CUDA_KERNEL(name)                                                                   \
    {"k_" #name, gpu_call<k_##name>::run, sizeof(typename gpu_call<k_##name>::args), k_##name##_cluster},
#include "backends/cuda/kernels.def"
#undef WHIM_CUDA_KERNEL
};
} // namespace
} // namespace gpu_unit

extern "C" const gpu_kernels GPU_JOIN(gpu_kernels_, GPU_CAPABILITY) = {
    gpu_unit::kernels, sizeof gpu_unit::kernels / sizeof *gpu_unit::kernels, GPU_SECTION(__start_),
    GPU_SECTION(__stop_)};
