/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors and pass of attention. */
#include "layers/attention.h"

#include "base/math/fmath.h"

#define N_OF(list) (sizeof(list) / sizeof(list)[0])

void whim_attention_bind(whim_attention *a, const whim_layer_row *row, const whim_config *config,
                         bool at_zero, int32_t l, whim_binder *binder)
{
    int64_t d = config->d_model, unpair = config->qk_paired ? row->d_head : 0;
    int64_t d_in = row->d_in > 0 ? row->d_in : d;
    int64_t o_cols = (int64_t)row->n_head * row->d_head;
    int64_t kv_rows = (int64_t)row->n_kv * row->d_head;
    int64_t q_rows = row->gated ? 2 * o_cols : o_cols;
    const whim_projection_spec projections[] = {
        {&a->q, q_rows, d_in, unpair, row->qkv_bias, "self_attn.q_proj"},
        {&a->k, kv_rows, d_in, unpair, row->qkv_bias, "self_attn.k_proj"},
        {&a->v, kv_rows, d_in, 0, row->qkv_bias, "self_attn.v_proj"},
        {&a->o, d, o_cols, 0, row->o_bias, "self_attn.o_proj"},
    };
    whim_projections_bind(projections, N_OF(projections), l, binder);
    if (row->qk_norm != WHIM_QK_NORM_NONE) {
        bool whole = row->qk_norm == WHIM_QK_NORM_WHOLE;
        whim_norm_bind(&a->q_norm, whole ? o_cols : row->d_head, at_zero, "self_attn.q_norm", l,
                       binder);
        whim_norm_bind(&a->k_norm, whole ? kv_rows : row->d_head, at_zero, "self_attn.k_norm", l,
                       binder);
    }
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void whim_attention_pass_init(whim_attention_pass *p, const whim_layer_table *table, int64_t n_row,
                              whim_bump *bump)
{
    int64_t qkv = 0, heads = 0, kv = 0;
    bool gated = false, whole = false;
    *p = (whim_attention_pass){0};
    for (int32_t l = 0; l < table->n_layer; l++) {
        const whim_layer_row *row = &table->rows[l];
        int64_t q_cols = (int64_t)row->n_head * row->d_head;
        int64_t kv_cols = (int64_t)row->n_kv * row->d_head;
        qkv = larger(qkv, (row->gated ? 2 * q_cols : q_cols) + 2 * kv_cols);
        heads = larger(heads, q_cols);
        kv = larger(kv, kv_cols);
        gated = gated || row->gated;
        whole = whole || row->qk_norm == WHIM_QK_NORM_WHOLE;
    }
    for (int32_t i = 0; i < table->n_rope; i++) {
        p->cos_sin[i] = whim_bump_rows(bump, n_row, table->ropes[i].rotary_dim);
    }
    p->qkv = whim_bump_rows(bump, n_row, qkv);
    p->gate = gated ? whim_bump_rows(bump, n_row, heads) : NULL;
    p->q = whim_bump_rows(bump, n_row, heads);
    p->k = whim_bump_rows(bump, n_row, kv);
    p->v = whim_bump_rows(bump, n_row, kv);
    p->attn = whim_bump_rows(bump, n_row, heads);
    p->sums = whole ? whim_bump_rows(bump, n_row, 2) : NULL;
}

whim_err whim_attention_rotary(const whim_attention_pass *p, const whim_rotary *rotary,
                               int32_t n_rotary, whim_stream *s, const whim_batch *batch)
{
    for (int32_t i = 0; i < n_rotary; i++) {
        WHIM_TRY(whim_op_rope_table(s, &(whim_rope_table_args){
                                           .positions = batch->positions,
                                           .freqs = rotary[i].freqs,
                                           .scale = rotary[i].scale,
                                           .cos_sin = p->cos_sin[i],
                                           .n_row = batch->n_row,
                                           .n_freq = rotary[i].n_freq,
                                       }));
    }
    return WHIM_ERR_OK;
}

/* One layer of a pass. */
typedef struct site {
    const whim_attention *a;
    const whim_layer_row *row;
    const whim_attention_pass *p;
    whim_stream *s;
    const whim_batch *batch;
    const float *cos_sin;
    int64_t n_freq;
    int64_t n_head; /* of q: none where only k and v are wanted */
    int64_t width;  /* of a row of qkv */
    float eps;
} site;

/* q, k, v = qkv, each head normalised where the layer does so, q and k rotated */
static whim_err split_heads(const site *t)
{
    const whim_attention_pass *p = t->p;
    return whim_op_split_qkv_rmsnorm_rope(t->s, &(whim_split_qkv_rmsnorm_rope_args){
                                                    .qkv = p->qkv,
                                                    .qkv_stride = t->width,
                                                    .q_norm = t->a->q_norm,
                                                    .k_norm = t->a->k_norm,
                                                    .eps = t->eps,
                                                    .cos_sin = t->cos_sin,
                                                    .q = p->q,
                                                    .k = p->k,
                                                    .v = p->v,
                                                    .gate = t->row->gated ? p->gate : NULL,
                                                    .n_row = t->batch->n_row,
                                                    .n_head = t->n_head,
                                                    .n_kv = t->row->n_kv,
                                                    .d_head = t->row->d_head,
                                                    .n_freq = t->n_freq,
                                                });
}

/* The same with all heads of q, and of k, normalised together. */
static whim_err split_whole(const site *t)
{
    const whim_attention_pass *p = t->p;
    const whim_layer_row *row = t->row;
    WHIM_TRY(whim_op_qk_sumsq(t->s, &(whim_qk_sumsq_args){
                                        .qkv = p->qkv,
                                        .qkv_stride = t->width,
                                        .sums = p->sums,
                                        .n_row = t->batch->n_row,
                                        .n_head = row->n_head,
                                        .n_kv = row->n_kv,
                                        .d_head = row->d_head,
                                    }));
    return whim_op_split_qkv_tp_rmsnorm_rope(t->s,
                                             &(whim_split_qkv_tp_rmsnorm_rope_args){
                                                 .qkv = p->qkv,
                                                 .qkv_stride = t->width,
                                                 .sums = p->sums,
                                                 .q_width = (int64_t)row->n_head * row->d_head,
                                                 .k_width = (int64_t)row->n_kv * row->d_head,
                                                 .q_norm = t->a->q_norm,
                                                 .k_norm = t->a->k_norm,
                                                 .eps = t->eps,
                                                 .cos_sin = t->cos_sin,
                                                 .q = p->q,
                                                 .k = p->k,
                                                 .v = p->v,
                                                 .n_row = t->batch->n_row,
                                                 .n_head = row->n_head,
                                                 .n_kv = row->n_kv,
                                                 .d_head = row->d_head,
                                                 .n_freq = t->n_freq,
                                             });
}

/* The part of pages that is layer l's. */
static whim_kv_view kv_of(const whim_batch *batch, const whim_layer_row *row, int32_t l)
{
    whim_kv_view kv = batch->kv;
    kv.layer_offset = batch->kv_offsets[l];
    kv.n_kv = row->n_kv;
    kv.d_head = row->d_head;
    return kv;
}

/* k and v of the rows to their pages */
static whim_err store(const site *t, whim_kv_view kv)
{
    return whim_op_kv_write(t->s, &(whim_kv_write_args){
                                      .kv = kv,
                                      .k = t->p->k,
                                      .v = t->p->v,
                                      .slots = t->batch->slots,
                                      .n_row = t->batch->n_row,
                                  });
}

/* attn = softmax(q k^T / sqrt(d)) v over the pages, after k and v of the rows went there */
static whim_err attend(const site *t, int32_t l)
{
    const whim_batch *b = t->batch;
    whim_kv_view kv = kv_of(b, t->row, l);
    WHIM_TRY(store(t, kv));
    return whim_op_attn_paged(t->s, &(whim_attn_paged_args){
                                        .kv = kv,
                                        .q = t->p->q,
                                        .q_start = b->q_start,
                                        .kv_len = b->kv_len,
                                        .positions = b->positions,
                                        .pages = b->pages,
                                        .page_start = b->page_start,
                                        .out = t->p->attn,
                                        .scale = 1.0f / sqrtf((float)t->row->d_head),
                                        .causal = !t->row->both_ways,
                                        .window = t->row->window,
                                        .first = t->row->first,
                                        .n_row = b->n_row,
                                        .n_seq = b->n_seq,
                                        .n_head = t->row->n_head,
                                        .max_pages = b->max_pages,
                                    });
}

static site site_of(const whim_attention *a, const whim_layer_row *row, float eps,
                    const whim_rotary *rotary, const whim_attention_pass *p, whim_stream *s,
                    const whim_batch *batch)
{
    bool rotates = row->rope != WHIM_NO_ROPE;
    return (site){.a = a,
                  .row = row,
                  .p = p,
                  .s = s,
                  .batch = batch,
                  .cos_sin = rotates ? p->cos_sin[row->rope] : NULL,
                  .n_freq = rotates ? rotary[row->rope].n_freq : 0,
                  .eps = eps};
}

whim_err whim_attention_append(const whim_attention *a, const whim_layer_row *row, int32_t l,
                               float eps, const whim_rotary *rotary, const whim_attention_pass *p,
                               whim_stream *s, const whim_batch *batch, const float *x)
{
    int64_t n = batch->n_row, cols = a->k.w.n;
    site t = site_of(a, row, eps, rotary, p, s, batch);
    t.width = 2 * cols;
    WHIM_TRY(whim_project(s, &a->k, x, n, p->qkv, t.width));
    WHIM_TRY(whim_project(s, &a->v, x, n, p->qkv + cols, t.width));
    WHIM_TRY(split_heads(&t));
    return store(&t, kv_of(batch, row, l));
}

whim_err whim_attention_forward(const whim_attention *a, const whim_layer_row *row, int32_t l,
                                float eps, const whim_rotary *rotary, const whim_attention_pass *p,
                                whim_stream *s, const whim_batch *batch, const float *x, float *y)
{
    int64_t n = batch->n_row, q_cols = a->q.w.n, kv_cols = a->k.w.n, o_cols = a->o.w.k;
    site t = site_of(a, row, eps, rotary, p, s, batch);
    t.n_head = row->n_head;
    t.width = q_cols + 2 * kv_cols;
    WHIM_TRY(whim_project(s, &a->q, x, n, p->qkv, t.width));
    WHIM_TRY(whim_project(s, &a->k, x, n, p->qkv + q_cols, t.width));
    WHIM_TRY(whim_project(s, &a->v, x, n, p->qkv + q_cols + kv_cols, t.width));
    WHIM_TRY(row->qk_norm == WHIM_QK_NORM_WHOLE ? split_whole(&t) : split_heads(&t));
    WHIM_TRY(attend(&t, l));
    if (row->gated) {
        WHIM_TRY(whim_op_sigmoid_gate(s, &(whim_sigmoid_gate_args){
                                             .x = p->attn,
                                             .x_stride = o_cols,
                                             .gate = p->gate,
                                             .gate_stride = o_cols,
                                             .n_row = n,
                                             .n_col = o_cols,
                                         }));
    }
    return whim_project(s, &a->o, p->attn, n, y, a->o.w.n);
}
