/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a file as the device takes them: in another order, with their scales beside them, or widened. */
#include "base/alloc.h"
#include "base/fmath.h"
#include "tensor/fp8.h"
#include "tensor/quant.h"
#include "weights/bind.h"
#include "weights/dummy.h"

#include <string.h>

int64_t whim_rows_file_bytes(const whim_param *param)
{
    return whim_dtype_row_bytes(param->parts[0].tensor->dtype, param->k);
}

/* Scales of a row of codes. */
static int64_t scales_each(const whim_param *param)
{
    return (param->k + WHIM_FP8_BLOCK - 1) / WHIM_FP8_BLOCK;
}

static int64_t rounded(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* As they are in the file, if they change on the way, and the scales of all rows of blocks that they touch. */
int64_t whim_rows_scratch_bytes(const whim_param *param, int64_t n_row)
{
    const whim_param_part *part = &param->parts[0];
    bool changes = param->unpair > 0 || param->dtype != part->tensor->dtype;
    int64_t bytes = changes ? rounded(n_row * whim_rows_file_bytes(param)) : 0;
    if (part->scales != NULL) {
        int64_t rows = n_row / WHIM_FP8_BLOCK + 2;
        bytes += rounded(rows * whim_dtype_row_bytes(part->scales->dtype, scales_each(param)));
    }
    return bytes;
}

/* The file's row that becomes row `row` when a head's adjacent pairs are put into two halves. */
static int64_t unpaired_row(int64_t row, int64_t d_head)
{
    int64_t head = row / d_head, i = row % d_head, half = d_head / 2;
    return head * d_head + 2 * (i % half) + i / half;
}

/* The scales of a row of codes, one for each 128 of them, written as the device takes the row: blocks of a scale and its
 * codes, or F32. */
static void row_scale(const whim_param *param, const uint8_t *codes, const char *scales,
                      whim_dtype scale_type, char *dst)
{
    for (int64_t b = 0; b < scales_each(param); b++) {
        float d;
        whim_dequant_row(scale_type, scales + whim_dtype_row_bytes(scale_type, b), &d, 1);
        int64_t at = b * WHIM_FP8_BLOCK,
                n = param->k - at < WHIM_FP8_BLOCK ? param->k - at : WHIM_FP8_BLOCK;
        if (param->dtype == WHIM_DTYPE_FP8) {
            char *block = dst + b * WHIM_FP8_BLOCK_BYTES;
            memcpy(block, &d, sizeof d);
            memcpy(block + WHIM_FP8_CODES_AT, codes + at, (size_t)n);
            continue;
        }
        for (int64_t i = 0; i < n; i++) {
            ((float *)(void *)dst)[at + i] = whim_e4m3_to_f32(codes[at + i]) * d;
        }
    }
}

/* Codes with scales: `raw` is what the file has. */
static whim_err scaled_rows(const whim_ckpt *ckpt, const whim_param *param,
                            const whim_param_part *part, int64_t row0, int64_t n_row, char *dst,
                            const char *raw, char *scales, whim_diag *diag)
{
    whim_dtype type = part->scales->dtype;
    int64_t each = whim_dtype_row_bytes(type, scales_each(param));
    int64_t first = row0 / WHIM_FP8_BLOCK, last = (row0 + n_row - 1) / WHIM_FP8_BLOCK;
    WHIM_TRY(
        whim_ckpt_read(ckpt, part->scales, first * each, (last - first + 1) * each, scales, diag));
    for (int64_t r = 0; r < n_row; r++) {
        row_scale(param, (const uint8_t *)raw + r * param->k,
                  scales + ((row0 + r) / WHIM_FP8_BLOCK - first) * each, type,
                  dst + r * whim_dtype_row_bytes(param->dtype, param->k));
    }
    return WHIM_ERR_OK;
}

whim_err whim_rows_read(const whim_ckpt *ckpt, const whim_param *param, int64_t index, int64_t row0,
                        int64_t n_row, char *dst, char *scratch, whim_diag *diag)
{
    const whim_param_part *part = &param->parts[index];
    const whim_ckpt_tensor *tensor = part->tensor;
    int64_t row_bytes = whim_rows_file_bytes(param), at = part->row0 + row0;
    bool changes = param->unpair > 0 || param->dtype != tensor->dtype;
    char *raw = changes ? scratch : dst;
    if (n_row == 0) {
        return WHIM_ERR_OK;
    }
    if (tensor->file < 0) {
        whim_dummy_rows(param->name, tensor->dtype, param->k, at, n_row, raw);
    } else {
        WHIM_TRY(whim_ckpt_read(ckpt, tensor, at * row_bytes, n_row * row_bytes, raw, diag));
    }
    if (part->scales != NULL) {
        return scaled_rows(ckpt, param, part, row0, n_row, dst, raw,
                           scratch + rounded(n_row * row_bytes), diag);
    }
    for (int64_t r = 0; r < n_row && changes; r++) {
        int64_t from = param->unpair > 0 ? unpaired_row(r, param->unpair) : r;
        if (param->dtype == tensor->dtype) {
            memcpy(dst + r * row_bytes, raw + from * row_bytes, (size_t)row_bytes);
        } else {
            whim_dequant_row(tensor->dtype, raw + from * row_bytes,
                             (float *)(void *)dst + r * param->k, param->k);
        }
    }
    return WHIM_ERR_OK;
}

static void form_apply(whim_vector_form form, float *x, int64_t n)
{
    for (int64_t i = 0; i < n && form != WHIM_VECTOR_PLAIN; i++) {
        x[i] = form == WHIM_VECTOR_PLUS_ONE ? 1.0f + x[i] : (float)-whim_exp((double)x[i]);
    }
}

/* Dummies of norms are around 1 already. */
whim_err whim_vector_read(const whim_ckpt *ckpt, const whim_param *param, float *dst,
                          whim_diag *diag)
{
    const whim_ckpt_tensor *tensor = param->parts[0].tensor;
    if (tensor->file < 0) {
        whim_dummy_vector(param->name, param->n * param->k, dst);
        form_apply(param->form == WHIM_VECTOR_NEG_EXP ? param->form : WHIM_VECTOR_PLAIN, dst,
                   param->n * param->k);
        return WHIM_ERR_OK;
    }
    char *raw = whim_alloc(tensor->bytes);
    if (raw == NULL) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory to read %s", param->name);
    }
    whim_err err = whim_ckpt_read(ckpt, tensor, 0, tensor->bytes, raw, diag);
    for (int64_t i = 0; err == WHIM_ERR_OK && i < param->n * param->k; i++) {
        int64_t from = param->unpair > 0 ? unpaired_row(i, param->unpair) : i;
        whim_dequant_row(tensor->dtype, raw + whim_dtype_row_bytes(tensor->dtype, from), dst + i,
                         1);
    }
    form_apply(param->form, dst, err == WHIM_ERR_OK ? param->n * param->k : 0);
    whim_free(raw);
    return err;
}
