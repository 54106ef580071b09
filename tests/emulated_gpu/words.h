/* SPDX-License-Identifier: Apache-2.0 */
/* The words of kernels (src/backends/cuda/kernels/words/words.cuh) and those of CUDA itself, for the
 * CPU. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "emulated_gpu/gpu.h"

#define restrict __restrict__

/* --- CUDA's ------------------------------------------------------------------------------------ */

#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __grid_constant__

#define threadIdx gpu_thread
#define blockIdx gpu_block
#define blockDim gpu_threads
#define gridDim gpu_blocks

struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) int2 {
    int x, y;
};
struct alignas(16) int4 {
    int x, y, z, w;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};

static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return uint4{x, y, z, w};
}

static inline float4 make_float4(float x, float y, float z, float w)
{
    return float4{x, y, z, w};
}

static inline float2 make_float2(float x, float y)
{
    return float2{x, y};
}

static inline float __int_as_float(int x)
{
    float y;
    memcpy(&y, &x, sizeof y);
    return y;
}

static inline float __uint_as_float(unsigned x)
{
    return __int_as_float((int)x);
}

static inline float __fmaf_rn(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}

static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}

static inline int __dp4a(int a, int b, int c)
{
    for (int i = 0; i < 32; i += 8) {
        c += (int8_t)(a >> i) * (int8_t)(b >> i);
    }
    return c;
}

static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned which)
{
    uint64_t both = (uint64_t)y << 32 | x;
    unsigned out = 0;
    for (int i = 0; i < 4; i++) {
        out |= (unsigned)(both >> (which >> i * 4 & 7) * 8 & 0xff) << i * 8;
    }
    return out;
}

template <class T> static inline T __ldg(const T *p)
{
    return *p;
}

template <class T> static inline T __ldcg(const T *p)
{
    return *p;
}

static inline int atomicAdd(int *p, int by)
{
    int before = *p;
    *p = before + by;
    return before;
}

static inline void __threadfence()
{
}

static inline void __syncthreads()
{
    gpu_barrier("__syncthreads", 0, 0);
}

static inline void __syncwarp(uint32_t mask = 0xffffffffu)
{
    gpu_meet(GPU_SYNCWARP, mask, NULL);
}

template <class T> static inline T gpu_shuffle_from(uint32_t mask, T v, int lane)
{
    gpu_shuffle s = {0, 0, lane};
    static_assert(sizeof v <= sizeof s.in, "a register or two");
    memcpy(&s.in, &v, sizeof v);
    gpu_meet(GPU_SHUFFLE, mask, &s);
    memcpy(&v, &s.out, sizeof v);
    return v;
}

static inline int gpu_lane()
{
    return (int)(threadIdx.x % 32);
}

template <class T> static inline T __shfl_sync(uint32_t mask, T v, int lane)
{
    return gpu_shuffle_from(mask, v, lane % 32);
}

template <class T> static inline T __shfl_xor_sync(uint32_t mask, T v, int by)
{
    return gpu_shuffle_from(mask, v, gpu_lane() ^ by);
}

template <class T> static inline T __shfl_down_sync(uint32_t mask, T v, int by)
{
    return gpu_shuffle_from(mask, v, gpu_lane() + by < 32 ? gpu_lane() + by : gpu_lane());
}

template <class T> static inline T __shfl_up_sync(uint32_t mask, T v, int by)
{
    return gpu_shuffle_from(mask, v, gpu_lane() >= by ? gpu_lane() - by : gpu_lane());
}

static inline uint32_t gpu_reduced(gpu_warp_word word, uint32_t mask, uint32_t v)
{
    gpu_number n = {v, 0};
    gpu_meet(word, mask, &n);
    return n.out;
}

static inline uint32_t __ballot_sync(uint32_t mask, int v)
{
    return gpu_reduced(GPU_VOTE, mask, v != 0);
}

static inline int __any_sync(uint32_t mask, int v)
{
    return __ballot_sync(mask, v) != 0;
}

static inline int __all_sync(uint32_t mask, int v)
{
    return __ballot_sync(mask, v) == mask;
}

static inline int __reduce_add_sync(uint32_t mask, int v)
{
    return (int)gpu_reduced(GPU_REDUCE_ADD, mask, (uint32_t)v);
}

static inline int __reduce_max_sync(uint32_t mask, int v)
{
    return (int)gpu_reduced(GPU_REDUCE_MAX, mask, (uint32_t)v);
}

static inline int __reduce_min_sync(uint32_t mask, int v)
{
    return (int)gpu_reduced(GPU_REDUCE_MIN, mask, (uint32_t)v);
}

static inline uint32_t __reduce_max_sync(uint32_t mask, uint32_t v)
{
    return gpu_reduced(GPU_REDUCE_UMAX, mask, v);
}

static inline size_t __cvta_generic_to_shared(const void *p)
{
    return gpu_shared_at(p);
}

/* --- start.cuh --------------------------------------------------------------------------------- */

#define KERNEL static void
#define ARGS(type) const type &a
#define KERNEL_BOUNDED(threads, blocks) KERNEL
#if __CUDA_ARCH__ >= 900
#define KERNEL_IN_CLUSTERS(n, threads, blocks, name) \
    enum { name##_cluster = n };                     \
    KERNEL name
#else
#define KERNEL_IN_CLUSTERS(n, threads, blocks, name) KERNEL name
#endif
#define DYNAMIC_SHARED(alignment, name) char *const name = gpu_dynamic()
#define SHARED_FLAG(name) bool &name = *(bool *)gpu_flag()

/* One grid after the other. */
static inline void wait_for_last()
{
}

static inline void let_next_start()
{
}

template <int N> static inline void registers_leave()
{
}

template <int N> static inline void registers_take()
{
}

template <int N> static inline void crew_sync()
{
    gpu_barrier("crew_sync", 1, N);
}

template <int N> static inline void crews_meet()
{
    gpu_barrier("crews_meet", 1, N);
}

#include "emulated_gpu/words_data.h"
#include "emulated_gpu/words_unit.h"
