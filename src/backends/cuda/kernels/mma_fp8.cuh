/* SPDX-License-Identifier: Apache-2.0 */
/* Products with FP8 matrices on the matrix unit, which has an order of its own here, too: rows are
 * rounded to BF16, codes are opened to BF16 in registers, which is exact. The blocks of k (of 128,
 * with a scale each) are cut into eight chunks of whole blocks. A block is added up from 0, 16 of
 * its products at a time, and joins its chunk by fma(sum, scale, chunk); the chunks' sums are added
 * in order. A matrix's k alone decides about that, so a row has the same bits alone and among
 * others.
 *
 * The 16 products of a step are 4 of each of four vectors of 16 codes, since a thread has loaded
 * one: its bytes go to the unit without passing through others. A block of threads has two tiles of
 * outputs and 8 NT rows; its eight warps have a chunk each, and ask for a block's weights while
 * they work on the one before. Rows are found in the caches. */
#pragma once
#include "mma_few.cuh"

enum {
    MP_WARPS = 8,
    MP_TILES = 2,
    MP_BLOCK = WHIM_CUDA_SCALED_BLOCK,
    MP_STEPS = MP_BLOCK / 64, /* of four vectors */
    MP_CODES = MP_BLOCK * WHIM_CUDA_TILE, /* bytes of a tile in a block */
};

/* Weights of a block as a thread has them: of each tile outputs `lane / 4` and that + 8. */
struct mp_weights {
    uint4 codes[MP_TILES][MP_STEPS][2];
    float scale[MP_TILES][2];
};

static uint4 load_once(const void *from)
{
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from));
    return v;
}

static uint4 load_row(const void *from)
{
    uint4 v;
    asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from)
                 : "memory");
    return v;
}

/* Where a thread's part of an item's tiles begins. A tile beyond the last is the last. */
struct mp_place {
    const char *codes[MP_TILES], *scales[MP_TILES];

    mp_place(const whim_cuda_few_args &a, const mf_item &p)
    {
        int lane = threadIdx.x % WARP, n_block = (int)(a.k / MP_BLOCK);
        int last = ((int)p.m->n - 1) / WHIM_CUDA_TILE;
#pragma unroll
        for (int t = 0; t < MP_TILES; t++) {
            int tile = p.tile + (a.swiglu ? 0 : t);
            const char *from = (const char *)p.m[a.swiglu ? t : 0].data +
                               (int64_t)(tile < last ? tile : last) * n_block *
                                   (MP_CODES + WHIM_CUDA_TILE * 4);
            codes[t] = from + (lane % 4 * WHIM_CUDA_TILE + lane / 4) * WHIM_CUDA_VECTOR;
            scales[t] = from + (int64_t)n_block * MP_CODES + lane / 4 * 4;
        }
    }

    void load(mp_weights *w, int b) const
    {
#pragma unroll
        for (int t = 0; t < MP_TILES; t++) {
#pragma unroll
            for (int i = 0; i < MP_STEPS * 2; i++) {
                w->codes[t][i / 2][i % 2] =
                    load_once(codes[t] + (int64_t)b * MP_CODES + i / 2 * (MP_CODES / MP_STEPS) +
                              i % 2 * 8 * WHIM_CUDA_VECTOR);
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                w->scale[t][i] =
                    __ldg((const float *)(scales[t] + (b * WHIM_CUDA_TILE + i * 8) * 4));
            }
        }
    }
};

/* Two codes as BF16, those of bytes 0 and 1 or 2 and 3. Exponents of e4m3 in the place of BF16's are
 * 120 too small, subnormal or not. NaN codes become numbers: see mp_is_nan. */
static uint32_t e4m3_to_bf16x2(uint32_t codes, uint32_t bytes)
{
    uint32_t x, y;
    asm("prmt.b32 %0, %1, 0, %2;" : "=r"(x) : "r"(codes), "r"(bytes));
    x = (x & 0x80008000u) | (x & 0x7f007f00u) >> 4;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(y) : "r"(x), "r"(0x7b807b80u), "r"(0x80008000u));
    return y;
}

enum { MP_LOW = 0x1404, MP_HIGH = 0x3424 };

/* Bits of bytes whose codes are NaN. */
static uint32_t mp_is_nan(uint32_t codes)
{
    return ((codes & 0x7f7f7f7fu) + 0x01010101u) & 0x80808080u;
}

static uint32_t word_of(const uint4 &v, int i)
{
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

/* One block: acc += scale * (its products). `x`: this thread's columns of its row, of each part of
 * 8 rows. */
template <int NT>
static void mp_block_add(float (*acc)[NT][4], const mp_weights &w, const char *const *x, int b)
{
    float part[MP_TILES][NT][4] = {};
    uint32_t nan[MP_TILES][2] = {};
#pragma unroll
    for (int s = 0; s < MP_STEPS; s++) {
        uint4 rows[NT][2];
#pragma unroll
        for (int n = 0; n < NT * 2; n++) { /* 8 columns each: a thread's vector has 16 */
            rows[n / 2][n % 2] = load_row(x[n / 2] + (int64_t)((b * MP_STEPS + s) * 8 + n % 2) *
                                                         WHIM_CUDA_TILE * WHIM_CUDA_VECTOR);
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
#pragma unroll
            for (int t = 0; t < MP_TILES; t++) {
                uint32_t lo = word_of(w.codes[t][s][0], i), hi = word_of(w.codes[t][s][1], i);
                uint32_t four[4] = {e4m3_to_bf16x2(lo, MP_LOW), e4m3_to_bf16x2(hi, MP_LOW),
                                    e4m3_to_bf16x2(lo, MP_HIGH), e4m3_to_bf16x2(hi, MP_HIGH)};
                nan[t][0] |= mp_is_nan(lo);
                nan[t][1] |= mp_is_nan(hi);
#pragma unroll
                for (int n = 0; n < NT; n++) {
                    mma_bf16(part[t][n], four, word_of(rows[n][i / 2], i % 2 * 2),
                             word_of(rows[n][i / 2], i % 2 * 2 + 1));
                }
            }
        }
    }
#pragma unroll
    for (int t = 0; t < MP_TILES; t++) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            uint32_t any = nan[t][h] | __shfl_xor_sync(ALL_LANES, nan[t][h], 1);
            any |= __shfl_xor_sync(ALL_LANES, any, 2);
            float d = any != 0 ? whim_f32_from_bits(0x7fc00000u) : w.scale[t][h];
#pragma unroll
            for (int n = 0; n < NT; n++) {
                acc[t][n][h * 2] = whim_fmaf(part[t][n][h * 2], d, acc[t][n][h * 2]);
                acc[t][n][h * 2 + 1] = whim_fmaf(part[t][n][h * 2 + 1], d, acc[t][n][h * 2 + 1]);
            }
        }
    }
}

/* The chunks' sums, added in order, and where they go: a warp for each part of rows, and without
 * SwiGLU for each tile. */
template <int NT>
static void mp_finish(const whim_cuda_few_args &a, const mf_item &p, int row, int n_chunk,
                      const float (*acc)[NT][4])
{
    __shared__ float4 kept[MP_WARPS][MP_TILES][NT][WARP];
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, each = a.swiglu ? MP_TILES : 1;
    __syncthreads(); /* the last item's have been read */
#pragma unroll
    for (int i = 0; i < MP_TILES * NT; i++) {
        const float *c = acc[i / NT][i % NT];
        kept[warp][i / NT][i % NT][lane] = make_float4(c[0], c[1], c[2], c[3]);
    }
    __syncthreads();
    if (warp >= MP_TILES / each * NT) {
        return;
    }
    int n = warp % NT, tile = warp / NT;
    float sum[MP_TILES][4] = {};
    for (int t = 0; t < each; t++) {
        for (int i = 0; i < n_chunk; i++) {
            float4 v = kept[i][tile + t][n][lane];
            sum[t][0] = i == 0 ? v.x : sum[t][0] + v.x;
            sum[t][1] = i == 0 ? v.y : sum[t][1] + v.y;
            sum[t][2] = i == 0 ? v.z : sum[t][2] + v.z;
            sum[t][3] = i == 0 ? v.w : sum[t][3] + v.w;
        }
    }
    if (a.swiglu) {
        mm_store_swiglu(a, p.m, p.tile, row + n * 8, sum);
    } else {
        mm_store_tile(a, p.m, p.tile + tile, row + n * 8, sum[0]);
    }
}

/* Row blocks are the fastest to change, so that those of the same weights run side by side. */
template <int NT> static void mp_run(const whim_cuda_few_args &a)
{
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, n_block = (int)(a.k / MP_BLOCK);
    int chunk = n_block > 0 ? (n_block + MP_WARPS - 1) / MP_WARPS : 1, first = warp * chunk;
    int n_chunk = (n_block + chunk - 1) / chunk;
    int end = first + chunk < n_block ? first + chunk : n_block;
    int n_rows = ((int)a.n_row + 8 * NT - 1) / (8 * NT);
    int64_t n_octet = a.k / 8, last = (a.n_row - 1) / WHIM_CUDA_TILE;
    bool waited = false;
    let_next_start();
    for (int64_t i = blockIdx.x;; i += gridDim.x) {
        mf_item p = mf_item_of<MP_TILES>(a, (int)(i / n_rows));
        int row = (int)(i % n_rows) * 8 * NT;
        if (p.m == NULL) {
            break;
        }
        mp_place place(a, p);
        mp_weights w[2];
        if (first < end) {
            place.load(&w[0], first);
        }
        if (!waited) {
            wait_for_last();
            waited = true;
        }
        const char *x[NT];
#pragma unroll
        for (int n = 0; n < NT; n++) {
            int64_t tile = row / WHIM_CUDA_TILE + n / 2;
            x[n] = (const char *)a.tiles +
                   (((tile < last ? tile : last) * n_octet + lane % 4 * 2) * WHIM_CUDA_TILE +
                    row % WHIM_CUDA_TILE + n % 2 * 8 + lane / 4) *
                       WHIM_CUDA_VECTOR;
        }
        float acc[MP_TILES][NT][4] = {};
        for (int b = first; b < end; b += 2) {
            if (b + 1 < end) {
                place.load(&w[1], b + 1);
            }
            mp_block_add<NT>(acc, w[0], x, b);
            if (b + 1 < end) {
                if (b + 2 < end) {
                    place.load(&w[0], b + 2);
                }
                mp_block_add<NT>(acc, w[1], x, b + 1);
            }
        }
        mp_finish<NT>(a, p, row, n_chunk, acc);
    }
    if (!waited) {
        wait_for_last();
    }
}

#define MP(NT, blocks)                                                     \
    extern "C" __global__ void __launch_bounds__(32 * MP_WARPS, blocks)    \
        k_mm_fp8_##NT(ARGS(whim_cuda_few_args))                            \
    {                                                                      \
        mp_run<NT>(a);                                                     \
    }
MP(1, 2)
MP(2, 1)
MP(4, 1)
