/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that read config.json share. */
#ifndef WHIM_WEIGHTS_CONFIG_JSON_H
#define WHIM_WEIGHTS_CONFIG_JSON_H

#include "base/json.h"
#include "weights/config.h"

/* Fill config->rope from the top level of a config.json; d_head and max_ctx are set already, and so are the
 * theta and the rotary_dim that the architecture has by default. */
WHIM_MUST_CHECK whim_err whim_config_parse_rope(whim_config *config, const whim_json_scope *top);

/* The kinds of layers that an architecture may have beside full attention. */
typedef struct whim_layer_kinds {
    bool windows, deltas;
} whim_layer_kinds;

/* Fill config->window, ->windowed and ->gdn.layers; n_layer is set already. Kinds that the architecture has not are
 * refused. */
WHIM_MUST_CHECK whim_err whim_config_parse_layers(whim_config *config,
                                                  const whim_layer_kinds *kinds,
                                                  const whim_json_scope *top);

/* Fill the sizes in config->gdn. */
WHIM_MUST_CHECK whim_err whim_config_parse_gdn(whim_config *config, const whim_json_scope *top);

/* How a family of models describes its experts, and what the reference assumes where it does not. */
typedef struct whim_moe_keys {
    const char *n_expert; /* key of the number of experts */
    const char *d_expert; /* key of an expert's width */
    int32_t n_expert_default, d_expert_default;
    int32_t top_k_default, d_shared_default; /* d_shared 0: there is no shared expert */
    bool renormalize;                        /* where "norm_topk_prob" is missing */
    bool uniform; /* every layer has experts and their weights are divided, whatever keys say */
    bool minimax; /* sigmoid scores, a bias for the choice, rotary_dim; all layers have experts */
} whim_moe_keys;

extern const whim_moe_keys whim_moe_keys_qwen3, whim_moe_keys_qwen3_5, whim_moe_keys_qwen3_next,
    whim_moe_keys_minimax;

/* Fill config->moe; n_layer is set already. */
WHIM_MUST_CHECK whim_err whim_config_parse_moe(whim_config *config, const whim_moe_keys *keys,
                                               const whim_json_scope *top);

#endif
