/* SPDX-License-Identifier: Apache-2.0 */
/* What only drafts do: few rows, so that plain loops are enough. */
#pragma once
#include "common.cuh"

/* whim_dot16 by a warp, in its lane 0. */
static float warp_dot16(const float *x, const float *gate, const float *w, int64_t n)
{
    float lane = 0.0f;
    for (int64_t i = threadIdx.x % WARP; i < n && threadIdx.x % WARP < WHIM_LANES;
         i += WHIM_LANES) {
        lane = whim_fmaf(gate != NULL ? x[i] * gate[i] : x[i], w[i], lane);
    }
    return fold16(lane);
}

/* Which candidate of row i follows one whose vector is p, in all threads; -1: there is none. */
static int64_t pick_choose(const whim_pick_chain_args &a, int64_t i, const float *p, float *score)
{
    const float *gate = a.gate != NULL ? a.gate + i * a.rank : NULL;
    uint64_t best = 0;
    float top = 0.0f;
    for (int64_t c = threadIdx.x / WARP; c < a.k_top; c += blockDim.x / WARP) {
        int64_t at = i * a.k_top + c;
        float u = whim_softcap(a.values[at] * a.scale, a.cap);
        float s = u + warp_dot16(p, gate, a.after + at * a.rank, a.rank);
        uint64_t key = whim_rank_key(s, c);
        if (threadIdx.x % WARP == 0 && a.ids[at] >= 0 && key > best) {
            best = key;
            top = s;
        }
    }
    uint64_t most = block_max(best);
    if (best == most && most > 0) {
        *score = top; /* keys differ: one thread has it */
    }
    return most > 0 ? whim_rank_id(most) : -1;
}

/* A block has a sequence; the first has the rows of none, too. */
KERNEL k_pick_chain(ARGS(whim_pick_chain_args))
{
    __shared__ float told;
    BEGIN
    int32_t first = a.n_seq > 0 ? a.q_start[0] : 0, last = a.n_seq > 0 ? a.q_start[a.n_seq] : 0;
    EACH_THREAD(i, blockIdx.x == 0 ? a.n_row : 0)
    {
        if (a.rows[i] < first || a.rows[i] >= last) {
            a.tokens[i * a.out_stride] = -1;
            a.told[i * a.out_stride] = 0.0f;
        }
    }
    EACH_ITEM(q, a.n_seq)
    {
        const float *p = a.before + a.q_start[q] * a.rank;
        for (int64_t i = 0; i < a.n_row; i++) {
            if (a.rows[i] < a.q_start[q] || a.rows[i] >= a.q_start[q + 1]) {
                continue;
            }
            __syncthreads();
            if (threadIdx.x == 0) {
                told = 0.0f;
            }
            __syncthreads();
            int64_t c = pick_choose(a, i, p, &told);
            if (threadIdx.x < WARP && a.sure_w != NULL) {
                float sum =
                    warp_dot16(a.z + i * a.n_hidden, NULL, a.sure_w, a.n_hidden);
                if (a.sure_of_pairs) {
                    sum += warp_dot16(p, NULL, a.sure_w + a.n_hidden, a.rank);
                }
                a.told[i * a.out_stride] = *a.sure_bias + __shfl_sync(ALL_LANES, sum, 0);
            }
            __syncthreads();
            if (threadIdx.x == 0) {
                a.tokens[i * a.out_stride] = c >= 0 ? a.ids[i * a.k_top + c] : -1;
                if (a.sure_w == NULL) {
                    a.told[i * a.out_stride] = told;
                }
            }
            if (c >= 0) {
                p = a.before + (a.n_src + i * a.k_top + c) * a.rank;
            }
        }
    }
}

KERNEL k_block_conv(ARGS(whim_block_conv_args))
{
    BEGIN
    int64_t n_group = a.n_col / a.group;
    EACH_ELEMENT(r, c, a.n_row, a.n_col)
    {
        int64_t seq = row_sequence(a.q_start, a.n_seq, r);
        int64_t first = seq >= 0 && a.q_start[seq] <= r ? a.q_start[seq] : r + 1;
        float sum = 0.0f;
        for (int64_t tap = 0; tap < a.n_tap && r - tap >= first; tap++) {
            float w = a.base[tap * a.n_col + c];
            if (a.delta != NULL) {
                w += a.delta[r * a.delta_stride + tap * n_group + c / a.group];
            }
            sum = whim_fmaf(w, a.x[(r - tap) * a.x_stride + c], sum);
        }
        a.y[r * a.y_stride + c] = sum;
    }
}
