/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that read config.json share. */
#ifndef WHIM_WEIGHTS_CONFIG_JSON_H
#define WHIM_WEIGHTS_CONFIG_JSON_H

#include "base/json.h"
#include "weights/config.h"

/* Fill config->rope from the top level of a config.json; d_head and max_ctx are set already. */
WHIM_MUST_CHECK whim_err whim_config_parse_rope(whim_config *config, const whim_json_scope *top);

/* Fill config->gdn; n_layer is set already. */
WHIM_MUST_CHECK whim_err whim_config_parse_gdn(whim_config *config, const whim_json_scope *top);

#endif
