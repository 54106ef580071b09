/* SPDX-License-Identifier: Apache-2.0 */
/* What a model is: the numbers of config.json or of GGUF metadata in one form, range-checked once.
 * A field that the format leaves out holds the default that the reference implementation uses.
 * Threads: plain data. */
#ifndef WHIM_WEIGHTS_CONFIG_H
#define WHIM_WEIGHTS_CONFIG_H

#include "base/err.h"
#include "tensor/dtype.h"

#include <stdbool.h>
#include <stdint.h>

enum { WHIM_CONFIG_MAX_EOS = 32 };

/* Limits on outside numbers: far above any real model, low enough that products fit in int64_t and
 * a width (heads times head size, too) fits in int32_t. */
enum {
    WHIM_CONFIG_MAX_LAYER = 1024,
    WHIM_CONFIG_MAX_WIDTH = 1 << 20,
    WHIM_CONFIG_MAX_HEAD = 65536,
    WHIM_CONFIG_MAX_HEAD_DIM = 8192,
    WHIM_CONFIG_MAX_VOCAB = 1 << 24,
    WHIM_CONFIG_MAX_GDN_DIM = 1024, /* of a key or value head of a gated delta net, as the op */
    WHIM_CONFIG_MAX_TAP = 16,
    WHIM_CONFIG_MAX_EXPERT = 4096,
    WHIM_CONFIG_MAX_TOP_K = 64,
};

typedef enum whim_rope_kind {
    WHIM_ROPE_DEFAULT,
    WHIM_ROPE_LINEAR,
    WHIM_ROPE_LLAMA3,
    WHIM_ROPE_YARN,
} whim_rope_kind;

typedef struct whim_rope_config {
    whim_rope_kind kind;
    int32_t rotary_dim; /* rotated dimensions of a head, even, <= d_head */
    double theta;
    double factor;
    double orig_ctx;    /* original_max_position_embeddings */
    double low_freq;    /* llama3 */
    double high_freq;   /* llama3 */
    double beta_fast;   /* yarn, default 32 */
    double beta_slow;   /* yarn, default 1 */
    double attn_factor; /* yarn: multiplies cos and sin; 0.1 ln(factor) + 1 unless the file says */
    const float *divisors; /* [rotary_dim / 2] of rope_freqs.weight, or NULL */
    bool truncate;         /* yarn: round the ramp's ends to whole dimensions, default true */
} whim_rope_config;

/* Layers whose mixer is a gated delta net instead of attention. */
typedef struct whim_gdn_config {
    int32_t n_key, n_value; /* heads; 0: no layer is of that kind */
    int32_t d_key, d_value; /* their sizes */
    int32_t n_tap;          /* of the convolution */
    /* How GGUF files differ from safetensors. */
    bool folded; /* norm weights are 1 + w, and -exp(A_log) is stored instead of A_log */
    bool tiled;  /* value head g * r + j lies at j * n_key + g, r = n_value / n_key */
    bool apart;  /* q k v and z are tensors of their own, only b and a lie by key head */
    uint8_t layers[WHIM_CONFIG_MAX_LAYER / 8]; /* bit l % 8 of byte l / 8: layer l is one */
} whim_gdn_config;

/* A mixture of experts instead of the MLP. */
typedef struct whim_moe_config {
    int32_t n_expert; /* 0: every layer has an MLP */
    int32_t top_k;
    int32_t d_expert; /* width of one expert */
    int32_t d_shared; /* width of the expert that every token passes, 0: none */
    bool sigmoid;     /* scores are sigmoids, else a softmax over all experts */
    bool choice_bias; /* a bias is added for the choice, and for nothing else */
    bool renormalize; /* the chosen scores are divided by their sum */
    float scale;      /* of the weights */
    uint8_t dense[WHIM_CONFIG_MAX_LAYER / 8]; /* bit l: layer l has an MLP all the same */
} whim_moe_config;

typedef struct whim_arch whim_arch;

/* How a draft chooses its tokens one after the other (draft/chain.h). */
enum { WHIM_CHAIN_MARKOV_TOP = 16 }; /* DSpark's: correcting more was found to change nothing */
typedef struct whim_chain_config {
    int32_t rank;  /* of the vectors by which a token says what may follow it; 0: it says nothing */
    int32_t n_top; /* candidates for a place */
    bool by_hidden;     /* a pair's score is weighed by the row's hidden state (DFlash2) */
    float scale, cap;   /* of logits; cap 0: none */
    bool sure;          /* it says how sure it is of each */
    bool sure_of_pairs; /* also by the token before */
} whim_chain_config;

/* A draft: a small model that proposes what another may say next (draft/draft.h). */
enum { WHIM_DRAFT_MAX_FEATURE = 16 };
typedef struct whim_draft_config {
    int32_t block;          /* rows of a pass: the last token, and masks; 0: it is no draft */
    bool anchor_first;      /* the row of the last token proposes, too */
    int32_t mask;           /* the token that stands for one that is not known */
    int32_t n_target_layer; /* layers of the model that it was made for; 0: it does not say */
    int32_t n_feature;
    int32_t features[WHIM_DRAFT_MAX_FEATURE]; /* layers of that model whose outputs it reads */
    int32_t n_token; /* tokens that it may propose (draft/tokens.c); 0: all, by the model's head */
    bool serial;     /* a pass proposes one token, and the next one continues from there */
    /* EAGLE3: */
    bool features_given;             /* false: the model's layers say which */
    int32_t d_target;                /* d_model of that model */
    bool norm_before_fc, norm_parts; /* all features are normalised together, or each by itself */
    bool norm_output;                /* a pass hands on its last norm's output */
    /* DFlash: */
    bool causal_given, causal; /* rows of a block see only those before them; not given: windows */
    whim_chain_config chain;
    int32_t conv_tap, conv_group; /* convolutions in its layers (layers/block_conv.h); 0: none */
    float embed_scale;            /* of the model's embeddings; 0: as they are */
} whim_draft_config;

/* Tokens that a pass proposes at most. */
static inline int32_t whim_draft_most(const whim_draft_config *draft)
{
    return draft->block - !draft->anchor_first;
}

typedef struct whim_config {
    const whim_arch *arch; /* weights/arch.h: one of those that the reader was given */
    int32_t n_layer;
    int32_t d_model;
    int32_t n_head;
    int32_t n_kv;
    int32_t d_head;
    int32_t d_ff;
    int32_t n_vocab;
    int64_t max_ctx; /* max_position_embeddings */
    float rms_eps;
    whim_rope_config rope;
    whim_gdn_config gdn;
    whim_moe_config moe;
    int32_t window; /* keys that a token sees in the layers below, its own included; 0: all */
    uint8_t windowed[WHIM_CONFIG_MAX_LAYER / 8]; /* bit l: layer l has the window */
    int32_t n_draft_layer; /* layers after the last whose tensors are left alone (MTP) */
    bool tied_head;        /* no lm_head tensor: the embedding is the head */
    bool qkv_bias, o_bias; /* q, k and v have biases; o has one */
    bool mlp_bias;         /* gate, up and down have biases */
    bool qk_paired;        /* GGUF llama: rows of q and k are adjacent pairs, un-permuted at load */
    whim_dtype dtype;      /* declared type of the weights; picks the default KV type */
    bool dtype_given;      /* false: the file is silent and whim_ckpt_open takes the weights' own */
    int32_t eos[WHIM_CONFIG_MAX_EOS];
    int32_t n_eos;
    whim_draft_config draft;
} whim_config;

/* Whether layer l is a gated delta net; how many are; and the rest, which have keys and values. */
static inline bool whim_config_is_gdn(const whim_config *config, int32_t l)
{
    return (config->gdn.layers[l / 8] >> (l % 8) & 1) != 0;
}
int32_t whim_config_n_gdn(const whim_config *config);
static inline int32_t whim_config_n_attn(const whim_config *config)
{
    return config->n_layer - whim_config_n_gdn(config);
}

static inline void whim_config_set_gdn(whim_config *config, int32_t l)
{
    config->gdn.layers[l / 8] |= (uint8_t)(1u << l % 8);
}

/* Every layer is a gated delta net but each `interval`-th. */
void whim_config_set_gdn_interval(whim_config *config, int64_t interval);

/* Whether layer l attends to a window only. */
static inline bool whim_config_is_windowed(const whim_config *config, int32_t l)
{
    return config->window > 0 && (config->windowed[l / 8] >> (l % 8) & 1) != 0;
}

static inline void whim_config_set_windowed(whim_config *config, int32_t l)
{
    config->windowed[l / 8] |= (uint8_t)(1u << l % 8);
}

/* Whether layer l has experts. */
static inline bool whim_config_has_experts(const whim_config *config, int32_t l)
{
    return config->moe.n_expert > 0 && (config->moe.dense[l / 8] >> l % 8 & 1) == 0;
}

static inline void whim_config_set_dense(whim_config *config, int32_t l)
{
    config->moe.dense[l / 8] |= (uint8_t)(1 << l % 8);
}

/* Add one end-of-sequence id unless it is there already; false when there is no room. */
bool whim_config_add_eos(whim_config *config, int32_t id);

/* What YaRN multiplies cos and sin by when the file does not say: 0.1 ln(factor) + 1. */
double whim_rope_yarn_scale(double factor, double mscale);

/* The checks that every source goes through: ranges, divisibility, overflow. */
WHIM_MUST_CHECK whim_err whim_config_check(const whim_config *config, const char *path,
                                           whim_diag *diag);

#endif
