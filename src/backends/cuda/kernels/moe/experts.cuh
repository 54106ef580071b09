/* SPDX-License-Identifier: Apache-2.0 */
/* Rows on their way to the experts of mma_experts.cuh: which expert has which slots, and the rows as
 * BF16 in its tiles. Which slot of an expert a pair gets depends on who comes first, and no result
 * depends on the slot. */
#pragma once
#include "moe/moe.cuh"

/* The sum of v in the threads before this one, and of all. */
static uint64_t block_before(uint64_t v, uint64_t *all)
{
    __shared__ uint64_t each[WARP];
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    uint64_t sum = v, before = 0;
    for (int step = 1; step < WARP; step *= 2) {
        uint64_t other = __shfl_up_sync(ALL_LANES, sum, step);
        sum += lane >= step ? other : 0;
    }
    if (lane == WARP - 1) {
        each[warp] = sum;
    }
    __syncthreads();
    *all = 0;
    for (int i = 0; i < (int)blockDim.x / WARP; i++) {
        before += i < warp ? each[i] : 0;
        *all += each[i];
    }
    return before + sum - v;
}

static bool is_expert(const whim_cuda_experts_args &a, int64_t e)
{
    return e >= 0 && e < a.n_expert;
}

/* How an expert's rows are cut: items, and rows of a part. */
struct experts_cut {
    int n_item, n;
};

static experts_cut experts_cut_of(const whim_cuda_experts_plan &p, int count)
{
    int most = (p.blocks == 1 ? WHIM_CUDA_EX_FEW : WHIM_CUDA_EX_MANY) * p.blocks;
    int n_item = (count + most - 1) / most, n_part = n_item * p.blocks;
    int n = n_item == 0 ? 0 : (count + n_part - 1) / n_part;
    return experts_cut{n_item, whim_cuda_experts_rows(p.blocks > 1 && n <= 8 ? 9 : n)};
}

/* Eight columns of a row as BF16. */
static uint4 row_octet(const float *x, bool wide)
{
    float v[8];
    uint32_t w[4];
    if (wide) {
        float4 lo = *(const float4 *)x, hi = *(const float4 *)(x + 4);
        v[0] = lo.x, v[1] = lo.y, v[2] = lo.z, v[3] = lo.w;
        v[4] = hi.x, v[5] = hi.y, v[6] = hi.z, v[7] = hi.w;
    } else {
        for (int j = 0; j < 8; j++) {
            v[j] = x[j];
        }
    }
    for (int j = 0; j < 4; j++) {
        w[j] = whim_f32_to_bf16(v[2 * j]) | (uint32_t)whim_f32_to_bf16(v[2 * j + 1]) << 16;
    }
    return make_uint4(w[0], w[1], w[2], w[3]);
}

/* How many pairs an expert has, in shared memory, becomes the rows of its parts; first: its slots.
 * Items and slots are given out in the order of experts, in one sum, slots above items, which comes
 * back. */
static uint64_t experts_cut_all(const whim_cuda_experts_args &a, int *count, int *first, bool writes)
{
    const whim_cuda_experts_plan &plan = a.plan;
    int each = ((int)a.n_expert + blockDim.x - 1) / blockDim.x, begin = threadIdx.x * each;
    int end = begin + each < a.n_expert ? begin + each : (int)a.n_expert;
    uint64_t own = 0, all;
    for (int e = begin; e < end; e++) {
        experts_cut cut = experts_cut_of(plan, count[e]);
        own += (uint64_t)(cut.n_item * plan.blocks * cut.n) << 32 | (uint32_t)cut.n_item;
    }
    uint64_t at = block_before(own, &all);
    for (int e = begin; e < end; e++) {
        experts_cut cut = experts_cut_of(plan, count[e]);
        int item = (int)(uint32_t)at, slot = (int)(at >> 32);
        first[e] = slot;
        count[e] = cut.n;
        for (int i = 0; i < cut.n_item && writes; i++) {
            plan.items[item + i] =
                whim_cuda_experts_item{e, slot + i * plan.blocks * cut.n, cut.n, 0};
        }
        at += (uint64_t)(cut.n_item * plan.blocks * cut.n) << 32 | (uint32_t)cut.n_item;
    }
    if (threadIdx.x == 0 && writes) {
        *plan.n_item = (int)(uint32_t)all;
    }
    for (int slot = threadIdx.x; slot < (int)(all >> 32) && writes; slot += blockDim.x) {
        plan.pair[slot] = -1;
    }
    __syncthreads();
    return all;
}

/* One block: pairs are counted, then they take their slots. */
KERNEL k_experts_plan(ARGS(whim_cuda_experts_args))
{
    BEGIN
    __shared__ int shared[2][WHIM_MOE_MAX_EXPERT];
    int *count = shared[0], *first = shared[1];
    auto id_of = [=](int64_t p) { return a.ids[p]; };
    EACH_THREAD(e, a.n_expert)
    {
        count[e] = 0;
    }
    __syncthreads();
    each_batch<8>(a.n_pair, id_of, [=](int64_t, int32_t e) {
        if (is_expert(a, e)) {
            atomicAdd(&count[e], 1);
        }
    });
    __syncthreads();
    experts_cut_all(a, count, first, true);
    each_batch<8>(a.n_pair, id_of, [=](int64_t p, int32_t e) {
        if (is_expert(a, e)) {
            a.plan.pair[atomicAdd(&first[e], 1)] = (int)p;
        }
    });
}

/* How many pairs before each one have its expert; -1: nobody's. */
static void pairs_count(const int *ids, int n_pair, int *before, int *count)
{
    const int4 *four = (const int4 *)ids;
    for (int p = threadIdx.x; p < n_pair; p += blockDim.x) {
        int e = ids[p], n = 0;
#pragma unroll 4
        for (int i = 0; i < p / 4; i++) {
            int4 v = four[i];
            n += (v.x == e) + (v.y == e) + (v.z == e) + (v.w == e);
        }
        for (int i = p / 4 * 4; i < p; i++) {
            n += ids[i] == e;
        }
        before[p] = n;
        if (e >= 0) {
            atomicAdd(&count[e], 1);
        }
    }
}

/* Few pairs of few experts, in items of one part: every block makes the plan, and the first leaves
 * it to others; then the blocks share the rows. Of very few rows each block makes the choice, too,
 * all of them the same. */
KERNEL k_experts_sort(ARGS(whim_cuda_experts_sort_args))
{
    BEGIN
    enum { WARPS = WHIM_CUDA_EX_SORTERS / WARP };
    __shared__ float scores[WARPS][WHIM_CUDA_MOE_FEW];
    __shared__ int count[WHIM_CUDA_MOE_FEW], first[WHIM_CUDA_MOE_FEW];
    __shared__ __align__(16) int ids[WHIM_CUDA_EX_PAIRS];
    __shared__ int before[WHIM_CUDA_EX_PAIRS];
    const whim_cuda_experts_args &x = a.experts;
    int n_octet = (int)x.k / 8, n_pair = (int)x.n_pair, warp = threadIdx.x / WARP;
    bool wide = ((uintptr_t)x.x | (uintptr_t)(x.x_stride * 4)) % 16 == 0;
    topk_by_warp(a.choice, warp, WARPS, scores[warp]);
    EACH_THREAD(e, x.n_expert)
    {
        count[e] = 0;
    }
    __syncthreads();
    EACH_THREAD(p, n_pair)
    {
        ids[p] = is_expert(x, x.ids[p]) ? x.ids[p] : -1;
    }
    __syncthreads();
    pairs_count(ids, n_pair, before, count);
    __syncthreads();
    experts_cut_all(x, count, first, blockIdx.x == 0);
    for (int p = threadIdx.x; p < n_pair && blockIdx.x == 0; p += blockDim.x) {
        if (ids[p] >= 0) {
            x.plan.pair[first[ids[p]] + before[p]] = p;
        }
    }
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n_pair * n_octet;
         i += gridDim.x * blockDim.x) {
        int p = i / n_octet, octet = i % n_octet, e = ids[p];
        if (e >= 0) {
            int n = count[e], part = before[p] / n * n, row = before[p] - part;
            ((uint4 *)x.tiles)[(int64_t)(first[e] + part) * n_octet + octet * n + row] =
                row_octet(x.x + p / x.per * x.x_stride + octet * 8, wide);
        }
    }
}

/* The rows of a part go to its tile, some octets of columns by a block. */
KERNEL k_experts_rows(ARGS(whim_cuda_experts_args))
{
    enum { OCTETS = 32 };
    BEGIN
    int n_octet = (int)a.k / 8, n_piece = (n_octet + OCTETS - 1) / OCTETS;
    bool wide = ((uintptr_t)a.x | (uintptr_t)(a.x_stride * 4)) % 16 == 0;
    EACH_ITEM(i, (int64_t)*a.plan.n_item * a.plan.blocks * n_piece)
    {
        whim_cuda_experts_item item = a.plan.items[i / n_piece / a.plan.blocks];
        int begin = (int)(i % n_piece) * OCTETS, part = (int)(i / n_piece % a.plan.blocks);
        int octets = n_octet - begin < OCTETS ? n_octet - begin : OCTETS;
        int first = item.first + part * item.n;
        uint4 *tile = (uint4 *)a.tiles + (int64_t)first * n_octet;
        EACH_THREAD(at, item.n * octets)
        {
            int row = (int)at % item.n, octet = begin + (int)at / item.n;
            int pair = a.plan.pair[first + row];
            if (pair >= 0) {
                tile[octet * item.n + row] =
                    row_octet(a.x + pair / a.per * a.x_stride + octet * 8, wide);
            }
        }
    }
}
