/* SPDX-License-Identifier: Apache-2.0 */
/* The gated delta net's part of config.json: sizes of its heads. */
#include "weights/config_json.h"

#include <string.h>

void whim_config_set_gdn_interval(whim_config *config, int64_t interval)
{
    for (int32_t l = 0; l < config->n_layer; l++) {
        if ((l + 1) % interval != 0) {
            whim_config_set_gdn(config, l);
        }
    }
}

int32_t whim_config_n_gdn(const whim_config *config)
{
    int32_t n = 0;
    for (int32_t l = 0; l < config->n_layer; l++) {
        n += whim_config_is_gdn(config, l);
    }
    return n;
}

whim_err whim_config_parse_gdn(whim_config *config, const whim_json_scope *top)
{
    static const struct {
        const char *key;
        int32_t fallback, max;
    } fields[] = {
        {"linear_num_key_heads", 16, WHIM_CONFIG_MAX_HEAD},
        {"linear_num_value_heads", 32, WHIM_CONFIG_MAX_HEAD},
        {"linear_key_head_dim", 128, WHIM_CONFIG_MAX_HEAD_DIM},
        {"linear_value_head_dim", 128, WHIM_CONFIG_MAX_HEAD_DIM},
        {"linear_conv_kernel_dim", 4, 1 << 16},
    };
    whim_gdn_config *gdn = &config->gdn;
    int32_t *const out[] = {&gdn->n_key, &gdn->n_value, &gdn->d_key, &gdn->d_value, &gdn->n_tap};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        *out[i] = fields[i].fallback;
        WHIM_TRY(whim_json_get_int32(top, fields[i].key, 1, fields[i].max, out[i]));
    }
    const char *gate = "swish";
    WHIM_TRY(whim_json_get_string(top, "output_gate_type", &gate));
    if (strcmp(gate, "swish") != 0 && strcmp(gate, "silu") != 0) {
        return whim_fail(top->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: \"%soutput_gate_type\" is \"%.64s\"; only \"swish\" is supported",
                         top->path, top->prefix, gate);
    }
    return WHIM_ERR_OK;
}
