/* SPDX-License-Identifier: Apache-2.0 */
/* The pre-norm decoder that Llama and its relatives are:
 *     x = embedding; per layer: x += mixer(norm(x)); x += mlp(norm(x)); logits = head(norm(x))
 * The mixer is attention or a gated delta net, the MLP a SwiGLU or experts; each is a file beside
 * this one. Which layer has what is the table (layers/layer_table.h); a model file makes it.
 * Threads: as the stream. */
#ifndef WHIM_LAYERS_DECODER_H
#define WHIM_LAYERS_DECODER_H

#include "layers/attention.h"
#include "layers/block_conv.h"
#include "layers/gated_delta.h"
#include "layers/head.h"
#include "layers/mlp.h"
#include "layers/moe.h"
#include "layers/ranks/meet.h"

typedef struct whim_decoder_layer {
    const float *mixer_norm; /* [d_model] */
    whim_attention attn;     /* one of the two, as the row says */
    whim_gated_delta *delta;
    const float *mlp_norm; /* [d_model] */
    whim_mlp mlp;          /* one of the two, as the row says */
    whim_moe *moe;
    whim_block_conv mixer_conv, mlp_conv; /* where the row has any */
} whim_decoder_layer;

typedef struct whim_decoder {
    whim_config config;     /* with the heads of gated delta nets that this rank has */
    whim_layer_table table; /* this rank's */
    bool gdn_grouped;       /* as whim_layer_traits, and the file has them so */
    whim_head head;
    const whim_deal *deal;   /* of its layers' experts, or NULL */
    const whim_meet *meet;   /* of groups whose MLPs are cut over all ranks, or NULL */
    const int64_t *x_cols;   /* for gathering rows of the residual stream, or NULL */
    const whim_head *lent;   /* embedding and head of the model that it drafts for; NULL: its own */
    bool owns_head;          /* with `lent`: but its head is its own */
    bool scaled;             /* embeddings are multiplied by */
    const void *embed_scale; /* float [d_model] */
    whim_rotary rotary[WHIM_MAX_ROPE]; /* [table.n_rope] */
    whim_decoder_layer *layers;        /* [n_layer] */
} whim_decoder;

/* Make a decoder in `arena` and declare its tensors under their Hugging Face names, or what the
 * binder's rank has of them. The table's rows are in `arena`, too, and become those of the rank.
 * `lent`: ends that it borrows, NULL: it has its own. */
WHIM_MUST_CHECK whim_err whim_decoder_bind(const whim_config *config,
                                           const whim_layer_traits *traits,
                                           const whim_layer_table *table, const whim_head *lent,
                                           whim_arena *arena, whim_binder *binder,
                                           whim_decoder **out, whim_diag *diag);

/* Queue the part of a pass by which recurrent states continue, of rows that one before has kept. */
WHIM_MUST_CHECK whim_err whim_decoder_advance(const whim_decoder *dec, whim_stream *s,
                                              const whim_batch *batch, whim_bump *scratch);

/* Queue one pass up to its head: the residual stream after the last layer, [n_row, d_model]. */
WHIM_MUST_CHECK whim_err whim_decoder_run(const whim_decoder *dec, whim_stream *s,
                                          const whim_batch *batch, whim_out *out, float **x);

/* Its ends: its own, or those of the model that it drafts for. */
whim_head whim_decoder_ends(const whim_decoder *dec);

/* A draft's layers are whole on every rank of its model, but a head of its own is cut as the
 * model's is: what is to be declared of one of n rows, for the rank of `binder`, the model's. */
whim_param whim_decoder_own_head(whim_decoder *dec, int64_t n, whim_binder *binder);

/* Queue one pass. */
WHIM_MUST_CHECK whim_err whim_decoder_forward(const whim_decoder *dec, whim_stream *s,
                                              const whim_batch *batch, whim_out *out);

#endif
