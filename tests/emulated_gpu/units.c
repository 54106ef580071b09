/* SPDX-License-Identifier: Apache-2.0 */
/* What the lanes of a warp do together. The order of a sum is this file's and wide.c's: products of
 * BF16 or F16 are exact, those of 16 k are added up in double, k in order, and join c by one
 * rounding, whatever the shape of the instruction. */
#include "emulated_gpu/units.h"

#include <string.h>

#define EACH_LANE(lane, mask)                   \
    for (int lane = 0; lane < GPU_WARP; lane++) \
        if ((mask) >> lane & 1)

static void shuffle(gpu_warp *w, void *const *own, uint32_t mask)
{
    (void)w;
    EACH_LANE(i, mask)
    {
        gpu_shuffle *s = own[i];
        if ((mask >> s->from & 1) == 0) {
            gpu_fault("__shfl_sync from lane %d, which is not in the mask %08x", s->from, mask);
        }
        s->out = ((const gpu_shuffle *)own[s->from])->in;
    }
}

static void vote(gpu_warp *w, void *const *own, uint32_t mask)
{
    uint32_t all = 0;
    (void)w;
    EACH_LANE(i, mask)
    {
        all |= ((const gpu_number *)own[i])->in != 0 ? 1u << i : 0;
    }
    EACH_LANE(i, mask)
    {
        ((gpu_number *)own[i])->out = all;
    }
}

static uint32_t reduced(gpu_warp_word word, uint32_t a, uint32_t b)
{
    bool less = word == GPU_REDUCE_UMAX ? a < b : (int32_t)a < (int32_t)b;
    return word == GPU_REDUCE_ADD ? a + b : less == (word != GPU_REDUCE_MIN) ? b : a;
}

static void reduce(gpu_warp *w, void *const *own, uint32_t mask)
{
    int first = __builtin_ctz(mask);
    uint32_t all = ((const gpu_number *)own[first])->in;
    EACH_LANE(i, mask & ~(1u << first))
    {
        all = reduced(w->word, all, ((const gpu_number *)own[i])->in);
    }
    EACH_LANE(i, mask)
    {
        ((gpu_number *)own[i])->out = all;
    }
}

/* Rows of 8 numbers of 16 bits: lane i of each eight says where row i of its part is. */
static void load_parts(gpu_warp *w, void *const *own, uint32_t mask)
{
    int n = w->word == GPU_LOAD_PARTS2 ? 2 : 4;
    uint16_t part[8][8];
    (void)mask;
    for (int p = 0; p < n; p++) {
        for (int r = 0; r < 8; r++) {
            uint32_t at = ((const gpu_parts *)own[p * 8 + r])->at;
            if (at % 16 != 0) {
                gpu_fault("a row of the unit at %u, which is no multiple of 16", at);
            }
            memcpy(part[r], gpu_shared(at, 16), 16);
        }
        for (int i = 0; i < GPU_WARP; i++) {
            int r = i / 4, c = i % 4 * 2;
            ((gpu_parts *)own[i])->r[p] = w->word == GPU_LOAD_TURNED4
                                              ? part[c][r] | (uint32_t)part[c + 1][r] << 16
                                              : part[r][c] | (uint32_t)part[r][c + 1] << 16;
        }
    }
}

void gpu_fragment_a(float (*a)[GPU_K], const uint32_t *const *from, bool is_f16)
{
    for (int i = 0; i < GPU_WARP; i++) {
        for (int j = 0; j < 4; j++) {
            int row = i / 4 + j % 2 * 8, k = i % 4 * 2 + j / 2 * 8;
            a[row][k] = gpu_float((uint16_t)from[i][j], is_f16);
            a[row][k + 1] = gpu_float((uint16_t)(from[i][j] >> 16), is_f16);
        }
    }
}

/* All of b is [k][n]. */
void gpu_add_products(double *sum, const float (*a)[GPU_K], const float *b, int n)
{
    memset(sum, 0, 16 * (size_t)n * sizeof *sum);
    for (int r = 0; r < 16; r++) {
        for (int k = 0; k < GPU_K; k++) {
            double x = (double)a[r][k];
            for (int i = 0; i < n; i++) {
                sum[r * n + i] += x * (double)b[k * n + i];
            }
        }
    }
}

static void mma_bf16(gpu_warp *w, void *const *own, uint32_t mask)
{
    const uint32_t *from[GPU_WARP];
    float a[16][GPU_K], b[GPU_K * 8];
    double sum[16 * 8];
    (void)w;
    (void)mask;
    for (int i = 0; i < GPU_WARP; i++) {
        const gpu_mma *m = own[i];
        from[i] = m->a;
        for (int j = 0; j < 4; j++) {
            b[(i % 4 * 2 + j % 2 + j / 2 * 8) * 8 + i / 4] =
                gpu_float((uint16_t)(m->b[j / 2] >> j % 2 * 16), false);
        }
    }
    gpu_fragment_a(a, from, false);
    gpu_add_products(sum, a, b, 8);
    for (int i = 0; i < GPU_WARP; i++) {
        float *c = ((const gpu_mma *)own[i])->c;
        for (int j = 0; j < 4; j++) {
            c[j] = (float)((double)c[j] + sum[(i / 4 + j / 2 * 8) * 8 + i % 4 * 2 + j % 2]);
        }
    }
}

static int dot4(uint32_t a, uint32_t b)
{
    int sum = 0;
    for (int i = 0; i < 32; i += 8) {
        sum += (int8_t)(a >> i) * (int8_t)(b >> i);
    }
    return sum;
}

/* 32 k, or 16: of each four k another lane has the operands. */
static void mma_s8(gpu_warp *w, void *const *own, uint32_t mask)
{
    int halves = w->word == GPU_MMA_S8 ? 2 : 1;
    (void)mask;
    for (int i = 0; i < GPU_WARP; i++) {
        const gpu_mma *m = own[i];
        for (int j = 0; j < 4; j++) {
            int row = i / 4 * 4, column = (i % 4 * 2 + j % 2) * 4, sum = m->begin;
            for (int q = 0; q < 4 * halves; q++) {
                const gpu_mma *a = own[row + q % 4], *b = own[column + q % 4];
                sum += dot4(a->a[q / 4 * 2 + j / 2], b->b[q / 4]);
            }
            ((int *)m->c)[j] = sum;
        }
    }
}

const struct gpu_warp_act gpu_warp_acts[GPU_WARP_WORDS] = {
    [GPU_SYNCWARP] = {"__syncwarp", NULL},
    [GPU_SHUFFLE] = {"__shfl_sync", shuffle},
    [GPU_VOTE] = {"a vote", vote},
    [GPU_REDUCE_ADD] = {"__reduce_add_sync", reduce},
    [GPU_REDUCE_MAX] = {"__reduce_max_sync", reduce},
    [GPU_REDUCE_MIN] = {"__reduce_min_sync", reduce},
    [GPU_REDUCE_UMAX] = {"__reduce_max_sync of unsigned", reduce},
    [GPU_LOAD_PARTS2] = {"load_parts2", load_parts},
    [GPU_LOAD_PARTS4] = {"load_parts4", load_parts},
    [GPU_LOAD_TURNED4] = {"load_turned4", load_parts},
    [GPU_MMA_BF16] = {"mma_bf16", mma_bf16},
    [GPU_MMA_S8] = {"mma_s8", mma_s8},
    [GPU_MMA_S8_HALF] = {"mma_s8_half", mma_s8},
    [GPU_WIDE_MMA] = {"wide_mma", gpu_wide_ask},
    [GPU_WIDE_COMMIT] = {"wide_commit", gpu_wide_commit},
    [GPU_WIDE_UNTIL] = {"wide_until", gpu_wide_until},
};
