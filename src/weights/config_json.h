/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that read config.json share. */
#ifndef WHIM_WEIGHTS_CONFIG_JSON_H
#define WHIM_WEIGHTS_CONFIG_JSON_H

#include "weights/arch.h"

/* Add the ids of "eos_token_id", one or a list of them; n_vocab is set already. */
WHIM_MUST_CHECK whim_err whim_config_parse_eos(whim_config *config, const whim_json_scope *top);

/* Fill config->rope from the top level of a config.json; d_head and max_ctx are set already, and so
 * are the theta and the rotary_dim that the architecture has by default. */
WHIM_MUST_CHECK whim_err whim_config_parse_rope(whim_config *config, const whim_json_scope *top);

/* The kinds of layers that an architecture may have beside full attention. */
typedef struct whim_layer_kinds {
    bool windows, deltas;
    bool by_type; /* "layer_types" alone says which have windows */
    bool all;     /* all have, unless "sliding_window" is null */
} whim_layer_kinds;

/* Fill config->window, ->windowed and ->gdn.layers; n_layer is set already. Kinds that the
 * architecture does not have are refused. */
WHIM_MUST_CHECK whim_err whim_config_parse_layers(whim_config *config,
                                                  const whim_layer_kinds *kinds,
                                                  const whim_json_scope *top);

/* Fill the sizes in config->gdn. */
WHIM_MUST_CHECK whim_err whim_config_parse_gdn(whim_config *config, const whim_json_scope *top);

/* Fill config->moe; n_layer is set already. */
WHIM_MUST_CHECK whim_err whim_config_parse_moe(whim_config *config, const whim_moe_keys *keys,
                                               const whim_json_scope *top);

#endif
