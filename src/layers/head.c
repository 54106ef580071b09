/* SPDX-License-Identifier: Apache-2.0 */
/* Embedding, last norm and head. */
#include "layers/head.h"

enum { VOCAB_UNIT = 16 }; /* rows that devices pack together */

const whim_vocab_part *whim_vocab_part_make(int64_t n_vocab, whim_binder *binder)
{
    int32_t n = binder->n_rank;
    if (n <= 1) {
        return NULL;
    }
    whim_arena *arena = &binder->arena;
    whim_vocab_part *part = whim_arena_alloc(arena, sizeof *part);
    int64_t *cols = whim_arena_alloc_array(arena, n, sizeof *cols);
    int64_t *tops = whim_arena_alloc_array(arena, (WHIM_TOPK_MAX + 1) * n, sizeof *tops);
    if (part == NULL || cols == NULL || tops == NULL) {
        binder->failed = true;
        return NULL;
    }
    for (int32_t r = 0; r < n; r++) {
        cols[r] = whim_part_blocks(n_vocab, VOCAB_UNIT, n, r).n;
        for (int64_t k = 0; k <= WHIM_TOPK_MAX; k++) {
            tops[k * n + r] = k;
        }
    }
    *part = (whim_vocab_part){.own = whim_part_blocks(n_vocab, VOCAB_UNIT, n, binder->rank),
                              .n_rank = n,
                              .rank = binder->rank,
                              .cols = cols,
                              .tops = tops};
    return part;
}

static void rows_bind(const whim_vocab_part *part, whim_weight *out, const whim_config *config,
                      const char *name, whim_binder *binder)
{
    whim_param w = {.weight = out,
                    .n = config->n_vocab,
                    .k = config->d_model,
                    .row_runs = part != NULL ? &part->own : NULL,
                    .n_row_run = part != NULL};
    whim_bind(binder, &w, "%s", name);
}

void whim_head_bind_embed(whim_head *h, const whim_config *config, whim_binder *binder)
{
    h->embed_part = h->head_part = whim_vocab_part_make(config->n_vocab, binder);
    rows_bind(h->embed_part, &h->embed, config, "embed_tokens.weight", binder);
}

void whim_head_bind_rest(whim_head *h, const whim_config *config, bool at_zero, whim_binder *binder)
{
    h->tied = config->tied_head;
    whim_norm_bind(&h->norm, config->d_model, at_zero, "norm", -1, binder);
    if (!h->tied) {
        rows_bind(h->head_part, &h->head, config, "lm_head.weight", binder);
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

whim_err whim_head_embed_part(const whim_head *h, whim_stream *s, const whim_batch *batch,
                              whim_bump *bump, float *x)
{
    if (h->embed_part == NULL || batch->embeds != NULL) {
        return whim_head_embed(h, s, batch, x);
    }
    int64_t n = batch->n_row;
    int32_t *ids = whim_bump_take(bump, n * (int64_t)sizeof *ids);
    whim_batch own = *batch;
    own.tokens = ids;
    WHIM_TRY(whim_op_shift_ids(s, &(whim_shift_ids_args){
                                      .x = batch->tokens,
                                      .y = ids,
                                      .n_row = n,
                                      .by = -(int32_t)h->embed_part->own.at,
                                  }));
    WHIM_TRY(whim_head_embed(h, s, &own, x));
    return whim_op_all_reduce(
        s, &(whim_all_reduce_args){.x = x, .n_row = n, .n_col = h->embed.k, .site = "embedding"});
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

/* The n_top best of each row among the rank's own logits. */
static whim_err find_top(const whim_weight *w, whim_stream *s, const float *rows, int64_t n_out,
                         int64_t n_top, float *values, int32_t *ids)
{
    return whim_op_linear_topk(s, &(whim_linear_topk_args){
                                      .w = *w,
                                      .x = rows,
                                      .x_stride = w->k,
                                      .values = values,
                                      .ids = ids,
                                      .n_row = n_out,
                                      .k_top = n_top,
                                  });
}

/* All ranks' logits side by side. */
static whim_err gather_logits(const whim_head *h, const whim_weight *w, whim_stream *s,
                              const float *rows, int64_t n_out, whim_out *out)
{
    float *own = whim_bump_rows(out->scratch, n_out, w->n);
    WHIM_TRY(whim_product(s, w, rows, n_out, own));
    return whim_op_all_gather_v(s, &(whim_all_gather_v_args){.x = own,
                                                             .cols = h->head_part->cols,
                                                             .y = out->logits,
                                                             .n_row = n_out,
                                                             .n_rank = h->head_part->n_rank,
                                                             .rank = h->head_part->rank,
                                                             .site = "logits"});
}

/* The best of what each rank found. Values and ids travel together: ids are rows behind the rows of
 * values. */
static whim_err gather_top(const whim_head *h, whim_stream *s, const float *rows, int64_t n_out,
                           int64_t k, whim_bump *bump, float *values, int32_t *ids)
{
    const whim_vocab_part *part = h->head_part;
    int64_t all = k * part->n_rank;
    float *own = whim_bump_rows(bump, 2 * n_out, k);
    float *found = whim_bump_rows(bump, 2 * n_out, all);
    int32_t *own_ids = (int32_t *)(void *)(own + n_out * k);
    WHIM_TRY(find_top(whim_head_weight(h), s, rows, n_out, k, own, own_ids));
    WHIM_TRY(whim_op_shift_ids(
        s, &(whim_shift_ids_args){
               .x = own_ids, .y = own_ids, .n_row = n_out * k, .by = (int32_t)part->own.at}));
    WHIM_TRY(
        whim_op_all_gather_v(s, &(whim_all_gather_v_args){.x = own,
                                                          .cols = part->tops + k * part->n_rank,
                                                          .y = found,
                                                          .n_row = 2 * n_out,
                                                          .n_rank = part->n_rank,
                                                          .rank = part->rank,
                                                          .site = "best"}));
    return whim_op_merge_topk(s, &(whim_merge_topk_args){
                                     .values = found,
                                     .ids = (const int32_t *)(const void *)(found + n_out * all),
                                     .top_values = values,
                                     .top_ids = ids,
                                     .n_row = n_out,
                                     .n_col = all,
                                     .k_top = k,
                                 });
}

whim_err whim_head_best(const whim_head *h, whim_stream *s, const float *rows, int64_t n_out,
                        int64_t n_top, whim_bump *bump, float *values, int32_t *ids)
{
    return h->head_part != NULL ? gather_top(h, s, rows, n_out, n_top, bump, values, ids)
                                : find_top(whim_head_weight(h), s, rows, n_out, n_top, values, ids);
}

whim_err whim_head_forward(const whim_head *h, float eps, whim_stream *s, const whim_batch *batch,
                           const float *x, whim_out *out)
{
    const whim_weight *w = whim_head_weight(h);
    int64_t n_out = batch->n_out;
    float *rows;
    WHIM_TRY(whim_head_rows(h, eps, s, batch, x, out->scratch, &rows));
    if (out->n_top > 0) {
        return whim_head_best(h, s, rows, n_out, out->n_top, out->scratch, out->top_values,
                              out->top_ids);
    }
    return h->head_part != NULL ? gather_logits(h, w, s, rows, n_out, out)
                                : whim_product(s, w, rows, n_out, out->logits);
}
