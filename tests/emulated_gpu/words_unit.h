/* SPDX-License-Identifier: Apache-2.0 */
/* Words for the matrix units: unit.cuh and wide_unit.cuh. */
#pragma once

static inline void gpu_load_parts(gpu_warp_word word, int n, uint32_t *r, uint32_t at)
{
    gpu_parts parts = {at, {}};
    gpu_meet(word, 0xffffffffu, &parts);
    memcpy(r, parts.r, (size_t)n * sizeof *r);
}

static inline void load_parts4(uint32_t *r, uint32_t at)
{
    gpu_load_parts(GPU_LOAD_PARTS4, 4, r, at);
}

static inline void load_parts2(uint32_t *r, uint32_t at)
{
    gpu_load_parts(GPU_LOAD_PARTS2, 2, r, at);
}

static inline void load_turned4(uint32_t *r, uint32_t at)
{
    gpu_load_parts(GPU_LOAD_TURNED4, 4, r, at);
}

static inline void mma_bf16(float *c, const uint32_t *w, uint32_t x0, uint32_t x1)
{
    gpu_mma m = {c, w, {x0, x1}, 0};
    gpu_meet(GPU_MMA_BF16, 0xffffffffu, &m);
}

static inline void mma_s8(int *c, const uint32_t *w, uint32_t x0, uint32_t x1, int begin)
{
    gpu_mma m = {c, w, {x0, x1}, begin};
    gpu_meet(GPU_MMA_S8, 0xffffffffu, &m);
}

static inline void mma_s8_half(int *c, uint32_t w0, uint32_t w1, uint32_t x)
{
    uint32_t w[2] = {w0, w1};
    gpu_mma m = {c, w, {x, 0}, 0};
    gpu_meet(GPU_MMA_S8_HALF, 0xffffffffu, &m);
}

static inline void gpu_wide_meet(gpu_wide w)
{
    gpu_meet(GPU_WIDE_MMA, 0xffffffffu, &w);
}

template <int N> static inline void wide_mma(float (&c)[N], uint64_t a, uint64_t b)
{
    gpu_wide_meet({c, NULL, a, b, 2 * N, false, true, false});
}

template <int N> static inline void wide_mma(float (&c)[N], const uint32_t *a, uint64_t b)
{
    gpu_wide_meet({c, a, 0, b, 2 * N, false, true, false});
}

template <int N> static inline void wide_mma_turned(float (&c)[N], const uint32_t *a, uint64_t b)
{
    gpu_wide_meet({c, a, 0, b, 2 * N, false, true, true});
}

template <int ADD, int N>
static inline void wide_mma_f16(float (&c)[N], const uint32_t *a, uint64_t b)
{
    gpu_wide_meet({c, a, 0, b, 2 * N, true, ADD != 0, false});
}

static inline void wide_begin()
{
}

static inline void wide_commit()
{
    gpu_meet(GPU_WIDE_COMMIT, 0xffffffffu, NULL);
}

template <int N> static inline void wide_until()
{
    int n = N;
    gpu_meet(GPU_WIDE_UNTIL, 0xffffffffu, &n);
}

template <int N> static inline void wide_added(float (&)[N])
{
}

static inline void wide_may_read()
{
}
