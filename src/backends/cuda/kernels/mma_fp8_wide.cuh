/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels for many and for some rows of FP8 share: the order of mma_fp8.cuh, and its bits, on the
 * unit of mma_wide.cuh. Codes come to shared memory as they are, and a group of four warps opens them
 * on their way to the unit, whose first operand may lie in registers: 64 outputs, and rows as the
 * other. */
#pragma once
#include "mma_bulk.cuh"
#include "mma_fp8_few.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL


/* Where a warp's outputs are: half `half` of two tiles beside each other, the first of which is at
 * `codes` in a stage; the first scale of either tile, and 0 or NaN. */
struct fp8_lines {
    uint32_t codes;
    const float *scales[2];
    float begin[2];

    fp8_lines(int64_t k, int pair, int half, const char *lo, const char *hi)
    {
        int lane = threadIdx.x % WARP, n_block = (int)(k / MP_BLOCK);
        int64_t at = (int64_t)n_block * MP_CODES;
        codes = pair * 2 * MP_STEP_BYTES + (half * WARP + lane) * WHIM_CUDA_VECTOR;
        scales[0] = (const float *)(lo + at) + half * 8 + lane / 4;
        scales[1] = (const float *)(hi + at) + half * 8 + lane / 4;
        begin[0] = scales[0][n_block * WHIM_CUDA_TILE];
        begin[1] = scales[1][n_block * WHIM_CUDA_TILE];
    }
};

/* A stage's operands, when it has come. */
template <class Ring> static void fp8_stage_open(const Ring &ring, uint32_t codes, uint32_t (*w)[4])
{
    ring.wait();
    fp8_open(w, load_shared(ring.stage() + codes), load_shared(ring.stage() + codes + MP_STEP_BYTES));
}

template <int SUMS, class Ring>
static void fp8_stage_begin(const Ring &ring, const uint32_t (*w)[4], float (&c)[SUMS])
{
    uint64_t x = ring.operand();
    wide_begin();
#pragma unroll
    for (int k = 0; k < WHIM_CUDA_MM_K / 16; k++) {
        wide_mma(c, w[k], x + k * ring.step());
    }
    wide_commit();
}

/* Blocks `first` on, n of them, of chunks of `each`: acc has the last chunk's sums, and ended(acc) is
 * called at the end of those before. While the unit works on a stage the next is opened. */
template <int SUMS, class Ring, class Ended>
static void fp8_add(const fp8_lines &lines, int first, int n, int each, Ring &ring,
                    float (&acc)[SUMS], Ended ended)
{
    uint32_t w[2][4][4];
    float scale[2], next[2] = {};
    int left = each;
#pragma unroll
    for (int i = 0; i < SUMS; i++) {
        acc[i] = lines.begin[i % 4 / 2];
    }
    if (n > 0) {
        next[0] = lines.scales[0][first * WHIM_CUDA_TILE];
        next[1] = lines.scales[1][first * WHIM_CUDA_TILE];
        fp8_stage_open(ring, lines.codes, w[0]);
    }
    for (int b = 0; b < n; b++) {
        float c[SUMS] = {};
        uint32_t empty[2];
        scale[0] = next[0], scale[1] = next[1];
        fp8_stage_begin(ring, w[0], c);
        empty[0] = ring.empty_at();
        ring.next();
        fp8_stage_open(ring, lines.codes, w[1]);
        fp8_stage_begin(ring, w[1], c);
        empty[1] = ring.empty_at();
        ring.next();
        wide_wait<1>(c);
        ring.free(empty[0]);
        if (b + 1 < n) {
            next[0] = lines.scales[0][(first + b + 1) * WHIM_CUDA_TILE];
            next[1] = lines.scales[1][(first + b + 1) * WHIM_CUDA_TILE];
            fp8_stage_open(ring, lines.codes, w[0]);
        }
        wide_wait<0>(c);
        ring.free(empty[1]);
#pragma unroll
        for (int i = 0; i < SUMS; i++) {
            acc[i] = whim_fmaf(c[i], scale[i % 4 / 2], acc[i]);
        }
        if (--left == 0 && b + 1 < n) {
            ended(acc);
            left = each;
#pragma unroll
            for (int i = 0; i < SUMS; i++) {
                acc[i] = 0.0f;
            }
        }
    }
}

#endif
