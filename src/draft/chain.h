/* SPDX-License-Identifier: Apache-2.0 */
/* Proposals of a block one after the other: the rows of a pass do not know each other's tokens, so
 * the token before each place has a say in which of the head's best it becomes.
 *     score[c] = logit[c] + before[previous] . after[c]
 * DSpark calls it a Markov head, and may say how sure it is of each place, too. DFlash2 calls it a
 * selector, and weighs the product by a projection of the row's hidden state.
 * Threads: as the stream. */
#ifndef WHIM_DRAFT_CHAIN_H
#define WHIM_DRAFT_CHAIN_H

#include "layers/head.h"

typedef struct whim_chain {
    whim_chain_config config;
    whim_weight before, after; /* [n_vocab, rank] */
    whim_weight gate;          /* [rank, d_model], by_hidden only */
    const float *sure_w;       /* [d_model], with pairs [d_model + rank]; NULL: nobody asks */
    const float *sure_bias;    /* [1] */
} whim_chain;

/* Whether a draft has one at all. */
static inline bool whim_chain_is_any(const whim_chain_config *c)
{
    return c->rank > 0 || c->sure;
}

/* Declare its tensors. */
void whim_chain_bind(whim_chain *chain, const whim_config *draft, whim_binder *binder);

/* The tokens of all outputs in out->top_ids, and in out->top_values how sure it is of each, as the
 * logit of a chance (without `sure` the token's score). rows: [n_out, d_model], normalised. */
WHIM_MUST_CHECK whim_err whim_chain_forward(const whim_chain *chain, const whim_head *head,
                                            whim_stream *s, const whim_batch *batch,
                                            const float *rows, whim_out *out);

#endif
