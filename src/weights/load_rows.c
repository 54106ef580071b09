/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a file as the device takes them: in another order, or widened. */
#include "base/alloc.h"
#include "tensor/fp8.h"
#include "tensor/quant.h"
#include "weights/bind.h"
#include "weights/dummy.h"

#include <string.h>

int64_t whim_rows_file_bytes(const whim_param *param)
{
    return whim_dtype_row_bytes(param->parts[0].tensor->dtype, param->k);
}

static int64_t rounded(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* As they are in the file, if they change on the way. */
int64_t whim_rows_scratch_bytes(const whim_param *param, int64_t n_row)
{
    bool changes = param->unpair > 0 || param->dtype != param->parts[0].tensor->dtype;
    return changes ? rounded(n_row * whim_rows_file_bytes(param)) : 0;
}

/* The file's row that becomes row `row` when a head's adjacent pairs are put into two halves. */
static int64_t unpaired_row(int64_t row, int64_t d_head)
{
    int64_t head = row / d_head, i = row % d_head, half = d_head / 2;
    return head * d_head + 2 * (i % half) + i / half;
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
        WHIM_TRY(whim_ckpt_read_rows(ckpt, tensor, at, n_row, raw, diag));
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

whim_err whim_vector_read(const whim_ckpt *ckpt, const whim_param *param, float *dst,
                          whim_diag *diag)
{
    const whim_ckpt_tensor *tensor = param->parts[0].tensor;
    if (tensor->file < 0) {
        whim_dummy_vector(param->name, param->n, dst);
        return WHIM_ERR_OK;
    }
    char *raw = whim_alloc(tensor->bytes);
    if (raw == NULL) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory to read %s", param->name);
    }
    whim_err err = whim_ckpt_read(ckpt, tensor, 0, tensor->bytes, raw, diag);
    for (int64_t i = 0; err == WHIM_ERR_OK && i < param->n; i++) {
        int64_t from = param->unpair > 0 ? unpaired_row(i, param->unpair) : i;
        whim_dequant_row(tensor->dtype, raw + whim_dtype_row_bytes(tensor->dtype, from), dst + i,
                         1);
    }
    whim_free(raw);
    return err;
}
