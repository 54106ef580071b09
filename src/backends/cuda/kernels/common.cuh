/* SPDX-License-Identifier: Apache-2.0 */
/* What all kernels share. Bits are the law's (ops/ref/) but for mma*.cuh and attn_mma.cuh, which have
 * an order of their own: the project's own headers are compiled for the device, no two operations
 * are contracted to one, and every sum has the law's order. A kernel walks items from its block's
 * number on in steps of the grid, so that any grid is right. */
#pragma once

#define __FMA__ 1 /* fmath.h: the unit has an exact fused multiply-add */
#include <stddef.h>

#include "backends/cuda/launch_args.h"
#include "base/math/fmath.h"
#include "base/math/rng.h"
#include "tensor/fp8.h"
#include "tensor/half.h"
#include "tensor/rank_key.h"
#include "words/words.cuh"

#define BEGIN         \
    let_next_start(); \
    wait_for_last();

#define EACH_ITEM(i, n) for (int64_t i = blockIdx.x; i < (n); i += gridDim.x)
#define EACH_THREAD(i, n) for (int64_t i = threadIdx.x; i < (n); i += blockDim.x)

/* Element-wise ops: blockIdx.y is the piece of a row, the last takes what is left. */

#define EACH_ELEMENT(r, i, n_row, n_col)                                                     \
    EACH_ITEM(r, n_row)                                                                      \
    for (int64_t i = blockIdx.y * (int64_t)WHIM_CUDA_PIECE + threadIdx.x, end_ = piece_end(n_col); \
         i < end_; i += blockDim.x)

static int64_t piece_end(int64_t n_col)
{
    int64_t end = (blockIdx.y + 1) * (int64_t)WHIM_CUDA_PIECE;
    return end < n_col && blockIdx.y + 1 < gridDim.y ? end : n_col;
}

/* use(i, load(i)) for the i < n of this thread, B of them at a time: loads do not wait for each
 * other, which they would where a loop may end after each. */
template <int B, class Load, class Use> static void each_batch(int64_t n, Load load, Use use)
{
    for (int64_t first = threadIdx.x; first < n; first += B * (int64_t)blockDim.x) {
        decltype(load(0)) v[B];
#pragma unroll
        for (int b = 0; b < B; b++) {
            int64_t i = first + b * (int64_t)blockDim.x;
            v[b] = load(i < n ? i : first);
        }
#pragma unroll
        for (int b = 0; b < B; b++) {
            int64_t i = first + b * (int64_t)blockDim.x;
            if (i < n) {
                use(i, v[b]);
            }
        }
    }
}

/* step(acc, load(i)) for i = first, first + by, ... < n, in order, B loads at a time. */
template <int B, class Load, class Step>
static float chain(float acc, int first, int n, int by, Load load, Step step)
{
    int i = first;
    for (; i + (B - 1) * by < n; i += B * by) {
        decltype(load(0)) v[B];
#pragma unroll
        for (int b = 0; b < B; b++) {
            v[b] = load(i + b * by);
        }
#pragma unroll
        for (int b = 0; b < B; b++) {
            acc = step(acc, v[b]);
        }
    }
    for (; i < n; i += by) {
        acc = step(acc, load(i));
    }
    return acc;
}

enum { WARP = 32 };
#define ALL_LANES 0xffffffffu

/* The law's fold of 16 lanes, held by the first 16 lanes of a warp; lane 0 has the sum. */
static float fold16(float lane)
{
    for (int half = WHIM_LANES / 2; half > 0; half /= 2) {
        lane += __shfl_down_sync(ALL_LANES, lane, half);
    }
    return lane;
}

/* The largest of a warp's, in all its lanes. */
static uint64_t warp_max(uint64_t key)
{
    for (int step = WARP / 2; step > 0; step /= 2) {
        uint64_t other = __shfl_xor_sync(ALL_LANES, key, step);
        key = other > key ? other : key;
    }
    return key;
}

/* The largest of a block's, in all its threads. */
static uint64_t block_max(uint64_t key)
{
    __shared__ uint64_t each[WARP];
    int warp = threadIdx.x / WARP, n_warp = (blockDim.x + WARP - 1) / WARP;
    key = warp_max(key);
    __syncthreads();
    if (threadIdx.x % WARP == 0) {
        each[warp] = key;
    }
    __syncthreads();
    for (int i = 0; i < n_warp; i++) {
        key = each[i] > key ? each[i] : key;
    }
    return key;
}

/* The sequence of a row: the last s of 0 .. n_seq - 1 with start[s] <= row; -1: the row is none's. */
static int64_t row_sequence(const int32_t *start, int64_t n_seq, int64_t row)
{
    int64_t lo = 0, hi = n_seq;
    if (row < n_seq && start[row] <= row && row < start[row + 1]) {
        return row; /* all have one row: the search would wait for one load after the other */
    }
    if (n_seq == 0 || row >= start[n_seq]) {
        return -1;
    }
    while (hi - lo > 1) {
        int64_t mid = (lo + hi) / 2;
        if (start[mid] <= row) {
            lo = mid;
        } else {
            hi = mid;
        }
    }
    return lo;
}
