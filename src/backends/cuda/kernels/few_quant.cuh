/* SPDX-License-Identifier: Apache-2.0 */
/* Products of few rows with groups of 32 integers: several rows on the matrix unit, one by dp4a. */
#pragma once
#include "few.cuh"

enum { FEW_WARPS = 8, FEW_DEPTH = 8, FEW_STRETCH = FEW_WARPS * FEW_DEPTH };

/* What a warp has of the groups of a stretch: codes as they lie, 4 bytes a thread. */
template <class W> struct few_codes {
    uint32_t v[FEW_DEPTH][2 * W::VECTORS];
    uint32_t head[FEW_DEPTH]; /* of output `lane` */
};

template <class W>
static void few_load(few_codes<W> *c, const whim_cuda_few_args &a, const few_place &p)
{
    int64_t tile, n_group = a.k / WHIM_GROUP;
    int lane = threadIdx.x % WARP;
    const whim_cuda_matrix &m = few_matrix(a, p, &tile);
    int64_t first = p.stretch * FEW_STRETCH + threadIdx.x / WARP;
    const char *from = (const char *)m.data + (tile * n_group + first) * group_place<W>::BYTES;
#pragma unroll
    for (int i = 0; i < FEW_DEPTH; i++, from += FEW_WARPS * group_place<W>::BYTES) {
        if (first + i * FEW_WARPS >= n_group) {
            continue;
        }
#pragma unroll
        for (int v = 0; v < 2 * W::VECTORS; v++) {
            c->v[i][v] = __ldg((const uint32_t *)(from + (v * WARP + lane) * 4));
        }
        if (lane < WHIM_CUDA_TILE) {
            const char *head = from + group_place<W>::CODES + lane * W::HEAD;
            c->head[i] = W::HEAD == 4 ? __ldg((const uint32_t *)head)
                                      : (uint32_t)__ldg((const uint16_t *)head);
        }
    }
}

/* Four codes of 4 bits as signed bytes, less `less` each. */
static uint32_t few_nibbles(uint32_t v, int less)
{
    v &= 0x0f0f0f0fu;
    return less == 8 ? (v + 0x78787878u) ^ 0x80808080u : v;
}

/* The unit's 16 x 32 operand out of what a thread loaded. */
template <class W> static void few_open(uint32_t *to, const uint32_t *v)
{
    if (W::VECTORS == 1) {
        to[0] = few_nibbles(v[0], W::LESS);
        to[1] = few_nibbles(v[1], W::LESS);
        to[2] = few_nibbles(v[0] >> 4, W::LESS);
        to[3] = few_nibbles(v[1] >> 4, W::LESS);
    } else {
        for (int i = 0; i < 4; i++) {
            to[i] = v[i];
        }
    }
}

static void mma_s8(int *c, const uint32_t *w, uint32_t x0, uint32_t x1)
{
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%10,%10,%10,%10};"
        : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
        : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "r"(x0), "r"(x1), "r"(0));
}

template <class W> struct few_space {
    enum { PITCH = 20 }; /* rows that a warp stores to lie in banks of their own */
    float dot[FEW_STRETCH][WHIM_CUDA_FEW][PITCH];
    float d[FEW_STRETCH][WHIM_CUDA_TILE];
    float m[W::HAS_MIN ? FEW_STRETCH : 1][WHIM_CUDA_TILE];
};

/* The dots of a stretch. */
template <class W>
static void few_dots(few_space<W> *s, const few_codes<W> &c, const whim_cuda_few_args &a,
                     int64_t stretch)
{
    int lane = threadIdx.x % WARP, out = lane / 4, quad = lane % 4, warp = threadIdx.x / WARP;
    int64_t n_group = a.k / WHIM_GROUP;
    uint32_t x[FEW_DEPTH][2] = {};
#pragma unroll
    for (int i = 0; i < FEW_DEPTH; i++) {
        int64_t g = stretch * FEW_STRETCH + i * FEW_WARPS + warp;
        if (g < n_group && out < a.n_row) {
            const uint32_t *q = (const uint32_t *)a.blocks[out * n_group + g].q;
            x[i][0] = q[quad];
            x[i][1] = q[4 + quad];
        }
    }
#pragma unroll
    for (int i = 0; i < FEW_DEPTH; i++) {
        int j = i * FEW_WARPS + warp, dot[4];
        if (stretch * FEW_STRETCH + j >= n_group) {
            continue;
        }
        uint32_t w[4];
        few_open<W>(w, c.v[i]);
        mma_s8(dot, w, x[i][0], x[i][1]);
#pragma unroll
        for (int n = 0; n < 4; n++) {
            s->dot[j][quad * 2 + n % 2][out + n / 2 * 8] = (float)dot[n];
        }
        if (lane < WHIM_CUDA_TILE) {
            s->d[j][lane] = half_to_float((uint16_t)c.head[i]);
            if (W::HAS_MIN) {
                s->m[j][lane] = half_to_float((uint16_t)(c.head[i] >> 16));
            }
        }
    }
}

/* What a group adds to a sum. */
struct few_step {
    float dot, scale, m, sum;
};

/* whim_group_dot_step over the groups of a stretch. */
template <class W>
static float few_chain(float acc, const few_space<W> &s, const whim_cuda_few_args &a,
                       int64_t stretch, int lane, int64_t row)
{
    int64_t n_group = a.k / WHIM_GROUP, first = stretch * FEW_STRETCH;
    int here = n_group - first < FEW_STRETCH ? (int)(n_group - first) : FEW_STRETCH;
    const whim_q8_block *blocks = a.blocks + row * n_group + first;
    return chain<16>(
        acc, 0, here, 1,
        [=, &s](int j) {
            few_step step = {s.dot[j][row][lane]};
            float scale = blocks[j].s;
            step.scale = s.d[j][lane] * scale;
            if (W::HAS_MIN) {
                step.m = s.m[j][lane];
                step.sum = scale * (float)(blocks[j].sum[0] + blocks[j].sum[1]);
            }
            return step;
        },
        [](float acc, const few_step &step) {
            acc = whim_fmaf(step.dot, step.scale, acc);
            return W::HAS_MIN ? whim_fmaf(step.m, step.sum, acc) : acc;
        });
}

template <class W, int R> struct few_quant;

template <class W> struct few_quant<W, WHIM_CUDA_FEW> {
    static void run(const whim_cuda_few_args &a)
    {
        __shared__ few_space<W> space;
        few_walk walk = few_walk_of(a, (a.k / WHIM_GROUP + FEW_STRETCH - 1) / FEW_STRETCH);
        few_place p = {blockIdx.x, 0, 0};
        few_codes<W> codes;
        int lane = threadIdx.x % WHIM_CUDA_TILE;
        int64_t row = threadIdx.x / WHIM_CUDA_TILE;
        float acc = 0.0f, gate = 0.0f;
        let_next_start();
        if (p.item < walk.n_item) {
            few_load<W>(&codes, a, p);
        }
        wait_for_last();
        while (p.item < walk.n_item) {
            few_place next = few_next(walk, p);
            few_dots<W>(&space, codes, a, p.stretch);
            if (next.item < walk.n_item) {
                few_load<W>(&codes, a, next);
            }
            __syncthreads();
            if (row < a.n_row) {
                acc = few_chain<W>(acc, space, a, p.stretch, lane, row);
                if (next.stretch == 0) {
                    few_store(a, p, lane, row, acc, &gate);
                    acc = 0.0f;
                }
            }
            __syncthreads();
            p = next;
        }
    }
};

/* --- one row of groups ------------------------------------------------------------------------ */

/* Half a warp has a group, a thread one output of it. */
enum { ONE_HALVES = FEW_WARPS * 2 };

template <class W> struct one_sizes {
    enum { DEPTH = W::HAS_MIN || W::VECTORS > 1 ? 4 : 8, STRETCH = ONE_HALVES * DEPTH };
};

/* One row as blocks, made by each block of threads for itself: 8 threads a group. */
struct one_scale {
    float s;
    int sum;
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
    for (int step = 4; step > 0; step /= 2) {
        sum += __shfl_xor_sync(ALL_LANES, sum, step);
    }
    if (is_there) {
        ((uint32_t *)row->q)[g * 8 + lane] = q;
        if (lane == 0) {
            row->scale[g] = one_scale{usable ? s : finite ? 0.0f : NAN, sum};
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
    uint32_t head[one_sizes<W>::DEPTH];
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
        const char *head = group + group_place<W>::CODES + lane * W::HEAD;
        c->head[i] = W::HEAD == 4 ? __ldg((const uint32_t *)head)
                                  : (uint32_t)__ldg((const uint16_t *)head);
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
        uint4 low = row->q[2 * g], high = row->q[2 * g + 1];
        uint32_t v[8], q[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        int dot = -W::LESS * x.sum;
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
            dot = __dp4a((int)w1, (int)q[4 + n], __dp4a((int)w0, (int)q[n], dot));
        }
        float d = half_to_float((uint16_t)c.head[i]);
        s->dot[j][lane] = make_float2((float)dot, d * x.s);
        if (W::HAS_MIN) {
            float m = half_to_float((uint16_t)(c.head[i] >> 16));
            s->min[j][lane] = make_float2(m, x.s * (float)x.sum);
        }
    }
}

/* whim_group_dot_step over the groups of a stretch. */
template <class W>
static float one_chain(float acc, const one_space<W> &s, int here, int lane)
{
    return chain<16>(
        acc, 0, here, 1,
        [=, &s](int j) {
            float2 dot = s.dot[j][lane];
            float2 min = W::HAS_MIN ? s.min[j][lane] : float2{};
            return few_step{dot.x, dot.y, min.x, min.y};
        },
        [](float sum, const few_step &step) {
            sum = whim_fmaf(step.dot, step.scale, sum);
            return W::HAS_MIN ? whim_fmaf(step.m, step.sum, sum) : sum;
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
                acc = one_chain<W>(acc, space, left < STRETCH ? left : STRETCH, threadIdx.x);
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
