/* SPDX-License-Identifier: Apache-2.0 */
/* Access lists of all ops. A new op without a list is a link error. */
#include "backends/cpu/access.h"

/* A matrix of `elem`-byte elements, strides in elements. */
static whim_access matrix(const void *at, int64_t n_row, int64_t n_col, int64_t stride,
                          int64_t elem, bool write)
{
    return (whim_access){(uintptr_t)at, n_col * elem, stride * elem, n_row, write};
}

static whim_access floats(const float *at, int64_t n_row, int64_t n_col, int64_t stride, bool write)
{
    return matrix(at, n_row, n_col, stride, sizeof(float), write);
}

static whim_access span(const void *at, int64_t bytes, bool write)
{
    return (whim_access){(uintptr_t)at, bytes, bytes, 1, write};
}

/* The pool's size is not known here and need not be: one pool conflicts as a whole. */
static whim_access pool(const whim_kv_view *kv, bool write)
{
    return span((const char *)kv->pages + kv->layer_offset, 1, write);
}

static int32_t access_embed(const whim_embed_args *a, whim_access *out)
{
    out[0] = floats(a->y, a->n_row, a->w.k, a->y_stride, true);
    return 1;
}

static int32_t access_quantize_q8(const whim_quantize_q8_args *a, whim_access *out)
{
    out[0] = floats(a->x, a->n_row, a->k, a->x_stride, false);
    out[1] = span(a->y, a->n_row * (a->k / 32) * (int64_t)sizeof *a->y, true);
    return 2;
}

static int32_t access_linear(const whim_linear_args *a, whim_access *out)
{
    out[0] = floats(a->x, a->n_row, a->w.k, a->x_stride, false);
    out[1] = floats(a->y, a->n_row, a->w.n, a->y_stride, true);
    return 2;
}

/* The int8 rows have one owner at a time, so one byte stands for all of them. */
int32_t whim_access_quantize(const whim_cpu_quantize_args *a, whim_access out[WHIM_ACCESS_MAX])
{
    out[0] = floats(a->x, a->n_row, a->k, a->x_stride, false);
    out[1] = span(a->act, 1, true);
    return 2;
}

static whim_access best_span(const whim_cpu_best *best, int64_t n, bool write)
{
    return span(best, n * (int64_t)sizeof *best, write);
}

int32_t whim_access_product(const whim_cpu_product_args *a, int64_t n_worker,
                            whim_access out[WHIM_ACCESS_MAX])
{
    out[0] = a->act != NULL ? span(a->act, 1, false)
                            : floats(a->x, a->n_row, a->w.k, a->x_stride, false);
    out[1] = a->best != NULL ? best_span(a->best, n_worker * a->n_row * a->k_top, true)
                             : floats(a->y, a->n_row, a->w.n, a->y_stride, true);
    if (a->own.delta == NULL) {
        return 2;
    }
    out[2] = floats(a->own.delta, a->n_row, a->w.k, a->own.delta_stride, false);
    return 3;
}

int32_t whim_access_merge(const whim_cpu_merge_args *a, int64_t n_worker,
                          whim_access out[WHIM_ACCESS_MAX])
{
    out[0] = best_span(a->best, n_worker * a->n_row * a->k_top, false);
    out[1] = floats(a->values, a->n_row, a->k_top, a->k_top, true);
    out[2] = matrix(a->ids, a->n_row, a->k_top, a->k_top, sizeof *a->ids, true);
    return 3;
}

static int32_t access_linear_swiglu(const whim_linear_swiglu_args *a, whim_access *out)
{
    out[0] = floats(a->x, a->n_row, a->gate.k, a->x_stride, false);
    out[1] = floats(a->y, a->n_row, a->gate.n, a->y_stride, true);
    out[2] = floats(a->scratch, a->n_row, a->gate.n, a->gate.n, true);
    return 3;
}

static int32_t access_linear_topk(const whim_linear_topk_args *a, whim_access *out)
{
    out[0] = floats(a->x, a->n_row, a->w.k, a->x_stride, false);
    out[1] = floats(a->scratch, a->n_row, a->w.n, a->w.n, true);
    out[2] = floats(a->values, a->n_row, a->k_top, a->k_top, true);
    out[3] = matrix(a->ids, a->n_row, a->k_top, a->k_top, sizeof *a->ids, true);
    return 4;
}

static int32_t access_rmsnorm(const whim_rmsnorm_args *a, whim_access *out)
{
    out[0] = floats(a->x, a->n_row, a->n_col, a->x_stride, false);
    out[1] = floats(a->y, a->n_row, a->n_col, a->y_stride, true);
    return 2;
}

static int32_t access_add(const whim_add_args *a, whim_access *out)
{
    out[0] = floats(a->x, a->n_row, a->n_col, a->x_stride, true);
    out[1] = floats(a->y, a->y_stride == 0 ? 1 : a->n_row, a->n_col, a->y_stride, false);
    return 2;
}

static int32_t access_add_rmsnorm(const whim_add_rmsnorm_args *a, whim_access *out)
{
    out[0] = floats(a->x, a->n_row, a->n_col, a->x_stride, true);
    out[1] = floats(a->delta, a->n_row, a->n_col, a->delta_stride, false);
    out[2] = floats(a->y, a->n_row, a->n_col, a->y_stride, true);
    return 3;
}

static int32_t access_swiglu(const whim_swiglu_args *a, whim_access *out)
{
    out[0] = floats(a->gate, a->n_row, a->n_col, a->gate_stride, false);
    out[1] = floats(a->up, a->n_row, a->n_col, a->up_stride, false);
    out[2] = floats(a->y, a->n_row, a->n_col, a->y_stride, true);
    return 3;
}

static int32_t access_gather_rows(const whim_gather_rows_args *a, whim_access *out)
{
    out[0] = floats(a->x, a->n_src, a->n_col, a->x_stride, false);
    out[1] = floats(a->y, a->n_row, a->n_col, a->y_stride, true);
    return 2;
}

static int32_t access_topk(const whim_topk_args *a, whim_access *out)
{
    out[0] = floats(a->x, a->n_row, a->n_col, a->x_stride, false);
    out[1] = floats(a->values, a->n_row, a->k_top, a->k_top, true);
    out[2] = matrix(a->ids, a->n_row, a->k_top, a->k_top, sizeof *a->ids, true);
    return 3;
}

static int32_t access_moe_topk(const whim_moe_topk_args *a, whim_access *out)
{
    out[0] = floats(a->logits, a->n_row, a->n_expert, a->logits_stride, false);
    out[1] = floats(a->weights, a->n_row, a->k_top, a->k_top, true);
    out[2] = matrix(a->ids, a->n_row, a->k_top, a->k_top, sizeof *a->ids, true);
    return 3;
}

static int32_t access_moe_experts(const whim_moe_experts_args *a, whim_access *out)
{
    int64_t d = a->gate.k, ff = a->down.k;
    out[0] = floats(a->x, a->n_row, d, a->x_stride, false);
    out[1] = floats(a->weights, a->n_row, a->k_top, a->k_top, false);
    out[2] = matrix(a->ids, a->n_row, a->k_top, a->k_top, sizeof *a->ids, false);
    out[3] = floats(a->y, a->n_row, d, a->y_stride, true);
    out[4] = span(a->scratch, whim_moe_scratch_bytes(a->n_row, a->n_expert, a->k_top, d, ff), true);
    return 5;
}

static int32_t access_gated_add(const whim_gated_add_args *a, whim_access *out)
{
    out[0] = floats(a->x, a->n_row, a->n_col, a->x_stride, true);
    out[1] = floats(a->gate, a->n_row, 1, a->gate_stride, false);
    out[2] = floats(a->y, a->n_row, a->n_col, a->y_stride, false);
    return 3;
}

static int32_t access_rope_table(const whim_rope_table_args *a, whim_access *out)
{
    out[0] = floats(a->cos_sin, a->n_row, 2 * a->n_freq, 2 * a->n_freq, true);
    return 1;
}

static int32_t access_rope(const whim_rope_args *a, whim_access *out)
{
    out[0] = floats(a->x, a->n_row, a->n_head * a->d_head, a->x_stride, true);
    out[1] = floats(a->cos_sin, a->n_row, 2 * a->n_freq, 2 * a->n_freq, false);
    return 2;
}

static int32_t access_split_qkv_rmsnorm_rope(const whim_split_qkv_rmsnorm_rope_args *a,
                                             whim_access *out)
{
    int64_t q = a->n_head * a->d_head, kv = a->n_kv * a->d_head;
    int64_t gate = a->gate != NULL ? q : 0;
    out[0] = floats(a->qkv, a->n_row, q + gate + 2 * kv, a->qkv_stride, false);
    out[1] = floats(a->cos_sin, a->n_row, 2 * a->n_freq, 2 * a->n_freq, false);
    out[2] = floats(a->q, a->n_row, q, q, true);
    out[3] = floats(a->k, a->n_row, kv, kv, true);
    out[4] = floats(a->v, a->n_row, kv, kv, true);
    out[5] = floats(a->gate, a->n_row, gate, gate, true);
    return 6;
}

static int32_t access_qk_sumsq(const whim_qk_sumsq_args *a, whim_access *out)
{
    int64_t cols = (a->n_head + a->n_kv) * a->d_head;
    out[0] = floats(a->qkv, a->n_row, cols, a->qkv_stride, false);
    out[1] = floats(a->sums, a->n_row, 2, 2, true);
    return 2;
}

static int32_t access_rmsnorm_sumsq(const whim_rmsnorm_sumsq_args *a, whim_access *out)
{
    out[0] = floats(a->x, a->n_row, a->n_col, a->x_stride, false);
    out[1] = floats(a->sums, a->n_row, 1, a->sum_stride, false);
    out[2] = floats(a->y, a->n_row, a->n_col, a->y_stride, true);
    return 3;
}

static int32_t access_split_qkv_tp_rmsnorm_rope(const whim_split_qkv_tp_rmsnorm_rope_args *a,
                                                whim_access *out)
{
    int64_t q = a->n_head * a->d_head, kv = a->n_kv * a->d_head;
    out[0] = floats(a->qkv, a->n_row, q + 2 * kv, a->qkv_stride, false);
    out[1] = floats(a->sums, a->n_row, 2, 2, false);
    out[2] = floats(a->cos_sin, a->n_row, 2 * a->n_freq, 2 * a->n_freq, false);
    out[3] = floats(a->q, a->n_row, q, q, true);
    out[4] = floats(a->k, a->n_row, kv, kv, true);
    out[5] = floats(a->v, a->n_row, kv, kv, true);
    return 6;
}

static int32_t access_kv_write(const whim_kv_write_args *a, whim_access *out)
{
    int64_t cols = a->kv.n_kv * a->kv.d_head;
    out[0] = floats(a->k, a->n_row, cols, cols, false);
    out[1] = floats(a->v, a->n_row, cols, cols, false);
    out[2] = pool(&a->kv, true);
    return 3;
}

static int32_t access_kv_read(const whim_kv_read_args *a, whim_access *out)
{
    int64_t cols = a->kv.n_kv * a->kv.d_head;
    out[0] = floats(a->k, a->n_row, cols, cols, true);
    out[1] = floats(a->v, a->n_row, cols, cols, true);
    out[2] = pool(&a->kv, false);
    return 3;
}

static int32_t access_page_zero(const whim_page_zero_args *a, whim_access *out)
{
    out[0] = span(a->pages, a->page_bytes, true);
    return 1;
}

static int32_t access_attn_paged(const whim_attn_paged_args *a, whim_access *out)
{
    int64_t cols = a->n_head * a->kv.d_head;
    out[0] = floats(a->q, a->n_row, cols, cols, false);
    out[1] = pool(&a->kv, false);
    out[2] = floats(a->out, a->n_row, cols, cols, true);
    return 3;
}

static int32_t access_sigmoid_gate(const whim_sigmoid_gate_args *a, whim_access *out)
{
    out[0] = floats(a->x, a->n_row, a->n_col, a->x_stride, true);
    out[1] = floats(a->gate, a->n_row, a->n_col, a->gate_stride, false);
    return 2;
}

static int32_t access_rmsnorm_gated(const whim_rmsnorm_gated_args *a, whim_access *out)
{
    out[0] = floats(a->x, a->n_row, a->n_col, a->x_stride, false);
    out[1] = floats(a->z, a->n_row, a->n_col, a->z_stride, false);
    out[2] = floats(a->y, a->n_row, a->n_col, a->y_stride, true);
    return 3;
}

static int32_t access_gdn_split_qkvzba(const whim_gdn_split_qkvzba_args *a, whim_access *out)
{
    int64_t k = a->n_key * a->d_key, v = a->n_value * a->d_value, h = a->n_value;
    out[0] = floats(a->qkvz, a->n_row, 2 * k + 2 * v, a->qkvz_stride, false);
    out[1] = floats(a->ba, a->n_row, 2 * h, a->ba_stride, false);
    out[2] = floats(a->qkv, a->n_row, 2 * k + v, 2 * k + v, true);
    out[3] = floats(a->z, a->n_row, v, v, true);
    out[4] = floats(a->b, a->n_row, h, h, true);
    out[5] = floats(a->a, a->n_row, h, h, true);
    return 6;
}

/* One layer's part of all slots: whose they are is known on the device only. */
static whim_access states(const whim_state_view *view, int64_t elems)
{
    return (whim_access){(uintptr_t)view->slots + (uintptr_t)view->offset,
                         elems * (int64_t)sizeof(float), view->slot_stride, view->n_slot, true};
}

static int32_t access_gdn_conv(const whim_gdn_conv_args *a, whim_access *out)
{
    out[0] = floats(a->x, a->n_row, a->n_chan, a->x_stride, false);
    out[1] = floats(a->y, a->n_row, a->n_chan, a->y_stride, true);
    out[2] = states(&a->state, (a->n_tap - 1) * a->n_chan);
    return 3;
}

static int32_t access_gdn_scan(const whim_gdn_scan_args *a, whim_access *out)
{
    int64_t k = (int64_t)a->n_key * a->d_key, v = (int64_t)a->n_value * a->d_value;
    out[0] = floats(a->qkv, a->n_row, 2 * k + v, a->qkv_stride, false);
    out[1] = floats(a->b, a->n_row, a->n_value, a->b_stride, false);
    out[2] = floats(a->a, a->n_row, a->n_value, a->a_stride, false);
    out[3] = floats(a->out, a->n_row, v, v, true);
    out[4] = states(&a->state, v * a->d_key);
    return 5;
}

static int32_t access_copy_bytes(const whim_copy_bytes_args *a, whim_access *out)
{
    out[0] = span(a->src, a->bytes, false);
    out[1] = span(a->dst, a->bytes, true);
    return 2;
}

int32_t whim_access_list(whim_op op, const void *args, whim_access out[WHIM_ACCESS_MAX])
{
    switch (op) {
#define WHIM_OP(name)    \
    case WHIM_OP_##name: \
        return access_##name(args, out);
#include "ops/ops.def"
#undef WHIM_OP
    default:
        return 0;
    }
}

bool whim_access_interleaved(const whim_access *a, const whim_access *b)
{
    if (a->stride != b->stride || a->stride <= 0) {
        return true;
    }
    /* Same stride: column ranges of one matrix, which may lie side by side. */
    const whim_access *lo = a->at <= b->at ? a : b;
    const whim_access *hi = a->at <= b->at ? b : a;
    int64_t column = (int64_t)((hi->at - lo->at) % (uintptr_t)lo->stride);
    return column < lo->row_bytes || column + hi->row_bytes > lo->stride;
}
