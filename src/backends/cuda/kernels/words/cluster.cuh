/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of a cluster, which read and write each other's shared memory. All threads of all blocks
 * come to each barrier. */
#pragma once

#if __CUDA_ARCH__ >= 900

static void cluster_sync()
{
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* Four floats at `at` in the shared memory of another block of the cluster. */
static float4 cluster_load(uint32_t at, int rank)
{
    float4 v;
    uint32_t there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
    asm volatile("ld.shared::cluster.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(there)
                 : "memory");
    return v;
}

/* Where block `rank` has what lies at `here` in this one; and a word to such a place. */
static uint32_t cluster_place(const void *here, int rank)
{
    uint32_t there, at = (uint32_t)__cvta_generic_to_shared(here);
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
    return there;
}

static void cluster_store(uint32_t there, uint32_t x)
{
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(there), "r"(x) : "memory");
}

/* The barrier in two steps, of which the first orders nothing. */
static void cluster_arrive()
{
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

static void cluster_wait()
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

#endif
