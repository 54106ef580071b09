/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF tensor names to canonical ones and back: those that architectures share, after those of its
 * own (whim_arch.gguf_names). */
#include "weights/gguf/read.h"

#include <stdio.h>
#include <string.h>

static const whim_spelling global_names[] = {
    {"token_embd", "embed_tokens"},
    {"output_norm", "norm"},
    {"output", "lm_head"},
};

/* After "blk.N." and "layers.N.". */
static const whim_spelling layer_names[] = {
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

/* The same of hybrids only, before the others. */
static const whim_spelling hybrid_names[] = {
    {"attn_gate", "linear_attn.in_proj_z"}, {"ssm_in", "linear_attn.in_proj_qkvz"},
    {"ssm_ba", "linear_attn.in_proj_ba"},   {"ssm_beta", "linear_attn.in_proj_b"},
    {"ssm_alpha", "linear_attn.in_proj_a"}, {"ssm_conv1d", "linear_attn.conv1d"},
    {"ssm_norm", "linear_attn.norm"},       {"ssm_out", "linear_attn.out_proj"},
};

/* And of their gated delta nets, where attn_qkv is not attention's. */
static const whim_spelling delta_names[] = {{"attn_qkv", "linear_attn.in_proj_qkv"}};

/* Names whose ending is another in the two worlds. */
static const whim_spelling whole_names[] = {
    {"exp_probs_b.bias", "mlp.e_score_correction_bias"},
    {"ffn_gate_up_exps.weight", "mlp.experts.gate_up_proj"},
    {"ssm_a", "linear_attn.A_log"},
    {"ssm_dt.bias", "linear_attn.dt_bias"},
};

#define PAIRS(list) list, sizeof list / sizeof list[0]

/* The tables for a layer, in the order of search. */
typedef struct name_table {
    const whim_spelling *pairs;
    size_t n;
} name_table;
enum { N_TABLE = 4 };

/* Pairs that an architecture has beside those of all. */
static name_table own_table(const whim_spelling *own)
{
    name_table table = {.pairs = own};
    while (own != NULL && own[table.n].published != NULL) {
        table.n++;
    }
    return table;
}

static void tables_of(const whim_config *config, int layer, name_table out[N_TABLE])
{
    bool hybrid = config->gdn.n_key > 0;
    bool delta = hybrid && layer < config->n_layer && whim_config_is_gdn(config, layer);
    out[0] = own_table(config->arch != NULL ? config->arch->gguf_names : NULL);
    out[1] = (name_table){PAIRS(delta_names)};
    out[2] = (name_table){PAIRS(hybrid_names)};
    out[3] = (name_table){PAIRS(layer_names)};
    out[1].n = delta ? out[1].n : 0;
    out[2].n = hybrid ? out[2].n : 0;
}

/* The pair one of whose spellings is the `n` bytes at `stem`, or NULL. */
static const whim_spelling *find_pair(name_table table, bool by_gguf, const char *stem, size_t n)
{
    for (size_t i = 0; i < table.n; i++) {
        const char *spelling = by_gguf ? table.pairs[i].published : table.pairs[i].canonical;
        if (strlen(spelling) == n && memcmp(spelling, stem, n) == 0) {
            return &table.pairs[i];
        }
    }
    return NULL;
}

static const whim_spelling *find_in_layer(const whim_config *config, int layer, bool by_gguf,
                                          const char *stem, size_t n)
{
    name_table tables[N_TABLE];
    const whim_spelling *pair = NULL;
    tables_of(config, layer, tables);
    for (int i = 0; i < N_TABLE && pair == NULL; i++) {
        pair = find_pair(tables[i], by_gguf, stem, n);
    }
    return pair;
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

/* A whole name: the architecture's own, then in layers one of all. */
static const whim_spelling *find_whole(const whim_config *config, bool by_gguf, bool in_layer,
                                       const char *name)
{
    const whim_spelling *own = config->arch != NULL ? config->arch->gguf_whole : NULL;
    const whim_spelling *pair = find_pair(own_table(own), by_gguf, name, strlen(name));
    return pair != NULL || !in_layer
               ? pair
               : find_pair((name_table){PAIRS(whole_names)}, by_gguf, name, strlen(name));
}

/* Names outside of layers. */
static bool global_name(bool by_gguf, const char *name, const char *suffix,
                        char out[WHIM_GGUF_NAME_MAX])
{
    const whim_spelling *pair =
        find_pair((name_table){PAIRS(global_names)}, by_gguf, name, (size_t)(suffix - name));
    if (pair != NULL) {
        snprintf(out, WHIM_GGUF_NAME_MAX, "%s%s", by_gguf ? pair->canonical : pair->published,
                 suffix);
    }
    return pair != NULL;
}

bool whim_gguf_canonical_name(const whim_config *config, const char *name,
                              char out[WHIM_GGUF_NAME_MAX], whim_gguf_name *kind)
{
    int layer = -1;
    size_t skip = layer_prefix(name, &layer);
    const char *stem = name + skip, *suffix = strrchr(stem, '.');
    *kind = WHIM_GGUF_NAME_PLAIN;
    if (skip > 0 && layer >= config->n_layer && layer < config->n_layer + config->n_draft_layer) {
        snprintf(out, WHIM_GGUF_NAME_MAX, "layers.%d.%.64s", layer, stem);
        return strlen(stem) <= 64;
    }
    const whim_spelling *whole = find_whole(config, true, skip > 0, stem);
    if (whole != NULL && skip == 0) {
        snprintf(out, WHIM_GGUF_NAME_MAX, "%s", whole->canonical);
        return true;
    }
    if (whole != NULL) {
        snprintf(out, WHIM_GGUF_NAME_MAX, "layers.%d.%s", layer, whole->canonical);
        return true;
    }
    if (suffix == NULL || (strcmp(suffix, ".weight") != 0 && strcmp(suffix, ".bias") != 0)) {
        return false;
    }
    if (skip == 0) {
        return global_name(true, name, suffix, out);
    }
    const whim_spelling *pair = find_in_layer(config, layer, true, stem, (size_t)(suffix - stem));
    if (pair == NULL) {
        return false;
    }
    if (strcmp(pair->canonical, "self_attn.qkv_proj") == 0) {
        *kind = WHIM_GGUF_NAME_QKV;
    }
    snprintf(out, WHIM_GGUF_NAME_MAX, "layers.%d.%s%s", layer, pair->canonical, suffix);
    return true;
}

bool whim_gguf_file_name(const whim_config *config, const char *canonical,
                         char out[WHIM_GGUF_NAME_MAX])
{
    int layer = -1, used = 0;
    bool in_layer = sscanf(canonical, "layers.%d.%n", &layer, &used) == 1 && used > 0;
    const char *stem = canonical + used, *suffix = strrchr(stem, '.');
    const whim_spelling *whole = find_whole(config, false, in_layer, stem);
    if (whole != NULL && !in_layer) {
        snprintf(out, WHIM_GGUF_NAME_MAX, "%s", whole->published);
        return true;
    }
    if (whole != NULL) {
        snprintf(out, WHIM_GGUF_NAME_MAX, "blk.%d.%s", layer, whole->published);
        return true;
    }
    if (suffix == NULL) {
        return false;
    }
    if (!in_layer) {
        return global_name(false, canonical, suffix, out);
    }
    const whim_spelling *pair = find_in_layer(config, layer, false, stem, (size_t)(suffix - stem));
    if (pair != NULL) {
        snprintf(out, WHIM_GGUF_NAME_MAX, "blk.%d.%s%s", layer, pair->published, suffix);
    }
    return pair != NULL;
}
