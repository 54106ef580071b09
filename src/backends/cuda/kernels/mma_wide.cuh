/* SPDX-License-Identifier: Apache-2.0 */
/* Products with BF16 matrices on the unit that reads its operands out of shared memory (sm_90a
 * alone): the order of mma.cuh, and its bits. A block has 128 outputs, of which each of two groups
 * of four warps has 64, and 64 rows; mma_bulk.cuh has more. */
#pragma once
#include "mma.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <int N_COL, int N_STAGE> struct wide_form {
    enum {
        COLS = N_COL,
        PARTS = COLS / 8,
        SUMS = COLS / 2, /* of a thread */
        THREADS = 256,
        STAGES = N_STAGE,
        AHEAD = STAGES - 2, /* a stage is written again when the one after it has been begun with */
        W_BYTES = WHIM_CUDA_MM_OUTPUTS * WHIM_CUDA_MM_K * 2,
        STAGE_BYTES = W_BYTES + COLS * WHIM_CUDA_MM_K * 2,
        COPIES = MM_TILES * MM_PIECES / THREADS,
    };
};

/* An operand in shared memory, in which a stage has n_row rows: parts of 8 x 8 that are n_row
 * vectors apart along k and 128 bytes along the rows. */
static uint64_t wide_operand(uint32_t at, int n_row)
{
    return (uint64_t)(at >> 4 & 0x3fff) | (uint64_t)n_row << 16 | (uint64_t)(128 >> 4) << 32;
}

template <class Form> static void wide_stage_add(float (&c)[Form::SUMS], uint32_t stage)
{
    uint32_t w = stage + threadIdx.x / 128 * 64 * 16, x = stage + Form::W_BYTES;
    wide_begin();
#pragma unroll
    for (int k = 0; k < WHIM_CUDA_MM_K / 16; k++) {
        wide_mma(c, wide_operand(w + k * 2 * WHIM_CUDA_MM_OUTPUTS * 16, WHIM_CUDA_MM_OUTPUTS),
                 wide_operand(x + k * 2 * Form::COLS * 16, Form::COLS));
    }
    wide_commit();
}

/* Until at most N stages are being added; the sums may be touched when none is. */
template <int N, int SUMS> static void wide_wait(float (&c)[SUMS])
{
    wide_until<N>();
    if (N == 0) {
        wide_added(c);
    }
}

/* Copies have come, and the unit may read them. */
template <int N> static void wide_arrived()
{
    copies_wait<N>();
    wide_may_read();
    __syncthreads();
}

/* Stages first .. end - 1, where a chunk begins; its sums, or those of several chunks in order. */
template <class Form>
static void wide_walk(const whim_cuda_few_args &a, const mm_place &p, int first, int end,
                      float (&total)[Form::SUMS])
{
    DYNAMIC_SHARED(128, memory);
    uint32_t ring = (uint32_t)__cvta_generic_to_shared(memory);
    mm_copier<Form> copier(a, p);
    float c[Form::SUMS] = {};
    for (int s = first; s < first + Form::AHEAD && s < end; s++) {
        copier.weights(ring + (s - first) * Form::STAGE_BYTES, s);
    }
    wait_for_last();
    for (int s = first; s < first + Form::AHEAD; s++) {
        if (s < end) {
            copier.rows(ring + (s - first) * Form::STAGE_BYTES, s);
        }
        copies_commit();
    }
    for (int s = first, left = p.chunk, at = 0, to = Form::AHEAD; s < end; s++) {
        wide_arrived<Form::AHEAD - 1>();
        wide_stage_add<Form>(c, ring + at * Form::STAGE_BYTES);
        if (s + Form::AHEAD < end) {
            copier.weights(ring + to * Form::STAGE_BYTES, s + Form::AHEAD);
            copier.rows(ring + to * Form::STAGE_BYTES, s + Form::AHEAD);
        }
        copies_commit();
        at = at + 1 == Form::STAGES ? 0 : at + 1;
        to = to + 1 == Form::STAGES ? 0 : to + 1;
        if (--left > 0 && s + 1 < end) {
            wide_wait<1>(c);
            continue;
        }
        wide_wait<0>(c);
#pragma unroll
        for (int i = 0; i < Form::SUMS; i++) {
            total[i] = s < first + p.chunk ? c[i] : total[i] + c[i];
            c[i] = 0.0f;
        }
        left = p.chunk;
    }
}

/* Sums to the ring as mm_keep has them: [pair of tiles][parts of rows][2][lane]. */
template <class Form> static float4 *wide_keep(const float (&total)[Form::SUMS])
{
    DYNAMIC_SHARED(128, memory);
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    float4 *kept = (float4 *)memory;
    copies_wait<0>();
    __syncthreads();
#pragma unroll
    for (int n = 0; n < Form::PARTS; n++) {
        kept[((warp / 2 * Form::PARTS + n) * 2 + warp % 2) * WARP + lane] =
            make_float4(total[4 * n], total[4 * n + 1], total[4 * n + 2], total[4 * n + 3]);
    }
    return kept;
}

template <class Form> static void wide_whole(const whim_cuda_few_args &a)
{
    mm_place p = mm_place_of(a, blockIdx.x, Form::COLS);
    float total[Form::SUMS] = {};
    let_next_start();
    wide_walk<Form>(a, p, 0, p.n_stage, total);
    const float4 *kept = wide_keep<Form>(total);
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    __syncthreads();
#pragma unroll 1
    for (int unit = warp; unit < 4 * Form::PARTS; unit += 8) {
        float4 lo = kept[2 * unit * WARP + lane], hi = kept[(2 * unit + 1) * WARP + lane];
        float both[2][4] = {{lo.x, lo.y, lo.z, lo.w}, {hi.x, hi.y, hi.z, hi.w}};
        mm_store(a, p, unit / Form::PARTS, p.row + unit % Form::PARTS * 8, both);
    }
}

template <class Form> static void wide_split(const whim_cuda_few_args &a)
{
    mm_place p = mm_place_of(a, blockIdx.x / WHIM_CUDA_MM_CHUNKS, Form::COLS);
    int first = blockIdx.x % WHIM_CUDA_MM_CHUNKS * p.chunk, end = first + p.chunk;
    float total[Form::SUMS] = {};
    let_next_start();
    wide_walk<Form>(a, p, first < p.n_stage ? first : p.n_stage,
                    end < p.n_stage ? end : p.n_stage, total);
    wide_keep<Form>(total);
    mm_split_add(a, p, Form::PARTS);
}

typedef wide_form<64, 4> wide_few;
#define WIDE(head, ...)            \
    head(ARGS(whim_cuda_few_args)) \
    {                              \
        __VA_ARGS__(a);            \
    }
WIDE(KERNEL_BOUNDED(256, 2) k_mm_wide_64, wide_whole<wide_few>)
WIDE(KERNEL_IN_CLUSTERS(WHIM_CUDA_MM_CHUNKS, 256, 2, k_mm_wide_split_64), wide_split<wide_few>)
#else
/* Never started. */
KERNEL k_mm_wide_64(ARGS(whim_cuda_few_args))
{
}

KERNEL k_mm_wide_split_64(ARGS(whim_cuda_few_args))
{
}
#endif
