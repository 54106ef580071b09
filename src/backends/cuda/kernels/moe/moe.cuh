/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of experts, and the sum over them; their products are in linear.cuh. */
#pragma once
#include "common.cuh"

/* The sum of x[0..n) in the law's 16 lanes, in all threads; x is shared memory. */
static float block_sum16(const float *x, int64_t n)
{
    __shared__ float result;
    __syncthreads();
    if (threadIdx.x < WARP) {
        float lane = 0.0f;
        for (int64_t i = threadIdx.x; i < n && threadIdx.x < WHIM_LANES; i += WHIM_LANES) {
            lane += x[i];
        }
        lane = fold16(lane);
        if (threadIdx.x == 0) {
            result = lane;
        }
    }
    __syncthreads();
    return result;
}

/* The largest that is no NaN, -inf of none. */
static float block_largest(const float *x, int64_t n)
{
    float most = -INFINITY;
    EACH_THREAD(i, n)
    {
        most = x[i] > most ? x[i] : most;
    }
    uint32_t order = (uint32_t)block_max(whim_rank_order(most));
    return whim_f32_from_bits((order & 0x80000000u) != 0 ? order & 0x7fffffffu : ~order);
}

static void scores_of(const whim_moe_topk_args &a, const float *x, float *score)
{
    bool softmax = a.scoring == WHIM_MOE_SOFTMAX;
    float most = block_largest(x, a.n_expert);
    EACH_THREAD(e, a.n_expert)
    {
        score[e] = softmax ? whim_expf(x[e] - most) : 1.0f / (1.0f + whim_expf(-x[e]));
    }
    if (softmax) {
        float sum = block_sum16(score, a.n_expert);
        EACH_THREAD(e, a.n_expert)
        {
            score[e] = score[e] / sum;
        }
    }
    __syncthreads();
}

/* Few experts: a warp has a row, and there is nobody else to wait for. */
enum { MOE_WARPS = WHIM_CUDA_MOE_THREADS / WARP };

/* The largest of a warp's keys, in all its lanes, by halves of 32 bits. */
static uint64_t warp_max32(uint64_t key)
{
    uint32_t high = __reduce_max_sync(ALL_LANES, (uint32_t)(key >> 32));
    uint32_t low = (uint32_t)(key >> 32) == high ? (uint32_t)key : 0;
    return (uint64_t)high << 32 | __reduce_max_sync(ALL_LANES, low);
}

static void warp_scores(const whim_moe_topk_args &a, const float *x, float *score)
{
    bool softmax = a.scoring == WHIM_MOE_SOFTMAX;
    int lane = threadIdx.x % WARP;
    float most = -INFINITY, sum = 0.0f;
    for (int e = lane; e < a.n_expert; e += WARP) {
        most = x[e] > most ? x[e] : most;
    }
    uint32_t order = __reduce_max_sync(ALL_LANES, whim_rank_order(most));
    most = whim_f32_from_bits((order & 0x80000000u) != 0 ? order & 0x7fffffffu : ~order);
    for (int e = lane; e < a.n_expert; e += WARP) {
        score[e] = softmax ? whim_expf(x[e] - most) : 1.0f / (1.0f + whim_expf(-x[e]));
    }
    __syncwarp();
    for (int e = lane; e < a.n_expert && lane < WHIM_LANES && softmax; e += WHIM_LANES) {
        sum += score[e];
    }
    sum = __shfl_sync(ALL_LANES, fold16(sum), 0);
    for (int e = lane; e < a.n_expert && softmax; e += WARP) {
        score[e] = score[e] / sum;
    }
    __syncwarp();
}

/* The choice of one row by a warp, of up to KEYS experts a lane. */
template <int KEYS>
static void warp_choose(const whim_moe_topk_args &a, int64_t r, const float *score)
{
    enum { KEPT = WHIM_TOPK_MAX / WARP };
    int lane = threadIdx.x % WARP;
    uint64_t key[KEYS], last = UINT64_MAX;
    float sum = 0.0f, weight[KEPT] = {};
#pragma unroll
    for (int i = 0; i < KEYS; i++) {
        int e = lane + i * WARP;
        key[i] = 0;
        if (e < a.n_expert) {
            key[i] = whim_rank_key(a.bias != NULL ? score[e] + a.bias[e] : score[e], e);
        }
    }
    for (int j = 0; j < a.k_top; j++) {
        uint64_t best = 0;
#pragma unroll
        for (int i = 0; i < KEYS; i++) {
            best = key[i] < last && key[i] > best ? key[i] : best;
        }
        last = warp_max32(best);
        float chosen = score[whim_rank_id(last)];
        sum += chosen;
#pragma unroll
        for (int i = 0; i < KEPT; i++) {
            weight[i] = j == lane + i * WARP ? chosen : weight[i];
        }
        if (lane == 0) {
            a.ids[r * a.k_top + j] = whim_rank_id(last);
        }
    }
#pragma unroll
    for (int i = 0; i < KEPT; i++) {
        int j = lane + i * WARP;
        if (j < a.k_top) {
            a.weights[r * a.k_top + j] = (a.renormalize ? weight[i] / sum : weight[i]) * a.scale;
        }
    }
}

/* Rows first, first + by, ... of this warp, whose scores have room there. */
static void topk_by_warp(const whim_moe_topk_args &a, int64_t first, int64_t by, float *score)
{
    for (int64_t r = first; r < a.n_row; r += by) {
        warp_scores(a, a.logits + r * a.logits_stride, score);
        if (a.n_expert <= 4 * WARP) {
            warp_choose<4>(a, r, score);
        } else {
            warp_choose<WHIM_CUDA_MOE_FEW / WARP>(a, r, score);
        }
        __syncwarp();
    }
}

static void topk_by_block(const whim_moe_topk_args &a, float *score)
{
    EACH_ITEM(r, a.n_row)
    {
        float *weights = a.weights + r * a.k_top;
        int32_t *ids = a.ids + r * a.k_top;
        uint64_t last = UINT64_MAX;
        float sum = 0.0f;
        scores_of(a, a.logits + r * a.logits_stride, score);
        for (int64_t j = 0; j < a.k_top; j++) {
            uint64_t best = 0;
            EACH_THREAD(e, a.n_expert)
            {
                float choice = a.bias != NULL ? score[e] + a.bias[e] : score[e];
                uint64_t key = whim_rank_key(choice, e);
                best = key < last && key > best ? key : best;
            }
            last = block_max(best);
            sum += score[whim_rank_id(last)];
            if (threadIdx.x == 0) {
                ids[j] = whim_rank_id(last);
                weights[j] = score[whim_rank_id(last)];
            }
        }
        __syncthreads();
        EACH_THREAD(j, a.k_top)
        {
            weights[j] = (a.renormalize ? weights[j] / sum : weights[j]) * a.scale;
        }
        __syncthreads();
    }
}

KERNEL k_moe_topk(ARGS(whim_moe_topk_args))
{
    BEGIN
    __shared__ float score[WHIM_MOE_MAX_EXPERT];
    static_assert(MOE_WARPS * WHIM_CUDA_MOE_FEW <= WHIM_MOE_MAX_EXPERT, "warps share it");
    if (a.n_expert <= WHIM_CUDA_MOE_FEW) {
        int warp = threadIdx.x / WARP;
        topk_by_warp(a, blockIdx.x * (int64_t)MOE_WARPS + warp, gridDim.x * (int64_t)MOE_WARPS,
                     score + warp * WHIM_CUDA_MOE_FEW);
    } else {
        topk_by_block(a, score);
    }
}

/* What an expert gave for four columns, and its weight; not there: nothing is added. */
struct moe_term {
    float weight;
    float4 value;
    bool is_there;
};

/* Terms j .. j + B - 1 of a row, in order, all of them on their way at once. */
template <int B>
static void moe_terms(const whim_cuda_moe_sum_args &a, int64_t r, int64_t i, int64_t j, float4 *y)
{
    moe_term t[B];
#pragma unroll
    for (int b = 0; b < B; b++) {
        int64_t pair = r * a.op.k_top + j + b, e = a.op.ids[pair];
        t[b].is_there = e >= 0 && e < a.op.n_expert;
        t[b].weight = a.op.weights[pair];
        t[b].value = *(const float4 *)(a.out + pair * a.op.gate.k + i);
    }
#pragma unroll
    for (int b = 0; b < B; b++) {
        if (t[b].is_there) {
            y->x = whim_fmaf(t[b].weight, t[b].value.x, y->x);
            y->y = whim_fmaf(t[b].weight, t[b].value.y, y->y);
            y->z = whim_fmaf(t[b].weight, t[b].value.z, y->z);
            y->w = whim_fmaf(t[b].weight, t[b].value.w, y->w);
        }
    }
}

/* A block has a piece of a row, where columns are in fours; else all of its threads have one each. */
KERNEL k_moe_sum(ARGS(whim_cuda_moe_sum_args))
{
    BEGIN
    int64_t d = a.op.gate.k, k_top = a.op.k_top, first = blockIdx.y * (int64_t)blockDim.x;
    EACH_ITEM(r, a.op.n_row)
    {
        int64_t i = (first + threadIdx.x) * 4;
        if (d % 4 != 0) {
            for (i = first + threadIdx.x; i < d; i += gridDim.y * (int64_t)blockDim.x) {
                float y = 0.0f;
                for (int64_t j = 0; j < k_top; j++) {
                    int64_t pair = r * k_top + j, e = a.op.ids[pair];
                    if (e >= 0 && e < a.op.n_expert) {
                        y = whim_fmaf(a.op.weights[pair], a.out[pair * d + i], y);
                    }
                }
                a.op.y[r * a.op.y_stride + i] = y;
            }
        } else if (i < d) {
            float4 y = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            int64_t j = 0;
            for (; j + 8 <= k_top; j += 8) {
                moe_terms<8>(a, r, i, j, &y);
            }
            for (; j < k_top; j++) {
                moe_terms<1>(a, r, i, j, &y);
            }
            float *to = a.op.y + r * a.op.y_stride + i;
            to[0] = y.x, to[1] = y.y, to[2] = y.z, to[3] = y.w;
        }
    }
}
