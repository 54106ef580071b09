/* SPDX-License-Identifier: Apache-2.0 */
/* Products of one row with groups of 32 integers, by dp4a; a block narrows the row for itself. */
#pragma once
#include "quant/few_quant.cuh"

/* Half a warp has a group, a thread one output of it. */
enum { ONE_HALVES = FEW_WARPS * 2 };

template <class W> struct one_sizes {
    enum { DEPTH = W::HAS_MIN || W::VECTORS > 1 ? 4 : 8, STRETCH = ONE_HALVES * DEPTH };
};

/* One row as blocks, made by each block of threads for itself: 8 threads a group. */
struct one_scale {
    float s;
    int16_t sum[2]; /* of either half */
};

struct one_row {
    uint4 q[WHIM_CUDA_FEW_K / 16];
    one_scale scale[WHIM_CUDA_FEW_K / WHIM_GROUP];
};

/* whim_q8_quantize32, four elements a thread; the 8 threads of a group come along. */
static void one_narrow_group(one_row *row, int64_t g, bool is_there, float4 x)
{
    float v[4] = {x.x, x.y, x.z, x.w};
    uint32_t top = 0, q = 0;
    int sum = 0, lane = threadIdx.x % 8;
    for (int i = 0; i < 4; i++) {
        uint32_t mag = whim_f32_bits(v[i]) & 0x7fffffffu;
        top = mag > top ? mag : top;
    }
    for (int step = 4; step > 0; step /= 2) {
        uint32_t other = __shfl_xor_sync(ALL_LANES, top, step);
        top = other > top ? other : top;
    }
    float s = whim_f32_from_bits(top) / 127.0f;
    bool finite = top < 0x7f800000u;
    bool usable = finite && s >= 0x1p-126f;
    float inv = usable ? 1.0f / s : 0.0f;
    for (int i = 0; i < 4; i++) {
        int code = usable ? (int8_t)whim_f32_bits(v[i] * inv + 0x1.8p23f) : 0;
        q |= (uint32_t)(uint8_t)code << 8 * i;
        sum += code;
    }
    for (int step = 2; step > 0; step /= 2) {
        sum += __shfl_xor_sync(ALL_LANES, sum, step);
    }
    int other = __shfl_xor_sync(ALL_LANES, sum, 4);
    if (is_there) {
        ((uint32_t *)row->q)[g * 8 + lane] = q;
        if (lane == 0) {
            row->scale[g] =
                one_scale{usable ? s : finite ? 0.0f : NAN, {(int16_t)sum, (int16_t)other}};
        }
    }
}

static void one_narrow(one_row *row, const float *x, int64_t k)
{
    enum { BATCH = 4 };
    int64_t n_group = k / WHIM_GROUP, by = blockDim.x / 8;
    for (int64_t first = 0; first < n_group; first += BATCH * by) {
        float4 v[BATCH];
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            int64_t g = first + b * by + threadIdx.x / 8;
            const float *from = x + (g < n_group ? g : 0) * WHIM_GROUP + threadIdx.x % 8 * 4;
            v[b] = make_float4(from[0], from[1], from[2], from[3]);
        }
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            int64_t g = first + b * by + threadIdx.x / 8;
            one_narrow_group(row, g, g < n_group, v[b]);
        }
    }
    __syncthreads();
}

/* What a thread has of its groups of a stretch. */
template <class W> struct one_codes {
    uint4 v[one_sizes<W>::DEPTH][W::VECTORS];
    typename few_head<W>::type head[one_sizes<W>::DEPTH];
};

/* A group beyond the last is the last, whose dot nobody adds then: no load depends on a branch. */
template <class W>
static void one_load(one_codes<W> *c, const whim_cuda_few_args &a, const few_place &p)
{
    int64_t tile;
    const whim_cuda_matrix &m = few_matrix(a, p, &tile);
    int n_group = (int)(a.k / WHIM_GROUP), lane = threadIdx.x % WHIM_CUDA_TILE;
    int first = (int)p.stretch * one_sizes<W>::STRETCH + threadIdx.x / WHIM_CUDA_TILE;
    const char *from = (const char *)m.data + tile * n_group * group_place<W>::BYTES;
#pragma unroll
    for (int i = 0; i < one_sizes<W>::DEPTH; i++) {
        int g = first + i * ONE_HALVES < n_group ? first + i * ONE_HALVES : n_group - 1;
        const char *group = from + (uint32_t)(g * group_place<W>::BYTES);
#pragma unroll
        for (int v = 0; v < W::VECTORS; v++) {
            c->v[i][v] =
                __ldg((const uint4 *)(group + (v * WHIM_CUDA_TILE + lane) * WHIM_CUDA_VECTOR));
        }
        c->head[i] = few_head<W>::load(group + group_place<W>::CODES + lane * W::HEAD);
    }
}

/* What groups add: to the sum of output `lane`. */
template <class W> struct one_space {
    float2 dot[one_sizes<W>::STRETCH][WHIM_CUDA_TILE]; /* the dot, and d * s */
    float2 min[W::HAS_MIN ? one_sizes<W>::STRETCH : 1][WHIM_CUDA_TILE]; /* m, and s * sum */
};

template <class W>
static void one_dots(one_space<W> *s, const one_codes<W> &c, const one_row *row, int n_group,
                     int64_t stretch)
{
    int lane = threadIdx.x % WHIM_CUDA_TILE, half = threadIdx.x / WHIM_CUDA_TILE;
#pragma unroll
    for (int i = 0; i < one_sizes<W>::DEPTH; i++) {
        int j = half + i * ONE_HALVES, g = (int)stretch * one_sizes<W>::STRETCH + j;
        g = g < n_group ? g : n_group - 1;
        one_scale x = row->scale[g];
        uint4 q0 = row->q[2 * g], q1 = row->q[2 * g + 1];
        uint32_t v[8], q[8] = {q0.x, q0.y, q0.z, q0.w, q1.x, q1.y, q1.z, q1.w};
        int low = -W::LESS * (x.sum[0] + x.sum[1]), high = 0;
#pragma unroll
        for (int n = 0; n < W::VECTORS; n++) {
            v[4 * n] = c.v[i][n].x;
            v[4 * n + 1] = c.v[i][n].y;
            v[4 * n + 2] = c.v[i][n].z;
            v[4 * n + 3] = c.v[i][n].w;
        }
#pragma unroll
        for (int n = 0; n < 4; n++) {
            uint32_t w0 = W::VECTORS == 1 ? v[n] & 0x0f0f0f0fu : v[n];
            uint32_t w1 = W::VECTORS == 1 ? v[n] >> 4 & 0x0f0f0f0fu : v[n + 4];
            low = __dp4a((int)w0, (int)q[n], low);
            high = __dp4a((int)w1, (int)q[4 + n], high);
        }
        int dot = W::HAS_SUB ? few_sub(few_sc(c.head[i]), low, high) : low + high;
        s->dot[j][lane] = make_float2((float)dot, few_head<W>::d(c.head[i]) * x.s);
        if (W::HAS_MIN) {
            int sum = W::HAS_SUB ? few_sub(few_mn(c.head[i]), x.sum[0], x.sum[1])
                                 : x.sum[0] + x.sum[1];
            s->min[j][lane] = make_float2(few_head<W>::m(c.head[i]), x.s * (float)sum);
        }
    }
}

/* whim_group_dot_step over the groups of a stretch. */
template <class W>
static float one_chain(float acc, const one_space<W> &s, int here, int lane, bool has_min)
{
    return chain<16>(
        acc, 0, here, 1,
        [=, &s](int j) {
            float2 dot = s.dot[j][lane];
            float2 min = W::HAS_MIN ? s.min[j][lane] : float2{};
            return few_step{dot.x, dot.y, min.x, min.y};
        },
        [=](float sum, const few_step &step) {
            sum = whim_fmaf(step.dot, step.scale, sum);
            return has_min ? whim_fmaf(step.m, step.sum, sum) : sum;
        });
}

template <class W> struct few_quant<W, 1> {
    static void run(const whim_cuda_few_args &a)
    {
        __shared__ one_space<W> space;
        __shared__ one_row row;
        int n_group = (int)(a.k / WHIM_GROUP);
        enum { STRETCH = one_sizes<W>::STRETCH };
        few_walk walk = few_walk_of(a, (n_group + STRETCH - 1) / STRETCH);
        few_place p = {blockIdx.x, 0, 0};
        one_codes<W> codes;
        float acc = 0.0f, gate = 0.0f;
        let_next_start();
        if (p.item < walk.n_item && n_group > 0) {
            one_load<W>(&codes, a, p);
        }
        wait_for_last();
        one_narrow(&row, a.x, a.k);
        while (p.item < walk.n_item) {
            few_place next = few_next(walk, p);
            int left = n_group - (int)p.stretch * STRETCH;
            if (left > 0) {
                one_dots<W>(&space, codes, &row, n_group, p.stretch);
            }
            if (next.item < walk.n_item && n_group > 0) {
                one_load<W>(&codes, a, next);
            }
            __syncthreads();
            if (threadIdx.x < WHIM_CUDA_TILE) {
                acc = one_chain<W>(acc, space, left < STRETCH ? left : STRETCH, threadIdx.x,
                                   few_has_min<W>(a));
                if (next.stretch == 0) {
                    few_store(a, p, threadIdx.x, 0, acc, &gate);
                    acc = 0.0f;
                }
            }
            __syncthreads();
            p = next;
        }
    }
};

FEW(q4_0, few_quant, q4_0_weights, FEW_WARPS *WARP, 0, 3)
FEW(q4_1, few_quant, q4_1_weights, FEW_WARPS *WARP, 0, 3)
FEW(q8_0, few_quant, q8_0_weights, FEW_WARPS *WARP, 0, 3)
FEW(wide, few_quant, wide_weights, FEW_WARPS *WARP, 0, 2)
