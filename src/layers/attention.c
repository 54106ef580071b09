/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors and pass of attention. */
#include "layers/attention.h"

#include "base/math/fmath.h"
#include "layers/ranks/cut_rows.h"

#define N_OF(list) (sizeof(list) / sizeof(list)[0])

/* The columns that each rank's query heads give. NULL: no memory. */
static const whim_part *head_cols(int32_t n_head, int32_t n_kv, int64_t d_head, whim_binder *binder)
{
    whim_part *runs = whim_arena_alloc_array(&binder->arena, binder->n_rank, sizeof *runs);
    for (int32_t r = 0; r < binder->n_rank && runs != NULL; r++) {
        runs[r] = whim_part_times(whim_heads_part_of(n_head, n_kv, binder->n_rank, r).q, d_head);
    }
    return runs;
}

whim_err whim_attention_cols(const whim_layer_row *row, const whim_config *config, int32_t l,
                             whim_binder *binder, whim_own_cols *out)
{
    int64_t o_cols = (int64_t)row->n_head * row->d_head;
    *out = (whim_own_cols){.width = o_cols};
    if (binder->n_rank <= 1 || binder->whole_sums || row->mixer != WHIM_MIXER_ATTENTION) {
        return WHIM_ERR_OK;
    }
    const whim_part *runs = head_cols(row->n_head, row->n_kv, row->d_head, binder);
    if (runs == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    whim_col_runs cols = {.runs = runs, .n_run = 1, .n_rank = binder->n_rank, .rank = binder->rank};
    cols.block = whim_bind_block(binder, &(whim_param){.n = config->d_model, .k = o_cols},
                                 &cols.group, "layers.%d.self_attn.o_proj.weight", l);
    return whim_own_cols_make(out, &cols, &binder->arena);
}

/* Norms over all heads, of which a rank has those of its own; else one for all. */
static void norms_bind(whim_attention *a, const whim_layer_row *row, bool cut, bool at_zero,
                       int32_t l, whim_binder *binder)
{
    const whim_layer_share *share = &row->share;
    int64_t d = row->d_head;
    if (row->qk_norm == WHIM_QK_NORM_WHOLE) {
        whim_part q = whim_part_times(share->heads.q, d), k = whim_part_times(share->heads.kv, d);
        whim_norm_part_bind(&a->q_norm, share->n_head * d, cut ? &q : NULL, at_zero,
                            "self_attn.q_norm", l, binder);
        whim_norm_part_bind(&a->k_norm, share->n_kv * d, cut ? &k : NULL, at_zero,
                            "self_attn.k_norm", l, binder);
    } else if (row->qk_norm == WHIM_QK_NORM_HEADS) {
        whim_norm_bind(&a->q_norm, d, at_zero, "self_attn.q_norm", l, binder);
        whim_norm_bind(&a->k_norm, d, at_zero, "self_attn.k_norm", l, binder);
    }
}

/* The outputs of `o` that a rank has where these are cut; NULL: all. */
static const whim_part *whole_make(whim_attention *a, const whim_layer_row *row, int64_t d_model,
                                   whim_binder *binder)
{
    const whim_layer_share *share = &row->share;
    if (binder->whole_sums) {
        const whim_part *runs = head_cols(share->n_head, share->n_kv, row->d_head, binder);
        a->whole = whim_whole_rows_make(runs, 1, d_model, binder);
    }
    return a->whole != NULL ? &a->whole->own : NULL;
}

void whim_attention_bind(whim_attention *a, const whim_layer_row *row, const whim_config *config,
                         bool at_zero, int32_t l, whim_binder *binder)
{
    const whim_layer_share *share = &row->share;
    int64_t d = config->d_model, unpair = config->qk_paired ? row->d_head : 0;
    int64_t d_in = row->d_in > 0 ? row->d_in : d;
    int64_t o_cols = (int64_t)share->n_head * row->d_head;
    int64_t kv_rows = (int64_t)share->n_kv * row->d_head;
    int64_t q_size = row->gated ? 2 * row->d_head : row->d_head;
    whim_part q = whim_part_times(share->heads.q, q_size);
    whim_part kv = whim_part_times(share->heads.kv, row->d_head);
    bool cut = binder->n_rank > 1;
    whim_projection_cut q_cut = {.rows = cut ? &q : NULL}, kv_cut = {.rows = cut ? &kv : NULL};
    const whim_part *own = whole_make(a, row, d, binder);
    whim_projection_cut o_cut = {.rows = own,
                                 .cols = share->o.held,
                                 .n_col_run = share->o.n_run,
                                 .no_bias = own == NULL && binder->rank > 0};
    const whim_projection_spec projections[] = {
        {&a->q, share->n_head * q_size, d_in, unpair, row->qkv_bias, "self_attn.q_proj", q_cut},
        {&a->k, kv_rows, d_in, unpair, row->qkv_bias, "self_attn.k_proj", kv_cut},
        {&a->v, kv_rows, d_in, 0, row->qkv_bias, "self_attn.v_proj", kv_cut},
        {&a->o, d, o_cols, 0, row->o_bias, "self_attn.o_proj", o_cut},
    };
    whim_projections_bind(projections, N_OF(projections), l, binder);
    norms_bind(a, row, cut, at_zero, l, binder);
    a->kv_cols = whim_cut_cols((int64_t)row->n_kv * row->d_head, binder);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void whim_attention_pass_init(whim_attention_pass *p, const whim_layer_table *table, int64_t n_row,
                              whim_bump *bump)
{
    int64_t qkv = 0, heads = 0, kv = 0, wide = 0, cut = 0;
    bool gated = false, whole = false;
    *p = (whim_attention_pass){0};
    for (int32_t l = 0; l < table->n_layer; l++) {
        const whim_layer_row *row = &table->rows[l];
        int64_t q_cols = (int64_t)row->n_head * row->d_head;
        int64_t kv_cols = (int64_t)row->n_kv * row->d_head;
        qkv = larger(qkv, (row->gated ? 2 * q_cols : q_cols) + 2 * kv_cols);
        heads = larger(heads, q_cols);
        kv = larger(kv, kv_cols);
        wide = larger(wide, row->share.o.padded ? row->share.o.width : 0);
        cut = larger(cut, whim_own_cols_cut_width(&row->share.o));
        gated = gated || row->gated;
        whole = whole || row->qk_norm == WHIM_QK_NORM_WHOLE;
    }
    for (int32_t i = 0; i < table->n_rope; i++) {
        p->cos_sin[i] = whim_bump_rows(bump, n_row, table->ropes[i].rotary_dim);
    }
    p->qkv = whim_bump_rows(bump, n_row, qkv);
    p->gate = gated ? whim_bump_rows(bump, n_row, heads) : NULL;
    p->q = whim_bump_rows(bump, n_row, heads);
    p->kv = whim_bump_rows(bump, 2 * n_row, kv);
    p->attn = whim_bump_rows(bump, n_row, heads);
    p->wide = wide > 0 ? whim_bump_rows(bump, n_row, wide) : NULL;
    p->cut = whim_bump_rows(bump, n_row, cut);
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
    bool is_cut; /* other ranks have heads, too */
} site;

/* Where v is, behind k of all rows. */
static float *values_of(const site *t)
{
    return t->p->kv + t->batch->n_row * t->row->n_kv * t->row->d_head;
}

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
                                                    .k = p->kv,
                                                    .v = values_of(t),
                                                    .gate = t->row->gated ? p->gate : NULL,
                                                    .n_row = t->batch->n_row,
                                                    .n_head = t->n_head,
                                                    .n_kv = t->row->n_kv,
                                                    .d_head = t->row->d_head,
                                                    .n_freq = t->n_freq,
                                                });
}

/* Sums of squares of q and k, over all ranks. A KV head that several have counts once. */
static whim_err sum_squares(const site *t)
{
    const whim_layer_row *row = t->row;
    const whim_layer_share *share = &row->share;
    int64_t n_row = t->batch->n_row;
    WHIM_TRY(whim_op_qk_sumsq(t->s, &(whim_qk_sumsq_args){
                                        .qkv = t->p->qkv,
                                        .qkv_stride = t->width,
                                        .sums = t->p->sums,
                                        .n_row = n_row,
                                        .n_head = row->n_head,
                                        .n_kv = share->heads.counts_kv ? row->n_kv : 0,
                                        .d_head = row->d_head,
                                    }));
    return t->is_cut ? whim_op_all_reduce(t->s, &(whim_all_reduce_args){.x = t->p->sums,
                                                                        .n_row = n_row,
                                                                        .n_col = 2,
                                                                        .site = "qk norm"})
                     : WHIM_ERR_OK;
}

/* The same with all heads of q, and of k, normalised together. */
static whim_err split_whole(const site *t)
{
    const whim_attention_pass *p = t->p;
    const whim_layer_row *row = t->row;
    WHIM_TRY(sum_squares(t));
    return whim_op_split_qkv_tp_rmsnorm_rope(
        t->s, &(whim_split_qkv_tp_rmsnorm_rope_args){
                  .qkv = p->qkv,
                  .qkv_stride = t->width,
                  .sums = p->sums,
                  .q_width = (int64_t)row->share.n_head * row->d_head,
                  .k_width = (int64_t)row->share.n_kv * row->d_head,
                  .q_norm = t->a->q_norm,
                  .k_norm = t->a->k_norm,
                  .eps = t->eps,
                  .cos_sin = t->cos_sin,
                  .q = p->q,
                  .k = p->kv,
                  .v = values_of(t),
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
                                      .k = t->p->kv,
                                      .v = values_of(t),
                                      .slots = t->batch->slots,
                                      .n_row = t->batch->n_row,
                                  });
}

/* The same of the rows of all ranks, each of which has made its own. */
static whim_err store_all(const site *t, whim_kv_view kv)
{
    const whim_batch_cut *cut = t->batch->cut;
    int64_t n = cut->n_row * cut->n_rank;
    WHIM_TRY(
        whim_cut_gather(t->s, t->batch, 2, t->a->kv_cols, t->p->kv, t->p->all, "keys and values"));
    return whim_op_kv_write(t->s, &(whim_kv_write_args){
                                      .kv = kv,
                                      .k = t->p->all,
                                      .v = t->p->all + n * t->a->kv_cols[0],
                                      .slots = cut->slots,
                                      .n_row = n,
                                  });
}

/* attn = softmax(q k^T / sqrt(d)) v over the pages, after k and v of the rows went there */
static whim_err attend(const site *t, int32_t l)
{
    const whim_batch *b = t->batch;
    whim_kv_view kv = kv_of(b, t->row, l);
    WHIM_TRY(b->cut != NULL ? store_all(t, kv) : store(t, kv));
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
                  .eps = eps,
                  .is_cut = row->share.o.n_run > 0};
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

/* attn, in the columns that `o` has of it; NULL: it has just those. */
static whim_err widen(const site *t)
{
    const whim_own_cols *cols = &t->row->share.o;
    int64_t n = t->batch->n_row, own = cols->own->n;
    WHIM_TRY(whim_own_cols_clear(cols, t->s, t->p->wide, n));
    return whim_op_gather_rows(t->s, &(whim_gather_rows_args){
                                         .x = t->p->attn,
                                         .x_stride = own,
                                         .y = t->p->wide + cols->own->at,
                                         .y_stride = cols->width,
                                         .n_src = n,
                                         .n_row = n,
                                         .n_col = own,
                                     });
}

/* attn = what the layer's heads make of x */
static whim_err mix_heads(site *t, int32_t l, const float *x)
{
    const whim_attention *a = t->a;
    const whim_attention_pass *p = t->p;
    int64_t n = t->batch->n_row, q_cols = a->q.w.n, kv_cols = a->k.w.n;
    int64_t cols = (int64_t)t->row->n_head * t->row->d_head;
    t->n_head = t->row->n_head;
    t->width = q_cols + 2 * kv_cols;
    WHIM_TRY(whim_project(t->s, &a->q, x, n, p->qkv, t->width));
    WHIM_TRY(whim_project(t->s, &a->k, x, n, p->qkv + q_cols, t->width));
    WHIM_TRY(whim_project(t->s, &a->v, x, n, p->qkv + q_cols + kv_cols, t->width));
    WHIM_TRY(t->row->qk_norm == WHIM_QK_NORM_WHOLE ? split_whole(t) : split_heads(t));
    WHIM_TRY(attend(t, l));
    return t->row->gated ? whim_op_sigmoid_gate(t->s,
                                                &(whim_sigmoid_gate_args){
                                                    .x = p->attn,
                                                    .x_stride = cols,
                                                    .gate = p->gate,
                                                    .gate_stride = cols,
                                                    .n_row = n,
                                                    .n_col = cols,
                                                })
                         : WHIM_ERR_OK;
}

whim_err whim_attention_forward(const whim_attention *a, const whim_layer_row *row, int32_t l,
                                float eps, const whim_rotary *rotary, const whim_attention_pass *p,
                                whim_stream *s, const whim_batch *batch, const float *x, float *y)
{
    site t = site_of(a, row, eps, rotary, p, s, batch);
    WHIM_TRY(mix_heads(&t, l, x));
    if (a->whole != NULL) {
        return whim_whole_rows_project(a->whole, s, &a->o, p->attn, batch->n_row, p->joint, y);
    }
    if (row->share.o.padded) {
        WHIM_TRY(widen(&t));
    }
    WHIM_TRY(whim_own_cols_mend(&row->share.o, s, p->wide, p->cut, batch->n_row));
    return whim_project(s, &a->o, row->share.o.padded ? p->wide : p->attn, batch->n_row, y,
                        a->o.w.n);
}
