/* SPDX-License-Identifier: Apache-2.0 */
/* The law of the ops that work row by row. */
#include "base/math/fmath.h"
#include "ops/ref/ref.h"
#include "tensor/rank_key.h"

#include <string.h>

whim_err whim_ref_rmsnorm(whim_stream *s, const whim_rmsnorm_args *a)
{
    (void)s;
    for (int64_t r = 0; r < a->n_row; r++) {
        const float *x = a->x + r * a->x_stride;
        float *y = a->y + r * a->y_stride;
        float mean = whim_sumsq16(x, a->n_col) / (float)a->n_col;
        float scale = 1.0f / sqrtf(mean + a->eps);
        for (int64_t i = 0; i < a->n_col; i++) {
            y[i] = x[i] * scale * a->w[i];
        }
    }
    return WHIM_ERR_OK;
}

whim_err whim_ref_add(whim_stream *s, const whim_add_args *a)
{
    (void)s;
    for (int64_t r = 0; r < a->n_row; r++) {
        for (int64_t i = 0; i < a->n_col; i++) {
            a->x[r * a->x_stride + i] += a->y[r * a->y_stride + i];
        }
    }
    return WHIM_ERR_OK;
}

whim_err whim_ref_swiglu(whim_stream *s, const whim_swiglu_args *a)
{
    (void)s;
    for (int64_t r = 0; r < a->n_row; r++) {
        for (int64_t i = 0; i < a->n_col; i++) {
            float g = a->gate[r * a->gate_stride + i];
            float silu = g / (1.0f + whim_expf(-g));
            a->y[r * a->y_stride + i] = silu * a->up[r * a->up_stride + i];
        }
    }
    return WHIM_ERR_OK;
}

whim_err whim_ref_gather_rows(whim_stream *s, const whim_gather_rows_args *a)
{
    (void)s;
    size_t bytes = (size_t)a->n_col * sizeof(float);
    for (int64_t r = 0; r < a->n_row; r++) {
        int64_t row = a->rows != NULL ? a->rows[r] : r;
        float *y = a->y + r * a->y_stride;
        if (row < 0 || row >= a->n_src) {
            memset(y, 0, bytes);
        } else {
            memcpy(y, a->x + row * a->x_stride, bytes);
        }
    }
    return WHIM_ERR_OK;
}

whim_err whim_ref_result_tokens(whim_stream *s, const whim_result_tokens_args *a)
{
    (void)s;
    for (int64_t i = 0; i < a->n_row; i++) {
        int64_t j = -2 - (int64_t)a->refs[i];
        bool stands_for = j >= 0 && j < a->n_result;
        a->tokens[i] = stands_for ? a->results[j * a->result_stride] : a->refs[i];
    }
    return WHIM_ERR_OK;
}

/* The largest key below `last`, 0 when there is none. */
static uint64_t next_best(const float *x, int64_t n, uint64_t last)
{
    uint64_t best = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t key = whim_rank_key(x[i], i);
        best = key < last && key > best ? key : best;
    }
    return best;
}

whim_err whim_ref_shift_ids(whim_stream *s, const whim_shift_ids_args *a)
{
    (void)s;
    for (int64_t i = 0; i < a->n_row; i++) {
        a->y[i] = a->x[i] < 0 ? a->x[i] : a->x[i] + a->by;
    }
    return WHIM_ERR_OK;
}

whim_err whim_ref_mask_ids(whim_stream *s, const whim_mask_ids_args *a)
{
    (void)s;
    for (int64_t r = 0; r < a->n_row; r++) {
        bool is_row = r < a->n_src && a->marks[r] >= 0;
        for (int64_t i = 0; i < a->n_col; i++) {
            a->y[r * a->n_col + i] = is_row ? a->x[r * a->n_col + i] : -1;
        }
    }
    return WHIM_ERR_OK;
}

whim_err whim_ref_merge_topk(whim_stream *s, const whim_merge_topk_args *a)
{
    (void)s;
    for (int64_t r = 0; r < a->n_row; r++) {
        const float *values = a->values + r * a->n_col;
        const int32_t *ids = a->ids + r * a->n_col;
        uint64_t last = UINT64_MAX;
        for (int64_t j = 0; j < a->k_top; j++) {
            uint64_t best = 0; /* no key is 0 */
            float value = -INFINITY;
            for (int64_t i = 0; i < a->n_col; i++) {
                uint64_t key = whim_rank_key(values[i], ids[i]);
                bool better = ids[i] >= 0 && key < last && key > best;
                best = better ? key : best;
                value = better ? values[i] : value;
            }
            a->top_values[r * a->k_top + j] = value;
            a->top_ids[r * a->k_top + j] = best != 0 ? whim_rank_id(best) : -1;
            last = best;
        }
    }
    return WHIM_ERR_OK;
}

whim_err whim_ref_topk(whim_stream *s, const whim_topk_args *a)
{
    (void)s;
    for (int64_t r = 0; r < a->n_row; r++) {
        const float *x = a->x + r * a->x_stride;
        uint64_t key = UINT64_MAX;
        for (int64_t j = 0; j < a->k_top; j++) {
            key = next_best(x, a->n_col, key);
            a->values[r * a->k_top + j] = key != 0 ? x[whim_rank_id(key)] : -INFINITY;
            a->ids[r * a->k_top + j] = key != 0 ? whim_rank_id(key) : -1;
        }
    }
    return WHIM_ERR_OK;
}
