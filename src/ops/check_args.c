/* SPDX-License-Identifier: Apache-2.0 */
/* Argument checks of all ops: shapes, strides and types that the host can see. Pointers may be NULL
 * only where nothing would be read or written. */
#include "ops/ops.h"

#define REQUIRE(cond)                \
    do {                             \
        if (!(cond)) {               \
            return WHIM_ERR_INVALID; \
        }                            \
    } while (0)

/* A [n_row, n_col] matrix of rows `stride` apart. */
static bool matrix_ok(const void *data, int64_t n_row, int64_t n_col, int64_t stride)
{
    if (n_row < 0 || n_col < 0) {
        return false;
    }
    int64_t extent;
    if (__builtin_mul_overflow(n_row, stride, &extent) || extent > INT64_MAX / 8) {
        return false;
    }
    return n_row == 0 || n_col == 0 || (data != NULL && stride >= n_col);
}

/* Head counts and dimensions small enough that no product of them overflows. */
static bool dims_ok(int64_t n_head, int64_t d_head)
{
    return n_head >= 0 && d_head >= 0 && n_head <= INT32_MAX && d_head <= INT32_MAX &&
           n_head * d_head <= INT32_MAX;
}

static bool weight_ok(const whim_weight *w)
{
    if (w->dtype < 0 || w->dtype >= WHIM_DTYPE_COUNT || w->n < 0 || w->k < 0) {
        return false;
    }
    const whim_dtype_info *info = whim_dtype_get(w->dtype);
    return info->kind != WHIM_DTYPE_KIND_INT && w->k % info->block_elems == 0 &&
           (w->data != NULL || w->n == 0 || w->k == 0);
}

static bool kv_ok(const whim_kv_view *kv)
{
    bool type_ok = kv->type >= 0 && kv->type < WHIM_KV_TYPE_COUNT;
    return type_ok && kv->n_kv > 0 && kv->d_head > 0 && dims_ok(kv->n_kv, kv->d_head) &&
           kv->layer_offset >= 0 &&
           kv->page_stride - kv->layer_offset >=
               whim_kv_layer_bytes(kv->n_kv, kv->d_head, kv->type) &&
           kv->pages != NULL;
}

whim_err whim_embed_check(const whim_embed_args *a)
{
    REQUIRE(weight_ok(&a->w));
    REQUIRE(matrix_ok(a->y, a->n_row, a->w.k, a->y_stride));
    REQUIRE(a->ids != NULL || a->n_row == 0);
    return WHIM_ERR_OK;
}

whim_err whim_quantize_q8_check(const whim_quantize_q8_args *a)
{
    REQUIRE(a->k >= 0 && a->k % 32 == 0);
    REQUIRE(matrix_ok(a->x, a->n_row, a->k, a->x_stride));
    REQUIRE(a->y != NULL || a->n_row == 0 || a->k == 0);
    return WHIM_ERR_OK;
}

whim_err whim_linear_check(const whim_linear_args *a)
{
    REQUIRE(weight_ok(&a->w));
    REQUIRE(matrix_ok(a->x, a->n_row, a->w.k, a->x_stride));
    REQUIRE(matrix_ok(a->y, a->n_row, a->w.n, a->y_stride));
    return WHIM_ERR_OK;
}

whim_err whim_linear_swiglu_check(const whim_linear_swiglu_args *a)
{
    REQUIRE(weight_ok(&a->gate) && weight_ok(&a->up));
    REQUIRE(a->gate.n == a->up.n && a->gate.k == a->up.k);
    REQUIRE(matrix_ok(a->x, a->n_row, a->gate.k, a->x_stride));
    REQUIRE(matrix_ok(a->y, a->n_row, a->gate.n, a->y_stride));
    REQUIRE(matrix_ok(a->scratch, a->n_row, a->gate.n, a->gate.n));
    return WHIM_ERR_OK;
}

static bool topk_ok(int64_t n_row, int64_t n_col, int64_t k_top, const void *values,
                    const void *ids)
{
    return n_col <= INT32_MAX && k_top >= 1 && k_top <= WHIM_TOPK_MAX &&
           matrix_ok(values, n_row, k_top, k_top) && matrix_ok(ids, n_row, k_top, k_top);
}

whim_err whim_linear_topk_check(const whim_linear_topk_args *a)
{
    REQUIRE(weight_ok(&a->w));
    REQUIRE(matrix_ok(a->x, a->n_row, a->w.k, a->x_stride));
    REQUIRE(matrix_ok(a->scratch, a->n_row, a->w.n, a->w.n));
    REQUIRE(topk_ok(a->n_row, a->w.n, a->k_top, a->values, a->ids));
    return WHIM_ERR_OK;
}

whim_err whim_rmsnorm_check(const whim_rmsnorm_args *a)
{
    REQUIRE(matrix_ok(a->x, a->n_row, a->n_col, a->x_stride));
    REQUIRE(matrix_ok(a->y, a->n_row, a->n_col, a->y_stride));
    REQUIRE(a->w != NULL || a->n_col == 0);
    REQUIRE(a->eps >= 0.0f);
    return WHIM_ERR_OK;
}

whim_err whim_add_check(const whim_add_args *a)
{
    REQUIRE(matrix_ok(a->x, a->n_row, a->n_col, a->x_stride));
    int64_t y_rows = a->y_stride == 0 && a->n_row > 0 ? 1 : a->n_row;
    REQUIRE(matrix_ok(a->y, y_rows, a->n_col, a->y_stride == 0 ? a->n_col : a->y_stride));
    return WHIM_ERR_OK;
}

whim_err whim_add_rmsnorm_check(const whim_add_rmsnorm_args *a)
{
    REQUIRE(matrix_ok(a->x, a->n_row, a->n_col, a->x_stride));
    REQUIRE(matrix_ok(a->delta, a->n_row, a->n_col, a->delta_stride));
    REQUIRE(matrix_ok(a->y, a->n_row, a->n_col, a->y_stride));
    REQUIRE(a->w != NULL || a->n_col == 0);
    REQUIRE(a->eps >= 0.0f);
    return WHIM_ERR_OK;
}

whim_err whim_swiglu_check(const whim_swiglu_args *a)
{
    REQUIRE(matrix_ok(a->gate, a->n_row, a->n_col, a->gate_stride));
    REQUIRE(matrix_ok(a->up, a->n_row, a->n_col, a->up_stride));
    REQUIRE(matrix_ok(a->y, a->n_row, a->n_col, a->y_stride));
    return WHIM_ERR_OK;
}

whim_err whim_gather_rows_check(const whim_gather_rows_args *a)
{
    REQUIRE(matrix_ok(a->x, a->n_src, a->n_col, a->x_stride));
    REQUIRE(matrix_ok(a->y, a->n_row, a->n_col, a->y_stride));
    return WHIM_ERR_OK;
}

whim_err whim_topk_check(const whim_topk_args *a)
{
    REQUIRE(matrix_ok(a->x, a->n_row, a->n_col, a->x_stride));
    REQUIRE(topk_ok(a->n_row, a->n_col, a->k_top, a->values, a->ids));
    return WHIM_ERR_OK;
}

whim_err whim_moe_topk_check(const whim_moe_topk_args *a)
{
    REQUIRE(a->n_expert >= 1 && a->n_expert <= WHIM_MOE_MAX_EXPERT && a->k_top <= a->n_expert);
    REQUIRE(a->scoring == WHIM_MOE_SOFTMAX || a->scoring == WHIM_MOE_SIGMOID);
    REQUIRE(matrix_ok(a->logits, a->n_row, a->n_expert, a->logits_stride));
    REQUIRE(topk_ok(a->n_row, a->n_expert, a->k_top, a->weights, a->ids));
    return WHIM_ERR_OK;
}

whim_err whim_moe_experts_check(const whim_moe_experts_args *a)
{
    REQUIRE(weight_ok(&a->gate) && weight_ok(&a->up) && weight_ok(&a->down));
    REQUIRE(a->n_expert >= 1 && a->n_expert <= WHIM_MOE_MAX_EXPERT);
    int64_t d = a->gate.k, ff = a->down.k;
    REQUIRE(d <= INT32_MAX && ff <= INT32_MAX && a->up.k == d);
    REQUIRE(a->gate.n == a->n_expert * whim_moe_pitch(ff) && a->up.n == a->gate.n);
    REQUIRE(a->down.n == a->n_expert * whim_moe_pitch(d));
    REQUIRE(topk_ok(a->n_row, a->n_expert, a->k_top, a->weights, a->ids));
    REQUIRE(a->n_row <= INT32_MAX / WHIM_TOPK_MAX);
    REQUIRE(matrix_ok(a->x, a->n_row, d, a->x_stride) && matrix_ok(a->y, a->n_row, d, a->y_stride));
    REQUIRE((a->scratch != NULL && (uintptr_t)a->scratch % 64 == 0) || a->n_row == 0);
    return WHIM_ERR_OK;
}

whim_err whim_gated_add_check(const whim_gated_add_args *a)
{
    REQUIRE(matrix_ok(a->x, a->n_row, a->n_col, a->x_stride));
    REQUIRE(matrix_ok(a->y, a->n_row, a->n_col, a->y_stride));
    REQUIRE(matrix_ok(a->gate, a->n_row, 1, a->gate_stride));
    return WHIM_ERR_OK;
}

whim_err whim_rope_table_check(const whim_rope_table_args *a)
{
    REQUIRE(a->n_freq >= 0 && a->n_freq <= INT32_MAX);
    REQUIRE(matrix_ok(a->cos_sin, a->n_row, 2 * a->n_freq, 2 * a->n_freq));
    REQUIRE((a->positions != NULL && a->freqs != NULL) || a->n_row == 0 || a->n_freq == 0);
    return WHIM_ERR_OK;
}

whim_err whim_rope_check(const whim_rope_args *a)
{
    REQUIRE(dims_ok(a->n_head, a->d_head) && a->n_freq >= 0 && a->n_freq <= a->d_head);
    REQUIRE(2 * a->n_freq <= a->d_head);
    REQUIRE(matrix_ok(a->x, a->n_row, a->n_head * a->d_head, a->x_stride));
    REQUIRE(matrix_ok(a->cos_sin, a->n_row, 2 * a->n_freq, 2 * a->n_freq));
    return WHIM_ERR_OK;
}

/* Heads of an attention and the part of each that is rotated. */
static bool heads_ok(int64_t n_head, int64_t n_kv, int64_t d_head, int64_t n_freq)
{
    return n_head > 0 && n_kv > 0 && d_head > 0 && dims_ok(n_head, d_head) &&
           dims_ok(n_kv, d_head) && n_freq >= 0 && n_freq <= d_head / 2;
}

whim_err whim_split_qkv_rmsnorm_rope_check(const whim_split_qkv_rmsnorm_rope_args *a)
{
    REQUIRE(heads_ok(a->n_head, a->n_kv, a->d_head, a->n_freq) && a->eps >= 0.0f);
    REQUIRE((a->q_norm == NULL) == (a->k_norm == NULL));
    int64_t q_cols = a->n_head * a->d_head, kv_cols = a->n_kv * a->d_head;
    int64_t gate_cols = a->gate != NULL ? q_cols : 0;
    REQUIRE(matrix_ok(a->qkv, a->n_row, q_cols + gate_cols + 2 * kv_cols, a->qkv_stride));
    REQUIRE(matrix_ok(a->q, a->n_row, q_cols, q_cols));
    REQUIRE(matrix_ok(a->k, a->n_row, kv_cols, kv_cols));
    REQUIRE(matrix_ok(a->v, a->n_row, kv_cols, kv_cols));
    REQUIRE(matrix_ok(a->cos_sin, a->n_row, 2 * a->n_freq, 2 * a->n_freq));
    return WHIM_ERR_OK;
}

whim_err whim_qk_sumsq_check(const whim_qk_sumsq_args *a)
{
    REQUIRE(dims_ok(a->n_head, a->d_head) && dims_ok(a->n_kv, a->d_head));
    REQUIRE(matrix_ok(a->qkv, a->n_row, (a->n_head + a->n_kv) * a->d_head, a->qkv_stride));
    REQUIRE(matrix_ok(a->sums, a->n_row, 2, 2));
    return WHIM_ERR_OK;
}

whim_err whim_rmsnorm_sumsq_check(const whim_rmsnorm_sumsq_args *a)
{
    REQUIRE(matrix_ok(a->x, a->n_row, a->n_col, a->x_stride));
    REQUIRE(matrix_ok(a->y, a->n_row, a->n_col, a->y_stride));
    REQUIRE(matrix_ok(a->sums, a->n_row, 1, a->sum_stride));
    REQUIRE(a->w != NULL || a->n_col == 0);
    REQUIRE(a->width >= a->n_col && a->width > 0 && a->eps >= 0.0f);
    return WHIM_ERR_OK;
}

whim_err whim_split_qkv_tp_rmsnorm_rope_check(const whim_split_qkv_tp_rmsnorm_rope_args *a)
{
    REQUIRE(heads_ok(a->n_head, a->n_kv, a->d_head, a->n_freq) && a->eps >= 0.0f);
    int64_t q_cols = a->n_head * a->d_head, kv_cols = a->n_kv * a->d_head;
    REQUIRE(a->q_width >= q_cols && a->k_width >= kv_cols);
    REQUIRE(a->q_norm != NULL && a->k_norm != NULL);
    REQUIRE(matrix_ok(a->qkv, a->n_row, q_cols + 2 * kv_cols, a->qkv_stride));
    REQUIRE(matrix_ok(a->sums, a->n_row, 2, 2));
    REQUIRE(matrix_ok(a->q, a->n_row, q_cols, q_cols));
    REQUIRE(matrix_ok(a->k, a->n_row, kv_cols, kv_cols));
    REQUIRE(matrix_ok(a->v, a->n_row, kv_cols, kv_cols));
    REQUIRE(matrix_ok(a->cos_sin, a->n_row, 2 * a->n_freq, 2 * a->n_freq));
    return WHIM_ERR_OK;
}

whim_err whim_kv_write_check(const whim_kv_write_args *a)
{
    REQUIRE(kv_ok(&a->kv) && a->n_row >= 0);
    REQUIRE((a->k != NULL && a->v != NULL && a->slots != NULL) || a->n_row == 0);
    return WHIM_ERR_OK;
}

whim_err whim_kv_read_check(const whim_kv_read_args *a)
{
    REQUIRE(kv_ok(&a->kv) && a->n_row >= 0);
    REQUIRE((a->k != NULL && a->v != NULL && a->slots != NULL) || a->n_row == 0);
    return WHIM_ERR_OK;
}

whim_err whim_page_zero_check(const whim_page_zero_args *a)
{
    REQUIRE(a->n_id >= 0 && a->page_bytes >= 0);
    REQUIRE((a->pages != NULL && a->ids != NULL) || a->n_id == 0 || a->page_bytes == 0);
    return WHIM_ERR_OK;
}

whim_err whim_attn_paged_check(const whim_attn_paged_args *a)
{
    REQUIRE(kv_ok(&a->kv) && a->n_row >= 0 && a->n_seq >= 0 && a->max_pages >= 0);
    REQUIRE(a->n_head > 0 && a->n_head % a->kv.n_kv == 0 && a->window >= 0);
    REQUIRE(dims_ok(a->n_head, a->kv.d_head));
    REQUIRE((a->q != NULL && a->out != NULL && a->positions != NULL) || a->n_row == 0);
    REQUIRE((a->q_start != NULL && a->kv_len != NULL) || a->n_seq == 0);
    REQUIRE(a->page_table != NULL || a->n_seq == 0 || a->max_pages == 0);
    return WHIM_ERR_OK;
}

whim_err whim_sigmoid_gate_check(const whim_sigmoid_gate_args *a)
{
    REQUIRE(matrix_ok(a->x, a->n_row, a->n_col, a->x_stride));
    REQUIRE(matrix_ok(a->gate, a->n_row, a->n_col, a->gate_stride));
    return WHIM_ERR_OK;
}

whim_err whim_rmsnorm_gated_check(const whim_rmsnorm_gated_args *a)
{
    REQUIRE(matrix_ok(a->x, a->n_row, a->n_col, a->x_stride));
    REQUIRE(matrix_ok(a->z, a->n_row, a->n_col, a->z_stride));
    REQUIRE(matrix_ok(a->y, a->n_row, a->n_col, a->y_stride));
    REQUIRE(a->w != NULL || a->n_col == 0);
    REQUIRE(a->eps >= 0.0f);
    return WHIM_ERR_OK;
}

/* Heads of a gated delta net. */
static bool gdn_heads_ok(int64_t n_key, int64_t n_value, int64_t d_key, int64_t d_value)
{
    return n_key > 0 && n_value > 0 && d_key > 0 && d_value > 0 && n_value % n_key == 0 &&
           d_key <= WHIM_GDN_MAX_DIM && d_value <= WHIM_GDN_MAX_DIM && dims_ok(n_key, d_key) &&
           dims_ok(n_value, d_value);
}

whim_err whim_gdn_split_qkvzba_check(const whim_gdn_split_qkvzba_args *a)
{
    REQUIRE(gdn_heads_ok(a->n_key, a->n_value, a->d_key, a->d_value));
    int64_t k = a->n_key * a->d_key, v = a->n_value * a->d_value;
    REQUIRE(matrix_ok(a->qkvz, a->n_row, 2 * k + 2 * v, a->qkvz_stride));
    REQUIRE(matrix_ok(a->ba, a->n_row, 2 * a->n_value, a->ba_stride));
    REQUIRE(matrix_ok(a->qkv, a->n_row, 2 * k + v, 2 * k + v));
    REQUIRE(matrix_ok(a->z, a->n_row, v, v));
    REQUIRE(matrix_ok(a->b, a->n_row, a->n_value, a->n_value));
    REQUIRE(matrix_ok(a->a, a->n_row, a->n_value, a->n_value));
    return WHIM_ERR_OK;
}

/* Slots that hold `elems` floats for this layer, and the tables that say whose they are. */
static bool states_ok(const whim_state_view *view, int64_t elems, int64_t n_row, int64_t n_seq,
                      const int32_t *q_start, const int32_t *positions, const int32_t *slots)
{
    int64_t bytes = elems * (int64_t)sizeof(float), extent;
    return view->offset >= 0 && view->offset % 4 == 0 && view->slot_stride % 4 == 0 &&
           view->n_slot >= 0 && view->slot_stride - view->offset >= bytes &&
           !__builtin_mul_overflow(view->n_slot, view->slot_stride, &extent) &&
           (view->slots != NULL || view->n_slot == 0) && n_seq >= 0 &&
           ((q_start != NULL && slots != NULL) || n_seq == 0) && (positions != NULL || n_row == 0);
}

whim_err whim_gdn_conv_check(const whim_gdn_conv_args *a)
{
    REQUIRE(a->n_chan >= 0 && a->n_chan <= INT32_MAX);
    REQUIRE(a->n_tap >= 1 && a->n_tap <= WHIM_GDN_MAX_TAP);
    REQUIRE(matrix_ok(a->x, a->n_row, a->n_chan, a->x_stride));
    REQUIRE(matrix_ok(a->y, a->n_row, a->n_chan, a->y_stride));
    REQUIRE(a->w != NULL || a->n_chan == 0);
    REQUIRE(states_ok(&a->state, (a->n_tap - 1) * a->n_chan, a->n_row, a->n_seq, a->q_start,
                      a->positions, a->state_slots));
    return WHIM_ERR_OK;
}

whim_err whim_gdn_scan_check(const whim_gdn_scan_args *a)
{
    REQUIRE(gdn_heads_ok(a->n_key, a->n_value, a->d_key, a->d_value));
    int64_t k = (int64_t)a->n_key * a->d_key, v = (int64_t)a->n_value * a->d_value;
    REQUIRE(matrix_ok(a->qkv, a->n_row, 2 * k + v, a->qkv_stride));
    REQUIRE(matrix_ok(a->b, a->n_row, a->n_value, a->b_stride));
    REQUIRE(matrix_ok(a->a, a->n_row, a->n_value, a->a_stride));
    REQUIRE(matrix_ok(a->out, a->n_row, v, v));
    REQUIRE(a->rate != NULL && a->dt_bias != NULL);
    REQUIRE(states_ok(&a->state, v * a->d_key, a->n_row, a->n_seq, a->q_start, a->positions,
                      a->state_slots));
    return WHIM_ERR_OK;
}

whim_err whim_copy_bytes_check(const whim_copy_bytes_args *a)
{
    REQUIRE(a->bytes >= 0 && ((a->dst != NULL && a->src != NULL) || a->bytes == 0));
    return WHIM_ERR_OK;
}
