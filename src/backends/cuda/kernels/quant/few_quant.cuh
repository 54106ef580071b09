/* SPDX-License-Identifier: Apache-2.0 */
/* Products of few rows with groups of 32 integers on the matrix unit; one_quant.cuh has one row. */
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
