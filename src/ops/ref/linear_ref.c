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

whim_err whim_ref_narrow(whim_stream *s, const whim_narrow_args *a)
{
    (void)s;
    for (int64_t r = 0; r < a->n_row; r++) {
        whim_act_store(a->y_type, a->x + r * a->x_stride,
                       (char *)a->y + whim_act_bytes(a->y_type, r * a->y_stride), a->n_col);
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

static float dot_quant_q8(const whim_weight *w, const void *row, const whim_q8_block *x)
{
    float acc = 0.0f;
    for (int64_t g = 0; g < w->k / 32; g++) {
        whim_quant_group group;
        whim_quant_unpack(w->dtype, row, g, &group);
        acc = whim_group_dot_step(acc, &group, &x[g], whim_dtype_has_min(w->dtype));
    }
    return acc;
}

static float dot_fp8_fp8(const whim_weight *w, const uint8_t *row, const uint8_t *x)
{
    float acc = 0.0f;
    for (int64_t b = 0; b < w->k / WHIM_FP8_BLOCK;
         b++, row += WHIM_FP8_BLOCK_BYTES, x += WHIM_FP8_BLOCK_BYTES) {
        float part = 0.0f;
        for (int i = WHIM_FP8_CODES_AT; i < WHIM_FP8_BLOCK_BYTES; i++) {
            part = whim_fmaf(whim_e4m3_to_f32(row[i]), whim_e4m3_to_f32(x[i]), part);
        }
        acc = whim_fmaf(part, whim_fp8_scale(row) * whim_fp8_scale(x), acc);
    }
    return acc;
}

/* A row of activations: as it is stored, and as F32. */
typedef struct act_row {
    whim_act type;
    const void *stored;
    const float *floats;
} act_row;

static float dot_row(const whim_weight *w, const void *row, const act_row *x)
{
    switch (whim_dtype_get(w->dtype)->kind) {
    case WHIM_DTYPE_KIND_QUANT:
        return x->type == WHIM_ACT_Q8 ? dot_quant_q8(w, row, x->stored)
                                      : dot_quant(w, row, x->floats);
    case WHIM_DTYPE_KIND_SCALED:
        return x->type == WHIM_ACT_FP8 ? dot_fp8_fp8(w, row, x->stored)
                                       : dot_fp8(w, row, x->floats);
    default:
        return dot_float(w, row, x->floats);
    }
}

whim_err whim_ref_linear(whim_stream *s, const whim_linear_args *a)
{
    void *space;
    WHIM_TRY(whim_workspace_take(s, whim_law_workspace(WHIM_OP_linear, a), &space));
    for (int64_t r = 0; r < a->n_row; r++) {
        const char *stored = (const char *)a->x + whim_act_bytes(a->x_type, r * a->x_stride);
        act_row x = {a->x_type, stored, (const float *)(const void *)stored};
        if (a->x_type != WHIM_ACT_F32) {
            whim_act_load(a->x_type, stored, space, a->w.k);
            x.floats = space;
        }
        float *y = a->y + r * a->y_stride;
        for (int64_t n = 0; n < a->w.n; n++) {
            float acc = dot_row(&a->w, weight_row(&a->w, n), &x);
            y[n] = a->bias != NULL ? acc + a->bias[n] : acc;
        }
    }
    return WHIM_ERR_OK;
}
