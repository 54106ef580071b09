/* SPDX-License-Identifier: Apache-2.0 */
/* Embedding, last norm and head. */
#include "layers/head.h"

void whim_head_bind_embed(whim_head *h, const whim_config *config, whim_binder *binder)
{
    whim_param embed = {.weight = &h->embed, .n = config->n_vocab, .k = config->d_model};
    whim_bind(binder, &embed, "embed_tokens.weight");
}

void whim_head_bind_rest(whim_head *h, const whim_config *config, bool at_zero, whim_binder *binder)
{
    h->tied = config->tied_head;
    whim_norm_bind(&h->norm, config->d_model, at_zero, "norm", -1, binder);
    if (!h->tied) {
        whim_param head = {.weight = &h->head, .n = config->n_vocab, .k = config->d_model};
        whim_bind(binder, &head, "lm_head.weight");
    }
}

whim_err whim_head_embed(const whim_head *h, whim_stream *s, const whim_batch *batch, float *x)
{
    if (batch->embeds != NULL) {
        return whim_op_gather_rows(s, &(whim_gather_rows_args){
                                          .x = batch->embeds,
                                          .x_stride = h->embed.k,
                                          .y = x,
                                          .y_stride = h->embed.k,
                                          .n_src = batch->n_row,
                                          .n_row = batch->n_row,
                                          .n_col = h->embed.k,
                                      });
    }
    return whim_op_embed(s, &(whim_embed_args){
                                .w = h->embed,
                                .ids = batch->tokens,
                                .y = x,
                                .y_stride = h->embed.k,
                                .n_row = batch->n_row,
                            });
}

whim_err whim_head_rows(const whim_head *h, float eps, whim_stream *s, const whim_batch *batch,
                        const float *x, whim_bump *bump, float **out)
{
    int64_t d = h->embed.k, n_out = batch->n_out;
    float *rows = *out = whim_bump_rows(bump, n_out, d);
    WHIM_TRY(whim_op_gather_rows(s, &(whim_gather_rows_args){
                                        .x = x,
                                        .x_stride = d,
                                        .rows = batch->out_rows,
                                        .y = rows,
                                        .y_stride = d,
                                        .n_src = batch->n_row,
                                        .n_row = n_out,
                                        .n_col = d,
                                    }));
    return whim_op_rmsnorm(s, &(whim_rmsnorm_args){
                                  .x = rows,
                                  .x_stride = d,
                                  .w = h->norm,
                                  .eps = eps,
                                  .y = rows,
                                  .y_stride = d,
                                  .n_row = n_out,
                                  .n_col = d,
                              });
}

whim_err whim_head_forward(const whim_head *h, float eps, whim_stream *s, const whim_batch *batch,
                           const float *x, whim_out *out)
{
    const whim_weight *w = whim_head_weight(h);
    int64_t d = w->k, n_out = batch->n_out;
    float *rows;
    WHIM_TRY(whim_head_rows(h, eps, s, batch, x, out->scratch, &rows));
    if (out->n_top == 0) {
        return whim_product(s, w, rows, n_out, out->logits);
    }
    return whim_op_linear_topk(s, &(whim_linear_topk_args){
                                      .w = *w,
                                      .x = rows,
                                      .x_stride = d,
                                      .values = out->top_values,
                                      .ids = out->top_ids,
                                      .n_row = n_out,
                                      .k_top = out->n_top,
                                  });
}
