/* SPDX-License-Identifier: Apache-2.0 */
/* The pre-norm decoder that Llama and its relatives are:
 *     x = embedding; per layer: x += mixer(norm(x)); x += mlp(norm(x)); logits = head(norm(x))
 * The mixer is grouped-query attention over paged KV with rotary positions, or a gated delta net (layers/gated_delta.h);
 * the MLP is a SwiGLU or experts (layers/moe.h). A model file says how its architecture differs (whim_decoder_traits);
 * the pass itself is here.
 * Threads: as the stream. */
#ifndef WHIM_LAYERS_DECODER_H
#define WHIM_LAYERS_DECODER_H

#include "base/arena.h"
#include "device/device.h"
#include "layers/batch.h"
#include "layers/gated_delta.h"
#include "layers/moe.h"
#include "weights/bind.h"
#include "weights/config.h"

#include <stdbool.h>

/* What is normalised of q and k before they are rotated. */
typedef enum whim_qk_norm {
    WHIM_QK_NORM_NONE,
    WHIM_QK_NORM_HEADS, /* each head, with one weight for all: [d_head] */
    WHIM_QK_NORM_WHOLE, /* all heads together: [n_head * d_head] and [n_kv * d_head] */
} whim_qk_norm;

typedef struct whim_decoder_traits {
    whim_qk_norm qk_norm;
    bool gated; /* q_proj has a gate beside each head: attention's output times its sigmoid */
    bool norm_at_zero; /* weights of norms are stored as w - 1 */
    bool gdn_grouped;  /* gated delta nets have the fused projections of Qwen3-Next */
} whim_decoder_traits;

/* y = x w^T (+ bias) */
typedef struct whim_projection {
    whim_weight w;
    const float *bias; /* [n], or NULL */
} whim_projection;

typedef struct whim_decoder_layer {
    const float *attn_norm;   /* [d_model] */
    whim_gated_delta *delta;  /* the mixer in place of attention, or NULL */
    int32_t index;            /* of its kind: layers with keys, or with states */
    whim_projection q;        /* [n_head * d_head, d_model]; gated: [2 n_head * d_head, d_model] */
    whim_projection k, v;     /* [n_kv * d_head, d_model] */
    whim_projection o;        /* [d_model, n_head * d_head] */
    const float *q_norm;      /* as whim_qk_norm says, or NULL */
    const float *k_norm;      /* the same */
    const float *mlp_norm;    /* [d_model] */
    whim_moe *moe;            /* experts, or NULL: an MLP of */
    whim_projection gate, up; /* [d_ff, d_model] */
    whim_projection down;     /* [d_model, d_ff] */
} whim_decoder_layer;

typedef struct whim_decoder {
    whim_config config;
    whim_decoder_traits traits;
    bool has_mlp;      /* some layer has one */
    whim_weight embed; /* [n_vocab, d_model] */
    whim_weight head;  /* [n_vocab, d_model]; unused when tied */
    const float *final_norm;
    const void *rope_freqs; /* double [rotary_dim / 2] */
    double rope_scale;
    whim_decoder_layer *layers; /* [n_layer] */
} whim_decoder;

/* Make a decoder in `arena` and declare its tensors under their Hugging Face names. */
WHIM_MUST_CHECK whim_err whim_decoder_bind(const whim_config *config,
                                           const whim_decoder_traits *traits, whim_arena *arena,
                                           whim_binder *binder, whim_decoder **out,
                                           whim_diag *diag);

/* Queue one pass. */
WHIM_MUST_CHECK whim_err whim_decoder_forward(const whim_decoder *dec, whim_stream *s,
                                              const whim_batch *batch, whim_out *out);

#endif
