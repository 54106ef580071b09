/* SPDX-License-Identifier: Apache-2.0 */
/* One pass of a decoder, in the order of the data. */
#include "layers/decoder.h"

#include "base/math/fmath.h"
#include "ops/ops.h"

/* Buffers of a pass, all F32, reused by every layer. There are two for sums, so that a norm may still read what
 * attention adds while the MLP makes its own. */
typedef struct pass {
    const whim_decoder *dec;
    whim_stream *s;
    const whim_batch *batch;
    float *x;        /* [n_row, d_model] the residual stream */
    float *delta[2]; /* [n_row, d_model] what attention and MLP add to it */
    float *normed;   /* [n_row, d_model] */
    float *cos_sin;  /* [n_row, rotary_dim] */
    float *qkv;      /* [n_row, (n_head + 2 n_kv) d_head]; gated: (2 n_head + 2 n_kv) d_head */
    float *gate;     /* [n_row, n_head, d_head], or NULL */
    float *q;        /* [n_row, n_head, d_head] */
    float *k, *v;    /* [n_row, n_kv, d_head] */
    float *attn;     /* [n_row, n_head, d_head] */
    float *sums;     /* [n_row, 2] squares of q and k, where they are normalised whole */
    float *act;      /* [n_row, d_ff] silu(gate) * up */
    float *scratch;  /* [n_row, d_ff] */
    whim_moe_space moe;
    whim_gated_delta_pass gdn;
} pass;

static void pass_init(pass *p, const whim_decoder *dec, whim_stream *s, const whim_batch *batch,
                      whim_bump *bump)
{
    const whim_config *c = &dec->config;
    int64_t n = batch->n_row, d = c->d_model, heads = c->n_head, kv = c->n_kv, dh = c->d_head;
    *p = (pass){.dec = dec, .s = s, .batch = batch};
    p->x = whim_bump_rows(bump, n, d);
    p->delta[0] = whim_bump_rows(bump, n, d);
    p->delta[1] = whim_bump_rows(bump, n, d);
    p->normed = whim_bump_rows(bump, n, d);
    p->cos_sin = whim_bump_rows(bump, n, c->rope.rotary_dim);
    bool gated = dec->traits.gated;
    p->qkv = whim_bump_rows(bump, n, ((gated ? 2 * heads : heads) + 2 * kv) * dh);
    p->gate = gated ? whim_bump_rows(bump, n, heads * dh) : NULL;
    p->q = whim_bump_rows(bump, n, heads * dh);
    p->k = whim_bump_rows(bump, n, kv * dh);
    p->v = whim_bump_rows(bump, n, kv * dh);
    p->attn = whim_bump_rows(bump, n, heads * dh);
    if (dec->traits.qk_norm == WHIM_QK_NORM_WHOLE) {
        p->sums = whim_bump_rows(bump, n, 2);
    }
    if (dec->has_mlp) {
        p->act = whim_bump_rows(bump, n, c->d_ff);
        p->scratch = whim_bump_rows(bump, n, c->d_ff);
    }
    if (c->moe.n_expert > 0) {
        p->moe = whim_moe_space_take(bump, c, n);
    }
    if (whim_config_n_gdn(c) > 0) {
        whim_gated_delta_pass_init(&p->gdn, &c->gdn, dec->traits.gdn_grouped, n, bump);
    }
}

static whim_err project(const pass *p, const whim_projection *proj, const float *x, float *y,
                        int64_t y_stride)
{
    return whim_op_linear(p->s, &(whim_linear_args){
                                    .w = proj->w,
                                    .x = x,
                                    .x_stride = proj->w.k,
                                    .bias = proj->bias,
                                    .y = y,
                                    .y_stride = y_stride,
                                    .n_row = p->batch->n_row,
                                });
}

/* normed = norm(x), after x += delta where a block has left one (else NULL). */
static whim_err norm_after(const pass *p, const float *w, const float *delta)
{
    int64_t d = p->dec->config.d_model;
    float eps = p->dec->config.rms_eps;
    if (delta == NULL) {
        return whim_op_rmsnorm(p->s, &(whim_rmsnorm_args){
                                         .x = p->x,
                                         .x_stride = d,
                                         .w = w,
                                         .eps = eps,
                                         .y = p->normed,
                                         .y_stride = d,
                                         .n_row = p->batch->n_row,
                                         .n_col = d,
                                     });
    }
    return whim_op_add_rmsnorm(p->s, &(whim_add_rmsnorm_args){
                                         .x = p->x,
                                         .x_stride = d,
                                         .delta = delta,
                                         .delta_stride = d,
                                         .w = w,
                                         .eps = eps,
                                         .y = p->normed,
                                         .y_stride = d,
                                         .n_row = p->batch->n_row,
                                         .n_col = d,
                                     });
}

static int64_t qkv_width(const whim_decoder_layer *layer)
{
    return layer->q.w.n + layer->k.w.n + layer->v.w.n;
}

/* q, k, v = qkv, each head normalised where the model does so, q and k rotated */
static whim_err split_heads(const pass *p, const whim_decoder_layer *layer)
{
    const whim_config *c = &p->dec->config;
    return whim_op_split_qkv_rmsnorm_rope(p->s, &(whim_split_qkv_rmsnorm_rope_args){
                                                    .qkv = p->qkv,
                                                    .qkv_stride = qkv_width(layer),
                                                    .q_norm = layer->q_norm,
                                                    .k_norm = layer->k_norm,
                                                    .eps = c->rms_eps,
                                                    .cos_sin = p->cos_sin,
                                                    .q = p->q,
                                                    .k = p->k,
                                                    .v = p->v,
                                                    .gate = p->gate,
                                                    .n_row = p->batch->n_row,
                                                    .n_head = c->n_head,
                                                    .n_kv = c->n_kv,
                                                    .d_head = c->d_head,
                                                    .n_freq = c->rope.rotary_dim / 2,
                                                });
}

/* The same with all heads of q, and of k, normalised together. */
static whim_err split_whole(const pass *p, const whim_decoder_layer *layer)
{
    const whim_config *c = &p->dec->config;
    WHIM_TRY(whim_op_qk_sumsq(p->s, &(whim_qk_sumsq_args){
                                        .qkv = p->qkv,
                                        .qkv_stride = qkv_width(layer),
                                        .sums = p->sums,
                                        .n_row = p->batch->n_row,
                                        .n_head = c->n_head,
                                        .n_kv = c->n_kv,
                                        .d_head = c->d_head,
                                    }));
    return whim_op_split_qkv_tp_rmsnorm_rope(p->s, &(whim_split_qkv_tp_rmsnorm_rope_args){
                                                       .qkv = p->qkv,
                                                       .qkv_stride = qkv_width(layer),
                                                       .sums = p->sums,
                                                       .q_width = (int64_t)c->n_head * c->d_head,
                                                       .k_width = (int64_t)c->n_kv * c->d_head,
                                                       .q_norm = layer->q_norm,
                                                       .k_norm = layer->k_norm,
                                                       .eps = c->rms_eps,
                                                       .cos_sin = p->cos_sin,
                                                       .q = p->q,
                                                       .k = p->k,
                                                       .v = p->v,
                                                       .n_row = p->batch->n_row,
                                                       .n_head = c->n_head,
                                                       .n_kv = c->n_kv,
                                                       .d_head = c->d_head,
                                                       .n_freq = c->rope.rotary_dim / 2,
                                                   });
}

/* delta[0] = attention(normed) */
static whim_err attention(const pass *p, const whim_decoder_layer *layer)
{
    const whim_config *c = &p->dec->config;
    const whim_batch *b = p->batch;
    int64_t q_cols = layer->q.w.n, kv_cols = layer->k.w.n, o_cols = layer->o.w.k;
    int64_t width = qkv_width(layer);
    whim_kv_view kv = b->kv;
    kv.layer_offset += layer->index * b->kv_layer_bytes;

    WHIM_TRY(project(p, &layer->q, p->normed, p->qkv, width));
    WHIM_TRY(project(p, &layer->k, p->normed, p->qkv + q_cols, width));
    WHIM_TRY(project(p, &layer->v, p->normed, p->qkv + q_cols + kv_cols, width));
    WHIM_TRY(p->dec->traits.qk_norm == WHIM_QK_NORM_WHOLE ? split_whole(p, layer)
                                                          : split_heads(p, layer));
    WHIM_TRY(whim_op_kv_write(p->s, &(whim_kv_write_args){
                                        .kv = kv,
                                        .k = p->k,
                                        .v = p->v,
                                        .slots = b->slots,
                                        .n_row = b->n_row,
                                    }));
    WHIM_TRY(whim_op_attn_paged(p->s, &(whim_attn_paged_args){
                                          .kv = kv,
                                          .q = p->q,
                                          .q_start = b->q_start,
                                          .kv_len = b->kv_len,
                                          .positions = b->positions,
                                          .page_table = b->page_table,
                                          .out = p->attn,
                                          .scale = 1.0f / sqrtf((float)c->d_head),
                                          .causal = true,
                                          .n_row = b->n_row,
                                          .n_seq = b->n_seq,
                                          .n_head = c->n_head,
                                          .max_pages = b->max_pages,
                                      }));
    if (p->gate != NULL) {
        WHIM_TRY(whim_op_sigmoid_gate(p->s, &(whim_sigmoid_gate_args){
                                                .x = p->attn,
                                                .x_stride = o_cols,
                                                .gate = p->gate,
                                                .gate_stride = o_cols,
                                                .n_row = b->n_row,
                                                .n_col = o_cols,
                                            }));
    }
    return project(p, &layer->o, p->attn, p->delta[0], c->d_model);
}

/* delta[0] = mixer(normed): attention or a gated delta net */
static whim_err mix(const pass *p, const whim_decoder_layer *layer)
{
    const whim_decoder *dec = p->dec;
    if (layer->delta == NULL) {
        return attention(p, layer);
    }
    return whim_gated_delta_forward(layer->delta, &dec->config, dec->traits.gdn_grouped,
                                    layer->index, &p->gdn, p->s, p->batch, p->normed, p->delta[0]);
}

/* delta[1] = mlp(normed), or its experts' sum */
static whim_err mlp(const pass *p, const whim_decoder_layer *layer)
{
    if (layer->moe != NULL) {
        return whim_moe_forward(layer->moe, &p->dec->config.moe, p->s, p->normed, p->batch->n_row,
                                &p->moe, p->delta[1]);
    }
    WHIM_TRY(whim_op_linear_swiglu(p->s, &(whim_linear_swiglu_args){
                                             .gate = layer->gate.w,
                                             .up = layer->up.w,
                                             .x = p->normed,
                                             .x_stride = layer->gate.w.k,
                                             .gate_bias = layer->gate.bias,
                                             .up_bias = layer->up.bias,
                                             .y = p->act,
                                             .y_stride = layer->gate.w.n,
                                             .scratch = p->scratch,
                                             .n_row = p->batch->n_row,
                                         }));
    return project(p, &layer->down, p->act, p->delta[1], p->dec->config.d_model);
}

/* Copy the residual stream out where boundary `b` was asked for. */
static whim_err capture(const pass *p, int32_t b, const whim_out *out)
{
    int64_t d = p->dec->config.d_model, n = p->batch->n_row;
    for (int32_t i = 0; i < out->n_capture; i++) {
        if (out->boundary[i] == b) {
            WHIM_TRY(whim_op_gather_rows(p->s, &(whim_gather_rows_args){
                                                   .x = p->x,
                                                   .x_stride = d,
                                                   .y = out->hidden + i * n * d,
                                                   .y_stride = d,
                                                   .n_src = n,
                                                   .n_row = n,
                                                   .n_col = d,
                                               }));
        }
    }
    return WHIM_ERR_OK;
}

/* logits = head(norm(x)) for the rows asked for only, or the best of them. */
static whim_err head(const pass *p, whim_out *out)
{
    const whim_decoder *dec = p->dec;
    int64_t d = dec->config.d_model, n_out = p->batch->n_out;
    float *rows = whim_bump_rows(out->scratch, n_out, d);
    WHIM_TRY(whim_op_gather_rows(p->s, &(whim_gather_rows_args){
                                           .x = p->x,
                                           .x_stride = d,
                                           .rows = p->batch->out_rows,
                                           .y = rows,
                                           .y_stride = d,
                                           .n_src = p->batch->n_row,
                                           .n_row = n_out,
                                           .n_col = d,
                                       }));
    WHIM_TRY(whim_op_rmsnorm(p->s, &(whim_rmsnorm_args){
                                       .x = rows,
                                       .x_stride = d,
                                       .w = dec->final_norm,
                                       .eps = dec->config.rms_eps,
                                       .y = rows,
                                       .y_stride = d,
                                       .n_row = n_out,
                                       .n_col = d,
                                   }));
    whim_weight w = dec->config.tied_head ? dec->embed : dec->head;
    if (out->n_top > 0) {
        return whim_op_linear_topk(p->s, &(whim_linear_topk_args){
                                             .w = w,
                                             .x = rows,
                                             .x_stride = d,
                                             .values = out->top_values,
                                             .ids = out->top_ids,
                                             .scratch = out->logits,
                                             .n_row = n_out,
                                             .k_top = out->n_top,
                                         });
    }
    return whim_op_linear(p->s, &(whim_linear_args){
                                    .w = w,
                                    .x = rows,
                                    .x_stride = d,
                                    .y = out->logits,
                                    .y_stride = dec->config.n_vocab,
                                    .n_row = n_out,
                                });
}

static whim_err start(const pass *p)
{
    const whim_decoder *dec = p->dec;
    const whim_batch *b = p->batch;
    WHIM_TRY(whim_op_rope_table(p->s, &(whim_rope_table_args){
                                          .positions = b->positions,
                                          .freqs = dec->rope_freqs,
                                          .scale = dec->rope_scale,
                                          .cos_sin = p->cos_sin,
                                          .n_row = b->n_row,
                                          .n_freq = dec->config.rope.rotary_dim / 2,
                                      }));
    return whim_op_embed(p->s, &(whim_embed_args){
                                   .w = dec->embed,
                                   .ids = b->tokens,
                                   .y = p->x,
                                   .y_stride = dec->config.d_model,
                                   .n_row = b->n_row,
                               });
}

whim_err whim_decoder_forward(const whim_decoder *dec, whim_stream *s, const whim_batch *batch,
                              whim_out *out)
{
    if (batch->n_row == 0) {
        return WHIM_ERR_OK;
    }
    pass p;
    pass_init(&p, dec, s, batch, out->scratch);
    WHIM_TRY(start(&p));
    for (int32_t l = 0; l < dec->config.n_layer; l++) {
        const whim_decoder_layer *layer = &dec->layers[l];
        WHIM_TRY(norm_after(&p, layer->attn_norm, l > 0 ? p.delta[1] : NULL));
        WHIM_TRY(capture(&p, l, out));
        WHIM_TRY(mix(&p, layer));
        WHIM_TRY(norm_after(&p, layer->mlp_norm, p.delta[0]));
        WHIM_TRY(mlp(&p, layer));
    }
    int64_t d = dec->config.d_model;
    WHIM_TRY(whim_op_add(s, &(whim_add_args){
                                .x = p.x,
                                .x_stride = d,
                                .y = p.delta[1],
                                .y_stride = d,
                                .n_row = batch->n_row,
                                .n_col = d,
                            }));
    WHIM_TRY(capture(&p, dec->config.n_layer, out));
    return head(&p, out);
}
