/* SPDX-License-Identifier: Apache-2.0 */
/* Products of more rows with weights in F32, which routers of experts have, in the law's order: a
 * thread has all k of its outputs. A block has some tiles of outputs for some rows, and stretches of
 * both come to shared memory while the one before is added. */
#pragma once
#include "linear.cuh"


/* ROWS rows and TILES tiles of a block. A warp has LANES outputs beside each other; a thread has OWN
 * of both, as far apart as warps and lanes make them. All threads fetch, the first of them add: where
 * that is one warp it has a scheduler to itself, and nothing waits but for its chains. */
template <int N_TILE, int N_ROW, int N_LANE, int N_OWN> struct many_form {
    enum {
        K = WHIM_CUDA_MF32_K(N_TILE), /* columns of a stage */
        VECTORS = K / 4,
        TILES = N_TILE,
        ROWS = N_ROW,
        LANES = N_LANE,
        OWN = N_OWN,
        ROW_LANES = WARP / LANES,
        ROW_WARPS = ROWS / OWN / ROW_LANES,
        THREADS = TILES * WHIM_CUDA_TILE / OWN / LANES * ROW_WARPS * WARP,
        PITCH = K + 4, /* floats of a row: other banks for the next */
        STAGES = WHIM_CUDA_MF32_STAGES(TILES),
    };
};

template <class Form> struct many_stage {
    uint4 w[Form::TILES][Form::VECTORS][WHIM_CUDA_TILE];
    float x[Form::ROWS][Form::PITCH];
};

struct many_place {
    int tile, row;
};

/* A tile beyond the last is the last, and so is a row. */
template <class Form>
static void many_weights(many_stage<Form> *s, const whim_linear_args &a, const many_place &p, int k)
{
    enum { VECTORS = Form::VECTORS };
    int n_vector = ((int)a.w.k + 3) / 4, last = ((int)a.w.n - 1) / WHIM_CUDA_TILE;
    int here = n_vector - k / 4 < VECTORS ? n_vector - k / 4 : VECTORS;
    for (int i = threadIdx.x; i < Form::TILES * VECTORS * WHIM_CUDA_TILE;
         i += blockDim.x) {
        int tile = i / (VECTORS * WHIM_CUDA_TILE), at = i % (VECTORS * WHIM_CUDA_TILE);
        int64_t from = p.tile + tile < last ? p.tile + tile : last;
        if (at < here * WHIM_CUDA_TILE) {
            copy_async16(&s->w[tile][0][at],
                         (const uint4 *)a.w.data + (from * n_vector + k / 4) * WHIM_CUDA_TILE + at);
        }
    }
}

template <class Form>
static void many_rows(many_stage<Form> *s, const whim_linear_args &a, const many_place &p, int k)
{
    enum { VECTORS = Form::VECTORS, K = Form::K };
    int columns = (int)a.w.k - k < K ? (int)a.w.k - k : K;
    bool wide = ((uintptr_t)a.x | (uintptr_t)(a.x_stride * 4)) % 16 == 0 && columns == K;
    for (int i = threadIdx.x; i < Form::ROWS * VECTORS; i += blockDim.x) {
        int row = i / VECTORS, at = i % VECTORS * 4;
        int64_t from = p.row + row < a.n_row ? p.row + row : a.n_row - 1;
        const float *x = (const float *)a.x + from * a.x_stride + k + at;
        if (wide) {
            copy_async16(&s->x[row][at], x);
        }
        for (int j = 0; j < 4 && !wide && at + j < columns; j++) {
            copy_async4(&s->x[row][at + j], x + j);
        }
    }
}

/* The first of a thread's rows and outputs in a block; further ones are ROW_LANES * ROW_WARPS rows
 * and LANES outputs on. */
template <class Form> static many_place many_own()
{
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    return many_place{warp / Form::ROW_WARPS * Form::LANES * Form::OWN + lane % Form::LANES,
                      warp % Form::ROW_WARPS * Form::ROW_LANES + lane / Form::LANES};
}

template <class Form> static int many_output(const many_place &own, int i)
{
    return own.tile + i * Form::LANES;
}

template <class Form> static int many_row(const many_place &own, int i)
{
    return own.row + i * Form::ROW_LANES * Form::ROW_WARPS;
}

/* What a thread takes of some vectors of k: as much as keeps it busy while the next ones come. */
template <class Form> struct many_batch {
    enum { OWN = Form::OWN, VECTORS = OWN == 2 ? 4 : 1 };
    uint4 w[VECTORS][OWN];
    float4 x[VECTORS][OWN];
};

template <class Form>
static void many_load(many_batch<Form> *b, const many_stage<Form> &s, const many_place &own, int v)
{
    typedef many_batch<Form> batch;
#pragma unroll
    for (int i = 0; i < batch::VECTORS; i++) {
#pragma unroll
        for (int j = 0; j < batch::OWN; j++) {
            int n = many_output<Form>(own, j);
            b->w[i][j] = s.w[n / WHIM_CUDA_TILE][v + i][n % WHIM_CUDA_TILE];
            b->x[i][j] = *(const float4 *)&s.x[many_row<Form>(own, j)][(v + i) * 4];
        }
    }
}

template <class Form>
static void many_add_batch(const many_batch<Form> &b, float (&acc)[Form::OWN][Form::OWN])
{
    typedef many_batch<Form> batch;
#pragma unroll
    for (int i = 0; i < batch::VECTORS; i++) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
#pragma unroll
            for (int r = 0; r < batch::OWN; r++) {
#pragma unroll
                for (int n = 0; n < batch::OWN; n++) {
                    uint32_t w[4] = {b.w[i][n].x, b.w[i][n].y, b.w[i][n].z, b.w[i][n].w};
                    float x[4] = {b.x[i][r].x, b.x[i][r].y, b.x[i][r].z, b.x[i][r].w};
                    acc[r][n] = whim_fmaf(__uint_as_float(w[k]), x[k], acc[r][n]);
                }
            }
        }
    }
}

template <class Form>
static void many_add(const many_stage<Form> &s, const many_place &own, int columns,
                     float (&acc)[Form::OWN][Form::OWN])
{
    enum { OWN = Form::OWN, STEP = many_batch<Form>::VECTORS, LAST = Form::VECTORS - STEP };
    many_batch<Form> even, odd;
    if (columns == Form::K) {
        many_load<Form>(&even, s, own, 0);
#pragma unroll 4
        for (int v = 0; v < Form::VECTORS; v += 2 * STEP) {
            many_load<Form>(&odd, s, own, v + STEP);
            many_add_batch<Form>(even, acc);
            many_load<Form>(&even, s, own, v + 2 * STEP < LAST ? v + 2 * STEP : LAST);
            many_add_batch<Form>(odd, acc);
        }
        return;
    }
    for (int k = 0; k < columns; k++) {
#pragma unroll
        for (int r = 0; r < OWN; r++) {
#pragma unroll
            for (int n = 0; n < OWN; n++) {
                int at = many_output<Form>(own, n);
                const float *w =
                    (const float *)&s.w[at / WHIM_CUDA_TILE][k / 4][at % WHIM_CUDA_TILE];
                acc[r][n] = whim_fmaf(w[k % 4], s.x[many_row<Form>(own, r)][k], acc[r][n]);
            }
        }
    }
}

template <class Form> static void many_float(const whim_linear_args &a)
{
    enum { AHEAD = Form::STAGES - 1, K = Form::K };
    DYNAMIC_SHARED(16, memory);
    many_stage<Form> *stages = (many_stage<Form> *)memory;
    int n_out = ((int)a.w.n + Form::TILES * WHIM_CUDA_TILE - 1) / (Form::TILES * WHIM_CUDA_TILE);
    many_place p = {(int)blockIdx.x % n_out * Form::TILES, (int)blockIdx.x / n_out * Form::ROWS};
    many_place own = many_own<Form>();
    float acc[Form::OWN][Form::OWN] = {};
    for (int i = 0; i < AHEAD && i * K < a.w.k; i++) {
        many_weights<Form>(&stages[i], a, p, i * K);
    }
    wait_for_last();
    for (int i = 0; i < AHEAD; i++) {
        if (i * K < a.w.k) {
            many_rows<Form>(&stages[i], a, p, i * K);
        }
        copies_commit();
    }
    for (int k = 0, at = 0; k < a.w.k; k += K, at = (at + 1) % Form::STAGES) {
        int ahead = k + AHEAD * K;
        copies_wait<AHEAD - 1>();
        __syncthreads(); /* stage `at` is full, the one before it is free */
        if (ahead < a.w.k) {
            many_weights<Form>(&stages[(at + AHEAD) % Form::STAGES], a, p, ahead);
            many_rows<Form>(&stages[(at + AHEAD) % Form::STAGES], a, p, ahead);
        }
        copies_commit();
        if (threadIdx.x < Form::THREADS) {
            many_add<Form>(stages[at], own, (int)a.w.k - k < K ? (int)a.w.k - k : K, acc);
        }
    }
    for (int r = 0; r < Form::OWN && threadIdx.x < Form::THREADS; r++) {
        for (int n = 0; n < Form::OWN; n++) {
            int64_t row = p.row + many_row<Form>(own, r);
            int64_t out = p.tile * WHIM_CUDA_TILE + many_output<Form>(own, n);
            if (row < a.n_row && out < a.w.n) {
                a.y[row * a.y_stride + out] =
                    a.bias != NULL ? acc[r][n] + a.bias[out] : acc[r][n];
            }
        }
    }
}

#define MANY(name, ...)                                                            \
    typedef many_form<__VA_ARGS__> name##_form;                                    \
    static_assert(sizeof(many_stage<name##_form>) * name##_form::STAGES ==         \
                      WHIM_CUDA_MF32_BYTES(name##_form::TILES, name##_form::ROWS), \
                  "the host knows");                                               \
    KERNEL __launch_bounds__(WHIM_CUDA_MF32_THREADS(name##_form::TILES))           \
        name(ARGS(whim_cuda_linear_args))                                          \
    {                                                                              \
        let_next_start();                                                          \
        many_float<name##_form>(a.op);                                             \
    }
MANY(k_many_f32, WHIM_CUDA_MF32_TILES, WHIM_CUDA_MF32_ROWS, 8, 4)
MANY(k_some_f32, 1, WHIM_CUDA_FEW, 8, 2)
