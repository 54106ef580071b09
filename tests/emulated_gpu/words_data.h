/* SPDX-License-Identifier: Apache-2.0 */
/* Words for numbers, copies, clusters and barriers of phases: numbers.cuh, copies.cuh, cluster.cuh and
 * bulk.cuh. */
#pragma once
#include "tensor/half.h"

/* --- numbers ----------------------------------------------------------------------------------- */

static inline float half_to_float(uint16_t h)
{
    return whim_f16_to_f32(h);
}

/* The unit's own are as near; subnormal ones are zero there. */
static inline float gpu_flushed(double x)
{
    return fabs(x) < 0x1p-126 ? 0.0f : (float)x;
}

static inline float exp2_fast(float f)
{
    return gpu_flushed(exp2((double)f));
}

static inline float reciprocal_fast(float f)
{
    return gpu_flushed(1.0 / (double)f);
}

static inline uint32_t pack_bf16(float low, float high)
{
    return whim_f32_to_bf16(low) | (uint32_t)whim_f32_to_bf16(high) << 16;
}

static inline uint32_t gpu_pack_f16(float low, float high)
{
    return whim_f32_to_f16(low) | (uint32_t)whim_f32_to_f16(high) << 16;
}

static inline uint32_t pack_f16(int low, int high)
{
    return gpu_pack_f16((float)low, (float)high);
}

/* What kernels do with these is exact in float. */
static inline uint32_t half2_fma(uint32_t v, uint32_t by, uint32_t more)
{
    float out[2];
    for (int i = 0; i < 2; i++, v >>= 16, by >>= 16, more >>= 16) {
        out[i] = half_to_float((uint16_t)v) * half_to_float((uint16_t)by) +
                 half_to_float((uint16_t)more);
    }
    return gpu_pack_f16(out[0], out[1]);
}

static inline uint32_t half2_add(uint32_t v, uint32_t by)
{
    return half2_fma(v, 0x3c003c00u, by);
}

static inline uint32_t bf16x2_fma(uint32_t v, uint32_t by, uint32_t more)
{
    float out[2];
    for (int i = 0; i < 2; i++, v >>= 16, by >>= 16, more >>= 16) {
        out[i] = whim_bf16_to_f32((uint16_t)v) * whim_bf16_to_f32((uint16_t)by) +
                 whim_bf16_to_f32((uint16_t)more);
    }
    return pack_bf16(out[0], out[1]);
}

/* --- copies ------------------------------------------------------------------------------------ */

static inline void copy_async16(void *to, const void *from)
{
    gpu_copy((char *)to, from, 16, 16);
}

static inline void copy_async4(void *to, const void *from)
{
    gpu_copy((char *)to, from, 4, 4);
}

static inline void copies_commit()
{
    gpu_copies_commit();
}

template <int N> static inline void copies_wait()
{
    gpu_copies_wait(N);
}

static inline void ask_ahead(const void *, int)
{
}

static inline void copy_async16_or_zero(uint32_t to, const void *from, bool is_there)
{
    gpu_copy(gpu_shared(to, 16), from, 16, is_there ? 16 : 0);
}

static inline uint64_t cache_policy(bool)
{
    return 0;
}

static inline void copy_async16_or_zero(uint32_t to, const void *from, bool is_there, uint64_t)
{
    copy_async16_or_zero(to, from, is_there);
}

static inline uint4 load_once(const void *from)
{
    return *(const uint4 *)from;
}

template <class T> static inline T gpu_load(uint32_t at)
{
    return *(const T *)gpu_shared(at, sizeof(T));
}

static inline uint4 load_shared(uint32_t at)
{
    return gpu_load<uint4>(at);
}

static inline float load_shared_float(uint32_t at)
{
    return gpu_load<float>(at);
}

static inline float4 load_shared_float4(uint32_t at)
{
    return gpu_load<float4>(at);
}

/* --- clusters ---------------------------------------------------------------------------------- */

static inline void cluster_arrive()
{
    gpu_cluster_arrive();
}

static inline void cluster_wait()
{
    gpu_cluster_wait();
}

static inline void cluster_sync()
{
    gpu_cluster_arrive();
    gpu_cluster_wait();
}

static inline float4 cluster_load(uint32_t at, int rank)
{
    return gpu_load<float4>(gpu_cluster_at(at, rank));
}

static inline uint32_t cluster_place(const void *here, int rank)
{
    return gpu_cluster_at(gpu_shared_at(here), rank);
}

static inline void cluster_store(uint32_t there, uint32_t x)
{
    *(uint32_t *)gpu_shared(there, 4) = x;
}

/* --- barriers of phases and bulk copies --------------------------------------------------------- */

static inline void bulk_barrier_init(uint32_t at, int count)
{
    gpu_phases_init(at, count);
}

static inline void bulk_barriers_made()
{
}

static inline void bulk_expect(uint32_t at, int bytes)
{
    gpu_phases_arrive(at, bytes);
}

static inline void bulk_wait(uint32_t at, int parity)
{
    gpu_phases_wait(at, parity);
}

static inline void bulk_arrive_here(uint32_t at)
{
    gpu_phases_arrive(at, 0);
}

static inline void bulk_arrive(uint32_t at, int rank)
{
    gpu_phases_arrive(gpu_cluster_at(at, rank), 0);
}

static inline void bulk_copy(uint32_t to, const void *from, int bytes, uint32_t barrier)
{
    gpu_bulk_copy(to, from, bytes, barrier, 0);
}

template <int BLOCKS>
static inline void bulk_copy_all(uint32_t to, const void *from, int bytes, uint32_t barrier)
{
    gpu_bulk_copy(to, from, bytes, barrier, BLOCKS);
}

static inline void bulk_copy_once(uint32_t to, const void *from, int bytes, uint32_t barrier,
                                  uint64_t)
{
    gpu_bulk_copy(to, from, bytes, barrier, 0);
}
