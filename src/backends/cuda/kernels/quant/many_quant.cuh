/* SPDX-License-Identifier: Apache-2.0 */
/* Products of more than a few rows with groups of 32 integers: the law's bits, as all of QUANT types.
 * A warp has a tile of 16 outputs and up to 64 rows: the matrix unit gives the exact dots of a group
 * with 8 rows at once, each of which joins its sum by one fma, groups in order. Rows, which the warps
 * of a block share, and weights come through a ring in shared memory, some groups at a time. */
#pragma once
#include "quant/few_quant.cuh"
#include "mma.cuh"

enum { MQ_PARTS = WHIM_CUDA_MQ_ROWS / 8, MQ_PITCH = 12 }; /* words: rows lie in banks of their own */

/* Rows of a stage, for each group of it. */
struct mq_rows {
    __align__(16) uint32_t q[WHIM_CUDA_MQ_ROWS][MQ_PITCH];
    float s[WHIM_CUDA_MQ_ROWS];
    int2 sum[WHIM_CUDA_MQ_ROWS]; /* of either half of the codes */
};

/* What a block has: a tile for each of its warps, and some rows. */
template <class W> struct mq_block {
    enum {
        BYTES = group_place<W>::BYTES,
        GROUPS = WHIM_CUDA_MQ_GROUPS(BYTES), /* of a stage */
        STAGES = WHIM_CUDA_MQ_STAGES(BYTES),
    };
    const char *tile; /* of this warp */
    block_rows from;
    int n_row, n_group;
    bool has_min;

    static mq_rows *rows(int stage)
    {
        DYNAMIC_SHARED(128, memory);
        return (mq_rows *)memory + stage * GROUPS;
    }

    static char *codes(int stage)
    {
        int warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
        return (char *)rows(STAGES) + (stage * warps + warp) * GROUPS * BYTES;
    }

    /* Ask for the groups from g on. */
    void ask(int stage, int g) const
    {
        int here = n_group - g < GROUPS ? n_group - g : GROUPS;
        uint32_t to = (uint32_t)__cvta_generic_to_shared(codes(stage));
        for (int i = threadIdx.x % WARP * 16; i < here * BYTES; i += WARP * 16) {
            copy_async16_or_zero(to + i, tile + (int64_t)g * BYTES + i, true);
        }
        for (int i = threadIdx.x; i < n_row * GROUPS; i += blockDim.x) {
            int j = i % GROUPS, r = i / GROUPS; /* a row beyond the last is the first */
            const whim_q8_block *x = from.x + (r < from.n ? r : 0) * from.stride + g + j;
            mq_rows *at = rows(stage) + j;
            if (j >= here) {
                continue;
            }
#pragma unroll
            for (int w = 0; w < WHIM_GROUP / 4; w++) {
                copy_async4(&at->q[r][w], x->q + w * 4);
            }
            copy_async4(&at->s[r], &x->s);
            if (W::HAS_MIN) {
                copy_async4(&at->sum[r].x, &x->sum[0]);
                copy_async4(&at->sum[r].y, &x->sum[1]);
            }
        }
    }
};

/* What a thread has of a group of its warp's tile: of outputs `lane / 4` and that + 8. */
template <class W> struct mq_group {
    uint32_t w[4], sub[2], mn[2];
    float d[2], m[2];

    mq_group(const char *from)
    {
        uint32_t v[2 * W::VECTORS];
        int lane = threadIdx.x % WARP;
#pragma unroll
        for (int i = 0; i < 2 * W::VECTORS; i++) {
            v[i] = ((const uint32_t *)from)[i * WARP + lane];
        }
        few_open<W>(w, v);
#pragma unroll
        for (int o = 0; o < 2; o++) {
            const char *at = from + group_place<W>::CODES + (lane / 4 + o * 8) * W::HEAD;
            typename few_head<W>::type head = few_head<W>::get(at);
            d[o] = few_head<W>::d(head);
            m[o] = W::HAS_MIN ? few_head<W>::m(head) : 0.0f;
            sub[o] = few_sc(head);
            mn[o] = few_mn(head);
        }
    }
};

/* Exact dots as floats: a sum that begins with 1.5 * 2^23 has the bits of one, where it is below 2^22
 * as those without sub-scales are. */
template <class W>
static void mq_dots(float *dot, const mq_group<W> &g, uint32_t x0, uint32_t x1)
{
    int sum[4];
    if (W::HAS_SUB) {
        group_dots<W>(sum, g.w, x0, x1, g.sub);
    } else {
        mma_s8(sum, g.w, x0, x1, 0x4b400000);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        dot[i] = W::HAS_SUB ? (float)sum[i] : whim_f32_from_bits((uint32_t)sum[i]) - 0x1.8p23f;
    }
}

/* A group joins the sums of 8 rows from `row` on. */
template <class W>
static void mq_step(float *acc, const mq_group<W> &g, const mq_rows &rows, int row, uint32_t x0,
                    uint32_t x1, bool has_min)
{
    int two = row + threadIdx.x % 4 * 2;
    float2 scale = *(const float2 *)&rows.s[two];
    float dot[4];
    mq_dots<W>(dot, g, x0, x1);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float s = i % 2 == 0 ? scale.x : scale.y;
        acc[i] = whim_fmaf(dot[i], g.d[i / 2] * s, acc[i]);
        if (W::HAS_MIN && has_min) {
            int2 sum = rows.sum[two + i % 2];
            int both = W::HAS_SUB ? few_sub(g.mn[i / 2], sum.x, sum.y) : sum.x + sum.y;
            acc[i] = whim_fmaf(g.m[i / 2], s * (float)both, acc[i]);
        }
    }
}

/* A stage's groups from g on. */
template <class W>
static void mq_add(float (*acc)[4], const mq_block<W> &b, int stage, int g)
{
    int lane = threadIdx.x % WARP;
#pragma unroll
    for (int j = 0; j < mq_block<W>::GROUPS; j++) {
        if (g + j >= b.n_group) {
            break;
        }
        const mq_rows &rows = b.rows(stage)[j];
        mq_group<W> group(b.codes(stage) + j * mq_block<W>::BYTES);
        uint32_t at = (uint32_t)__cvta_generic_to_shared(
            &rows.q[lane / 16 * 8 + lane % 8][lane / 8 % 2 * 4]);
#pragma unroll
        for (int p = 0; p < MQ_PARTS; p += 2) {
            if (p * 8 < b.n_row) {
                uint32_t x[4]; /* either half of k, of 8 rows and the next 8 */
                load_parts4(x, at + p * 8 * MQ_PITCH * 4);
                mq_step<W>(acc[p], group, rows, p * 8, x[0], x[1], b.has_min);
                mq_step<W>(acc[p + 1], group, rows, p * 8 + 8, x[2], x[3], b.has_min);
            }
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
    enum { ROWS = WHIM_CUDA_MQ_ROWS, GROUPS = mq_block<W>::GROUPS, STAGES = mq_block<W>::STAGES };
    const whim_linear_args &a = args.op;
    int64_t warps = blockDim.x / WARP, n_tile = (a.w.n + WHIM_CUDA_TILE - 1) / WHIM_CUDA_TILE;
    int64_t n_place = (n_tile + warps - 1) / warps;
    mq_block<W> b;
    b.n_group = (int)(a.w.k / WHIM_GROUP);
    b.has_min = W::HAS_SUB ? type_has_min(a.w.dtype) : W::HAS_MIN;
    EACH_ITEM(item, n_place * ((a.n_row + ROWS - 1) / ROWS))
    {
        int64_t tile = item % n_place * warps + threadIdx.x / WARP, first = item / n_place * ROWS;
        b.from = rows_from(args, first, (const block_rows *)NULL);
        b.n_row = b.from.n < ROWS ? (int)(b.from.n + 15) / 16 * 16 : (int)ROWS;
        b.tile = (const char *)a.w.data + (tile < n_tile ? tile : 0) * b.n_group * mq_block<W>::BYTES;
        float acc[MQ_PARTS][4] = {};
        __syncthreads(); /* the last item's stages have been read */
        for (int i = 0; i < STAGES - 1; i++) {
            if (i * GROUPS < b.n_group) {
                b.ask(i, i * GROUPS);
            }
            copies_commit();
        }
        for (int g = 0, at = 0, to = STAGES - 1; g < b.n_group; g += GROUPS) {
            copies_wait<STAGES - 2>();
            __syncthreads(); /* stage `at` is there, `to` is free */
            if (g + (STAGES - 1) * GROUPS < b.n_group) {
                b.ask(to, g + (STAGES - 1) * GROUPS);
            }
            copies_commit();
            mq_add<W>(acc, b, at, g);
            at = at + 1 == STAGES ? 0 : at + 1;
            to = to + 1 == STAGES ? 0 : to + 1;
        }
        mq_store<W>(a, acc, tile, first);
    }
}

#define MANY_QUANT(name)                                                               \
    KERNEL_BOUNDED(WHIM_CUDA_MQ_THREADS, 2) k_many_##name(ARGS(whim_cuda_linear_args)) \
    {                                                                                  \
        BEGIN                                                                          \
        many_quant<name##_weights>(a);                                                 \
    }
MANY_QUANT(q4_0)
MANY_QUANT(q4_1)
MANY_QUANT(q8_0)
MANY_QUANT(wide)
