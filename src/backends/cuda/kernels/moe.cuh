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

KERNEL k_moe_topk(ARGS(whim_moe_topk_args))
{
    BEGIN
    __shared__ float score[WHIM_MOE_MAX_EXPERT];
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

KERNEL k_moe_sum(ARGS(whim_cuda_moe_sum_args))
{
    BEGIN
    int64_t d = a.op.gate.k, k_top = a.op.k_top;
    EACH_ELEMENT(r, i, a.op.n_row, d)
    {
        float y = 0.0f;
        for (int64_t j = 0; j < k_top; j++) {
            int64_t pair = r * k_top + j, e = a.op.ids[pair];
            if (e >= 0 && e < a.op.n_expert) {
                y = whim_fmaf(a.op.weights[pair], a.out[pair * d + i], y);
            }
        }
        a.op.y[r * a.op.y_stride + i] = y;
    }
}
