/* SPDX-License-Identifier: Apache-2.0 */
/* What a kernel is, how it begins, its registers, and barriers of some of its threads. */
#pragma once

#define KERNEL extern "C" __global__ void
#define ARGS(type) const __grid_constant__ type a

/* A kernel whose blocks have so many threads at most and of which so many fit on a multiprocessor;
 * and one that runs in clusters of n blocks, where the GPU has those. */
#define KERNEL_BOUNDED(threads, blocks) KERNEL __launch_bounds__(threads, blocks)
#if __CUDA_ARCH__ >= 900
#define KERNEL_IN_CLUSTERS(n, threads, blocks, name) \
    KERNEL __launch_bounds__(threads, blocks) __cluster_dims__(n, 1, 1) name
#else
#define KERNEL_IN_CLUSTERS(n, threads, blocks, name) KERNEL_BOUNDED(threads, blocks) name
#endif

/* The shared memory that the host asks for at the start of a kernel. */
#define DYNAMIC_SHARED(alignment, name) extern __shared__ __align__(alignment) char name[]

/* One bool of a block, also in clusters. */
#define SHARED_FLAG(name) __shared__ bool name

/* Where the GPU can, a kernel begins while the one before it still runs. wait_for_last: until that
 * one has ended and what it wrote can be read; every kernel calls it, so that all earlier ones have
 * ended, too. let_next_start: the next may come, which then waits itself. */
static void wait_for_last()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

static void let_next_start()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Threads of a group of four warps leave registers to others, or take them: N each from now on. */
template <int N> static void registers_leave()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N> static void registers_take()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

/* N threads of the block meet, all at the same place of the kernel, or not. */
template <int N> static void crew_sync()
{
    asm volatile("bar.sync 1, %0;" ::"n"(N) : "memory");
}

template <int N> static void crews_meet()
{
    asm volatile("barrier.sync 1, %0;" ::"n"(N) : "memory");
}
