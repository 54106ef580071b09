/* SPDX-License-Identifier: Apache-2.0 */
/* Products of few rows with groups of 32 integers: several rows on the matrix unit, one by dp4a. */
#pragma once
#include "few.cuh"

enum { FEW_WARPS = 8 };

/* Groups of a warp at once, and of a stretch. */
template <class W> struct few_sizes {
    enum { DEPTH = W::HAS_SUB ? 4 : 8, STRETCH = FEW_WARPS * DEPTH };
};

/* What lies beside the codes of a group: one or two numbers of 16 bits, or a whim_cuda_wide_head. */
template <class W> struct few_head {
    typedef uint32_t type;
    static uint32_t load(const char *from)
    {
        return W::HEAD == 4 ? __ldg((const uint32_t *)from)
                            : (uint32_t)__ldg((const uint16_t *)from);
    }
    static uint32_t get(const char *from) /* out of shared memory */
    {
        return W::HEAD == 4 ? *(const uint32_t *)from : (uint32_t) * (const uint16_t *)from;
    }
    static float d(uint32_t head)
    {
        return half_to_float((uint16_t)head);
    }
    static float m(uint32_t head)
    {
        return half_to_float((uint16_t)(head >> 16));
    }
};

template <> struct few_head<wide_weights> {
    typedef uint4 type;
    static uint4 load(const char *from)
    {
        return __ldg((const uint4 *)from);
    }
    static uint4 get(const char *from)
    {
        return *(const uint4 *)from;
    }
    static float d(const uint4 &head)
    {
        return whim_f32_from_bits(head.x);
    }
    static float m(const uint4 &head)
    {
        return whim_f32_from_bits(head.y);
    }
};

/* low * the first of two numbers of 16 bits + high * the second: of sub-scales, or sub-minima. */
static int few_sub(uint32_t both, int low, int high)
{
    return (int16_t)both * low + ((int)both >> 16) * high;
}

/* Whether groups have a minimum. */
template <class W> static bool few_has_min(const whim_cuda_few_args &a)
{
    return W::HAS_SUB ? a.has_min != 0 : W::HAS_MIN;
}

/* What a warp has of the groups of a stretch: codes as they lie, 4 bytes a thread. */
template <class W> struct few_codes {
    uint32_t v[few_sizes<W>::DEPTH][2 * W::VECTORS];
    typename few_head<W>::type head[few_sizes<W>::DEPTH]; /* of output `lane` */
};

template <class W>
static void few_load(few_codes<W> *c, const whim_cuda_few_args &a, const few_place &p)
{
    int64_t tile, n_group = a.k / WHIM_GROUP;
    int lane = threadIdx.x % WARP;
    const whim_cuda_matrix &m = few_matrix(a, p, &tile);
    int64_t first = p.stretch * few_sizes<W>::STRETCH + threadIdx.x / WARP;
    const char *from = (const char *)m.data + (tile * n_group + first) * group_place<W>::BYTES;
#pragma unroll
    for (int i = 0; i < few_sizes<W>::DEPTH; i++, from += FEW_WARPS * group_place<W>::BYTES) {
        if (first + i * FEW_WARPS >= n_group) {
            continue;
        }
#pragma unroll
        for (int v = 0; v < 2 * W::VECTORS; v++) {
            c->v[i][v] = __ldg((const uint32_t *)(from + (v * WARP + lane) * 4));
        }
        if (lane < WHIM_CUDA_TILE) {
            c->head[i] = few_head<W>::load(from + group_place<W>::CODES + lane * W::HEAD);
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

static void mma_s8(int *c, const uint32_t *w, uint32_t x0, uint32_t x1, int begin)
{
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%10,%10,%10,%10};"
        : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
        : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "r"(x0), "r"(x1), "r"(begin));
}

/* Either half of k. */
static void mma_s8_half(int *c, uint32_t w0, uint32_t w1, uint32_t x)
{
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
        "{%7,%7,%7,%7};"
        : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
        : "r"(w0), "r"(w1), "r"(x), "r"(0));
}

/* 16 outputs x 8 rows of a group; sub: the sub-scales of the thread's two outputs. */
template <class W>
static void group_dots(int *dot, const uint32_t *w, uint32_t x0, uint32_t x1, const uint32_t *sub)
{
    if (!W::HAS_SUB) {
        mma_s8(dot, w, x0, x1, 0);
        return;
    }
    int low[4], high[4];
    mma_s8_half(low, w[0], w[1], x0);
    mma_s8_half(high, w[2], w[3], x1);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        dot[i] = few_sub(sub[i / 2], low[i], high[i]);
    }
}

/* Sub-minima, for those that have some: the others' space is all that a block may have. */
template <bool HAS_SUB, int STRETCH> struct few_minima {
};

template <int STRETCH> struct few_minima<true, STRETCH> {
    uint32_t mn[STRETCH][WHIM_CUDA_TILE];
};

template <class W> struct few_space : few_minima<W::HAS_SUB, few_sizes<W>::STRETCH> {
    enum { PITCH = 20, STRETCH = few_sizes<W>::STRETCH }; /* rows lie in banks of their own */
    float dot[STRETCH][WHIM_CUDA_FEW][PITCH];
    float d[STRETCH][WHIM_CUDA_TILE];
    float m[W::HAS_MIN ? STRETCH : 1][WHIM_CUDA_TILE];
};

/* The sub-scales of outputs `out` and `out` + 8, which lanes of these numbers have. */
static void few_subs(uint32_t *sub, const uint4 &head, int out)
{
    sub[0] = __shfl_sync(ALL_LANES, head.z, out);
    sub[1] = __shfl_sync(ALL_LANES, head.z, out + 8);
}

static void few_subs(uint32_t *, uint32_t, int)
{
}

static uint32_t few_sc(const uint4 &head)
{
    return head.z;
}

static uint32_t few_sc(uint32_t)
{
    return 0;
}

static uint32_t few_mn(const uint4 &head)
{
    return head.w;
}

static uint32_t few_mn(uint32_t)
{
    return 0;
}

/* The dots of a stretch. */
template <class W>
static void few_dots(few_space<W> *s, const few_codes<W> &c, const whim_cuda_few_args &a,
                     int64_t stretch)
{
    int lane = threadIdx.x % WARP, out = lane / 4, quad = lane % 4, warp = threadIdx.x / WARP;
    int64_t n_group = a.k / WHIM_GROUP;
    uint32_t x[few_sizes<W>::DEPTH][2] = {};
#pragma unroll
    for (int i = 0; i < few_sizes<W>::DEPTH; i++) {
        int64_t g = stretch * few_sizes<W>::STRETCH + i * FEW_WARPS + warp;
        if (g < n_group && out < a.n_row) {
            const uint32_t *q = (const uint32_t *)a.blocks[out * n_group + g].q;
            x[i][0] = q[quad];
            x[i][1] = q[4 + quad];
        }
    }
#pragma unroll
    for (int i = 0; i < few_sizes<W>::DEPTH; i++) {
        int j = i * FEW_WARPS + warp, dot[4];
        if (stretch * few_sizes<W>::STRETCH + j >= n_group) {
            continue;
        }
        uint32_t w[4], sub[2];
        few_open<W>(w, c.v[i]);
        few_subs(sub, c.head[i], out);
        group_dots<W>(dot, w, x[i][0], x[i][1], sub);
#pragma unroll
        for (int n = 0; n < 4; n++) {
            s->dot[j][quad * 2 + n % 2][out + n / 2 * 8] = (float)dot[n];
        }
        if (lane < WHIM_CUDA_TILE) {
            s->d[j][lane] = few_head<W>::d(c.head[i]);
            if (W::HAS_MIN) {
                s->m[j][lane] = few_head<W>::m(c.head[i]);
            }
            if constexpr (W::HAS_SUB) {
                s->mn[j][lane] = few_mn(c.head[i]);
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
    enum { STRETCH = few_sizes<W>::STRETCH };
    int64_t n_group = a.k / WHIM_GROUP, first = stretch * STRETCH;
    int here = n_group - first < STRETCH ? (int)(n_group - first) : STRETCH;
    const whim_q8_block *blocks = a.blocks + row * n_group + first;
    bool has_min = few_has_min<W>(a);
    return chain<16>(
        acc, 0, here, 1,
        [=, &s](int j) {
            few_step step = {s.dot[j][row][lane]};
            float scale = blocks[j].s;
            step.scale = s.d[j][lane] * scale;
            if (W::HAS_MIN) {
                int sum = blocks[j].sum[0] + blocks[j].sum[1];
                if constexpr (W::HAS_SUB) {
                    sum = few_sub(s.mn[j][lane], blocks[j].sum[0], blocks[j].sum[1]);
                }
                step.m = s.m[j][lane];
                step.sum = scale * (float)sum;
            }
            return step;
        },
        [=](float acc, const few_step &step) {
            acc = whim_fmaf(step.dot, step.scale, acc);
            return has_min ? whim_fmaf(step.m, step.sum, acc) : acc;
        });
}

template <class W, int R> struct few_quant;

template <class W> struct few_quant<W, WHIM_CUDA_FEW> {
    static void run(const whim_cuda_few_args &a)
    {
        __shared__ few_space<W> space;
        few_walk walk = few_walk_of(a, (a.k / WHIM_GROUP + few_sizes<W>::STRETCH - 1) /
                                           few_sizes<W>::STRETCH);
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
