/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels for many and for some rows of FP8 share: the order of mma_fp8.cuh, and its bits, on the
 * unit of mma_wide.cuh. Codes come to shared memory as they are, and a group of four warps opens them
 * on their way to the unit, whose first operand may lie in registers: 64 outputs, and rows as the
 * other. */
#pragma once
#include "mma_bulk.cuh"
#include "mma_fp8_few.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* c += 64 outputs x 128 rows of 16 k, and the same of 64, 32 and 16 rows. */
static void fp8_mma(float (&c)[64], const uint32_t *w, uint64_t x)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
                 "%14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
                 "%26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "
                 "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
                 "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "
                 "%62, %63"
                 "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 0;"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]),
                   "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]),
                   "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]),
                   "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
                   "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]),
                   "+f"(c[30]), "+f"(c[31]), "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]),
                   "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]), "+f"(c[41]),
                   "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]),
                   "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]),
                   "+f"(c[54]), "+f"(c[55]), "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]),
                   "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63])
                 : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "l"(x));
}

static void fp8_mma(float (&c)[32], const uint32_t *w, uint64_t x)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
                 "%14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
                 "%26, %27, %28, %29, %30, %31"
                 "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 0;"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]),
                   "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]),
                   "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]),
                   "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
                   "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]),
                   "+f"(c[30]), "+f"(c[31])
                 : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "l"(x));
}

static void fp8_mma(float (&c)[16], const uint32_t *w, uint64_t x)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
                 "%14, %15"
                 "}, {%16, %17, %18, %19}, %20, 1, 1, 1, 0;"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]),
                   "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]),
                   "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15])
                 : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "l"(x));
}

static void fp8_mma(float (&c)[8], const uint32_t *w, uint64_t x)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7"
                 "}, {%8, %9, %10, %11}, %12, 1, 1, 1, 0;"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]),
                   "+f"(c[6]), "+f"(c[7])
                 : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "l"(x));
}


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
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < WHIM_CUDA_MM_K / 16; k++) {
        fp8_mma(c, w[k], x + k * ring.step());
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
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
