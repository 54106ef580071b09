/* SPDX-License-Identifier: Apache-2.0 */
/* The two ends of a decoder: tokens to rows, and rows to logits, logits = head(norm(x)).
 * Threads: as the stream. */
#ifndef WHIM_LAYERS_HEAD_H
#define WHIM_LAYERS_HEAD_H

#include "layers/batch.h"
#include "layers/projection.h"
#include "weights/config.h"

/* The rows of an embedding or a head that a rank has, and how many the others have. */
typedef struct whim_vocab_part {
    whim_part own;
    int32_t n_rank, rank;
    const int64_t *cols; /* [n_rank] logits of each rank */
    const int64_t *tops; /* [WHIM_TOPK_MAX + 1, n_rank] k of each, in row k */
} whim_vocab_part;

typedef struct whim_head {
    whim_weight embed;                             /* [n_vocab, d_model] */
    whim_weight head;                              /* [n_vocab, d_model]; unused when tied */
    bool tied;                                     /* the embedding is the head */
    const float *norm;                             /* [d_model] */
    const whim_vocab_part *embed_part, *head_part; /* they have these rows only; NULL: all */
} whim_head;

/* The part of n rows that the binder's rank has; NULL where it is alone. */
const whim_vocab_part *whim_vocab_part_make(int64_t n, whim_binder *binder);

/* Declare the embedding, before the layers; then what comes after them. Where the model is cut,
 * rows of both are: an embedding is as large as a head, and is the head in many models. */
void whim_head_bind_embed(whim_head *h, const whim_config *config, whim_binder *binder);
void whim_head_bind_rest(whim_head *h, const whim_config *config, bool at_zero,
                         whim_binder *binder);

/* x = embedding of the tokens, [n_row, d_model], of a head with all rows */
WHIM_MUST_CHECK whim_err whim_head_embed(const whim_head *h, whim_stream *s,
                                         const whim_batch *batch, float *x);

/* The same of any: a token's row is that of one rank and zeros elsewhere, which all add up. */
WHIM_MUST_CHECK whim_err whim_head_embed_part(const whim_head *h, whim_stream *s,
                                              const whim_batch *batch, whim_bump *bump, float *x);

/* The rows of x that the batch asks for, normalised: [n_out, d_model] in `bump`. */
WHIM_MUST_CHECK whim_err whim_head_rows(const whim_head *h, float eps, whim_stream *s,
                                        const whim_batch *batch, const float *x, whim_bump *bump,
                                        float **rows);

/* The matrix that gives logits. */
static inline const whim_weight *whim_head_weight(const whim_head *h)
{
    return h->tied ? &h->embed : &h->head;
}

/* The n_top best logits of rows that are normalised [n_out, d_model], over all ranks. */
WHIM_MUST_CHECK whim_err whim_head_best(const whim_head *h, whim_stream *s, const float *rows,
                                        int64_t n_out, int64_t n_top, whim_bump *bump,
                                        float *values, int32_t *ids);

/* Logits of the rows of x that the batch asks for, or the best of them, into `out`. */
WHIM_MUST_CHECK whim_err whim_head_forward(const whim_head *h, float eps, whim_stream *s,
                                           const whim_batch *batch, const float *x, whim_out *out);

#endif
