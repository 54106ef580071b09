/* SPDX-License-Identifier: Apache-2.0 */
/* Products with FP8 matrices on the matrix unit, which has an order of its own here, too: rows are
 * rounded to BF16, codes are opened to BF16 in registers, which is exact. The blocks of k (of 128,
 * with a scale each) are cut into four chunks of whole blocks. A block is added up from 0, in steps
 * of 16, and joins its chunk by fma(sum, scale, chunk); the chunks' sums are added in order. A
 * matrix's k alone decides about that, so a row has the same bits alone and among others, in every
 * kernel of the files mma_fp8*.cuh.
 *
 * Those of this file take any rows on any GPU: a block of threads has two tiles of outputs and 8 NT
 * rows; four warps have a chunk each of either tile, and ask for a block's weights while they work
 * on the one before. Rows are found in the caches. */
#pragma once
#include "mma_few.cuh"

enum {
    MP_WARPS = 2 * WHIM_CUDA_MM_CHUNKS,
    MP_TILES = 2,
    MP_BLOCK = WHIM_CUDA_SCALED_BLOCK,
    MP_STEPS = MP_BLOCK / 64,
    MP_CODES = MP_BLOCK * WHIM_CUDA_TILE, /* bytes of a tile in a block */
    MP_STEP_BYTES = MP_CODES / MP_STEPS,
    MP_SCALES = WHIM_CUDA_TILE * 4, /* and of its scales */
};

/* --- opening ---------------------------------------------------------------------------------- */

/* The codes in bytes 1 and 3 as BF16. Exponents of e4m3 in the place of BF16's are 120 too small,
 * subnormal or not. NaN codes become numbers: sums of outputs that have one begin with NaN. */
static uint32_t fp8_upper(uint32_t x)
{
    return bf16x2_fma((x & 0x80008000u) | (x & 0x7f007f00u) >> 4, 0x7b807b80u, 0x80008000u);
}

static uint32_t word_of(const uint4 &v, int i)
{
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

/* A thread's 16 codes of two outputs, as its operands of four steps (whim_cuda_scaled_at). */
static void fp8_open(uint32_t (*w)[4], const uint4 &lo, const uint4 &hi)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        w[i][0] = fp8_upper(word_of(lo, i));
        w[i][1] = fp8_upper(word_of(hi, i));
        w[i][2] = fp8_upper(word_of(lo, i) << 8);
        w[i][3] = fp8_upper(word_of(hi, i) << 8);
    }
}

/* --- blocks and chunks of k ------------------------------------------------------------------- */

struct fp8_chunks {
    int n_block, each, n;

    fp8_chunks(int64_t k)
    {
        n_block = (int)(k / MP_BLOCK);
        each = n_block > 0 ? (n_block + WHIM_CUDA_MM_CHUNKS - 1) / WHIM_CUDA_MM_CHUNKS : 1;
        n = (n_block + each - 1) / each;
    }

    int first(int chunk) const
    {
        return chunk * each < n_block ? chunk * each : n_block;
    }
};

/* A tile of a matrix; one beyond the last is the last. */
static const char *fp8_tile(const whim_cuda_few_args &a, const whim_cuda_matrix *m, int tile)
{
    int last = ((int)m->n - 1) / WHIM_CUDA_TILE;
    return (const char *)m->data + (tile < last ? tile : last) * whim_cuda_scaled_bytes(a.k);
}

/* --- any rows --------------------------------------------------------------------------------- */

/* Weights of a block as a thread has them: outputs `lane / 4` and that + 8. */
struct mp_weights {
    uint4 codes[MP_STEPS][2];
    float scale[2];

    void load(const char *tile, int n_block, int b)
    {
        int lane = threadIdx.x % WARP;
        const char *from = tile + (int64_t)b * MP_CODES + lane * WHIM_CUDA_VECTOR;
        const float *scales =
            (const float *)(tile + (int64_t)n_block * MP_CODES + b * MP_SCALES) + lane / 4;
#pragma unroll
        for (int i = 0; i < MP_STEPS * 2; i++) {
            codes[i / 2][i % 2] = load_once(from + i * WARP * WHIM_CUDA_VECTOR);
        }
        scale[0] = __ldg(scales);
        scale[1] = __ldg(scales + 8);
    }
};

/* One block: acc += scale * (its products). `x`: this thread's columns of its row, of each part of
 * 8 rows. */
template <int NT>
static void mp_block_add(float (*acc)[4], const mp_weights &w, const char *const *x, int b)
{
    enum { OCTET = WHIM_CUDA_TILE * WHIM_CUDA_VECTOR };
    float part[NT][4] = {};
#pragma unroll
    for (int s = 0; s < MP_STEPS; s++) {
        uint32_t four[4][4];
        fp8_open(four, w.codes[s][0], w.codes[s][1]);
#pragma unroll
        for (int i = 0; i < 4; i++) {
#pragma unroll
            for (int n = 0; n < NT; n++) {
                const char *at = x[n] + (int64_t)((b * MP_STEPS + s) * 8 + i * 2) * OCTET;
                mma_bf16(part[n], four[i], *(const uint32_t *)at, *(const uint32_t *)(at + OCTET));
            }
        }
    }
#pragma unroll
    for (int i = 0; i < NT * 4; i++) {
        acc[i / 4][i % 4] = whim_fmaf(part[i / 4][i % 4], w.scale[i % 4 / 2], acc[i / 4][i % 4]);
    }
}

/* The chunks' sums, added in order, and where they go: a warp for each part of rows, and without
 * SwiGLU for each tile. */
template <int NT>
static void mp_finish(const whim_cuda_few_args &a, const mf_item &p, int row, int n_chunk,
                      const float (*acc)[4])
{
    __shared__ float4 kept[WHIM_CUDA_MM_CHUNKS][MP_TILES][NT][WARP];
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, each = a.swiglu ? MP_TILES : 1;
    __syncthreads(); /* the last item's have been read */
#pragma unroll
    for (int n = 0; n < NT; n++) {
        kept[warp % WHIM_CUDA_MM_CHUNKS][warp / WHIM_CUDA_MM_CHUNKS][n][lane] =
            make_float4(acc[n][0], acc[n][1], acc[n][2], acc[n][3]);
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
    fp8_chunks chunks(a.k);
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    int own = warp / WHIM_CUDA_MM_CHUNKS, chunk = warp % WHIM_CUDA_MM_CHUNKS;
    int first = chunks.first(chunk), end = chunks.first(chunk + 1);
    int n_rows = ((int)a.n_row + 8 * NT - 1) / (8 * NT);
    int64_t n_octet = a.k / 8, last = (a.n_row - 1) / WHIM_CUDA_TILE;
    let_next_start();
    wait_for_last();
    for (int64_t i = blockIdx.x;; i += gridDim.x) {
        mf_item p = mf_item_of<MP_TILES>(a, (int)(i / n_rows));
        int row = (int)(i % n_rows) * 8 * NT;
        if (p.m == NULL) {
            break;
        }
        const char *tile =
            a.swiglu ? fp8_tile(a, p.m + own, p.tile) : fp8_tile(a, p.m, p.tile + own);
        const float *begin =
            (const float *)(tile + (int64_t)chunks.n_block * (MP_CODES + MP_SCALES)) + lane / 4;
        const char *x[NT];
        float acc[NT][4];
#pragma unroll
        for (int n = 0; n < NT; n++) {
            int64_t rows = row / WHIM_CUDA_TILE + n / 2;
            x[n] = (const char *)a.tiles +
                   ((rows < last ? rows : last) * n_octet * WHIM_CUDA_TILE + row % WHIM_CUDA_TILE +
                    n % 2 * 8 + lane / 4) *
                       WHIM_CUDA_VECTOR +
                   lane % 4 * 4;
            acc[n][0] = acc[n][1] = begin[0];
            acc[n][2] = acc[n][3] = begin[8];
        }
        mp_weights w[2];
        if (first < end) {
            w[0].load(tile, chunks.n_block, first);
        }
        for (int b = first; b < end; b += 2) {
            if (b + 1 < end) {
                w[1].load(tile, chunks.n_block, b + 1);
            }
            mp_block_add<NT>(acc, w[0], x, b);
            if (b + 1 < end) {
                if (b + 2 < end) {
                    w[0].load(tile, chunks.n_block, b + 2);
                }
                mp_block_add<NT>(acc, w[1], x, b + 1);
            }
        }
        mp_finish<NT>(a, p, row, chunks.n, acc);
    }
}

#define MP(NT, blocks)                                                            \
    KERNEL_BOUNDED(32 * MP_WARPS, blocks) k_mm_fp8_##NT(ARGS(whim_cuda_few_args)) \
    {                                                                             \
        mp_run<NT>(a);                                                            \
    }
MP(2, 2)
MP(4, 1)
