/* SPDX-License-Identifier: Apache-2.0 */
/* The law of the ops on weight matrices. The law's packed layout is the file's: row after row. */
#include "base/math/fmath.h"
#include "ops/ref/ref.h"
#include "tensor/fp8.h"
#include "tensor/half.h"
#include "tensor/quant.h"
#include "tensor/unpack.h"

#include <string.h>

static const void *weight_row(const whim_weight *w, int64_t row)
{
    return (const char *)w->data + row * whim_dtype_row_bytes(w->dtype, w->k);
}

whim_err whim_ref_embed(whim_stream *s, const whim_embed_args *a)
{
    (void)s;
    for (int64_t r = 0; r < a->n_row; r++) {
        float *y = a->y + r * a->y_stride;
        int64_t id = a->ids[r];
        if (id < 0 || id >= a->w.n) {
            memset(y, 0, (size_t)a->w.k * sizeof *y);
        } else {
            whim_dequant_row(a->w.dtype, weight_row(&a->w, id), y, a->w.k);
        }
    }
    return WHIM_ERR_OK;
}

whim_err whim_ref_quantize_q8(whim_stream *s, const whim_quantize_q8_args *a)
{
    (void)s;
    int64_t n_block = a->k / 32;
    for (int64_t r = 0; r < a->n_row; r++) {
        for (int64_t b = 0; b < n_block; b++) {
            whim_q8_quantize32(a->x + r * a->x_stride + b * 32, &a->y[r * n_block + b]);
        }
    }
    return WHIM_ERR_OK;
}

static float weight_float(whim_dtype dtype, const void *row, int64_t i)
{
    if (dtype == WHIM_DTYPE_F32) {
        return ((const float *)row)[i];
    }
    uint16_t bits = ((const uint16_t *)row)[i];
    return dtype == WHIM_DTYPE_BF16 ? whim_bf16_to_f32(bits) : whim_f16_to_f32(bits);
}

static float dot_float(const whim_weight *w, const void *row, const float *x)
{
    float acc = 0.0f;
    for (int64_t i = 0; i < w->k; i++) {
        acc = whim_fmaf(weight_float(w->dtype, row, i), x[i], acc);
    }
    return acc;
}

static float dot_fp8(const whim_weight *w, const void *row, const float *x)
{
    float acc = 0.0f;
    for (int64_t b = 0; b < w->k / WHIM_FP8_BLOCK; b++) {
        const char *block = (const char *)row + b * WHIM_FP8_BLOCK_BYTES;
        acc = whim_fp8_dot_step(acc, block, x + b * WHIM_FP8_BLOCK);
    }
    return acc;
}

static float dot_quant(const whim_weight *w, const void *row, const float *x)
{
    float acc = 0.0f;
    for (int64_t g = 0; g < w->k / 32; g++) {
        whim_q8_block act;
        whim_q8_quantize32(x + g * 32, &act);
        whim_quant_group group;
        whim_quant_unpack(w->dtype, row, g, &group);
        acc = whim_group_dot_step(acc, &group, &act, whim_dtype_has_min(w->dtype));
    }
    return acc;
}

static float dot_row(const whim_weight *w, const void *row, const float *x)
{
    switch (whim_dtype_get(w->dtype)->kind) {
    case WHIM_DTYPE_KIND_QUANT:
        return dot_quant(w, row, x);
    case WHIM_DTYPE_KIND_SCALED:
        return dot_fp8(w, row, x);
    default:
        return dot_float(w, row, x);
    }
}

whim_err whim_ref_linear(whim_stream *s, const whim_linear_args *a)
{
    (void)s;
    for (int64_t r = 0; r < a->n_row; r++) {
        const float *x = a->x + r * a->x_stride;
        float *y = a->y + r * a->y_stride;
        for (int64_t n = 0; n < a->w.n; n++) {
            float acc = dot_row(&a->w, weight_row(&a->w, n), x);
            y[n] = a->bias != NULL ? acc + a->bias[n] : acc;
        }
    }
    return WHIM_ERR_OK;
}
