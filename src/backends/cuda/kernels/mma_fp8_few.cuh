/* SPDX-License-Identifier: Apache-2.0 */
/* Products of up to 8 rows with FP8 matrices: the order of mma_fp8.cuh, and its bits, in the way of
 * mma_few.cuh. A stage is a block of 128 columns: codes and scales of some tiles, and rows. Opening
 * codes keeps one warp of a scheduler too busy, so two have a chunk, and share its tiles. */
#pragma once
#include "mma_fp8.cuh"

enum {
    PF_PARTS = 2, /* warps of a chunk */
    PF_TILE_BYTES = MP_CODES + MP_SCALES,
    PF_ROW_BYTES = MP_BLOCK * WHIM_CUDA_MF_ROWS * 2,
};

template <int MT> struct pf_form {
    enum {
        OWN = (MT + 1) / PF_PARTS, /* tiles of a warp, at most */
        STAGE_BYTES = OWN * PF_TILE_BYTES + PF_ROW_BYTES,
        STAGES = WHIM_CUDA_PF_STAGES(MT, MF_DEEP),
        AHEAD = STAGES - 1,
    };
};

/* Tile t of the MT of an item. */
static const char *pf_tile(const whim_cuda_few_args &a, const mf_item &p, int t)
{
    return a.swiglu ? fp8_tile(a, p.m + t % 2, p.tile + t / 2) : fp8_tile(a, p.m, p.tile + t);
}

/* A warp's copies: where it is in its items, one block of its chunk after the other. */
template <int MT> struct pf_copier {
    enum { OWN = pf_form<MT>::OWN };
    const whim_cuda_few_args &a;
    int tile, n_own; /* the first of the warp's tiles of an item, and how many it has */
    int first, end, n_block;
    int item, b;        /* that is copied next */
    const char *w[OWN]; /* NULL: nothing is left */
    uint64_t policy;

    pf_copier(const whim_cuda_few_args &args, const fp8_chunks &chunks, int chunk, int part)
        : a(args)
    {
        policy = cache_policy(true);
        tile = part * OWN;
        n_own = part == 0 ? OWN : MT - OWN;
        n_block = chunks.n_block;
        first = b = chunks.first(chunk);
        end = chunks.first(chunk + 1);
        item = blockIdx.x;
        place();
    }

    void place()
    {
        mf_item p = mf_item_of<MT>(a, first < end ? item : INT32_MAX);
#pragma unroll
        for (int t = 0; t < OWN; t++) {
            w[t] = p.m == NULL ? NULL : pf_tile(a, p, tile + (t < n_own ? t : 0));
        }
    }

    void weights(uint32_t to) const
    {
        int lane = threadIdx.x % WARP;
#pragma unroll
        for (int t = 0; t < OWN; t++) {
            const char *codes = w[t] + (int64_t)b * MP_CODES + lane * WHIM_CUDA_VECTOR;
            uint32_t at = to + t * PF_TILE_BYTES + lane * WHIM_CUDA_VECTOR;
            if (t >= n_own) {
                break;
            }
#pragma unroll
            for (int i = 0; i < MP_CODES; i += WARP * WHIM_CUDA_VECTOR) {
                copy_async16_or_zero(at + i, codes + i, true, policy);
            }
            if (lane < MP_SCALES / WHIM_CUDA_VECTOR) {
                copy_async16_or_zero(at + MP_CODES,
                                     w[t] + (int64_t)n_block * MP_CODES + b * MP_SCALES +
                                         lane * WHIM_CUDA_VECTOR,
                                     true, policy);
            }
        }
    }

    void rows(uint32_t to) const /* those beyond the last are whatever lies there */
    {
        int lane = threadIdx.x % WARP;
#pragma unroll
        for (int i = 0; i < PF_ROW_BYTES / WHIM_CUDA_VECTOR; i += WARP) {
            int vector = i + lane, octet = b * (MP_BLOCK / 8) + vector / WHIM_CUDA_MF_ROWS;
            if (vector % WHIM_CUDA_MF_ROWS < a.n_row) {
                copy_async16_or_zero(to + OWN * PF_TILE_BYTES + vector * WHIM_CUDA_VECTOR,
                                     (const char *)a.tiles +
                                         (octet * WHIM_CUDA_TILE + vector % WHIM_CUDA_MF_ROWS) *
                                             WHIM_CUDA_VECTOR,
                                     true);
            }
        }
    }

    void next()
    {
        if (++b == end) {
            b = first;
            item += gridDim.x;
            place();
        }
    }
};

/* A block: c += scale * (its products). */
template <int OWN> static void pf_stage_add(float (*c)[4], uint32_t stage, int n_own)
{
    int lane = threadIdx.x % WARP;
    float part[OWN][4] = {};
#pragma unroll
    for (int s = 0; s < MP_STEPS; s++) {
        uint32_t x[2][4]; /* of two steps of 16 each */
#pragma unroll
        for (int i = 0; i < 2; i++) {
            load_parts4(x[i], stage + OWN * PF_TILE_BYTES +
                                  ((s * 2 + i) * WARP + lane) * WHIM_CUDA_VECTOR);
        }
#pragma unroll
        for (int t = 0; t < OWN; t++) {
            uint32_t w[4][4], at = stage + t * PF_TILE_BYTES + s * MP_STEP_BYTES;
            if (t >= n_own) {
                break;
            }
            fp8_open(w, load_shared(at + lane * WHIM_CUDA_VECTOR),
                     load_shared(at + (WARP + lane) * WHIM_CUDA_VECTOR));
#pragma unroll
            for (int i = 0; i < 4; i++) {
                mma_bf16(part[t], w[i], x[i / 2][i % 2 * 2], x[i / 2][i % 2 * 2 + 1]);
            }
        }
    }
#pragma unroll
    for (int t = 0; t < OWN; t++) {
        uint32_t scales = stage + t * PF_TILE_BYTES + MP_CODES + lane / 4 * 4;
        float lo = load_shared_float(scales), hi = load_shared_float(scales + 32);
        c[t][0] = whim_fmaf(part[t][0], lo, c[t][0]);
        c[t][1] = whim_fmaf(part[t][1], lo, c[t][1]);
        c[t][2] = whim_fmaf(part[t][2], hi, c[t][2]);
        c[t][3] = whim_fmaf(part[t][3], hi, c[t][3]);
    }
}

/* The chunks' sums, added in order, and where they go. */
template <int MT>
static void pf_finish(const whim_cuda_few_args &a, const mf_item &p, int n_chunk, int tile,
                      int n_own, const float (*c)[4])
{
    __shared__ float4 kept[WHIM_CUDA_MM_CHUNKS][MT][WARP];
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, each = a.swiglu ? 2 : 1;
    __syncthreads(); /* the last item's have been read */
#pragma unroll
    for (int t = 0; t < pf_form<MT>::OWN; t++) {
        if (t < n_own) {
            kept[warp % WHIM_CUDA_MM_CHUNKS][tile + t][lane] =
                make_float4(c[t][0], c[t][1], c[t][2], c[t][3]);
        }
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

template <int MT> static void pf_run(const whim_cuda_few_args &a)
{
    typedef pf_form<MT> form;
    DYNAMIC_SHARED(128, memory);
    int warp = threadIdx.x / WARP;
    uint32_t ring = (uint32_t)__cvta_generic_to_shared(memory) +
                    warp * form::STAGES * form::STAGE_BYTES;
    fp8_chunks chunks(a.k);
    let_next_start();
    pf_copier<MT> copier(a, chunks, warp % WHIM_CUDA_MM_CHUNKS, warp / WHIM_CUDA_MM_CHUNKS);
    pf_copier<MT> behind = copier;
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
        float c[form::OWN][4] = {}, add[form::OWN][2];
        if (p.m == NULL) {
            break;
        }
#pragma unroll
        for (int t = 0; t < form::OWN; t++) { /* asked for now, needed at the end */
            const char *tile = pf_tile(a, p, copier.tile + (t < copier.n_own ? t : 0));
            const float *from = (const float *)(tile + (int64_t)chunks.n_block * PF_TILE_BYTES) +
                                threadIdx.x % WARP / 4;
            add[t][0] = __ldg(from);
            add[t][1] = __ldg(from + 8);
        }
        for (int b = copier.first; b < copier.end; b++) {
            copies_wait<form::AHEAD - 1>();
            __syncwarp(); /* stage `at` is full, `to` is free */
            if (copier.w[0] != NULL) {
                copier.weights(ring + to * form::STAGE_BYTES);
                copier.rows(ring + to * form::STAGE_BYTES);
                copier.next();
            }
            copies_commit();
            pf_stage_add<form::OWN>(c, ring + at * form::STAGE_BYTES, copier.n_own);
            at = at + 1 == form::STAGES ? 0 : at + 1;
            to = to + 1 == form::STAGES ? 0 : to + 1;
        }
#pragma unroll
        for (int i = 0; i < form::OWN * 4; i++) { /* 0 or NaN */
            float begin = add[i / 4][i % 4 / 2];
            c[i / 4][i % 4] = begin == 0.0f ? c[i / 4][i % 4] : begin;
        }
        pf_finish<MT>(a, p, chunks.n, copier.tile, copier.n_own, c);
    }
}

#define PF(MT)                                                                          \
    KERNEL_BOUNDED(WHIM_CUDA_PF_THREADS, 1) k_mm_fp8_few_##MT(ARGS(whim_cuda_few_args)) \
    {                                                                                   \
        pf_run<MT>(a);                                                                  \
    }
PF(2)
PF(3)
PF(4)
