/* SPDX-License-Identifier: Apache-2.0 */
/* What config.json says about experts. */
#include "weights/config_json.h"

#include <stddef.h>

/* Layers of "mlp_only_layers" and those that "decoder_sparse_step" leaves out have an MLP. */
static whim_err parse_dense_layers(whim_config *config, const whim_json_scope *top)
{
    int64_t step = 1;
    const whim_json *list = NULL;
    WHIM_TRY(whim_json_get_int(top, "decoder_sparse_step", 1, WHIM_CONFIG_MAX_LAYER, &step));
    WHIM_TRY(whim_json_get_array(top, "mlp_only_layers", &list));
    for (int32_t l = 0; l < config->n_layer; l++) {
        if ((l + 1) % step != 0) {
            whim_config_set_dense(config, l);
        }
    }
    for (int64_t i = 0; list != NULL && i < whim_json_size(list); i++) {
        int64_t l = 0;
        if (!whim_json_as_int(whim_json_at(list, i), &l) || l < 0 || l >= config->n_layer) {
            return whim_fail(top->diag, WHIM_ERR_CORRUPT,
                             "%s: \"mlp_only_layers[%lld]\" is not a layer between 0 and %d",
                             top->path, (long long)i, config->n_layer - 1);
        }
        whim_config_set_dense(config, (int32_t)l);
    }
    return WHIM_ERR_OK;
}

whim_err whim_config_parse_moe(whim_config *config, const whim_moe_keys *keys,
                               const whim_json_scope *top)
{
    whim_moe_config *moe = &config->moe;
    moe->n_expert = keys->n_expert_default;
    moe->d_expert = keys->d_expert_default;
    moe->top_k = keys->top_k_default;
    moe->scale = 1.0f;
    /* transformers writes either name for the number. */
    WHIM_TRY(
        whim_json_get_int32(top, "num_local_experts", 1, WHIM_CONFIG_MAX_EXPERT, &moe->n_expert));
    WHIM_TRY(whim_json_get_int32(top, keys->n_expert, 1, WHIM_CONFIG_MAX_EXPERT, &moe->n_expert));
    WHIM_TRY(whim_json_get_int32(top, keys->d_expert, 1, WHIM_CONFIG_MAX_WIDTH, &moe->d_expert));
    WHIM_TRY(
        whim_json_get_int32(top, "num_experts_per_tok", 1, WHIM_CONFIG_MAX_TOP_K, &moe->top_k));
    moe->renormalize = keys->renormalize;
    if (!keys->uniform) {
        WHIM_TRY(whim_json_get_bool(top, "norm_topk_prob", &moe->renormalize));
        WHIM_TRY(parse_dense_layers(config, top));
    }
    if (keys->d_shared_default > 0) {
        moe->d_shared = keys->d_shared_default;
        WHIM_TRY(whim_json_get_int32(top, "shared_expert_intermediate_size", 0,
                                     WHIM_CONFIG_MAX_WIDTH, &moe->d_shared));
    }
    return WHIM_ERR_OK;
}
