/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a file as the device takes them: in another order, or widened. */
#include "base/alloc.h"
#include "base/math/fmath.h"
#include "tensor/fp8.h"
#include "tensor/half.h"
#include "tensor/quant.h"
#include "tensor/quant_encode.h"
#include "weights/bind.h"
#include "weights/dummy.h"

#include <string.h>

int64_t whim_rows_file_bytes(const whim_param *param)
{
    return whim_dtype_row_bytes(param->parts[0].tensor->dtype, param->k);
}

/* Where row (or column) i is in the file. */
static int64_t order_at(const whim_head_order *order, int64_t i)
{
    if (order->size == 0 || i < order->first) {
        return i;
    }
    int64_t head = (i - order->first) / order->size, rest = (i - order->first) % order->size;
    int64_t group = head / order->n_per, j = head % order->n_per;
    return order->at + (group * order->group_step + j * order->head_step) * order->size + rest;
}

/* How many from there on follow each other. */
static int64_t order_run(const whim_head_order *order, int64_t i)
{
    return order->size == 0   ? INT64_MAX
           : i < order->first ? order->first - i
                              : order->size - (i - order->first) % order->size;
}

whim_part whim_param_row_run(const whim_param *param, int64_t i)
{
    if (param->row_runs == NULL) {
        return (whim_part){i, param->n - i};
    }
    const whim_part *run = param->row_runs;
    while (i >= run->n) {
        i -= run->n;
        run++;
    }
    return (whim_part){run->at + i, run->n - i};
}

/* Whether rows become others than what was read. */
static bool changes(const whim_param *param)
{
    return param->unpair > 0 || param->cols.size > 0 || param->col_runs != NULL ||
           param->dtype != param->parts[0].tensor->dtype;
}

/* As they are in the file, if they change on the way. */
int64_t whim_rows_scratch_bytes(const whim_param *param, int64_t n_row)
{
    return changes(param) ? whim_aligned(n_row * whim_rows_file_bytes(param)) : 0;
}

/* The file's row that becomes row `row` when a head's adjacent pairs are put into two halves. */
static int64_t unpaired_row(int64_t row, int64_t d_head)
{
    int64_t head = row / d_head, i = row % d_head, half = d_head / 2;
    return head * d_head + 2 * (i % half) + i / half;
}

/* The bytes of rows, head by head where heads lie elsewhere. */
static whim_err read_runs(const whim_ckpt *ckpt, const whim_param *param,
                          const whim_param_part *part, int64_t row0, int64_t n_row, char *raw,
                          whim_diag *diag)
{
    int64_t row_bytes = whim_rows_file_bytes(param), run = 0;
    for (int64_t r = 0; r < n_row; r += run) {
        const int32_t *pick = param->pick;
        whim_part own = whim_param_row_run(param, row0 + r);
        int64_t at = part->row0 + (pick ? pick[own.at] : order_at(&param->rows, own.at));
        char *to = raw + r * row_bytes;
        run = pick != NULL ? 1 : order_run(&param->rows, own.at);
        run = run < own.n ? run : own.n;
        run = run < n_row - r ? run : n_row - r;
        if (part->tensor->file < 0) {
            whim_dummy_rows(param->name, part->tensor->dtype, param->k, at, run, to);
        } else {
            WHIM_TRY(whim_ckpt_read_rows(ckpt, part->tensor, at, run, to, diag));
        }
    }
    return WHIM_ERR_OK;
}

/* Floats to the codes of a narrower type. False: some are no numbers, or beyond its range. */
static bool narrow_row(whim_dtype from, const char *raw, whim_dtype to, int64_t k, char *dst)
{
    int32_t bits = to == WHIM_DTYPE_Q8_0 ? 8 : 4;
    for (int64_t at = 0; at < k; at += WHIM_GROUP) {
        float w[WHIM_GROUP];
        int8_t codes[WHIM_GROUP];
        whim_dequant_row(from, raw + whim_dtype_row_bytes(from, at), w, WHIM_GROUP);
        if (!(whim_absmax(w, WHIM_GROUP) <= whim_encode_int_limit(bits))) {
            return false;
        }
        uint16_t scale = whim_f32_to_f16(whim_encode_int(w, bits, WHIM_DTYPE_F16, codes));
        char *block = dst + whim_dtype_row_bytes(to, at);
        memcpy(block, &scale, sizeof scale);
        block += sizeof scale;
        for (int i = 0; i < WHIM_GROUP && bits == 8; i++) {
            block[i] = codes[i];
        }
        for (int i = 0; i < WHIM_GROUP / 2 && bits == 4; i++) {
            block[i] = (char)((codes[i] + 8) | (codes[i + WHIM_GROUP / 2] + 8) << 4);
        }
    }
    return true;
}

/* Columns of a row, which follow each other in the file. */
static bool change_run(const whim_param *param, whim_dtype from, const char *raw, int64_t n,
                       char *dst)
{
    if (param->dtype != from && param->dtype != WHIM_DTYPE_F32) {
        return narrow_row(from, raw, param->dtype, n, dst);
    }
    if (param->dtype != from) {
        whim_dequant_row(from, raw, (float *)(void *)dst, n);
        return true;
    }
    memcpy(dst, raw, (size_t)whim_dtype_row_bytes(from, n));
    return true;
}

static bool change_row(const whim_param *param, whim_dtype from, const char *raw, char *dst)
{
    const whim_head_order *cols = &param->cols;
    const whim_part whole = {0, param->k};
    const whim_part *runs = param->col_runs != NULL ? param->col_runs : &whole;
    int32_t n_run = param->col_runs != NULL ? param->n_col_run : 1;
    bool ok = true;
    for (int32_t i = 0; i < n_run; i++) {
        int64_t c = runs[i].at, end = c + runs[i].n, n = 0;
        for (; c < end && ok; c += n) {
            int64_t most = order_run(cols, c);
            n = most < end - c ? most : end - c;
            ok = change_run(param, from, raw + whim_dtype_row_bytes(from, order_at(cols, c)), n,
                            dst);
            dst += whim_dtype_row_bytes(param->dtype, n);
        }
    }
    return ok;
}

whim_err whim_rows_read(const whim_ckpt *ckpt, const whim_param *param, int64_t index, int64_t row0,
                        int64_t n_row, char *dst, char *scratch, whim_diag *diag)
{
    const whim_param_part *part = &param->parts[index];
    int64_t raw_bytes = whim_rows_file_bytes(param);
    int64_t row_bytes = whim_dtype_row_bytes(param->dtype, param->k_here);
    if (!changes(param)) {
        return read_runs(ckpt, param, part, row0, n_row, dst, diag);
    }
    WHIM_TRY(read_runs(ckpt, param, part, row0, n_row, scratch, diag));
    for (int64_t r = 0; r < n_row; r++) {
        int64_t from = param->unpair > 0 ? unpaired_row(r, param->unpair) : r;
        if (!change_row(param, part->tensor->dtype, scratch + from * raw_bytes,
                        dst + r * row_bytes)) {
            return whim_fail(diag, WHIM_ERR_CORRUPT,
                             "tensor %s has values that are not numbers, or too large for %s",
                             part->tensor->file_name, whim_dtype_get(param->dtype)->name);
        }
    }
    return WHIM_ERR_OK;
}

void whim_vector_form_apply(whim_vector_form form, float *x, int64_t n)
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
    whim_vector_form form = param->form;
    char *raw = whim_alloc(tensor->bytes);
    WHIM_TRY(whim_got(raw != NULL, diag, "no memory to read %s", param->name));
    whim_err err = WHIM_ERR_OK;
    if (tensor->file < 0) {
        whim_dummy_vector(param->name, param->n * param->k, (float *)(void *)raw);
        form = form == WHIM_VECTOR_NEG_EXP ? form : WHIM_VECTOR_PLAIN;
    } else {
        err = whim_ckpt_read(ckpt, tensor, 0, tensor->bytes, raw, diag);
    }
    int64_t n = param->n_here * param->k;
    for (int64_t i = 0; err == WHIM_ERR_OK && i < n; i++) {
        int64_t own = whim_param_row_run(param, i / param->k).at;
        int64_t row = order_at(&param->rows, own);
        int64_t from =
            param->unpair > 0 ? unpaired_row(own, param->unpair) : row * param->k + i % param->k;
        whim_dequant_row(tensor->dtype, raw + whim_dtype_row_bytes(tensor->dtype, from), dst + i,
                         1);
    }
    whim_vector_form_apply(form, dst, err == WHIM_ERR_OK ? n : 0);
    whim_free(raw);
    return err;
}
