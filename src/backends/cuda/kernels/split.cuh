/* SPDX-License-Identifier: Apache-2.0 */
/* Splits of q, k and v as most models have them, with or without the kv_write after them; rows.cuh has
 * the law's words for all others. */
#pragma once
#include "rows.cuh"

/* Heads of D values of which all are rotated: half a warp has a head, thread j of it values j, j + 16
 * and so on, which are one lane of the law's sum and both of each pair that is rotated; nothing leaves
 * the registers on the way. Of few rows the halves of a block have heads beside each other, of many
 * (SPLIT_ROWS) rows: their keys are put together, because a page has those of one d beside each other. */
enum { SPLIT_HALVES = WHIM_CUDA_SPLIT_THREADS / WHIM_LANES };

template <int D> struct split_head {
    enum { N = D / WHIM_LANES };
    float x[N];
    int row, own; /* of q, k or v */
    bool is_q, is_v, is_there;

    split_head(const whim_split_qkv_rmsnorm_rope_args &a, int64_t block)
    {
        int half = threadIdx.x / WHIM_LANES, n_all = (int)(a.n_head + 2 * a.n_kv), head;
        if (a.n_row >= WHIM_CUDA_SPLIT_ROWS) {
            row = (int)(block / n_all) * SPLIT_HALVES + half;
            head = (int)(block % n_all);
        } else {
            int item = (int)block * SPLIT_HALVES + half;
            row = item / n_all;
            head = item - row * n_all;
        }
        is_there = row < a.n_row;
        is_q = head < a.n_head;
        is_v = head >= a.n_head + a.n_kv;
        own = is_q ? head : is_v ? head - (int)(a.n_head + a.n_kv) : head - (int)a.n_head;
    }

    /* What a column of q, k and v becomes. */
    void make(const whim_split_qkv_rmsnorm_rope_args &a, const float *norm)
    {
        int lane = threadIdx.x % WHIM_LANES;
        int64_t column = ((is_q ? 0 : is_v ? a.n_head + a.n_kv : a.n_head) + own) * D + lane;
        const float *from = a.qkv + row * a.qkv_stride + column, *bias = a.bias;
        const float *cos_sin = a.cos_sin + row * D + lane;
        float turn[N], sum = 0.0f;
#pragma unroll
        for (int i = 0; i < N; i++) {
            x[i] = is_there ? from[i * WHIM_LANES] : 0.0f;
            turn[i] = is_there && !is_v ? cos_sin[i * WHIM_LANES] : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < N; i++) {
            x[i] = bias != NULL ? x[i] + bias[column + i * WHIM_LANES] : x[i];
            sum = whim_fmaf(x[i], x[i], sum);
        }
        sum = __shfl_sync(ALL_LANES, fold16(sum), threadIdx.x % WARP / WHIM_LANES * WHIM_LANES);
        float scale = norm_scale(sum, D, a.eps);
#pragma unroll
        for (int i = 0; i < N && a.q_norm != NULL && !is_v; i++) {
            x[i] = x[i] * scale * norm[i];
        }
#pragma unroll
        for (int i = 0; i < N / 2 && !is_v; i++) {
            float lo = x[i], hi = x[i + N / 2];
            x[i] = whim_fmaf(lo, turn[i], -(hi * turn[i + N / 2]));
            x[i + N / 2] = whim_fmaf(hi, turn[i], lo * turn[i + N / 2]);
        }
    }
};

template <int D> static void split_run(const whim_cuda_split_args &args)
{
    enum { N = D / WHIM_LANES };
    __shared__ uint16_t keys[D][SPLIT_HALVES + 2]; /* odd words apart */
    __shared__ int64_t slots[SPLIT_HALVES];
    const whim_split_qkv_rmsnorm_rope_args &a = args.split;
    const whim_kv_view &kv = args.store.kv;
    int lane = threadIdx.x % WHIM_LANES, half = threadIdx.x / WHIM_LANES;
    int n_all = (int)(a.n_head + 2 * a.n_kv);
    bool many = a.n_row >= WHIM_CUDA_SPLIT_ROWS;
    let_next_start();
    split_head<D> head(a, blockIdx.x);
    const float *weights = head.is_q ? a.q_norm : a.k_norm;
    float norm[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
        norm[i] = weights != NULL ? weights[lane + i * WHIM_LANES] : 1.0f;
    }
    wait_for_last();
    int64_t n_block = many ? (a.n_row + SPLIT_HALVES - 1) / SPLIT_HALVES * n_all
                           : (a.n_row * n_all + SPLIT_HALVES - 1) / SPLIT_HALVES;
    if (blockIdx.x >= n_block) {
        return;
    }
    head.make(a, norm);
    int64_t slot = args.store.slots != NULL && head.is_there && !head.is_q
                       ? args.store.slots[head.row]
                       : -1;
    float *y = head.is_q ? a.q : head.is_v ? a.v : a.k;
    y += ((int64_t)head.row * (head.is_q ? a.n_head : a.n_kv) + head.own) * D + lane;
#pragma unroll
    for (int i = 0; i < N && head.is_there; i++) {
        y[i * WHIM_LANES] = head.x[i];
    }
    bool turns = many && !head.is_q && !head.is_v; /* the same in all of the block */
    if (turns) {
#pragma unroll
        for (int i = 0; i < N; i++) {
            keys[lane + i * WHIM_LANES][half] = whim_f32_to_bf16_sat(head.x[i]);
        }
        if (lane == 0) {
            slots[half] = slot;
        }
        __syncthreads();
        slot = slots[lane];
        for (int i = half; i < D && slot >= 0; i += SPLIT_HALVES) {
            kv_page page = page_of(kv, slot / kv.page_len);
            ((uint16_t *)page.keys)[key_at(kv, head.own, slot % kv.page_len, i)] = keys[i][lane];
        }
    } else if (slot >= 0) {
        kv_page page = page_of(kv, slot / kv.page_len);
        uint16_t *part = (uint16_t *)(head.is_v ? page.values : page.keys);
        int64_t place = slot % kv.page_len;
        int64_t at = head.is_v ? value_at(kv, head.own, place, lane) : key_at(kv, head.own, place, lane);
        int64_t step = WHIM_LANES * (head.is_v ? 1 : kv.page_len);
#pragma unroll
        for (int i = 0; i < N; i++) {
            part[at + i * step] = whim_f32_to_bf16_sat(head.x[i]);
        }
    }
}

#define SPLIT(D)                                                       \
    KERNEL __launch_bounds__(WHIM_CUDA_SPLIT_THREADS)                  \
        k_split_##D(const __grid_constant__ whim_cuda_split_args args) \
    {                                                                  \
        split_run<D>(args);                                            \
    }
SPLIT(64)
SPLIT(128)
