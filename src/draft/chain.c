/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates, their vectors, the choice. */
#include "draft/chain.h"

void whim_chain_bind(whim_chain *chain, const whim_config *draft, whim_binder *binder)
{
    const whim_chain_config *c = &draft->draft.chain;
    chain->config = *c;
    if (c->rank > 0) {
        whim_param before = {.weight = &chain->before, .n = draft->n_vocab, .k = c->rank};
        whim_param after = {.weight = &chain->after, .n = draft->n_vocab, .k = c->rank};
        whim_bind(binder, &before,
                  c->by_hidden ? "candidate_selector.predecessor_codebook"
                               : "markov_head.markov_w1.weight");
        whim_bind(binder, &after,
                  c->by_hidden ? "candidate_selector.successor_codebook"
                               : "markov_head.markov_w2.weight");
    }
    if (c->by_hidden) {
        whim_param gate = {.weight = &chain->gate, .n = c->rank, .k = draft->d_model};
        whim_bind(binder, &gate, "candidate_selector.hidden_projection.weight");
    }
    if (c->sure) {
        whim_param w = {.values = &chain->sure_w,
                        .n = 1,
                        .k = draft->d_model + (c->sure_of_pairs ? c->rank : 0)};
        whim_param bias = {.values = &chain->sure_bias, .n = 1};
        whim_bind(binder, &w, "confidence_head.proj.weight");
        whim_bind(binder, &bias, "confidence_head.proj.bias");
    }
}

static whim_err look_up(whim_stream *s, const whim_weight *w, const int32_t *ids, int64_t n,
                        float *y)
{
    return whim_op_embed(
        s, &(whim_embed_args){.w = *w, .ids = ids, .y = y, .y_stride = w->k, .n_row = n});
}

whim_err whim_chain_forward(const whim_chain *chain, const whim_head *head, whim_stream *s,
                            const whim_batch *batch, const float *rows, whim_out *out)
{
    const whim_chain_config *c = &chain->config;
    int64_t n_top = c->rank > 0 ? c->n_top : 1, n_out = batch->n_out, n_cand = n_out * n_top;
    float *values = whim_bump_rows(out->scratch, n_out, n_top);
    int32_t *ids = whim_bump_take(out->scratch, n_cand * (int64_t)sizeof *ids);
    float *before = whim_bump_rows(out->scratch, batch->n_row + n_cand, c->rank);
    float *after = whim_bump_rows(out->scratch, n_cand, c->rank);
    float *gate = c->by_hidden ? whim_bump_rows(out->scratch, n_out, c->rank) : NULL;
    WHIM_TRY(whim_head_best(head, s, rows, n_out, n_top, out->scratch, values, ids));
    if (c->rank > 0) {
        WHIM_TRY(look_up(s, &chain->before, batch->tokens, batch->n_row, before));
        WHIM_TRY(look_up(s, &chain->before, ids, n_cand, before + batch->n_row * c->rank));
        WHIM_TRY(look_up(s, &chain->after, ids, n_cand, after));
    }
    if (c->by_hidden) {
        WHIM_TRY(whim_product(s, &chain->gate, rows, n_out, gate));
    }
    return whim_op_pick_chain(s, &(whim_pick_chain_args){.values = values,
                                                         .ids = ids,
                                                         .before = before,
                                                         .after = after,
                                                         .gate = gate,
                                                         .z = c->sure ? rows : NULL,
                                                         .sure_w = chain->sure_w,
                                                         .sure_bias = chain->sure_bias,
                                                         .rows = batch->out_rows,
                                                         .q_start = batch->q_start,
                                                         .tokens = out->top_ids,
                                                         .told = out->top_values,
                                                         .out_stride = out->n_top,
                                                         .n_row = n_out,
                                                         .n_src = batch->n_row,
                                                         .n_seq = batch->n_seq,
                                                         .k_top = n_top,
                                                         .rank = c->rank,
                                                         .n_hidden = head->embed.k,
                                                         .scale = c->scale,
                                                         .cap = c->cap,
                                                         .sure_of_pairs = c->sure_of_pairs});
}
