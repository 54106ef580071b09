/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a model's layers: a row for each, with all in which it may differ from its
 * neighbours. The model's file makes it from the configuration; binding, the pass, the layout of KV
 * pages and of state slots follow it. Of several ranks each has a table of its own, in which counts
 * of heads and widths are those that it has itself.
 * Threads: plain data. */
#ifndef WHIM_LAYERS_LAYER_TABLE_H
#define WHIM_LAYERS_LAYER_TABLE_H

#include "base/arena.h"
#include "layers/ranks/own_cols.h"
#include "tensor/kv_type.h"
#include "weights/bind.h"
#include "weights/config.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum whim_mixer {
    WHIM_MIXER_ATTENTION,
    WHIM_MIXER_GATED_DELTA, /* layers/gated_delta.h, by whim_config.gdn */
} whim_mixer;

typedef enum whim_mlp_kind {
    WHIM_MLP_SWIGLU,
    WHIM_MLP_EXPERTS, /* layers/moe.h, by whim_config.moe */
} whim_mlp_kind;

/* What is normalised of q and k before they are rotated. */
typedef enum whim_qk_norm {
    WHIM_QK_NORM_NONE,
    WHIM_QK_NORM_HEADS, /* each head, with one weight for all: [d_head] */
    WHIM_QK_NORM_WHOLE, /* all heads together: [n_head * d_head] and [n_kv * d_head] */
} whim_qk_norm;

enum {
    WHIM_MAX_ROPE = 4, /* rotary tables of a model */
    WHIM_NO_ROPE = -1, /* a layer that rotates nothing */
};

/* Of which whole a rank's row is a part. */
typedef struct whim_layer_share {
    int32_t n_head, n_kv, d_ff; /* of the whole layer */
    whim_heads_part heads;
    whim_own_cols o; /* columns of attention's output projection */
    whim_part ff;
} whim_layer_share;

typedef struct whim_layer_row {
    whim_mixer mixer;
    /* attention; all 0 in other layers */
    int32_t n_head, n_kv, d_head;
    int32_t rope;   /* number in whim_layer_table.ropes, or WHIM_NO_ROPE */
    int32_t window; /* keys that a token sees, its own included; 0: all */
    int32_t first;  /* keys before this position are seen by nobody */
    int32_t d_in;   /* width of what q, k and v are made of; 0: d_model */
    bool both_ways; /* rows of a pass see those after them, too */
    whim_qk_norm qk_norm;
    bool gated; /* q_proj has a gate beside each head: attention's output times its sigmoid */
    bool qkv_bias, o_bias;
    int64_t state_at; /* a gated delta net's part of a state slot, in bytes from its start */
    whim_mlp_kind mlp;
    int32_t d_ff; /* of a SwiGLU */
    bool mlp_bias;
    int32_t conv_tap, conv_group; /* convolutions around mixer and MLP (block_conv.h); 0: none */
    whim_layer_share share;
} whim_layer_row;

typedef struct whim_layer_table {
    int32_t n_layer;
    whim_layer_row *rows; /* [n_layer] */
    int32_t n_rope;
    whim_rope_config ropes[WHIM_MAX_ROPE];
    int64_t slot_bytes;  /* a sequence's recurrent states; 0: no layer has one */
    whim_gdn_config gdn; /* heads of gated delta nets; those of this rank */
    int32_t n_rank, rank;
    bool whole_sums; /* no sum is split over them (layers/ranks/whole_rows.h) */
} whim_layer_table;

/* What an architecture's layers have in common, whatever the configuration says. */
typedef struct whim_layer_traits {
    whim_qk_norm qk_norm;
    bool gated;
    bool norm_at_zero; /* weights of norms are stored as w - 1 */
    bool gdn_grouped;  /* gated delta nets have the fused projections of Qwen3-Next */
} whim_layer_traits;

/* The table that configuration and traits give; a model whose layers differ in more edits its rows.
 * NO_MEMORY. */
WHIM_MUST_CHECK whim_err whim_layer_table_make(whim_layer_table *table, const whim_config *config,
                                               const whim_layer_traits *traits, whim_arena *arena);

/* The part of it that the binder's rank has (the whole, where that is alone), in place. Widths
 * follow the types of tensors, which the binder knows. NO_MEMORY. */
WHIM_MUST_CHECK whim_err whim_layer_table_cut(whim_layer_table *table, const whim_config *config,
                                              whim_binder *binder);

/* Bytes of what the recurrent layers keep of `n_row` rows (whim_batch.kept). */
int64_t whim_layer_table_kept_bytes(const whim_layer_table *table, int64_t n_row);

/* Bytes of a KV page with the keys and values of all layers. `offsets` [n_layer], unless NULL, gets
 * the place of each layer's part in it (0 where a layer has none). */
int64_t whim_layer_table_place(const whim_layer_table *table, whim_kv_type type, int32_t page_len,
                               int64_t *offsets);

#endif
