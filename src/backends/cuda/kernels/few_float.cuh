/* SPDX-License-Identifier: Apache-2.0 */
/* Products of few rows with plain floats: a ring of stages, which some threads fill and others
 * add. */
#pragma once
#include "few.cuh"

/* The first warps of a block walk chains, which is all that they do; FEW_FETCHERS threads after
 * them fetch. */
enum { FEW_STAGES = 4, FEW_FETCHERS = 128 };

template <int R> struct few_crew {
    enum { ROWS = R > 1 ? 2 : 1 /* of a thread */, CHAINS = R > 1 ? 64 : 32 };
};

/* Both crews, each in a loop of its own: __syncthreads would have to be the same one for all. */
template <int R> static void few_crews_meet()
{
    crews_meet<few_crew<R>::CHAINS + FEW_FETCHERS>();
}

template <class W, int R> struct few_stage {
    enum {
        VECTORS = R > 1 ? 32 : 64, /* of an output; launch_args.h has the bytes of all stages */
        PER = WHIM_CUDA_VECTOR / W::BYTES,
        LENGTH = VECTORS * PER,
        PITCH = LENGTH + 4,
    };
    uint4 w[VECTORS][WHIM_CUDA_TILE];
    float x[R][PITCH];
};

template <class W, int R>
static void few_fetch_weights(few_stage<W, R> *s, const whim_cuda_few_args &a, const few_place &p,
                              int fetcher)
{
    typedef few_stage<W, R> stage;
    int64_t n_vector = (a.k + stage::PER - 1) / stage::PER;
    int64_t tile, first = p.stretch * stage::VECTORS;
    const whim_cuda_matrix &m = few_matrix(a, p, &tile);
    int64_t here = n_vector - first < stage::VECTORS ? n_vector - first : stage::VECTORS;
    const uint4 *from = (const uint4 *)m.data + (tile * n_vector + first) * WHIM_CUDA_TILE;
    for (int i = fetcher; i < here * WHIM_CUDA_TILE; i += FEW_FETCHERS) {
        copy_async16(&s->w[0][i], from + i);
    }
}

template <class W, int R>
static void few_fetch_rows(few_stage<W, R> *s, const whim_cuda_few_args &a, const few_place &p,
                           int fetcher)
{
    typedef few_stage<W, R> stage;
    int64_t first = p.stretch * stage::LENGTH;
    int here = a.k - first < stage::LENGTH ? (int)(a.k - first) : stage::LENGTH;
    bool wide = ((uintptr_t)a.x | (uintptr_t)(a.x_stride * 4)) % 16 == 0 && here % 4 == 0;
    for (int r = 0; r < (R > 1 ? a.n_row : 1); r++) {
        const float *x = a.x + r * a.x_stride + first;
        if (wide) {
            for (int i = fetcher * 4; i < here; i += FEW_FETCHERS * 4) {
                copy_async16(&s->x[r][i], x + i);
            }
        } else {
            for (int i = fetcher; i < here; i += FEW_FETCHERS) {
                copy_async4(&s->x[r][i], x + i);
            }
        }
    }
}

/* What a chain has of some vectors: weights, and N rows. */
template <class W, int N> struct few_batch {
    enum { PER = WHIM_CUDA_VECTOR / W::BYTES, VECTORS = N > 1 ? 2 : 4 };
    uint4 w[VECTORS];
    float4 x[VECTORS][N][PER / 4];
};

template <class W, int R, int N>
static void few_batch_load(few_batch<W, N> *b, const few_stage<W, R> &s, int v, int lane, int first)
{
    typedef few_batch<W, N> batch;
#pragma unroll
    for (int i = 0; i < batch::VECTORS; i++) {
        b->w[i] = s.w[v + i][lane];
#pragma unroll
        for (int n = 0; n < N; n++) {
#pragma unroll
            for (int j = 0; j < batch::PER / 4; j++) {
                b->x[i][n][j] =
                    *(const float4 *)&s.x[first + n * (R / N)][(v + i) * batch::PER + j * 4];
            }
        }
    }
}

template <class W, int N> static void few_batch_add(float *acc, const few_batch<W, N> &b)
{
    typedef few_batch<W, N> batch;
#pragma unroll
    for (int i = 0; i < batch::VECTORS; i++) {
        uint32_t w[4] = {b.w[i].x, b.w[i].y, b.w[i].z, b.w[i].w};
#pragma unroll
        for (int j = 0; j < batch::PER; j++) {
            float value = W::get(w, j);
#pragma unroll
            for (int n = 0; n < N; n++) {
                float4 x = b.x[i][n][j / 4];
                float each[4] = {x.x, x.y, x.z, x.w};
                acc[n] = whim_fmaf(value, each[j % 4], acc[n]);
            }
        }
    }
}

/* The sums of output `lane` for N rows, `first` and those R / N after it: a batch is on its way
 * while the one before it is added. */
template <class W, int R, int N>
static void few_float_chain(float *acc, const few_stage<W, R> &s, int here, int lane, int first)
{
    enum { PER = few_batch<W, N>::PER, VECTORS = few_batch<W, N>::VECTORS };
    enum { PAIR = 2 * VECTORS };
    int v = 0, whole = here / (PER * PAIR) * PAIR;
    few_batch<W, N> even, odd;
    if (whole > 0) {
        few_batch_load<W, R, N>(&even, s, 0, lane, first);
    }
    for (; v < whole; v += PAIR) {
        few_batch_load<W, R, N>(&odd, s, v + VECTORS, lane, first);
        few_batch_add<W, N>(acc, even);
        few_batch_load<W, R, N>(&even, s, v + PAIR < whole ? v + PAIR : v, lane, first);
        few_batch_add<W, N>(acc, odd);
    }
    for (int k = v * PER; k < here; k++) {
        uint4 w4 = s.w[k / PER][lane];
        uint32_t w[4] = {w4.x, w4.y, w4.z, w4.w};
        float value = 0.0f;
        for (int i = 0; i < PER; i++) {
            value = i == k % PER ? W::get(w, i) : value;
        }
        for (int n = 0; n < N; n++) {
            acc[n] = whim_fmaf(value, s.x[first + n * (R / N)][k], acc[n]);
        }
    }
}

template <class W, int R>
static void few_float_fetch(few_stage<W, R> *stages, const whim_cuda_few_args &a,
                            const few_walk &walk)
{
    enum { AHEAD = FEW_STAGES - 1 };
    int fetcher = threadIdx.x - few_crew<R>::CHAINS;
    few_place p = {blockIdx.x, 0, 0}, ahead = p;
    for (int i = 0; i < AHEAD && ahead.item < walk.n_item; i++, ahead = few_next(walk, ahead)) {
        few_fetch_weights(&stages[i], a, ahead, fetcher);
    }
    wait_for_last();
    ahead = p;
    for (int i = 0; i < AHEAD; i++, ahead = few_next(walk, ahead)) {
        if (ahead.item < walk.n_item) {
            few_fetch_rows(&stages[i], a, ahead, fetcher);
        }
        copies_commit();
    }
    for (int at = 0; p.item < walk.n_item; at = (at + 1) % FEW_STAGES) {
        copies_wait<AHEAD - 1>();
        few_crews_meet<R>(); /* stage `at` is full, the one before it is free */
        if (ahead.item < walk.n_item) {
            few_stage<W, R> *to = &stages[(at + AHEAD) % FEW_STAGES];
            few_fetch_weights(to, a, ahead, fetcher);
            few_fetch_rows(to, a, ahead, fetcher);
            ahead = few_next(walk, ahead);
        }
        copies_commit();
        p = few_next(walk, p);
    }
}

template <class W, int R>
static void few_float_add(const few_stage<W, R> *stages, const whim_cuda_few_args &a,
                          const few_walk &walk)
{
    typedef few_stage<W, R> stage;
    enum { N = few_crew<R>::ROWS };
    int lane = threadIdx.x % WHIM_CUDA_TILE, row = threadIdx.x / WHIM_CUDA_TILE;
    few_place p = {blockIdx.x, 0, 0};
    float acc[N] = {}, gate[N] = {};
    wait_for_last(); /* y may be what the last kernel reads */
    for (int at = 0; p.item < walk.n_item; at = (at + 1) % FEW_STAGES) {
        few_place next = few_next(walk, p);
        few_crews_meet<R>();
        if (row < R / N && row < a.n_row) {
            int64_t left = a.k - p.stretch * stage::LENGTH;
            int here = left < stage::LENGTH ? (int)left : stage::LENGTH;
            few_float_chain<W, R, N>(acc, stages[at], here, lane, row);
            for (int n = 0; n < N && next.stretch == 0; n++) {
                few_store(a, p, lane, row + n * (R / N), acc[n], &gate[n]);
                acc[n] = 0.0f;
            }
        }
        p = next;
    }
}

template <class W, int R> struct few_float {
    static void run(const whim_cuda_few_args &a)
    {
        typedef few_stage<W, R> stage;
        DYNAMIC_SHARED(16, memory);
        few_walk walk = few_walk_of(a, (a.k + stage::LENGTH - 1) / stage::LENGTH);
        let_next_start();
        if (threadIdx.x >= few_crew<R>::CHAINS) {
            few_float_fetch<W, R>((stage *)memory, a, walk);
        } else {
            few_float_add<W, R>((stage *)memory, a, walk);
        }
    }
};

FEW(f32, few_float, f32_weights, WHIM_CUDA_FEW_THREADS, 32, 2)
FEW(f16, few_float, f16_weights, WHIM_CUDA_FEW_THREADS, 32, 2)
