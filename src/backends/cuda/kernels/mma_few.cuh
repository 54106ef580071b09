/* SPDX-License-Identifier: Apache-2.0 */
/* Products of up to 8 rows with BF16 matrices: the order of mma.cuh, and its bits. Reading weights is
 * all that counts here, so each multiprocessor has one block, with about as much to read as any
 * other: a block goes through items of MT tiles of outputs, and its four warps have a chunk of k
 * each. A warp reads through a ring of its own and waits for nobody; at the end of an item the chunks'
 * sums are added in order. The ring goes on from item to item, and its beginning is asked for before
 * the kernel waits for its rows. */
#pragma once
#include "mma.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
enum { MF_DEEP = 1 };
#else
enum { MF_DEEP = 0 };
#endif

enum {
    MF_WARPS = WHIM_CUDA_MM_CHUNKS,
    MF_HALVES = WHIM_CUDA_MM_K / WHIM_CUDA_MF_K, /* stages of this file in one of mma.cuh */
    MF_TILE_BYTES = WHIM_CUDA_MF_K * WHIM_CUDA_TILE * 2,
};

template <int MT> struct mf_form {
    enum {
        TILES = MT,
        STAGE_BYTES = WHIM_CUDA_MF_K * (MT * WHIM_CUDA_TILE + WHIM_CUDA_MF_ROWS) * 2,
        STAGES = WHIM_CUDA_MF_STAGES(MT, MF_DEEP),
        AHEAD = STAGES - 1,
    };
};

/* Some tiles of a matrix, or with SwiGLU of two. */
struct mf_item {
    const whim_cuda_matrix *m; /* NULL: there is none any more */
    int tile;
};

template <int MT> static mf_item mf_item_of(const whim_cuda_few_args &a, int item)
{
    int each = a.swiglu ? MT / 2 : MT;
    for (int i = 0; i < (a.swiglu ? 1 : a.n_matrix); i++) {
        int n_tile = ((int)a.matrix[i].n + WHIM_CUDA_TILE - 1) / WHIM_CUDA_TILE;
        int n_item = (n_tile + each - 1) / each;
        if (item < n_item) {
            return mf_item{&a.matrix[i], item * each};
        }
        item -= n_item;
    }
    return mf_item{};
}

/* A warp's copies: where it is in its items, one stage after the other. A tile beyond the last is the
 * last. */
template <int MT> struct mf_copier {
    const whim_cuda_few_args &a;
    int first, n_stage; /* of the warp's chunk */
    int item, stage;    /* that is copied next */
    const char *w[MT];  /* NULL: nothing is left */
    uint64_t policy;

    mf_copier(const whim_cuda_few_args &args, int from, int n) : a(args), first(from), n_stage(n)
    {
        policy = cache_policy(true);
        item = blockIdx.x;
        stage = 0;
        place();
    }

    void place()
    {
        mf_item p = mf_item_of<MT>(a, n_stage > 0 ? item : INT32_MAX);
        int64_t bytes = (a.k + 7) / 8 * WHIM_CUDA_TILE * WHIM_CUDA_VECTOR;
        int last = p.m != NULL ? ((int)p.m->n - 1) / WHIM_CUDA_TILE : 0;
#pragma unroll
        for (int t = 0; t < MT; t++) {
            int tile = p.tile + (a.swiglu ? t / 2 : t);
            w[t] = p.m == NULL ? NULL
                               : (const char *)p.m[a.swiglu ? t % 2 : 0].data +
                                     (tile < last ? tile : last) * bytes;
        }
    }

    void weights(uint32_t to) const
    {
        int lane = threadIdx.x % WARP, s = first + stage, n_octet = (int)((a.k + 7) / 8);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int vector = half * WARP + lane;
            bool is_there = s * (WHIM_CUDA_MF_K / 8) + vector / WHIM_CUDA_TILE < n_octet;
#pragma unroll
            for (int t = 0; t < MT; t++) {
                copy_async16_or_zero(to + t * MF_TILE_BYTES + vector * WHIM_CUDA_VECTOR,
                                     w[t] + (int64_t)s * MF_TILE_BYTES + vector * WHIM_CUDA_VECTOR,
                                     is_there, policy);
            }
        }
    }

    void rows(uint32_t to) const
    {
        int lane = threadIdx.x % WARP, s = first + stage;
        int octet = s * (WHIM_CUDA_MF_K / 8) + lane / WHIM_CUDA_MF_ROWS;
        copy_async16_or_zero(to + MT * MF_TILE_BYTES + lane * WHIM_CUDA_VECTOR,
                             (const char *)a.tiles +
                                 (octet * WHIM_CUDA_TILE + lane % WHIM_CUDA_MF_ROWS) *
                                     WHIM_CUDA_VECTOR,
                             true);
    }

    void next()
    {
        if (++stage == n_stage) {
            stage = 0;
            item += gridDim.x;
            place();
        }
    }
};

template <int MT> static void mf_stage_add(float (*c)[4], uint32_t stage)
{
    int lane = threadIdx.x % WARP;
#pragma unroll
    for (int k = 0; k < WHIM_CUDA_MF_K / 16; k++) {
        uint32_t w[MT][4], x[2];
#pragma unroll
        for (int t = 0; t < MT; t++) {
            load_parts4(w[t], stage + t * MF_TILE_BYTES + (k * WARP + lane) * WHIM_CUDA_VECTOR);
        }
        load_parts2(x, stage + MT * MF_TILE_BYTES + (k * 16 + lane % 16) * WHIM_CUDA_VECTOR);
#pragma unroll
        for (int t = 0; t < MT; t++) {
            mma_bf16(c[t], w[t], x[0], x[1]);
        }
    }
}

/* The chunks' sums, added in order, and where they go. */
template <int MT>
static void mf_finish(const whim_cuda_few_args &a, const mf_item &p, int n_chunk,
                      const float (*c)[4])
{
    __shared__ float4 kept[MF_WARPS][MT][WARP];
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, each = a.swiglu ? 2 : 1;
    __syncthreads(); /* the last item's have been read */
#pragma unroll
    for (int t = 0; t < MT; t++) {
        kept[warp][t][lane] = make_float4(c[t][0], c[t][1], c[t][2], c[t][3]);
    }
    __syncthreads();
    if (warp >= MT / each) {
        return;
    }
    float sum[2][4] = {};
#pragma unroll
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < n_chunk && t < each; i++) {
            float4 v = kept[i][warp * each + t][lane];
            sum[t][0] = i == 0 ? v.x : sum[t][0] + v.x;
            sum[t][1] = i == 0 ? v.y : sum[t][1] + v.y;
            sum[t][2] = i == 0 ? v.z : sum[t][2] + v.z;
            sum[t][3] = i == 0 ? v.w : sum[t][3] + v.w;
        }
    }
    if (a.swiglu) {
        mm_store_swiglu(a, p.m, p.tile + warp, 0, sum);
    } else {
        mm_store_tile(a, p.m, p.tile + warp, 0, sum[0]);
    }
}

template <int MT> static void mf_run(const whim_cuda_few_args &a)
{
    typedef mf_form<MT> form;
    DYNAMIC_SHARED(128, memory);
    int warp = threadIdx.x / WARP;
    uint32_t ring = (uint32_t)__cvta_generic_to_shared(memory) +
                    warp * form::STAGES * form::STAGE_BYTES;
    int n_stage = ((int)a.k + WHIM_CUDA_MM_K - 1) / WHIM_CUDA_MM_K;
    int chunk = n_stage > 0 ? (n_stage + MF_WARPS - 1) / MF_WARPS : 1, first = warp * chunk;
    int n_chunk = (n_stage + chunk - 1) / chunk;
    int n = first >= n_stage ? 0 : first + chunk < n_stage ? chunk : n_stage - first;
    let_next_start();
    mf_copier<MT> copier(a, first * MF_HALVES, n * MF_HALVES), behind = copier;
    for (int i = 0; i < form::AHEAD && copier.w[0] != NULL; i++, copier.next()) {
        copier.weights(ring + i * form::STAGE_BYTES);
    }
    wait_for_last();
    for (int i = 0; i < form::AHEAD; i++) {
        if (behind.w[0] != NULL) {
            behind.rows(ring + i * form::STAGE_BYTES);
            behind.next();
        }
        copies_commit();
    }
    int at = 0, to = form::AHEAD;
    for (int item = blockIdx.x;; item += gridDim.x) {
        mf_item p = mf_item_of<MT>(a, item);
        float c[MT][4] = {};
        if (p.m == NULL) {
            break;
        }
        for (int s = 0; s < n * MF_HALVES; s++) {
            copies_wait<form::AHEAD - 1>();
            __syncwarp(); /* stage `at` is full, `to` is free */
            if (copier.w[0] != NULL) {
                copier.weights(ring + to * form::STAGE_BYTES);
                copier.rows(ring + to * form::STAGE_BYTES);
                copier.next();
            }
            copies_commit();
            mf_stage_add<MT>(c, ring + at * form::STAGE_BYTES);
            at = at + 1 == form::STAGES ? 0 : at + 1;
            to = to + 1 == form::STAGES ? 0 : to + 1;
        }
        mf_finish<MT>(a, p, n_chunk, c);
    }
}

#define MF(MT)                                                     \
    KERNEL_BOUNDED(128, 2) k_mm_few_##MT(ARGS(whim_cuda_few_args)) \
    {                                                              \
        mf_run<MT>(a);                                             \
    }
MF(2)
MF(3)
MF(4)
