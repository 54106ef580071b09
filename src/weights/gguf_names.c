/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF tensor names to canonical ones and back, for all architectures. */
#include "weights/gguf_read.h"

#include <stdio.h>
#include <string.h>

typedef struct name_pair {
    const char *gguf;
    const char *canonical;
} name_pair;

static const name_pair global_names[] = {
    {"token_embd", "embed_tokens"},
    {"output_norm", "norm"},
    {"output", "lm_head"},
};

/* After "blk.N." and "layers.N.". */
static const name_pair layer_names[] = {
    {"attn_norm", "input_layernorm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_qkv", "self_attn.qkv_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.experts.gate_proj"},
    {"ffn_up_exps", "mlp.experts.up_proj"},
    {"ffn_down_exps", "mlp.experts.down_proj"},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
};

/* The same for names whose ending is another in the two worlds. */
static const name_pair whole_names[] = {
    {"exp_probs_b.bias", "mlp.e_score_correction_bias"},
    {"ffn_gate_up_exps.weight", "mlp.experts.gate_up_proj"},
};
enum { N_WHOLE = sizeof whole_names / sizeof whole_names[0] };

/* The pair of a stem of `n` bytes, or NULL. */
static const name_pair *find_pair(const name_pair *pairs, size_t n_pair, const char *stem, size_t n)
{
    for (size_t i = 0; i < n_pair; i++) {
        if (strlen(pairs[i].gguf) == n && memcmp(pairs[i].gguf, stem, n) == 0) {
            return &pairs[i];
        }
    }
    return NULL;
}

/* Skip "blk.N." with a plain decimal N of up to four digits; 0 when it is not that. */
static size_t layer_prefix(const char *name, int *layer)
{
    if (strncmp(name, "blk.", 4) != 0) {
        return 0;
    }
    size_t at = 4;
    *layer = 0;
    while (name[at] >= '0' && name[at] <= '9' && at < 8) {
        *layer = *layer * 10 + (name[at++] - '0');
    }
    bool has_number = at > 4 && !(name[4] == '0' && at > 5);
    return has_number && name[at] == '.' ? at + 1 : 0;
}

bool whim_gguf_canonical_name(const char *name, char out[WHIM_GGUF_NAME_MAX], whim_gguf_name *kind)
{
    *kind = WHIM_GGUF_NAME_PLAIN;
    const char *suffix = strrchr(name, '.');
    if (suffix == NULL || (strcmp(suffix, ".weight") != 0 && strcmp(suffix, ".bias") != 0)) {
        return false;
    }
    int layer = -1;
    size_t skip = layer_prefix(name, &layer);
    if (skip == 0) {
        const name_pair *pair =
            find_pair(global_names, sizeof global_names / sizeof global_names[0], name,
                      (size_t)(suffix - name));
        if (pair == NULL) {
            return false;
        }
        snprintf(out, WHIM_GGUF_NAME_MAX, "%s%s", pair->canonical, suffix);
        return true;
    }
    const char *stem = name + skip;
    if (suffix < stem) {
        return false;
    }
    const name_pair *whole = find_pair(whole_names, N_WHOLE, stem, strlen(stem));
    if (whole != NULL) {
        snprintf(out, WHIM_GGUF_NAME_MAX, "layers.%d.%s", layer, whole->canonical);
        return true;
    }
    const name_pair *pair = find_pair(layer_names, sizeof layer_names / sizeof layer_names[0], stem,
                                      (size_t)(suffix - stem));
    if (pair == NULL) {
        return false;
    }
    if (strcmp(pair->gguf, "attn_qkv") == 0) {
        *kind = WHIM_GGUF_NAME_QKV;
    }
    snprintf(out, WHIM_GGUF_NAME_MAX, "layers.%d.%s%s", layer, pair->canonical, suffix);
    return true;
}

bool whim_gguf_file_name(const char *canonical, char out[WHIM_GGUF_NAME_MAX])
{
    const char *suffix = strrchr(canonical, '.');
    int layer = -1, used = 0;
    bool in_layer = sscanf(canonical, "layers.%d.%n", &layer, &used) == 1 && used > 0;
    const name_pair *pairs = in_layer ? layer_names : global_names;
    size_t n_pair = in_layer ? sizeof layer_names / sizeof layer_names[0]
                             : sizeof global_names / sizeof global_names[0];
    const char *stem = canonical + used;
    for (size_t i = 0; i < N_WHOLE && in_layer; i++) {
        if (strcmp(stem, whole_names[i].canonical) == 0) {
            snprintf(out, WHIM_GGUF_NAME_MAX, "blk.%d.%s", layer, whole_names[i].gguf);
            return true;
        }
    }
    if (suffix == NULL || suffix < stem) {
        return false;
    }
    for (size_t i = 0; i < n_pair; i++) {
        size_t n = strlen(pairs[i].canonical);
        if ((size_t)(suffix - stem) == n && memcmp(pairs[i].canonical, stem, n) == 0) {
            if (in_layer) {
                snprintf(out, WHIM_GGUF_NAME_MAX, "blk.%d.%s%s", layer, pairs[i].gguf, suffix);
            } else {
                snprintf(out, WHIM_GGUF_NAME_MAX, "%s%s", pairs[i].gguf, suffix);
            }
            return true;
        }
    }
    return false;
}
