/* SPDX-License-Identifier: Apache-2.0 */
/* Products of up to 8 rows with FP8 matrices: the order of mma_fp8.cuh, and its bits, in the way of
 * mma_few.cuh. A stage is a block of 128 columns: codes and scales of MT tiles, and rows. */
#pragma once
#include "mma_fp8.cuh"

enum {
    PF_TILE_BYTES = MP_CODES + MP_SCALES,
    PF_ROW_BYTES = MP_BLOCK * WHIM_CUDA_MF_ROWS * 2,
};

template <int MT> struct pf_form {
    enum {
        STAGE_BYTES = MT * PF_TILE_BYTES + PF_ROW_BYTES,
        STAGES = WHIM_CUDA_PF_STAGES(MT, MF_DEEP),
        AHEAD = STAGES - 1,
    };
};

/* Tile t of the MT of an item. */
template <int MT> static const char *pf_tile(const whim_cuda_few_args &a, const mf_item &p, int t)
{
    return a.swiglu ? fp8_tile(a, p.m + t % 2, p.tile + t / 2) : fp8_tile(a, p.m, p.tile + t);
}

/* A warp's copies: where it is in its items, one block of its chunk after the other. */
template <int MT> struct pf_copier {
    const whim_cuda_few_args &a;
    int first, end, n_block;
    int item, b;       /* that is copied next */
    const char *w[MT]; /* NULL: nothing is left */
    uint64_t policy;

    pf_copier(const whim_cuda_few_args &args, const fp8_chunks &chunks, int chunk) : a(args)
    {
        policy = cache_policy(true);
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
        for (int t = 0; t < MT; t++) {
            w[t] = p.m == NULL ? NULL : pf_tile<MT>(a, p, t);
        }
    }

    void weights(uint32_t to) const
    {
        int lane = threadIdx.x % WARP;
#pragma unroll
        for (int t = 0; t < MT; t++) {
            const char *codes = w[t] + (int64_t)b * MP_CODES + lane * WHIM_CUDA_VECTOR;
            uint32_t at = to + t * PF_TILE_BYTES + lane * WHIM_CUDA_VECTOR;
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

    void rows(uint32_t to) const
    {
        int lane = threadIdx.x % WARP;
#pragma unroll
        for (int i = 0; i < PF_ROW_BYTES / WHIM_CUDA_VECTOR; i += WARP) {
            int vector = i + lane, octet = b * (MP_BLOCK / 8) + vector / WHIM_CUDA_MF_ROWS;
            copy_async16_or_zero(to + MT * PF_TILE_BYTES + vector * WHIM_CUDA_VECTOR,
                                 (const char *)a.tiles +
                                     (octet * WHIM_CUDA_TILE + vector % WHIM_CUDA_MF_ROWS) *
                                         WHIM_CUDA_VECTOR,
                                 true);
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

static uint4 load_shared(uint32_t at)
{
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(at)
                 : "memory");
    return v;
}

static float load_shared_float(uint32_t at)
{
    float v;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(at) : "memory");
    return v;
}

/* A block: c += scale * (its products). */
template <int MT> static void pf_stage_add(float (*c)[4], uint32_t stage)
{
    int lane = threadIdx.x % WARP;
    float part[MT][4] = {};
#pragma unroll
    for (int s = 0; s < MP_STEPS; s++) {
        uint32_t x[2][4]; /* of two steps of 16 each */
#pragma unroll
        for (int i = 0; i < 2; i++) {
            load_parts4(x[i], stage + MT * PF_TILE_BYTES +
                                  ((s * 2 + i) * WARP + lane) * WHIM_CUDA_VECTOR);
        }
#pragma unroll
        for (int t = 0; t < MT; t++) {
            uint32_t w[4][4], at = stage + t * PF_TILE_BYTES + s * MP_STEP_BYTES;
            fp8_open(w, load_shared(at + lane * WHIM_CUDA_VECTOR),
                     load_shared(at + (WARP + lane) * WHIM_CUDA_VECTOR));
#pragma unroll
            for (int i = 0; i < 4; i++) {
                mma_bf16(part[t], w[i], x[i / 2][i % 2 * 2], x[i / 2][i % 2 * 2 + 1]);
            }
        }
    }
#pragma unroll
    for (int t = 0; t < MT; t++) {
        uint32_t scales = stage + t * PF_TILE_BYTES + MP_CODES + lane / 4 * 4;
        float lo = load_shared_float(scales), hi = load_shared_float(scales + 32);
        c[t][0] = whim_fmaf(part[t][0], lo, c[t][0]);
        c[t][1] = whim_fmaf(part[t][1], lo, c[t][1]);
        c[t][2] = whim_fmaf(part[t][2], hi, c[t][2]);
        c[t][3] = whim_fmaf(part[t][3], hi, c[t][3]);
    }
}

template <int MT> static void pf_run(const whim_cuda_few_args &a)
{
    typedef pf_form<MT> form;
    extern __shared__ __align__(128) char memory[];
    int warp = threadIdx.x / WARP;
    uint32_t ring = (uint32_t)__cvta_generic_to_shared(memory) +
                    warp * form::STAGES * form::STAGE_BYTES;
    fp8_chunks chunks(a.k);
    let_next_start();
    pf_copier<MT> copier(a, chunks, warp), behind = copier;
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
        float c[MT][4] = {}, add[MT][2];
        if (p.m == NULL) {
            break;
        }
#pragma unroll
        for (int t = 0; t < MT; t++) { /* asked for now, needed at the end */
            const float *from = (const float *)(pf_tile<MT>(a, p, t) +
                                                (int64_t)chunks.n_block * PF_TILE_BYTES) +
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
            pf_stage_add<MT>(c, ring + at * form::STAGE_BYTES);
            at = at + 1 == form::STAGES ? 0 : at + 1;
            to = to + 1 == form::STAGES ? 0 : to + 1;
        }
#pragma unroll
        for (int i = 0; i < MT * 4; i++) { /* 0 or NaN */
            c[i / 4][i % 4] = add[i / 4][i % 4 / 2] == 0.0f ? c[i / 4][i % 4] : add[i / 4][i % 4 / 2];
        }
        mf_finish<MT>(a, p, chunks.n, c);
    }
}

#define PF(MT)                                                             \
    extern "C" __global__ void __launch_bounds__(128, 1)                   \
        k_mm_fp8_few_##MT(ARGS(whim_cuda_few_args))                        \
    {                                                                      \
        pf_run<MT>(a);                                                     \
    }
PF(2)
PF(3)
PF(4)
