/* SPDX-License-Identifier: Apache-2.0 */
/* Dispatch by type over the inline unpackers, and the law of dequantisation. */
#include "tensor/quant.h"

#include "base/check.h"
#include "tensor/fp8.h"
#include "tensor/unpack_iq.h"

bool whim_dtype_has_min(whim_dtype dtype)
{
    switch ((int)dtype) {
#define CASE(NAME, name, has_min) \
    case WHIM_DTYPE_##NAME:       \
        return has_min;
        WHIM_QUANT_TYPES(CASE)
#undef CASE
    default:
        return false;
    }
}

void whim_quant_unpack(whim_dtype dtype, const void *row, int64_t group, whim_quant_group *out)
{
    switch ((int)dtype) {
#define CASE(NAME, name, has_min)            \
    case WHIM_DTYPE_##NAME:                  \
        whim_unpack_##name(row, group, out); \
        break;
        WHIM_QUANT_TYPES(CASE)
#undef CASE
    default:
        whim_check(!"whim_quant_unpack: not a quantised type");
    }
}

void whim_quant_widen(const whim_quant_group *g, float *dst)
{
    for (int i = 0; i < WHIM_GROUP; i++) {
        int h = i / 16;
        float scaled = (float)(g->sc[h] * g->q[i]) * g->d;
        dst[i] = scaled + g->m * (float)g->mn[h];
    }
}

/* One loop per type, so that the unpacker is inlined into it. */
#define DEFINE_WIDEN(NAME, name, has_min)                                  \
    static void widen_##name(const void *src, float *dst, int64_t n_group) \
    {                                                                      \
        for (int64_t i = 0; i < n_group; i++) {                            \
            whim_quant_group g;                                            \
            whim_unpack_##name(src, i, &g);                                \
            whim_quant_widen(&g, dst + i * WHIM_GROUP);                    \
        }                                                                  \
    }
WHIM_QUANT_TYPES(DEFINE_WIDEN)
#undef DEFINE_WIDEN

static void half_widen(const void *src, float *dst, int64_t n, float (*to_f32)(uint16_t))
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, (const char *)src + 2 * i, 2);
        dst[i] = to_f32(h);
    }
}

static void fp8_widen(const void *src, float *dst, int64_t n_block)
{
    for (int64_t i = 0; i < n_block; i++) {
        whim_fp8_widen((const char *)src + i * WHIM_FP8_BLOCK_BYTES, dst + i * WHIM_FP8_BLOCK);
    }
}

void whim_dequant_row(whim_dtype dtype, const void *src, float *dst, int64_t n)
{
    switch ((int)dtype) {
    case WHIM_DTYPE_F32:
        memcpy(dst, src, (size_t)n * sizeof(float));
        break;
    case WHIM_DTYPE_F16:
        half_widen(src, dst, n, whim_f16_to_f32);
        break;
    case WHIM_DTYPE_BF16:
        half_widen(src, dst, n, whim_bf16_to_f32);
        break;
    case WHIM_DTYPE_FP8:
        fp8_widen(src, dst, n / WHIM_FP8_BLOCK);
        break;
#define CASE(NAME, name, has_min)               \
    case WHIM_DTYPE_##NAME:                     \
        widen_##name(src, dst, n / WHIM_GROUP); \
        break;
        WHIM_QUANT_TYPES(CASE)
#undef CASE
    default:
        whim_check(!"whim_dequant_row: not a weight type");
    }
}
