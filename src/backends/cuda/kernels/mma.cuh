/* SPDX-License-Identifier: Apache-2.0 */
/* Products with BF16 matrices on the matrix unit, which has an order of its own: rows are rounded to
 * BF16, k is cut into four chunks of whole stages (of 64), each is added up from 0 in steps of 16,
 * and the chunks' sums are added in order. A matrix's k alone decides about that, so a row has the
 * same bits in every kernel of this file and among any others.
 *
 * A block has 128 outputs (8 tiles, four warps with two each) and COLS rows. Weights and rows come
 * through a ring of stages in shared memory, [k / 8][outputs or rows] vectors of 8, in which the
 * unit's 8 x 8 parts lie together. Where there are fewer blocks than multiprocessors, a cluster of
 * four blocks has a chunk each. Weights are asked for before the kernel waits for its rows. */
#pragma once
#include "common.cuh"

enum {
    MM_TILES = WHIM_CUDA_MM_OUTPUTS / WHIM_CUDA_TILE,
    MM_OCTETS = WHIM_CUDA_MM_K / 8,
    MM_PIECES = MM_OCTETS * WHIM_CUDA_TILE, /* of 16 bytes, of a tile in a stage */
    MM_GROUP = 8,                           /* row blocks that go through the outputs together */
};

/* NT parts of 8 rows for each warp, WN warps along the rows. */
template <int NT, int WN> struct mm_form {
    enum {
        COLS = 8 * NT * WN,
        THREADS = 4 * WN * WARP,
        STAGES = COLS <= 16 ? 5 : COLS <= 64 ? 4 : 3, /* as whim_cuda_mm_bytes has it */
        W_BYTES = WHIM_CUDA_MM_OUTPUTS * WHIM_CUDA_MM_K * 2,
        STAGE_BYTES = W_BYTES + COLS * WHIM_CUDA_MM_K * 2,
        COPIES = MM_TILES * MM_PIECES / THREADS, /* of weights, by a thread in a stage */
    };
};

/* What a block has to do. */
struct mm_place {
    const whim_cuda_matrix *m; /* with SwiGLU the first of two */
    int tile, row;             /* the first of its tiles (of gate, then) and rows */
    int n_stage, chunk;        /* stages of k, and of a chunk */
};

static int mm_n_block(const whim_cuda_few_args &a, int i)
{
    int each = a.swiglu ? WHIM_CUDA_MM_OUTPUTS / 2 : WHIM_CUDA_MM_OUTPUTS;
    return ((int)a.matrix[i].n + each - 1) / each;
}

/* Items that a matrix has, each with `blocks` blocks of outputs. */
static int mm_n_out(const whim_cuda_few_args &a, int i, int blocks)
{
    return (mm_n_block(a, i) + blocks - 1) / blocks;
}

/* Some row blocks go through all outputs before the next do, so that both stay in the cache. Of an
 * item's blocks of outputs this is the one of number `rank`. */
static mm_place mm_place_of(const whim_cuda_few_args &a, int item, int cols, int blocks = 1,
                            int rank = 0)
{
    mm_place p = {};
    int n_out = 0, n_row = ((int)a.n_row + cols - 1) / cols;
    for (int i = 0; i < (a.swiglu ? 1 : a.n_matrix); i++) {
        n_out += mm_n_out(a, i, blocks);
    }
    int group = n_row <= MM_GROUP ? 0 : item / (n_out * MM_GROUP);
    int rows = n_row - group * MM_GROUP < MM_GROUP ? n_row - group * MM_GROUP : MM_GROUP;
    int in_group = item - group * n_out * MM_GROUP, out = in_group / rows, i = 0;
    p.row = (group * MM_GROUP + in_group % rows) * cols;
    for (; !a.swiglu && out >= mm_n_out(a, i, blocks); i++) {
        out -= mm_n_out(a, i, blocks);
    }
    p.m = &a.matrix[i];
    p.tile = (out * blocks + rank) * (a.swiglu ? MM_TILES / 2 : MM_TILES);
    p.n_stage = ((int)a.k + WHIM_CUDA_MM_K - 1) / WHIM_CUDA_MM_K;
    p.chunk = (p.n_stage + WHIM_CUDA_MM_CHUNKS - 1) / WHIM_CUDA_MM_CHUNKS;
    return p;
}

/* A thread's part of the copies: the same vectors of some tiles of weights and of rows, each
 * MM_STEP bytes further in the next stage. With SwiGLU tiles of gate and up alternate; a tile beyond
 * the last is the last. */
enum { MM_STEP = MM_PIECES * WHIM_CUDA_VECTOR };

template <class Form> struct mm_copier {
    enum {
        BY = Form::THREADS / MM_PIECES, /* tiles from copy to copy */
        PER = Form::COLS < WHIM_CUDA_TILE ? Form::COLS : WHIM_CUDA_TILE, /* rows of a tile */
        PIECES = Form::COLS * MM_OCTETS,
        ROW_COPIES = (PIECES + Form::THREADS - 1) / Form::THREADS,
    };
    const char *w[Form::COPIES], *x[ROW_COPIES];
    uint64_t policy;
    uint32_t w_to, x_to[ROW_COPIES];
    int octet, n_octet;

    mm_copier(const whim_cuda_few_args &a, const mm_place &p)
    {
        int in_tile = threadIdx.x % MM_PIECES, first = threadIdx.x / MM_PIECES;
        int last = ((int)p.m->n - 1) / WHIM_CUDA_TILE - p.tile;
        n_octet = (int)((a.k + 7) / 8);
        octet = in_tile / WHIM_CUDA_TILE;
        policy = cache_policy(a.n_row <= Form::COLS);
        w_to = (octet * WHIM_CUDA_MM_OUTPUTS + first * WHIM_CUDA_TILE + in_tile % WHIM_CUDA_TILE) *
               WHIM_CUDA_VECTOR;
        int64_t bytes = (int64_t)n_octet * WHIM_CUDA_TILE * WHIM_CUDA_VECTOR;
#pragma unroll
        for (int i = 0; i < Form::COPIES; i++) {
            int tile = i * BY + first, own = a.swiglu ? tile / 2 : tile;
            const void *data = p.m[a.swiglu ? tile % 2 : 0].data;
            w[i] = (const char *)data + (p.tile + (own < last ? own : last)) * bytes +
                   in_tile * WHIM_CUDA_VECTOR;
        }
        last = ((int)a.n_row - 1) / WHIM_CUDA_TILE;
#pragma unroll
        for (int i = 0; i < ROW_COPIES; i++) {
            int piece = threadIdx.x + i * Form::THREADS, tile = piece / (PER * MM_OCTETS);
            int at = piece / PER % MM_OCTETS, row = piece % PER;
            int64_t from = p.row / WHIM_CUDA_TILE + tile;
            x[i] = (const char *)a.tiles + (from < last ? from : last) * p.n_stage * MM_STEP +
                   (at * WHIM_CUDA_TILE + row) * WHIM_CUDA_VECTOR;
            x_to[i] = Form::W_BYTES + (at * Form::COLS + tile * PER + row) * WHIM_CUDA_VECTOR;
        }
    }

    void weights(uint32_t stage, int s) const
    {
        bool is_there = s * MM_OCTETS + octet < n_octet;
#pragma unroll
        for (int i = 0; i < Form::COPIES; i++) {
            copy_async16_or_zero(stage + w_to + i * BY * WHIM_CUDA_TILE * WHIM_CUDA_VECTOR,
                                 w[i] + (int64_t)s * MM_STEP, is_there, policy);
        }
    }

    void rows(uint32_t stage, int s) const
    {
#pragma unroll
        for (int i = 0; i < ROW_COPIES; i++) {
            if (PIECES % Form::THREADS == 0 || threadIdx.x + i * Form::THREADS < PIECES) {
                copy_async16_or_zero(stage + x_to[i], x[i] + (int64_t)s * MM_STEP, true);
            }
        }
    }
};

/* The sums of a warp: two tiles, NT parts of 8 rows, and what a thread has of them. */
template <int NT> struct mm_sums {
    float c[2][NT][4];
};

template <int NT, int WN> static void mm_stage_add(mm_sums<NT> *sums, uint32_t stage)
{
    typedef mm_form<NT, WN> form;
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    uint32_t w_at = stage + (lane / 16 * WHIM_CUDA_MM_OUTPUTS + warp / WN * 32 + lane % 16) * 16;
    uint32_t x_at = stage + form::W_BYTES +
                    (NT == 1 ? lane % 16 / 8 * form::COLS + warp % WN * 8 + lane % 8
                             : lane / 16 * form::COLS + warp % WN * NT * 8 + lane % 16) *
                        16;
#pragma unroll
    for (int k = 0; k < WHIM_CUDA_MM_K / 16; k++) {
        uint32_t w[2][4], x[NT][2];
#pragma unroll
        for (int t = 0; t < 2; t++) {
            load_parts4(w[t], w_at + (k * 2 * WHIM_CUDA_MM_OUTPUTS + t * 16) * 16);
        }
        if (NT == 1) {
            load_parts2(x[0], x_at + k * 2 * form::COLS * 16);
        }
#pragma unroll
        for (int n = 0; n + 1 < NT; n += 2) {
            uint32_t r[4];
            load_parts4(r, x_at + (k * 2 * form::COLS + n * 8) * 16);
            x[n][0] = r[0];
            x[n + 1][0] = r[1];
            x[n][1] = r[2];
            x[n + 1][1] = r[3];
        }
#pragma unroll
        for (int t = 0; t < 2; t++) {
#pragma unroll
            for (int n = 0; n < NT; n++) {
                mma_bf16(sums->c[t][n], w[t], x[n][0], x[n][1]);
            }
        }
    }
}

/* What a thread has of a tile of outputs, for rows `row` on. */
static void mm_store_tile(const whim_cuda_few_args &a, const whim_cuda_matrix *m, int tile, int row,
                          const float *c)
{
    int lane = threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int64_t r = row + lane % 4 * 2 + i % 2;
        int n = tile * WHIM_CUDA_TILE + lane / 4 + i / 2 * 8;
        if (r < a.n_row && n < m->n) {
            m->y[r * m->y_stride + n] = m->bias != NULL ? c[i] + m->bias[n] : c[i];
        }
    }
}

/* The same of a tile of gate and of up. */
static void mm_store_swiglu(const whim_cuda_few_args &a, const whim_cuda_matrix *m, int tile,
                            int row, const float (*c)[4])
{
    const whim_cuda_matrix &gate = m[0], &up = m[1];
    int lane = threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int64_t r = row + lane % 4 * 2 + i % 2;
        int n = tile * WHIM_CUDA_TILE + lane / 4 + i / 2 * 8;
        if (r < a.n_row && n < up.n) {
            float g = gate.bias != NULL ? c[0][i] + gate.bias[n] : c[0][i];
            float u = up.bias != NULL ? c[1][i] + up.bias[n] : c[1][i];
            float y = g / (1.0f + whim_expf(-g)) * u;
            up.y[r * up.y_stride + n] = y;
            if (a.left.tiles != NULL) {
                a.left.tiles[whim_cuda_tiles_at(a.left.rows, up.n, (int)r, n)] =
                    whim_f32_to_bf16(y);
            }
        }
    }
}

/* The outputs of a thread's part: of tile `pair` of four pairs of tiles, rows `row` on. */
static void mm_store(const whim_cuda_few_args &a, const mm_place &p, int pair, int row,
                     const float (*c)[4])
{
    if (a.swiglu) {
        mm_store_swiglu(a, p.m, p.tile + pair, row, c);
        return;
    }
#pragma unroll
    for (int t = 0; t < 2; t++) {
        mm_store_tile(a, p.m, p.tile + pair * 2 + t, row, c[t]);
    }
}

/* Stages first .. end - 1; fold(sums, s) after each, where a chunk may end. */
template <int NT, int WN, class Fold>
static void mm_walk(const whim_cuda_few_args &a, const mm_place &p, int first, int end,
                    mm_sums<NT> *sums, Fold fold)
{
    typedef mm_form<NT, WN> form;
    enum { AHEAD = form::STAGES - 1 };
    DYNAMIC_SHARED(128, memory);
    uint32_t ring = (uint32_t)__cvta_generic_to_shared(memory);
    mm_copier<form> copier(a, p);
    for (int i = 0; i < AHEAD && first + i < end; i++) {
        copier.weights(ring + i * form::STAGE_BYTES, first + i);
    }
    wait_for_last();
    for (int i = 0; i < AHEAD; i++) {
        if (first + i < end) {
            copier.rows(ring + i * form::STAGE_BYTES, first + i);
        }
        copies_commit();
    }
    for (int s = first, at = 0, to = AHEAD; s < end; s++) {
        copies_wait<AHEAD - 1>();
        __syncthreads(); /* stage `at` is full, `to` is free */
        if (s + AHEAD < end) {
            copier.weights(ring + to * form::STAGE_BYTES, s + AHEAD);
            copier.rows(ring + to * form::STAGE_BYTES, s + AHEAD);
        }
        copies_commit();
        mm_stage_add<NT, WN>(sums, ring + at * form::STAGE_BYTES);
        fold(s);
        at = at + 1 == form::STAGES ? 0 : at + 1;
        to = to + 1 == form::STAGES ? 0 : to + 1;
    }
}

/* Sums to the ring, which nobody needs any more: [warp][NT][2][lane], where this thread's are. */
template <int NT> static float4 *mm_keep(const mm_sums<NT> &sums)
{
    DYNAMIC_SHARED(128, memory);
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    float4 *mine = (float4 *)memory + warp * 2 * NT * WARP + lane;
    copies_wait<0>();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2 * NT; i++) {
        const float *c = sums.c[i % 2][i / 2];
        mine[i * WARP] = make_float4(c[0], c[1], c[2], c[3]);
    }
    return mine;
}

/* All chunks by one block. */
template <int NT, int WN> static void mm_whole(const whim_cuda_few_args &a)
{
    mm_place p = mm_place_of(a, blockIdx.x, mm_form<NT, WN>::COLS);
    mm_sums<NT> sums = {}, total = {};
    let_next_start();
    mm_walk<NT, WN>(a, p, 0, p.n_stage, &sums, [&](int s) {
        if ((s + 1) % p.chunk != 0 && s + 1 != p.n_stage) {
            return;
        }
#pragma unroll
        for (int i = 0; i < 8 * NT; i++) {
            float *sum = &sums.c[0][0][0] + i, *all = &total.c[0][0][0] + i;
            *all = s < p.chunk ? *sum : *all + *sum;
            *sum = 0.0f;
        }
    });
    /* Through memory, for a loop that is short. */
    int warp = threadIdx.x / WARP;
    float4 *mine = mm_keep(total);
#pragma unroll 1
    for (int n = 0; n < NT; n++) {
        float4 lo = mine[2 * n * WARP], hi = mine[(2 * n + 1) * WARP];
        float c[2][4] = {{lo.x, lo.y, lo.z, lo.w}, {hi.x, hi.y, hi.z, hi.w}};
        mm_store(a, p, warp / WN, p.row + (warp % WN * NT + n) * 8, c);
    }
}

#if __CUDA_ARCH__ >= 900
/* The last step of blocks that had a chunk each and left its sums as mm_keep does, n_part parts of
 * 8 rows: block i of a cluster adds up the i-th quarter of outputs. */
static void mm_split_add(const whim_cuda_few_args &a, const mm_place &p, int n_part)
{
    DYNAMIC_SHARED(128, memory);
    uint32_t parts = (uint32_t)__cvta_generic_to_shared(memory);
    int rank = blockIdx.x % WHIM_CUDA_MM_CHUNKS, lane = threadIdx.x % WARP;
    cluster_sync();
#pragma unroll 1
    for (int n = threadIdx.x / WARP; n < n_part; n += blockDim.x / WARP) {
        float c[2][4] = {};
        for (int from = 0; from < WHIM_CUDA_MM_CHUNKS && from * p.chunk < p.n_stage; from++) {
#pragma unroll
            for (int t = 0; t < 2; t++) {
                int at = ((rank * n_part + n) * 2 + t) * WARP + lane;
                float4 v = cluster_load(parts + at * 16, from);
                c[t][0] = from == 0 ? v.x : c[t][0] + v.x;
                c[t][1] = from == 0 ? v.y : c[t][1] + v.y;
                c[t][2] = from == 0 ? v.z : c[t][2] + v.z;
                c[t][3] = from == 0 ? v.w : c[t][3] + v.w;
            }
        }
        mm_store(a, p, rank, p.row + n * 8, c);
    }
    cluster_sync(); /* nobody leaves while others read what it has */
}

/* A chunk each by the blocks of a cluster. */
template <int NT, int WN> static void mm_split(const whim_cuda_few_args &a)
{
    mm_place p = mm_place_of(a, blockIdx.x / WHIM_CUDA_MM_CHUNKS, mm_form<NT, WN>::COLS);
    int first = blockIdx.x % WHIM_CUDA_MM_CHUNKS * p.chunk, end = first + p.chunk;
    mm_sums<NT> sums = {};
    let_next_start();
    mm_walk<NT, WN>(a, p, first < p.n_stage ? first : p.n_stage,
                    end < p.n_stage ? end : p.n_stage, &sums, [](int) {});
    mm_keep(sums);
    mm_split_add(a, p, NT * WN);
}
#else
template <int NT, int WN> static void mm_split(const whim_cuda_few_args &a)
{
}
#endif

#define MM(cols, NT, WN)                                                    \
    KERNEL_BOUNDED(128 * WN, 2) k_mm_##cols(ARGS(whim_cuda_few_args))       \
    {                                                                       \
        mm_whole<NT, WN>(a);                                                \
    }                                                                       \
    KERNEL_IN_CLUSTERS(WHIM_CUDA_MM_CHUNKS, 128 * WN, 2, k_mm_split_##cols) \
        (ARGS(whim_cuda_few_args))                                          \
    {                                                                       \
        mm_split<NT, WN>(a);                                                \
    }
MM(8, 1, 1)
MM(16, 1, 2)
MM(32, 2, 2)
MM(64, 4, 2)

KERNEL_BOUNDED(256, 1) k_mm_128(ARGS(whim_cuda_few_args))
{
    mm_whole<8, 2>(a);
}

/* A thread for each vector: 16 rows beside each other write to one stretch of memory. */
KERNEL k_tiles_bf16(ARGS(whim_cuda_tiles_args))
{
    BEGIN
    int n_octet = (int)((a.k + WHIM_CUDA_MM_K - 1) / WHIM_CUDA_MM_K * MM_OCTETS);
    bool wide = ((uintptr_t)a.x | (uintptr_t)(a.x_stride * 4)) % 16 == 0;
    int64_t n = (a.n_row + WHIM_CUDA_TILE - 1) / WHIM_CUDA_TILE * WHIM_CUDA_TILE * n_octet;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * (int64_t)blockDim.x) {
        int64_t sixteen = i / WHIM_CUDA_TILE / n_octet;
        int64_t r = sixteen * WHIM_CUDA_TILE + i % WHIM_CUDA_TILE;
        int octet = (int)(i / WHIM_CUDA_TILE - sixteen * n_octet);
        const float *x = a.x + r * a.x_stride + octet * 8;
        float v[8] = {};
        if (r >= a.n_row) {
            continue;
        }
        if (wide && octet * 8 + 8 <= a.k) {
            float4 lo = *(const float4 *)x, hi = *(const float4 *)(x + 4);
            v[0] = lo.x, v[1] = lo.y, v[2] = lo.z, v[3] = lo.w;
            v[4] = hi.x, v[5] = hi.y, v[6] = hi.z, v[7] = hi.w;
        } else {
            for (int j = 0; j < 8; j++) {
                v[j] = octet * 8 + j < a.k ? x[j] : 0.0f;
            }
        }
        uint32_t w[4];
        for (int j = 0; j < 4; j++) {
            w[j] = whim_f32_to_bf16(v[2 * j]) | (uint32_t)whim_f32_to_bf16(v[2 * j + 1]) << 16;
        }
        ((uint4 *)a.tiles)[(r / a.rows * n_octet + octet) * a.rows + r % a.rows] =
            make_uint4(w[0], w[1], w[2], w[3]);
    }
}
