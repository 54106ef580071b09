/* SPDX-License-Identifier: Apache-2.0 */
/* Products of many rows with FP8 matrices: the order of mma_fp8.cuh, and its bits, in the way of
 * mma_bulk.cuh. Sums of a block, of a chunk and of all chunks before it are more than registers hold,
 * so the last are kept in shared memory. */
#pragma once
#include "mma_fp8_wide.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <int N_ROW> struct fp8_bulk_form {
    enum {
        ROWS = N_ROW,
        SUMS = ROWS / 2,
        STAGES = WHIM_CUDA_PB_STAGES,
        TILE_BYTES = MP_STEP_BYTES,
        W_BYTES = MM_TILES * TILE_BYTES,
        X_BYTES = ROWS * WHIM_CUDA_MM_K * 2,
        STAGE_BYTES = W_BYTES + X_BYTES,
    };

    static int64_t tile_bytes(int64_t k)
    {
        return whim_cuda_scaled_bytes(k);
    }
};

/* The ring as fp8_add takes it. */
template <int N_ROW> struct fp8_bulk_ring {
    typedef fp8_bulk_form<N_ROW> form;
    bulk_ring<form> *ring;

    uint32_t stage() const
    {
        return ring->stage();
    }

    void wait() const
    {
        bulk_wait(ring->full + ring->at * 8, ring->parity);
    }

    uint64_t operand() const
    {
        return wide_operand(ring->stage() + form::W_BYTES, N_ROW);
    }

    int step() const
    {
        return 2 * N_ROW * 16 >> 4;
    }

    uint32_t empty_at() const
    {
        return ring->empty + ring->at * 8;
    }

    void free(uint32_t empty) const
    {
        bulk_free(empty);
    }

    void next()
    {
        ring->next();
    }
};

template <int N_ROW>
static void bulk_add(const whim_cuda_few_args &a, const mm_place &p,
                     bulk_ring<fp8_bulk_form<N_ROW>> *ring, float (&total)[N_ROW / 2])
{
    typedef fp8_bulk_form<N_ROW> form;
    DYNAMIC_SHARED(128, memory);
    float4 *kept = (float4 *)(memory + form::STAGES * (form::STAGE_BYTES + 16)) + threadIdx.x;
    int pair = threadIdx.x / WARP % 4;
    mf_item item = {p.m, p.tile + (a.swiglu ? pair : pair * 2)};
    fp8_lines lines(a.k, pair, threadIdx.x / 128, pf_tile(a, item, 0), pf_tile(a, item, 1));
    fp8_chunks chunks(a.k);
    fp8_bulk_ring<N_ROW> from = {ring};
    bool is_first = true;
    fp8_add(lines, 0, chunks.n_block, chunks.each, from, total, [&](const float(&acc)[N_ROW / 2]) {
#pragma unroll
        for (int i = 0; i < form::SUMS / 4; i++) {
            float4 v = make_float4(acc[i * 4], acc[i * 4 + 1], acc[i * 4 + 2], acc[i * 4 + 3]);
            if (!is_first) {
                float4 before = kept[i * 128 * BULK_GROUPS];
                v = make_float4(before.x + v.x, before.y + v.y, before.z + v.z, before.w + v.w);
            }
            kept[i * 128 * BULK_GROUPS] = v;
        }
        is_first = false;
    });
    if (!is_first) {
#pragma unroll
        for (int i = 0; i < form::SUMS / 4; i++) {
            float4 before = kept[i * 128 * BULK_GROUPS];
            total[i * 4] = before.x + total[i * 4];
            total[i * 4 + 1] = before.y + total[i * 4 + 1];
            total[i * 4 + 2] = before.z + total[i * 4 + 2];
            total[i * 4 + 3] = before.w + total[i * 4 + 3];
        }
    }
}

#define FP8_BULK(rows)                                                     \
    KERNEL_IN_CLUSTERS(BULK_BLOCKS, BULK_THREADS, 1, k_mm_fp8_bulk_##rows) \
        (ARGS(whim_cuda_few_args))                                         \
    {                                                                      \
        bulk_run<fp8_bulk_form<rows>>(a);                                  \
    }
#else
/* Never started. */
#define FP8_BULK(rows)                                    \
    KERNEL k_mm_fp8_bulk_##rows(ARGS(whim_cuda_few_args)) \
    {                                                     \
    }
#endif
FP8_BULK(128)
