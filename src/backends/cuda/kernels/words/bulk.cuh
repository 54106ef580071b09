/* SPDX-License-Identifier: Apache-2.0 */
/* Barriers in shared memory that count arrivals and bytes, and bulk copies, which tell them of the
 * bytes that have come. A phase's number is its parity, 0 at first. */
#pragma once

#if __CUDA_ARCH__ >= 900

/* A barrier of 8 bytes whose phases end after `count` arrivals and all bytes that were announced. */
static void bulk_barrier_init(uint32_t at, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(count) : "memory");
}

/* Barriers that were made can be used by others, after a barrier of the block or cluster. */
static void bulk_barriers_made()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/* An arrival that announces bytes. */
static void bulk_expect(uint32_t at, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes)
                 : "memory");
}

/* Until the phase with this parity has ended. */
static void bulk_wait(uint32_t at, int parity)
{
    uint32_t done;
    do {
        asm volatile("{\n"
                     ".reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n"
                     "}"
                     : "=r"(done)
                     : "r"(at), "r"(parity)
                     : "memory");
    } while (done == 0);
}

static void bulk_arrive_here(uint32_t at)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}

/* In block `rank` of the cluster. */
static void bulk_arrive(uint32_t at, int rank)
{
    asm volatile("{\n"
                 ".reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
                 "}" ::"r"(at),
                 "r"(rank)
                 : "memory");
}

/* Bytes to shared memory that are counted by a barrier; both places are multiples of 16. */
static void bulk_copy(uint32_t to, const void *from, int bytes, uint32_t barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
                 "[%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

/* To the same place of all BLOCKS blocks of the cluster, whose barriers each count the bytes. */
template <int BLOCKS>
static void bulk_copy_all(uint32_t to, const void *from, int bytes, uint32_t barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier), "h"((uint16_t)((1 << BLOCKS) - 1))
                 : "memory");
}

/* Of what is read once. */
static void bulk_copy_once(uint32_t to, const void *from, int bytes, uint32_t barrier, uint64_t policy)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1], %2, [%3], %4;" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
                 : "memory");
}

#endif
