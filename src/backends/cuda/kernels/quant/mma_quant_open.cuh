/* SPDX-License-Identifier: Apache-2.0 */
/* What mma_quant.cuh gives to the unit: rows as codes in F16 with their scales, which a kernel of its
 * own makes, and groups of weights, opened to F16 in registers. */
#pragma once
#include "quant/few_quant.cuh"

/* --- rows ------------------------------------------------------------------------------------- */

/* Where row r of a tile has its scale, and s * sum, among those of its group: what a thread of the
 * unit needs of 16 rows lies together. */
static int quant_scale_at(int r)
{
    return r / 16 * 16 + r % 8 / 2 * 4 + r / 8 % 2 * 2 + r % 2;
}

/* whim_q8_quantize32, four elements a thread, of 8 that have a group. Codes lie in the order in
 * which threads of the unit find those of weights in a word: the first and third, then the others. */
static void quant_narrow(char *group, int rows, int r, int part, float4 x, bool is_there)
{
    float v[4] = {x.x, x.y, x.z, x.w};
    uint32_t top = 0;
    int q[4], sum = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t mag = whim_f32_bits(v[i]) & 0x7fffffffu;
        top = mag > top ? mag : top;
    }
    for (int step = 4; step > 0; step /= 2) {
        uint32_t other = __shfl_xor_sync(ALL_LANES, top, step);
        top = other > top ? other : top;
    }
    float s = whim_f32_from_bits(top) / 127.0f;
    bool finite = top < 0x7f800000u, usable = finite && s >= 0x1p-126f;
    float inv = usable ? 1.0f / s : 0.0f;
    for (int i = 0; i < 4; i++) {
        q[i] = usable ? (int8_t)whim_f32_bits(v[i] * inv + 0x1.8p23f) : 0;
        sum += q[i];
    }
    for (int step = 4; step > 0; step /= 2) {
        sum += __shfl_xor_sync(ALL_LANES, sum, step);
    }
    if (!is_there) {
        return;
    }
    uint32_t *to = (uint32_t *)(group + (part / 4 * 2 * rows + r) * 16) + part % 4;
    to[0] = pack_f16(q[0], q[2]);
    to[rows * 4] = pack_f16(q[1], q[3]);
    if (part == 0) {
        float *scale = (float *)(group + rows * 64) + quant_scale_at(r);
        s = usable ? s : finite ? 0.0f : NAN;
        scale[0] = s;
        scale[rows] = s * (float)sum;
    }
}

/* A block has some groups of 32 rows. */
KERNEL k_tiles_q8(ARGS(whim_cuda_tiles_args))
{
    enum { GROUPS = WHIM_CUDA_QW_GROUPS, ROWS = 32 };
    BEGIN
    int n_group = (int)(a.k / WHIM_GROUP), part = threadIdx.x % 8, in_block = threadIdx.x / 8;
    int64_t n_stretch = n_group / GROUPS;
    bool is_even = ((uintptr_t)a.x | (uintptr_t)a.x_stride * 4) % 16 == 0;
    EACH_ITEM(item, (a.n_row + ROWS - 1) / ROWS * n_stretch)
    {
        int64_t row = item / n_stretch * ROWS + in_block, g = item % n_stretch * GROUPS;
        bool is_there = row < a.n_row;
        const float *x = a.x + (is_there ? row : 0) * a.x_stride + g * WHIM_GROUP + part * 4;
        char *to = (char *)a.tiles +
                   (row / a.rows * n_group + g) * (int64_t)whim_cuda_qw_group_bytes(a.rows);
        float4 v[GROUPS];
#pragma unroll
        for (int i = 0; i < GROUPS; i++) {
            const float *at = x + i * WHIM_GROUP;
            v[i] = is_even ? *(const float4 *)at : make_float4(at[0], at[1], at[2], at[3]);
        }
#pragma unroll
        for (int i = 0; i < GROUPS; i++) {
            quant_narrow(to + i * whim_cuda_qw_group_bytes(a.rows), a.rows, (int)(row % a.rows),
                         part, v[i], is_there);
        }
    }
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* --- codes of weights as F16 ------------------------------------------------------------------ */

/* The unit's operands for either half of a group's k, of outputs `lane / 4` and that + 8. A code in
 * the low bits of 0x6400 is 1024 and the code; 4 bits higher it is 16 times as much. */
template <class W> static void quant_open(uint32_t (*to)[4], const uint32_t *v)
{
    enum { ONES = 0x64006400u, LESS = W::LESS == 8 ? 0xe408e408u : 0xe400e400u };
    enum { SIXTEENTH = 0x2c002c00u, LESS_64 = W::LESS == 8 ? 0xd480d480u : 0xd400d400u };
    enum { LESS_128 = 0xe480e480u };
#pragma unroll
    for (int o = 0; o < 2; o++) {
        if (W::VECTORS == 1) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                uint32_t word = v[o] >> i * 8;
                to[0][o + i * 2] = half2_add((word & 0x000f000fu) | ONES, LESS);
                to[1][o + i * 2] = half2_fma((word & 0x00f000f0u) | ONES, SIXTEENTH, LESS_64);
            }
        } else {
#pragma unroll
            for (int k = 0; k < 2; k++) {
                uint32_t word = v[k * 2 + o] ^ 0x80808080u;
                to[k][o] = half2_add(__byte_perm(word, ONES >> 8, 0x4240), LESS_128);
                to[k][o + 2] = half2_add(__byte_perm(word, ONES >> 8, 0x4341), LESS_128);
            }
        }
    }
}
#endif
