/* SPDX-License-Identifier: Apache-2.0 */
/* Random rows of every weight type. Block types get random codes and one fixed scale per type, so
 * that a weight's standard deviation is about 1 / sqrt(k), as in a freshly initialised network. */
#include "weights/dummy.h"

#include "base/math/fmath.h"
#include "base/math/rng.h"
#include "tensor/fp8.h"
#include "tensor/half.h"

#include <string.h>

static uint64_t name_key(const char *name)
{
    uint64_t hash = 0;
    for (; *name != '\0'; name++) {
        hash = whim_rng_at(hash, (uint8_t)*name);
    }
    return hash;
}

/* Where a block keeps its scale and minimum (-1: none), the standard deviation of its codes (with
 * random sub-scales) and the minimum that centres them, both in units of the scale. Scales are
 * halves unless wide, then F32. Codes without a minimum may have a mean, and through layers of such
 * weights all rows become one, which would choose the same experts: scales that turn are negative
 * in half of the blocks. */
typedef struct block_facts {
    int32_t scale_at, min_at;
    float spread, centre;
    bool wide, turns;
} block_facts;

static const block_facts facts[WHIM_DTYPE_COUNT] = {
    [WHIM_DTYPE_Q4_0] = {0, -1, 4.6f, 0.0f, .turns = true},
    [WHIM_DTYPE_Q4_1] = {0, 2, 4.6f, -7.5f},
    [WHIM_DTYPE_Q5_0] = {0, -1, 9.2f, 0.0f, .turns = true},
    [WHIM_DTYPE_Q5_1] = {0, 2, 9.2f, -15.5f},
    [WHIM_DTYPE_Q8_0] = {0, -1, 73.9f, 0.0f},
    [WHIM_DTYPE_Q2_K] = {80, 82, 16.0f, 1.5f},
    [WHIM_DTYPE_Q3_K] = {108, -1, 43.0f, 0.0f, .turns = true},
    [WHIM_DTYPE_Q4_K] = {0, 2, 330.0f, 7.5f},
    [WHIM_DTYPE_Q5_K] = {0, 2, 680.0f, 15.5f},
    [WHIM_DTYPE_Q6_K] = {208, -1, 1370.0f, 0.0f, .turns = true},
    [WHIM_DTYPE_IQ4_NL] = {0, -1, 70.0f, 0.0f, .turns = true},
    [WHIM_DTYPE_IQ4_XS] = {0, -1, 1290.0f, 0.0f, .turns = true},
    [WHIM_DTYPE_IQ2_XXS] = {0, -1, 52.8f, 0.0f},
    [WHIM_DTYPE_IQ2_XS] = {0, -1, 56.1f, 0.0f},
    [WHIM_DTYPE_IQ2_S] = {0, -1, 55.9f, 0.0f},
    [WHIM_DTYPE_IQ3_XXS] = {0, -1, 141.0f, 0.0f},
    [WHIM_DTYPE_IQ3_S] = {0, -1, 137.8f, 0.0f},
    [WHIM_DTYPE_MXFP4] = {-1, -1, 6.0f, 0.0f},
    [WHIM_DTYPE_INT8] = {.scale_at = 0, .min_at = -1, .spread = 73.9f, .wide = true},
    [WHIM_DTYPE_FP8] = {.scale_at = 0, .min_at = -1, .spread = 107.2f, .wide = true},
};

static void put_scale(uint8_t *block, int32_t at, float value, bool wide)
{
    uint16_t half = whim_f32_to_f16(value);
    if (at >= 0 && wide) {
        memcpy(block + at, &value, sizeof value);
    } else if (at >= 0) {
        memcpy(block + at, &half, sizeof half);
    }
}

static void fill_bytes(uint64_t key, uint8_t *dst, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += 8) {
        uint64_t word = whim_rng_at(key, (uint64_t)i);
        memcpy(dst + i, &word, (size_t)(bytes - i < 8 ? bytes - i : 8));
    }
}

/* NaN codes of a block become the code below, the largest number. */
static void fp8_codes_limit(uint8_t *block)
{
    for (int32_t i = WHIM_FP8_CODES_AT; i < WHIM_FP8_BLOCK_BYTES; i++) {
        block[i] -= (block[i] & 0x7f) == 0x7f;
    }
}

static void block_row(uint64_t key, whim_dtype dtype, int64_t k, uint8_t *dst)
{
    const whim_dtype_info *info = whim_dtype_get(dtype);
    const block_facts *f = &facts[dtype];
    float scale = 1.0f / (sqrtf((float)k) * f->spread);
    fill_bytes(key, dst, whim_dtype_row_bytes(dtype, k));
    for (int64_t b = 0; b < k / info->block_elems; b++) {
        uint8_t *block = dst + b * info->block_bytes;
        float own = f->turns && (block[f->scale_at] & 1) != 0 ? -scale : scale;
        put_scale(block, f->scale_at, own, f->wide);
        put_scale(block, f->min_at, own * f->centre, f->wide);
        if (dtype == WHIM_DTYPE_MXFP4) {
            block[0] = (uint8_t)(128 - (whim_f32_bits(1.0f / scale) >> 23) + 127);
        } else if (dtype == WHIM_DTYPE_FP8) {
            fp8_codes_limit(block);
        }
    }
}

/* Uniform values, four of a random word: making a word takes longer than all the rest. */
static void float_row(uint64_t key, whim_dtype dtype, int64_t k, void *dst)
{
    enum { N = 256 };
    float scale = 0x1.bb67aep-15f / sqrtf((float)k); /* sqrt(12) / 65536: deviation of a uniform */
    for (int64_t at = 0; at < k; at += N) {
        int64_t n = k - at < N ? k - at : N;
        uint16_t drawn[N];
        float values[N];
        fill_bytes(whim_rng_at(key, (uint64_t)at), (uint8_t *)drawn, (int64_t)sizeof drawn);
        for (int64_t i = 0; i < N; i++) {
            values[i] = scale * ((float)drawn[i] - 32767.5f);
        }
        if (dtype == WHIM_DTYPE_F32) {
            memcpy((float *)dst + at, values, (size_t)n * sizeof *values);
            continue;
        }
        uint16_t *out = (uint16_t *)dst + at;
        for (int64_t i = 0; i < n; i++) {
            out[i] =
                dtype == WHIM_DTYPE_BF16 ? whim_f32_to_bf16(values[i]) : whim_f32_to_f16(values[i]);
        }
    }
}

void whim_dummy_rows(const char *name, whim_dtype dtype, int64_t k, int64_t row0, int64_t n_row,
                     void *dst)
{
    uint64_t key = name_key(name);
    int64_t row_bytes = whim_dtype_row_bytes(dtype, k);
    for (int64_t r = 0; r < n_row; r++) {
        uint64_t row_key = whim_rng_at(key, (uint64_t)(row0 + r));
        uint8_t *row = (uint8_t *)dst + r * row_bytes;
        if (whim_dtype_get(dtype)->kind == WHIM_DTYPE_KIND_FLOAT) {
            float_row(row_key, dtype, k, row);
        } else {
            block_row(row_key, dtype, k, row);
        }
    }
}

void whim_dummy_vector(const char *name, int64_t n, float *dst)
{
    uint64_t key = name_key(name);
    for (int64_t i = 0; i < n; i++) {
        dst[i] = 1.0f + 0.1f * whim_rng_normal_at(key, (uint64_t)i);
    }
}
