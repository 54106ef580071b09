/* SPDX-License-Identifier: Apache-2.0 */
/* Products of 9 to 64 rows with FP8 matrices: the order of mma_fp8.cuh, and its bits, in the way of
 * mma_rows.cuh. Three groups of four warps have four tiles of outputs each, and N rows, of which those
 * beyond the last are whatever lies there. */
#pragma once
#include "mma_fp8_wide.cuh"
#include "mma_rows.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

enum { PR_GROUPS = WHIM_CUDA_PR_TILES / 4, PR_ADDERS = 128 * PR_GROUPS };

struct pr_form {
    enum { TILES = WHIM_CUDA_PR_TILES, TILE_BYTES = MP_STEP_BYTES, WARPS = 4 * PR_GROUPS };
    enum { BRINGERS = 4 };

    static int64_t tile_bytes(int64_t k)
    {
        return whim_cuda_scaled_bytes(k);
    }

    static int chunk(int n_stage)
    {
        return fp8_chunks((int64_t)n_stage * WHIM_CUDA_MM_K).each * MP_STEPS;
    }
};

/* The ring as fp8_add takes it. */
struct pr_ring {
    mr_block<pr_form> b;

    uint32_t stage() const
    {
        return b.stage();
    }

    void wait() const
    {
        bulk_wait(b.full + b.at * 8, b.parity);
    }

    uint64_t operand() const
    {
        return wide_operand(b.stage() + pr_form::TILES * pr_form::TILE_BYTES, b.rows);
    }

    int step() const
    {
        return 2 * b.rows;
    }

    uint32_t empty_at() const
    {
        return b.empty + b.at * 8;
    }

    void free(uint32_t empty) const
    {
        if (threadIdx.x % WARP == 0) {
            bulk_arrive_here(empty);
        }
    }

    void next()
    {
        b.next();
    }
};

/* The last four warps bring, and leave registers to the others. */
static void pr_bring(const mr_block<pr_form> &b)
{
    registers_leave<32>();
    mr_bring(b);
}

/* A warp has the same half of two tiles. */
struct pr_place {
    int pair, half;
    mr_tile tile[2];

    pr_place(const whim_cuda_few_args &a, int item)
    {
        int warp = threadIdx.x / WARP;
        pair = warp / 2;
        half = warp % 2;
        tile[0] = mr_tile_of(a, item * WHIM_CUDA_PR_TILES + pair * 2);
        tile[1] = mr_tile_of(a, item * WHIM_CUDA_PR_TILES + pair * 2 + 1);
    }

    fp8_lines lines(const whim_cuda_few_args &a) const
    {
        const char *from[2];
        for (int i = 0; i < 2; i++) {
            mr_tile t = tile[i].m != NULL ? tile[i] : mr_tile{&a.matrix[0], 0};
            from[i] = (const char *)t.m->data + t.tile * whim_cuda_scaled_bytes(a.k);
        }
        return fp8_lines(a.k, pair, half, from[0], from[1]);
    }
};

/* Four sums of a thread: an output of either tile, rows r and r + 1. */
static void pr_store(const whim_cuda_few_args &a, const pr_place &p, int part, const float *c)
{
    int lane = threadIdx.x % WARP, r = part * 8 + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const mr_tile &t = p.tile[i / 2];
        int n = t.tile * WHIM_CUDA_TILE + p.half * 8 + lane / 4, row = r + i % 2;
        if (t.m == NULL || n >= t.m->n || row >= a.n_row || (a.swiglu && i / 2 == 0)) {
            continue;
        }
        float y = t.m->bias != NULL && !a.swiglu ? c[i] + t.m->bias[n] : c[i];
        if (a.swiglu) {
            y = mr_swiglu(a, n, c[i - 2], c[i]);
            if (a.left.tiles != NULL) {
                a.left.tiles[whim_cuda_tiles_at(a.left.rows, t.m->n, row, n)] = whim_f32_to_bf16(y);
            }
        }
        t.m->y[row * t.m->y_stride + n] = y;
    }
}

template <int N> static void pr_whole(const whim_cuda_few_args &a)
{
    pr_ring ring = {mr_block<pr_form>(a, false)};
    mr_begin(ring.b);
    if (threadIdx.x >= PR_ADDERS) {
        pr_bring(ring.b);
        return;
    }
    registers_take<160>();
    fp8_chunks chunks(a.k);
    for (int item = ring.b.item; item < ring.b.n_item; item += ring.b.by) {
        pr_place place(a, item);
        float total[N / 2], acc[N / 2];
        bool is_first = true;
        fp8_add(place.lines(a), 0, chunks.n_block, chunks.each, ring, acc,
                [&](const float(&sums)[N / 2]) {
#pragma unroll
                    for (int i = 0; i < N / 2; i++) {
                        total[i] = is_first ? sums[i] : total[i] + sums[i];
                    }
                    is_first = false;
                });
#pragma unroll
        for (int i = 0; i < N / 2; i++) {
            acc[i] = is_first ? acc[i] : total[i] + acc[i];
        }
#pragma unroll 1
        for (int part = 0; part < N / 8; part++) { /* the first that is left: see bulk_parts */
            pr_store(a, place, part, acc);
#pragma unroll
            for (int i = 0; i + 4 < N / 2; i++) {
                acc[i] = acc[i + 4];
            }
        }
    }
}

/* A block of the cluster adds up the sums of every fourth part of 8 rows. */
template <int N> static void pr_split(const whim_cuda_few_args &a)
{
    DYNAMIC_SHARED(128, memory);
    pr_ring ring = {mr_block<pr_form>(a, true)};
    float4 *kept = (float4 *)memory + threadIdx.x; /* [part][adders]: where the ring was */
    int item = ring.b.item, chunk = ring.b.chunk;
    mr_begin(ring.b);
    pr_place place(a, threadIdx.x < PR_ADDERS ? item : 0);
    if (threadIdx.x >= PR_ADDERS) {
        pr_bring(ring.b);
    } else {
        registers_take<160>();
        float c[N / 2];
        int first = ring.b.first / MP_STEPS, n = ring.b.end / MP_STEPS - first;
        fp8_add(place.lines(a), first, n, n, ring, c, [](const float(&)[N / 2]) {});
        crew_sync<PR_ADDERS>();
#pragma unroll
        for (int i = 0; i < N / 8; i++) {
            kept[i * PR_ADDERS] = make_float4(c[i * 4], c[i * 4 + 1], c[i * 4 + 2], c[i * 4 + 3]);
        }
    }
    __syncwarp();
    cluster_sync();
    int n_stage = (int)a.k / WHIM_CUDA_MM_K, rank = blockIdx.x % WHIM_CUDA_MR_BLOCKS;
    if (threadIdx.x < PR_ADDERS) {
#pragma unroll 1
        for (int part = rank; part < N / 8; part += WHIM_CUDA_MR_BLOCKS) {
            uint32_t at = (uint32_t)__cvta_generic_to_shared(kept + part * PR_ADDERS);
            float4 v[WHIM_CUDA_MR_BLOCKS];
            float sum[4];
#pragma unroll
            for (int from = 0; from < WHIM_CUDA_MR_BLOCKS; from++) {
                v[from] = cluster_load(at, from);
            }
#pragma unroll
            for (int from = 0; from < WHIM_CUDA_MR_BLOCKS; from++) {
                if (from * chunk < n_stage) {
                    sum[0] = from == 0 ? v[from].x : sum[0] + v[from].x;
                    sum[1] = from == 0 ? v[from].y : sum[1] + v[from].y;
                    sum[2] = from == 0 ? v[from].z : sum[2] + v[from].z;
                    sum[3] = from == 0 ? v[from].w : sum[3] + v[from].w;
                }
            }
            pr_store(a, place, part, sum);
        }
    }
    __syncwarp();
    cluster_sync(); /* nobody leaves while others read what it has */
}

#define PR(N)                                                                                 \
    KERNEL_BOUNDED(WHIM_CUDA_PR_THREADS, 1) k_mm_fp8_rows_##N(ARGS(whim_cuda_few_args))       \
    {                                                                                         \
        pr_whole<N>(a);                                                                       \
    }                                                                                         \
    KERNEL_IN_CLUSTERS(WHIM_CUDA_MR_BLOCKS, WHIM_CUDA_PR_THREADS, 1, k_mm_fp8_rows_split_##N) \
        (ARGS(whim_cuda_few_args))                                                            \
    {                                                                                         \
        pr_split<N>(a);                                                                       \
    }
#else
/* Never started. */
#define PR(N)                                               \
    KERNEL k_mm_fp8_rows_##N(ARGS(whim_cuda_few_args))      \
    {                                                       \
    }                                                       \
    KERNEL k_mm_fp8_rows_split_##N(ARGS(whim_cuda_few_args)) \
    {                                                       \
    }
#endif
PR(16)
PR(32)
PR(64)
