/* SPDX-License-Identifier: Apache-2.0 */
/* Products with packed matrices. A warp has two tiles, a thread one output n of them for R rows: one
 * accumulator each, k in order, so that a row's bits do not depend on R or on other rows. The
 * rows come through shared memory, a stretch of k at a time. */
#pragma once
#include "common.cuh"

/* --- plain floats ----------------------------------------------------------------------------- */

struct f32_weights {
    enum { BYTES = 4 };
    static float get(const uint32_t *v, int i)
    {
        return whim_f32_from_bits(v[i]);
    }
};

struct bf16_weights {
    enum { BYTES = 2 };
    static float get(const uint32_t *v, int i)
    {
        return whim_f32_from_bits(i % 2 != 0 ? v[i / 2] & 0xffff0000u : v[i / 2] << 16);
    }
};

struct f16_weights {
    enum { BYTES = 2 };
    static float get(const uint32_t *v, int i)
    {
        return half_to_float((uint16_t)(i % 2 != 0 ? v[i / 2] >> 16 : v[i / 2]));
    }
};

static void load_vector(uint32_t *v, const void *from)
{
    uint4 x = __ldg((const uint4 *)from);
    v[0] = x.x;
    v[1] = x.y;
    v[2] = x.z;
    v[3] = x.w;
}

/* Where the rows of a product come from: n of them, from x on. */
struct float_rows {
    const float *x;
    int64_t stride, n;
};

struct block_rows {
    const whim_q8_block *x;
    int64_t stride, n;
};

/* k at .. at + n - 1 of R rows as part[k][row]. Loads do not wait for each other. */
template <int R> static void stage_rows(float *part, const float_rows &rows, int64_t at, int n)
{
    enum { AT_ONCE = R > 4 ? 1 : 8 };
#pragma unroll
    for (int r = 0; r < R; r++) {
        const float *x = rows.x + (r < rows.n ? r * rows.stride : 0) + at;
#pragma unroll AT_ONCE
        for (int k = threadIdx.x; k < n; k += blockDim.x) {
            part[k * R + r] = x[k]; /* a row beyond the last is one that is there: never stored */
        }
    }
}

/* Add the products of one vector's first n elements. */
template <class W, int R>
static void multiply(float *acc, const uint32_t *v, const float *part, int n)
{
    enum { PER = WHIM_CUDA_VECTOR / W::BYTES };
#pragma unroll
    for (int i = 0; i < PER; i++) {
        if (i < n) {
            float w = W::get(v, i);
#pragma unroll
            for (int r = 0; r < R; r++) {
                acc[r] = whim_fmaf(w, part[i * R + r], acc[r]);
            }
        }
    }
}

/* Output n for R rows. All threads of a block come along, because they share the rows. */
template <class W, int R>
static void dot_float(float *acc, const whim_weight &w, int64_t n, const float_rows &rows)
{
    enum { STRETCH = 2048 / R, PER = WHIM_CUDA_VECTOR / W::BYTES };
    enum { STEP = WHIM_CUDA_TILE * WHIM_CUDA_VECTOR };
    enum { BATCH = R > 4 ? 4 : 16 }; /* loads under way: with few rows memory is all that counts */
    __shared__ __align__(16) float part[STRETCH * R];
    int64_t tile_bytes = (w.k + PER - 1) / PER * STEP;
    const char *from = (const char *)w.data + n / WHIM_CUDA_TILE * tile_bytes +
                       n % WHIM_CUDA_TILE * WHIM_CUDA_VECTOR;
    for (int64_t at = 0; at < w.k; at += STRETCH) {
        int here = w.k - at < STRETCH ? (int)(w.k - at) : STRETCH, k = 0;
        __syncthreads();
        stage_rows<R>(part, rows, at, here);
        __syncthreads();
#pragma unroll 2
        for (; k + BATCH * PER <= here; k += BATCH * PER, from += BATCH * STEP) {
            uint32_t v[BATCH][4];
#pragma unroll
            for (int b = 0; b < BATCH; b++) {
                load_vector(v[b], from + b * STEP);
            }
#pragma unroll
            for (int b = 0; b < BATCH; b++) {
                multiply<W, R>(acc, v[b], part + (k + b * PER) * R, PER);
            }
        }
        for (; k < here; k += PER, from += STEP) {
            uint32_t v[4];
            load_vector(v, from);
            multiply<W, R>(acc, v, part + k * R, here - k);
        }
    }
}

/* Blocks of 128 with a scale: a sum of its own each. */
template <int R>
static void dot_scaled(float *acc, const whim_weight &w, int64_t n, const float_rows &rows)
{
    enum { BLOCK = WHIM_CUDA_SCALED_BLOCK };
    __shared__ __align__(16) float part[BLOCK * R];
    int64_t n_block = w.k / BLOCK, lane = n % WHIM_CUDA_TILE;
    const char *codes = (const char *)w.data + n / WHIM_CUDA_TILE * whim_cuda_scaled_bytes(w.k);
    const float *scales = (const float *)(codes + n_block * WHIM_CUDA_TILE * BLOCK);
    for (int64_t b = 0; b < n_block; b++) {
        float sum[R] = {};
        __syncthreads();
        stage_rows<R>(part, rows, b * BLOCK, BLOCK);
        __syncthreads();
#pragma unroll 1
        for (int k = 0; k < BLOCK; k += 64) {
            uint32_t v[4][4]; /* [thread of four][16 columns]: whim_cuda_scaled_at */
#pragma unroll
            for (int q = 0; q < 4; q++) {
                load_vector(v[q], codes + whim_cuda_scaled_at(lane, b * BLOCK + k) / 16 * 16 +
                                      q * WHIM_CUDA_VECTOR);
            }
#pragma unroll
            for (int i = 0; i < 64; i++) {
                uint32_t word = v[i % 8 / 2][i / 16];
                float x = whim_e4m3_to_f32((uint8_t)(word >> (i % 2 * 2 + (i % 16 < 8)) * 8));
#pragma unroll
                for (int r = 0; r < R; r++) {
                    sum[r] = whim_fmaf(x, part[(k + i) * R + r], sum[r]);
                }
            }
        }
        float d = scales[b * WHIM_CUDA_TILE + lane];
#pragma unroll
        for (int r = 0; r < R; r++) {
            acc[r] = whim_fmaf(sum[r], d, acc[r]);
        }
    }
}

/* --- groups of 32 integers -------------------------------------------------------------------- */

/* A group of one output: 32 codes, less `less` each, in the order of k. */
struct group {
    float d, m;
    int sc[2], mn[2], less;
    uint32_t q[8];
};

static void open_nibbles(group *g, const uint32_t *v)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        g->q[i] = v[i] & 0x0f0f0f0fu;
        g->q[4 + i] = v[i] >> 4 & 0x0f0f0f0fu;
    }
}

struct plain_group {
    enum { HAS_SUB = 0 };
};

struct q4_0_weights : plain_group {
    enum { HEAD = 2, VECTORS = 1, HAS_MIN = 0, LESS = 8 };
    static void open(group *g, const uint32_t *v, const void *head)
    {
        open_nibbles(g, v);
        g->d = half_to_float(*(const uint16_t *)head);
    }
};

struct q4_1_weights : plain_group {
    enum { HEAD = 4, VECTORS = 1, HAS_MIN = 1, LESS = 0 };
    static void open(group *g, const uint32_t *v, const void *head)
    {
        uint32_t both = *(const uint32_t *)head;
        open_nibbles(g, v);
        g->d = half_to_float((uint16_t)both);
        g->m = half_to_float((uint16_t)(both >> 16));
    }
};

struct q8_0_weights : plain_group {
    enum { HEAD = 2, VECTORS = 2, HAS_MIN = 0, LESS = 0 };
    static void open(group *g, const uint32_t *v, const void *head)
    {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            g->q[i] = v[i];
        }
        g->d = half_to_float(*(const uint16_t *)head);
    }
};

struct wide_weights {
    enum { HEAD = sizeof(whim_cuda_wide_head), VECTORS = 2, HAS_MIN = 1, HAS_SUB = 1, LESS = 0 };
    static void open(group *g, const uint32_t *v, const void *head)
    {
        const whim_cuda_wide_head *h = (const whim_cuda_wide_head *)head;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            g->q[i] = v[i];
        }
        g->d = h->d;
        g->m = h->m;
        for (int i = 0; i < 2; i++) {
            g->sc[i] = h->sc[i];
            g->mn[i] = h->mn[i];
        }
    }
};

template <class W> struct group_place {
    enum {
        CODES = W::VECTORS * WHIM_CUDA_TILE * WHIM_CUDA_VECTOR,
        BYTES = CODES + WHIM_CUDA_TILE * W::HEAD,
    };
};

template <class W> static void group_load(group *g, const char *from, int lane)
{
    uint32_t v[4 * W::VECTORS];
#pragma unroll
    for (int i = 0; i < W::VECTORS; i++) {
        load_vector(v + 4 * i, from + (i * WHIM_CUDA_TILE + lane) * WHIM_CUDA_VECTOR);
    }
    W::open(g, v, from + group_place<W>::CODES + lane * W::HEAD);
}

static int dot16(const uint32_t *q, const int32_t *x)
{
    int dot = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        dot = __dp4a((int)q[i], x[i], dot);
    }
    return dot;
}

/* whim_group_dot_step. */
template <class W> static float group_step(float acc, const group &g, const whim_q8_block &x,
                                           bool has_min)
{
    const int32_t *q = (const int32_t *)x.q;
    int low = dot16(g.q, q), high = dot16(g.q + 4, q + 4);
    int dot = W::HAS_SUB ? g.sc[0] * low + g.sc[1] * high : low + high;
    if (W::LESS != 0) {
        dot -= W::LESS * (x.sum[0] + x.sum[1]);
    }
    acc = whim_fmaf((float)dot, g.d * x.s, acc);
    if (W::HAS_MIN && has_min) {
        int sum = W::HAS_SUB ? g.mn[0] * x.sum[0] + g.mn[1] * x.sum[1] : x.sum[0] + x.sum[1];
        acc = whim_fmaf(g.m, x.s * (float)sum, acc);
    }
    return acc;
}

static bool type_has_min(whim_dtype dtype)
{
    switch ((int)dtype) {
#define CASE(NAME, name, has_min) \
    case WHIM_DTYPE_##NAME:       \
        return has_min;
        WHIM_QUANT_TYPES(CASE)
#undef CASE
    default:
        return false;
    }
}

template <class W, int R>
static void dot_quant(float *acc, const whim_weight &w, int64_t n, const block_rows &rows)
{
    enum { STRETCH = R > 4 ? 8 : 32, BATCH = R > 4 ? 4 : 8, WORDS = sizeof(whim_q8_block) / 4 };
    __shared__ whim_q8_block part[STRETCH][R];
    int lane = (int)(n % WHIM_CUDA_TILE);
    int64_t n_group = w.k / WHIM_GROUP;
    bool has_min = type_has_min(w.dtype);
    const char *from =
        (const char *)w.data + n / WHIM_CUDA_TILE * n_group * group_place<W>::BYTES;
    for (int64_t at = 0; at < n_group; at += STRETCH) {
        int here = n_group - at < STRETCH ? (int)(n_group - at) : STRETCH;
        __syncthreads();
#pragma unroll
        for (int r = 0; r < R; r++) {
            const whim_q8_block *row = rows.x + (r < rows.n ? r * rows.stride : 0) + at;
#pragma unroll R > 4 ? 1 : 8
            for (int word = threadIdx.x; word < here * WORDS; word += blockDim.x) {
                ((uint32_t *)&part[word / WORDS][r])[word % WORDS] = ((const uint32_t *)row)[word];
            }
        }
        __syncthreads();
#pragma unroll BATCH
        for (int i = 0; i < here; i++, from += group_place<W>::BYTES) {
            group g;
            group_load<W>(&g, from, lane);
#pragma unroll
            for (int r = 0; r < R; r++) {
                acc[r] = group_step<W>(acc[r], g, part[i][r], has_min);
            }
        }
    }
}

/* --- the products ----------------------------------------------------------------------------- */

/* What a form of weights is multiplied with, and how. */
template <class W> struct float_form {
    typedef float_rows rows;
    template <int R>
    static void dot(float *acc, const whim_weight &w, int64_t n, const rows &from)
    {
        dot_float<W, R>(acc, w, n, from);
    }
};

struct scaled_form {
    typedef float_rows rows;
    template <int R>
    static void dot(float *acc, const whim_weight &w, int64_t n, const rows &from)
    {
        dot_scaled<R>(acc, w, n, from);
    }
};

template <class W> struct quant_form {
    typedef block_rows rows;
    template <int R>
    static void dot(float *acc, const whim_weight &w, int64_t n, const rows &from)
    {
        dot_quant<W, R>(acc, w, n, from);
    }
};

static float_rows rows_from(const whim_cuda_linear_args &a, int64_t first, const float_rows *)
{
    float_rows rows = {(const float *)a.op.x + first * a.op.x_stride, a.op.x_stride,
                       a.op.n_row - first};
    return rows;
}

static block_rows rows_from(const whim_cuda_linear_args &a, int64_t first, const block_rows *)
{
    int64_t stride = a.op.w.k / WHIM_GROUP;
    block_rows rows = {a.blocks + first * stride, stride, a.op.n_row - first};
    return rows;
}

/* Blocks go through the outputs for a group of rows, then to the next rows. */
template <class Form, int R> static void linear(const whim_cuda_linear_args &args)
{
    const whim_linear_args &a = args.op;
    int64_t n_place = (a.w.n + blockDim.x - 1) / blockDim.x;
    EACH_ITEM(item, n_place * ((a.n_row + R - 1) / R))
    {
        int64_t n = item % n_place * blockDim.x + threadIdx.x, first = item / n_place * R;
        float acc[R] = {};
        Form::template dot<R>(acc, a.w, n < a.w.n ? n : 0,
                              rows_from(args, first, (const typename Form::rows *)NULL));
#pragma unroll
        for (int r = 0; r < R; r++) {
            if (n < a.w.n && first + r < a.n_row) {
                float y = acc[r];
                a.y[(first + r) * a.y_stride + n] = a.bias != NULL ? y + a.bias[n] : y;
            }
        }
    }
}

static float_rows pair_from(const whim_cuda_pairs_args &a, int64_t row, const float_rows *)
{
    float_rows rows = {(const float *)a.x + row * a.x_stride, 0, 1};
    return rows;
}

static block_rows pair_from(const whim_cuda_pairs_args &a, int64_t row, const block_rows *)
{
    block_rows rows = {(const whim_q8_block *)a.x + row * (a.w.k / WHIM_GROUP), 0, 1};
    return rows;
}

/* A block has some outputs of one pair of row and expert. */
template <class Form> static void pairs(const whim_cuda_pairs_args &a)
{
    int64_t pitch = whim_moe_pitch(a.n), n_place = (a.n + blockDim.x - 1) / blockDim.x;
    EACH_ITEM(item, a.n_pair * n_place)
    {
        int64_t pair = item / n_place, e = a.ids[pair];
        int64_t n = item % n_place * blockDim.x + threadIdx.x;
        if (e < 0 || e >= a.n_expert) {
            continue;
        }
        float acc[1] = {};
        Form::template dot<1>(acc, a.w, e * pitch + (n < a.n ? n : 0),
                              pair_from(a, pair / a.per, (const typename Form::rows *)NULL));
        if (n < a.n) {
            a.y[pair * a.n + n] = acc[0];
        }
    }
}

#define KERNEL_OF(name, Args, what) \
    KERNEL name(ARGS(Args))         \
    {                               \
        BEGIN                       \
        what(a);                    \
    }
KERNEL_OF(k_many_f16, whim_cuda_linear_args, (linear<float_form<f16_weights>, 16>))
KERNEL_OF(k_pairs_f32, whim_cuda_pairs_args, pairs<float_form<f32_weights>>)
KERNEL_OF(k_pairs_f16, whim_cuda_pairs_args, pairs<float_form<f16_weights>>)
KERNEL_OF(k_pairs_bf16, whim_cuda_pairs_args, pairs<float_form<bf16_weights>>)
KERNEL_OF(k_pairs_fp8, whim_cuda_pairs_args, pairs<scaled_form>)
KERNEL_OF(k_pairs_q4_0, whim_cuda_pairs_args, pairs<quant_form<q4_0_weights>>)
KERNEL_OF(k_pairs_q4_1, whim_cuda_pairs_args, pairs<quant_form<q4_1_weights>>)
KERNEL_OF(k_pairs_q8_0, whim_cuda_pairs_args, pairs<quant_form<q8_0_weights>>)
KERNEL_OF(k_pairs_wide, whim_cuda_pairs_args, pairs<quant_form<wide_weights>>)

/* --- rows of a packed matrix ------------------------------------------------------------------ */

template <class W> static float float_column(const whim_weight &w, int64_t row, int64_t i)
{
    enum { PER = WHIM_CUDA_VECTOR / W::BYTES };
    int64_t tile_bytes = (w.k + PER - 1) / PER * WHIM_CUDA_TILE * WHIM_CUDA_VECTOR;
    const char *tile = (const char *)w.data + row / WHIM_CUDA_TILE * tile_bytes;
    const char *at = tile + whim_cuda_float_at(W::BYTES, row % WHIM_CUDA_TILE, i);
    uint32_t bits = W::BYTES == 4 ? *(const uint32_t *)at : *(const uint16_t *)at;
    return W::get(&bits, 0);
}

static float scaled_column(const whim_weight &w, int64_t row, int64_t i)
{
    int64_t n_block = w.k / WHIM_CUDA_SCALED_BLOCK, lane = row % WHIM_CUDA_TILE;
    const char *tile = (const char *)w.data + row / WHIM_CUDA_TILE * whim_cuda_scaled_bytes(w.k);
    const float *scales =
        (const float *)(tile + n_block * WHIM_CUDA_TILE * WHIM_CUDA_SCALED_BLOCK);
    uint8_t code = *(const uint8_t *)(tile + whim_cuda_scaled_at(lane, i));
    return whim_e4m3_to_f32(code) * scales[i / WHIM_CUDA_SCALED_BLOCK * WHIM_CUDA_TILE + lane];
}

/* whim_quant_widen of one element. */
template <class W> static float quant_column(const whim_weight &w, int64_t row, int64_t i)
{
    int64_t n_group = w.k / WHIM_GROUP, lane = row % WHIM_CUDA_TILE;
    const char *from = (const char *)w.data + (row / WHIM_CUDA_TILE * n_group + i / WHIM_GROUP) *
                                                  group_place<W>::BYTES;
    group g = {};
    group_load<W>(&g, from, (int)lane);
    int at = (int)(i % WHIM_GROUP), half = at / 16;
    int q = (int8_t)(g.q[at / 4] >> at % 4 * 8) - W::LESS;
    float scaled = (float)(W::HAS_SUB ? g.sc[half] * q : q) * g.d;
    int mn = W::HAS_SUB ? g.mn[half] : type_has_min(w.dtype);
    return scaled + g.m * (float)mn;
}

KERNEL k_embed(ARGS(whim_embed_args))
{
    BEGIN
    EACH_ITEM(r, a.n_row)
    {
        int64_t id = a.ids[r], end = piece_end(a.w.k);
        bool is_there = id >= 0 && id < a.w.n;
        for (int64_t i = blockIdx.y * (int64_t)WHIM_CUDA_PIECE + threadIdx.x; i < end;
             i += blockDim.x) {
            float y = 0.0f;
            if (is_there) {
                switch (a.w.dtype) {
                case WHIM_DTYPE_F32:
                    y = float_column<f32_weights>(a.w, id, i);
                    break;
                case WHIM_DTYPE_BF16:
                    y = float_column<bf16_weights>(a.w, id, i);
                    break;
                case WHIM_DTYPE_F16:
                    y = float_column<f16_weights>(a.w, id, i);
                    break;
                case WHIM_DTYPE_FP8:
                    y = scaled_column(a.w, id, i);
                    break;
                case WHIM_DTYPE_Q4_0:
                    y = quant_column<q4_0_weights>(a.w, id, i);
                    break;
                case WHIM_DTYPE_Q4_1:
                    y = quant_column<q4_1_weights>(a.w, id, i);
                    break;
                case WHIM_DTYPE_Q8_0:
                    y = quant_column<q8_0_weights>(a.w, id, i);
                    break;
                default:
                    y = quant_column<wide_weights>(a.w, id, i);
                }
            }
            a.y[r * a.y_stride + i] = y;
        }
    }
}
