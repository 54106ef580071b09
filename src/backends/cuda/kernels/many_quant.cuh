/* SPDX-License-Identifier: Apache-2.0 */
/* Products of more than a few rows with groups of 32 integers: the law's bits, as all of QUANT types.
 * A warp has a tile of 16 outputs and up to 64 rows: the matrix unit gives the exact dots of a group
 * with 8 rows at once, each of which joins its sum by one fma, groups in order. The warps of a block
 * share their rows, which come through shared memory a stretch of k at a time. */
#pragma once
#include "few_quant.cuh"

enum { MQ_PARTS = WHIM_CUDA_MQ_ROWS / 8, MQ_PITCH = 12 }; /* words: rows lie in banks of their own */

/* Groups of a stretch. */
template <class W> struct mq_sizes {
    enum { STRETCH = W::HAS_SUB ? 4 : 8 };
};

template <class W> struct mq_space {
    enum { STRETCH = mq_sizes<W>::STRETCH, ROWS = WHIM_CUDA_MQ_ROWS };
    __align__(16) uint32_t q[STRETCH][ROWS][MQ_PITCH];
    float s[STRETCH][ROWS];
    float sum[W::HAS_MIN && !W::HAS_SUB ? STRETCH : 1][ROWS]; /* of a row's codes, times its scale */
    int2 halves[W::HAS_SUB ? STRETCH : 1][ROWS];              /* and of either half of them */
};

/* What a thread has of the groups of a stretch, its outputs `lane / 4` and that + 8. */
template <class W> struct mq_codes {
    uint32_t v[mq_sizes<W>::STRETCH][2 * W::VECTORS];
    typename few_head<W>::type head[mq_sizes<W>::STRETCH][2];

    void load(const char *tile, int first, int n_group)
    {
        int lane = threadIdx.x % WARP;
#pragma unroll
        for (int i = 0; i < mq_sizes<W>::STRETCH; i++) { /* a group beyond the last is the last */
            int g = first + i < n_group ? first + i : n_group - 1;
            const char *from = tile + (int64_t)g * group_place<W>::BYTES;
#pragma unroll
            for (int w = 0; w < 2 * W::VECTORS; w++) {
                v[i][w] = __ldg((const uint32_t *)(from + (w * WARP + lane) * 4));
            }
            from += group_place<W>::CODES + lane / 4 * W::HEAD;
            head[i][0] = few_head<W>::load(from);
            head[i][1] = few_head<W>::load(from + 8 * W::HEAD);
        }
    }
};

/* A row's groups of a stretch, each by a thread. */
template <class W>
static void mq_rows(mq_space<W> *s, const block_rows &rows, int n_row, int first, int n_group)
{
    enum { STRETCH = mq_sizes<W>::STRETCH };
    for (int i = threadIdx.x; i < n_row * STRETCH; i += blockDim.x) {
        int j = i % STRETCH, r = i / STRETCH, g = first + j < n_group ? first + j : n_group - 1;
        const whim_q8_block *x = rows.x + (r < rows.n ? r : 0) * rows.stride + g;
        const uint32_t *q = (const uint32_t *)x->q;
        uint4 low = make_uint4(q[0], q[1], q[2], q[3]), high = make_uint4(q[4], q[5], q[6], q[7]);
        float scale = x->s;
        int2 halves = make_int2(x->sum[0], x->sum[1]);
        *(uint4 *)&s->q[j][r][0] = low;
        *(uint4 *)&s->q[j][r][4] = high;
        s->s[j][r] = scale;
        if (W::HAS_SUB) {
            s->halves[j][r] = halves;
        } else if (W::HAS_MIN) {
            s->sum[j][r] = scale * (float)(halves.x + halves.y);
        }
    }
}

/* What a thread needs of a group beside its codes, for either output. */
template <class W> struct mq_group {
    uint32_t w[4], sub[2], mn[2];
    float d[2], m[2];

    mq_group(const mq_codes<W> &c, int i)
    {
        few_open<W>(w, c.v[i]);
#pragma unroll
        for (int o = 0; o < 2; o++) {
            d[o] = few_head<W>::d(c.head[i][o]);
            m[o] = W::HAS_MIN ? few_head<W>::m(c.head[i][o]) : 0.0f;
            sub[o] = few_sc(c.head[i][o]);
            mn[o] = few_mn(c.head[i][o]);
        }
    }
};

/* One group joins the sums of 8 rows from `row` on. */
template <class W>
static void mq_step(float *acc, const mq_group<W> &g, const mq_space<W> &s, int j, int row,
                    bool has_min)
{
    int lane = threadIdx.x % WARP, two = row + lane % 4 * 2, dot[4];
    const uint32_t *q = s.q[j][row + lane / 4];
    float2 scale = *(const float2 *)&s.s[j][two];
    group_dots<W>(dot, g.w, q[lane % 4], q[4 + lane % 4], g.sub);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float x = i % 2 == 0 ? scale.x : scale.y;
        acc[i] = whim_fmaf((float)dot[i], g.d[i / 2] * x, acc[i]);
        if (has_min) {
            float sum;
            if (W::HAS_SUB) {
                int2 halves = s.halves[j][two + i % 2];
                sum = x * (float)few_sub(g.mn[i / 2], halves.x, halves.y);
            } else {
                sum = s.sum[j][two + i % 2];
            }
            acc[i] = whim_fmaf(g.m[i / 2], sum, acc[i]);
        }
    }
}

template <class W>
static void mq_store(const whim_linear_args &a, float (*acc)[4], int64_t tile, int64_t first)
{
    int lane = threadIdx.x % WARP;
#pragma unroll
    for (int p = 0; p < MQ_PARTS; p++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int64_t n = tile * WHIM_CUDA_TILE + lane / 4 + i / 2 * 8;
            int64_t row = first + p * 8 + lane % 4 * 2 + i % 2;
            if (n < a.w.n && row < a.n_row) {
                a.y[row * a.y_stride + n] = a.bias != NULL ? acc[p][i] + a.bias[n] : acc[p][i];
            }
        }
    }
}

/* Blocks go through the outputs for some rows, then to the next rows. */
template <class W> static void many_quant(const whim_cuda_linear_args &args)
{
    enum { STRETCH = mq_sizes<W>::STRETCH, ROWS = WHIM_CUDA_MQ_ROWS };
    __shared__ mq_space<W> space;
    const whim_linear_args &a = args.op;
    int n_group = (int)(a.w.k / WHIM_GROUP), warps = blockDim.x / WARP;
    int64_t n_tile = (a.w.n + WHIM_CUDA_TILE - 1) / WHIM_CUDA_TILE;
    int64_t n_place = (n_tile + warps - 1) / warps;
    bool has_min = W::HAS_SUB ? type_has_min(a.w.dtype) : W::HAS_MIN;
    EACH_ITEM(item, n_place * ((a.n_row + ROWS - 1) / ROWS))
    {
        int64_t tile = item % n_place * warps + threadIdx.x / WARP, first = item / n_place * ROWS;
        block_rows rows = rows_from(args, first, (const block_rows *)NULL);
        int n_part = rows.n < ROWS ? (int)(rows.n + 7) / 8 : MQ_PARTS;
        const char *from = (const char *)a.w.data +
                           (tile < n_tile ? tile : 0) * n_group * group_place<W>::BYTES;
        float acc[MQ_PARTS][4] = {};
        for (int at = 0; at < n_group; at += STRETCH) {
            mq_codes<W> codes;
            codes.load(from, at, n_group);
            __syncthreads();
            mq_rows<W>(&space, rows, n_part * 8, at, n_group);
            __syncthreads();
#pragma unroll
            for (int j = 0; j < STRETCH; j++) {
                if (at + j >= n_group) {
                    break;
                }
                mq_group<W> group(codes, j);
#pragma unroll
                for (int p = 0; p < MQ_PARTS; p++) {
                    if (p < n_part) {
                        mq_step<W>(acc[p], group, space, j, p * 8, has_min);
                    }
                }
            }
        }
        mq_store<W>(a, acc, tile, first);
    }
}

#define MANY_QUANT(name)                                                                   \
    extern "C" __global__ void __launch_bounds__(WHIM_CUDA_MQ_THREADS, 2)                  \
        k_many_##name(ARGS(whim_cuda_linear_args))                                         \
    {                                                                                      \
        BEGIN                                                                              \
        many_quant<name##_weights>(a);                                                     \
    }
MANY_QUANT(q4_0)
MANY_QUANT(q4_1)
MANY_QUANT(q8_0)
MANY_QUANT(wide)
