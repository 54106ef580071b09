/* SPDX-License-Identifier: Apache-2.0 */
/* Ops that work row by row. A block has a row, or a piece of one where rows are few and long. */
#pragma once
#include "attn.cuh"

KERNEL k_add(ARGS(whim_add_args))
{
    BEGIN
    EACH_ELEMENT(r, i, a.n_row, a.n_col)
    {
        a.x[r * a.x_stride + i] += a.y[r * a.y_stride + i];
    }
}

KERNEL k_swiglu(ARGS(whim_swiglu_args))
{
    BEGIN
    EACH_ELEMENT(r, i, a.n_row, a.n_col)
    {
        float g = a.gate[r * a.gate_stride + i];
        float silu = g / (1.0f + whim_expf(-g));
        a.y[r * a.y_stride + i] = silu * a.up[r * a.up_stride + i];
    }
}

KERNEL k_sigmoid_gate(ARGS(whim_sigmoid_gate_args))
{
    BEGIN
    EACH_ELEMENT(r, i, a.n_row, a.n_col)
    {
        float *x = &a.x[r * a.x_stride + i];
        *x = *x / (1.0f + whim_expf(-a.gate[r * a.gate_stride + i]));
    }
}

KERNEL k_gated_add(ARGS(whim_gated_add_args))
{
    BEGIN
    EACH_ELEMENT(r, i, a.n_row, a.n_col)
    {
        float gate = 1.0f / (1.0f + whim_expf(-a.gate[r * a.gate_stride]));
        a.x[r * a.x_stride + i] += gate * a.y[r * a.y_stride + i];
    }
}

KERNEL k_gather_rows(ARGS(whim_gather_rows_args))
{
    BEGIN
    EACH_ELEMENT(r, i, a.n_row, a.n_col)
    {
        int64_t row = a.rows != NULL ? a.rows[r] : r;
        bool is_there = row >= 0 && row < a.n_src;
        a.y[r * a.y_stride + i] = is_there ? a.x[row * a.x_stride + i] : 0.0f;
    }
}

KERNEL k_result_tokens(ARGS(whim_result_tokens_args))
{
    BEGIN
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < a.n_row;
         i += gridDim.x * (int64_t)blockDim.x) {
        int64_t j = -2 - (int64_t)a.refs[i];
        bool stands_for = j >= 0 && j < a.n_result;
        a.tokens[i] = stands_for ? a.results[j * a.result_stride] : a.refs[i];
    }
}

/* Rows as Q8 blocks, a warp for each. */
KERNEL k_narrow_q8(ARGS(whim_narrow_args))
{
    BEGIN
    int64_t per_row = a.n_col / WHIM_GROUP, n = a.n_row * per_row;
    int lane = threadIdx.x % WARP;
    int64_t warps = blockDim.x / WARP, first = blockIdx.x * warps + threadIdx.x / WARP;
    for (int64_t g = first; g < n; g += gridDim.x * warps) {
        int64_t r = g / per_row, col = g % per_row;
        whim_q8_block *out =
            (whim_q8_block *)a.y + r * (a.y_stride / WHIM_GROUP) + col;
        float x = a.x[r * a.x_stride + col * WHIM_GROUP + lane];
        uint32_t top = __reduce_max_sync(ALL_LANES, whim_f32_bits(x) & 0x7fffffffu);
        float s = whim_f32_from_bits(top) / 127.0f;
        bool finite = top < 0x7f800000u;
        bool usable = finite && s >= 0x1p-126f;
        float inv = usable ? 1.0f / s : 0.0f;
        int8_t q = usable ? (int8_t)whim_f32_bits(x * inv + 0x1.8p23f) : (int8_t)0;
        int low = __reduce_add_sync(ALL_LANES, lane < 16 ? (int)q : 0);
        int high = __reduce_add_sync(ALL_LANES, lane < 16 ? 0 : (int)q);
        out->q[lane] = q;
        if (lane == 0) {
            out->s = usable ? s : finite ? 0.0f : NAN;
            out->sum[0] = low;
            out->sum[1] = high;
        }
    }
}

KERNEL k_narrow_bf16(ARGS(whim_narrow_args))
{
    BEGIN
    EACH_ELEMENT(r, i, a.n_row, a.n_col)
    {
        ((uint16_t *)a.y)[r * a.y_stride + i] = whim_f32_to_bf16(a.x[r * a.x_stride + i]);
    }
}

/* --- norms ------------------------------------------------------------------------------------ */

/* The sum of squares of row(i), i < n, in the law's 16 lanes, in all threads of the block; keep(i,
 * row(i)) for each of them. A stretch of the row is brought to shared memory by all, then 16 threads
 * add it up. */
enum { STRETCH = 4096 };

/* Shared memory for one: what products leave free holds it, so that it can begin beside them. */
static float *stretch_space()
{
    __shared__ float part[STRETCH];
    return part;
}

template <class Row, class Keep> static float block_sumsq(int64_t n, Row row, Keep keep)
{
    float *part = stretch_space();
    __shared__ float result;
    float lane = 0.0f;
    for (int64_t at = 0; at < n; at += STRETCH) {
        int here = n - at < STRETCH ? (int)(n - at) : STRETCH;
        __syncthreads();
        each_batch<4>(
            here, [=](int64_t i) { return row(at + i); },
            [=](int64_t i, float x) {
                part[i] = x;
                keep(at + i, x);
            });
        __syncthreads();
        if (threadIdx.x < WHIM_LANES) {
            lane = chain<16>(
                lane, threadIdx.x, here, WHIM_LANES, [=](int i) { return part[i]; },
                [](float acc, float x) { return whim_fmaf(x, x, acc); });
        }
    }
    if (threadIdx.x < WARP) {
        lane = fold16(lane);
        if (threadIdx.x == 0) {
            result = lane;
        }
    }
    __syncthreads();
    float sum = result;
    __syncthreads();
    return sum;
}

template <class Row> static float block_sumsq(int64_t n, Row row)
{
    return block_sumsq(n, row, [](int64_t, float) {});
}

struct scaled_pair {
    float x, w;
};

/* y[i] = x[i] * scale * w[i]; tile(i, y[i]) besides. */
template <class Tile>
static void block_scale(float *y, const float *x, const float *w, float scale, int64_t n, Tile tile)
{
    each_batch<4>(
        n, [=](int64_t i) { return scaled_pair{x[i], w[i]}; },
        [=](int64_t i, scaled_pair v) {
            y[i] = v.x * scale * v.w;
            tile(i, v.x * scale * v.w);
        });
}

/* As tiles, where they are wanted. */
struct tile_row {
    whim_cuda_left left;
    int64_t k, row;
    void operator()(int64_t i, float y) const
    {
        if (left.tiles != NULL) {
            left.tiles[whim_cuda_tiles_at(left.rows, k, (int)row, (int)i)] = whim_f32_to_bf16(y);
        }
    }
};

static float norm_scale(float sum, int64_t width, float eps)
{
    return 1.0f / sqrtf(sum / (float)width + eps);
}

/* Rows that a block can keep in registers: weights are asked for before the kernel waits, and
 * nothing is read twice. get(r, i) is a row's element, keep(r, i, x) what becomes of it. */
enum { NORM_KEPT = 8 };

template <class Get, class Keep>
static void norm_kept(int64_t n_row, int64_t n_col, const float *w, float eps, float *to,
                      int64_t stride, whim_cuda_left left, Get get, Keep keep)
{
    float *part = stretch_space(); /* of STRETCH, as no block has more threads than 512 */
    __shared__ float result;
    int n = (int)n_col, first = threadIdx.x, by = blockDim.x;
    float weight[NORM_KEPT];
#pragma unroll
    for (int j = 0; j < NORM_KEPT; j++) {
        weight[j] = first + j * by < n ? w[first + j * by] : 0.0f;
    }
    wait_for_last();
    EACH_ITEM(r, n_row)
    {
        float x[NORM_KEPT];
#pragma unroll
        for (int j = 0; j < NORM_KEPT; j++) {
            x[j] = get(r, first + j * by < n ? first + j * by : 0);
        }
        __syncthreads();
#pragma unroll
        for (int j = 0; j < NORM_KEPT; j++) {
            if (first + j * by < n) {
                part[first + j * by] = x[j];
                keep(r, first + j * by, x[j]);
            }
        }
        __syncthreads();
        if (threadIdx.x < WARP) {
            float lane = 0.0f;
            if (threadIdx.x < WHIM_LANES) {
                lane = chain<16>(
                    lane, threadIdx.x, n, WHIM_LANES, [=](int i) { return part[i]; },
                    [](float acc, float v) { return whim_fmaf(v, v, acc); });
            }
            lane = fold16(lane);
            if (threadIdx.x == 0) {
                result = lane;
            }
        }
        __syncthreads();
        float scale = norm_scale(result, n_col, eps), *y = to + r * stride;
        uint16_t *tile = left.tiles != NULL
                             ? left.tiles + whim_cuda_tiles_at(left.rows, n_col, (int)r, 0)
                             : NULL;
#pragma unroll
        for (int j = 0; j < NORM_KEPT; j++) {
            int i = first + j * by;
            if (i < n) {
                float v = part[i] * scale * weight[j];
                y[i] = v;
                if (tile != NULL) {
                    tile[i / 8 * left.rows * 8 + i % 8] = whim_f32_to_bf16(v);
                }
            }
        }
    }
}

KERNEL_BOUNDED(512, 2) k_rmsnorm(const __grid_constant__ whim_cuda_rmsnorm_args args)
{
    const whim_rmsnorm_args &a = args.op;
    let_next_start();
    if (a.n_col <= NORM_KEPT * (int64_t)blockDim.x) {
        norm_kept(
            a.n_row, a.n_col, a.w, a.eps, a.y, a.y_stride, args.left,
            [&](int64_t r, int i) { return a.x[r * a.x_stride + i]; },
            [](int64_t, int, float) {});
        return;
    }
    wait_for_last();
    EACH_ITEM(r, a.n_row)
    {
        const float *x = a.x + r * a.x_stride;
        float sum = block_sumsq(a.n_col, [=](int64_t i) { return x[i]; });
        block_scale(a.y + r * a.y_stride, x, a.w, norm_scale(sum, a.n_col, a.eps), a.n_col,
                    tile_row{args.left, a.n_col, r});
    }
}

KERNEL_BOUNDED(512, 2) k_add_rmsnorm(const __grid_constant__ whim_cuda_add_rmsnorm_args args)
{
    const whim_add_rmsnorm_args &a = args.op;
    let_next_start();
    if (a.n_col <= NORM_KEPT * (int64_t)blockDim.x) {
        norm_kept(
            a.n_row, a.n_col, a.w, a.eps, a.y, a.y_stride, args.left,
            [&](int64_t r, int i) {
                return a.x[r * a.x_stride + i] + a.delta[r * a.delta_stride + i];
            },
            [&](int64_t r, int i, float x) { a.x[r * a.x_stride + i] = x; });
        return;
    }
    wait_for_last();
    EACH_ITEM(r, a.n_row)
    {
        float *x = a.x + r * a.x_stride;
        const float *delta = a.delta + r * a.delta_stride;
        float sum = block_sumsq(
            a.n_col, [=](int64_t i) { return x[i] + delta[i]; },
            [=](int64_t i, float value) { x[i] = value; });
        block_scale(a.y + r * a.y_stride, x, a.w, norm_scale(sum, a.n_col, a.eps), a.n_col,
                    tile_row{args.left, a.n_col, r});
    }
}

KERNEL k_rmsnorm_gated(ARGS(whim_rmsnorm_gated_args))
{
    BEGIN
    EACH_ITEM(r, a.n_row)
    {
        const float *x = a.x + r * a.x_stride, *z = a.z + r * a.z_stride;
        float *y = a.y + r * a.y_stride;
        float sum = block_sumsq(a.n_col, [=](int64_t i) { return x[i]; });
        float scale = norm_scale(sum, a.n_col, a.eps);
        EACH_THREAD(i, a.n_col)
        {
            float g = z[i], normed = x[i] * scale * a.w[i];
            y[i] = g / (1.0f + whim_expf(-g)) * normed;
        }
    }
}

KERNEL k_rmsnorm_sumsq(ARGS(whim_rmsnorm_sumsq_args))
{
    BEGIN
    EACH_ITEM(r, a.n_row)
    {
        float scale = norm_scale(a.sums[r * a.sum_stride], a.width, a.eps);
        EACH_THREAD(i, a.n_col)
        {
            a.y[r * a.y_stride + i] = a.x[r * a.x_stride + i] * scale * a.w[i];
        }
    }
}

KERNEL k_qk_sumsq(ARGS(whim_qk_sumsq_args))
{
    BEGIN
    EACH_ITEM(item, 2 * a.n_row)
    {
        bool is_k = item % 2 != 0;
        const float *x = a.qkv + item / 2 * a.qkv_stride + (is_k ? a.n_head * a.d_head : 0);
        float sum = 0.0f;
        for (int64_t h = 0; h < (is_k ? a.n_kv : a.n_head); h++) {
            sum += block_sumsq(a.d_head, [=](int64_t i) { return x[h * a.d_head + i]; });
        }
        if (threadIdx.x == 0) {
            a.sums[item] = sum;
        }
    }
}

/* --- rotary positions ------------------------------------------------------------------------- */

KERNEL k_rope_table(ARGS(whim_rope_table_args))
{
    BEGIN
    EACH_ITEM(r, a.n_row)
    {
        float *row = a.cos_sin + r * 2 * a.n_freq;
        EACH_THREAD(i, a.n_freq)
        {
            double sine, cosine;
            whim_sincos((double)a.positions[r] * a.freqs[i], &sine, &cosine);
            row[i] = (float)(cosine * a.scale);
            row[a.n_freq + i] = (float)(sine * a.scale);
        }
    }
}

static void rotate(float *x, const float *cos_sin, int64_t n_freq, int64_t i)
{
    float cosine = cos_sin[i], sine = cos_sin[n_freq + i];
    float lo = x[i], hi = x[i + n_freq];
    x[i] = whim_fmaf(lo, cosine, -(hi * sine));
    x[i + n_freq] = whim_fmaf(hi, cosine, lo * sine);
}

KERNEL k_rope(ARGS(whim_rope_args))
{
    BEGIN
    EACH_ITEM(item, a.n_row * a.n_head)
    {
        int64_t r = item / a.n_head, h = item % a.n_head;
        EACH_THREAD(i, a.n_freq)
        {
            rotate(a.x + r * a.x_stride + h * a.d_head, a.cos_sin + r * 2 * a.n_freq, a.n_freq, i);
        }
    }
}

/* A block has a head of q, k or v; after(r, own, is_v, y) where one of k or v is whole. */
template <class After>
static void split_heads(const whim_split_qkv_rmsnorm_rope_args &a, After after)
{
    int64_t d = a.d_head, q_step = a.gate != NULL ? 2 * d : d, n_all = a.n_head + 2 * a.n_kv;
    EACH_ITEM(item, a.n_row * n_all)
    {
        int64_t r = (uint32_t)item / (uint32_t)n_all, h = item - r * n_all;
        bool is_q = h < a.n_head, is_v = h >= a.n_head + a.n_kv;
        int64_t own = is_q ? h : is_v ? h - a.n_head - a.n_kv : h - a.n_head;
        int64_t column = is_q ? h * q_step : a.n_head * q_step + (h - a.n_head) * d;
        int64_t n_own = is_q ? a.n_head : a.n_kv;
        float *y = (is_q ? a.q : is_v ? a.v : a.k) + (r * n_own + own) * d;
        const float *x = a.qkv + r * a.qkv_stride + column;
        const float *bias = a.bias != NULL ? a.bias + column : NULL;
        const float *norm = is_q ? a.q_norm : is_v ? NULL : a.k_norm;
        auto biased = [=](int64_t i) { return bias != NULL ? x[i] + bias[i] : x[i]; };
        float sum = norm != NULL ? block_sumsq(d, biased) : 0.0f;
        float scale = norm_scale(sum, d, a.eps);
        EACH_THREAD(i, d)
        {
            y[i] = norm != NULL ? biased(i) * scale * norm[i] : biased(i);
            if (is_q && a.gate != NULL) {
                float g = x[d + i];
                a.gate[(r * n_own + own) * d + i] = bias != NULL ? g + bias[d + i] : g;
            }
        }
        __syncthreads();
        EACH_THREAD(i, is_v ? 0 : a.n_freq)
        {
            rotate(y, a.cos_sin + r * 2 * a.n_freq, a.n_freq, i);
        }
        __syncthreads();
        if (!is_q) {
            after(r, own, is_v, y);
        }
    }
}

KERNEL k_split_qkv_rmsnorm_rope(ARGS(whim_split_qkv_rmsnorm_rope_args))
{
    BEGIN
    split_heads(a, [](int64_t, int64_t, bool, const float *) {});
}

/* And k and v go to their pages at once. */
KERNEL k_split_store(const __grid_constant__ whim_cuda_split_args args)
{
    const whim_kv_write_args &kv = args.store;
    BEGIN
    split_heads(args.split, [&](int64_t r, int64_t head, bool is_v, const float *y) {
        if (kv.slots[r] >= 0) {
            kv_store_vector(kv.kv, kv.slots[r], head, !is_v, y, 0.0f);
        }
    });
}
