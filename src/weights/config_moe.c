/* SPDX-License-Identifier: Apache-2.0 */
/* What config.json says about experts: the Qwen family and MiniMax-M2. */
#include "weights/config_json.h"

#include <string.h>

const whim_moe_keys whim_moe_keys_qwen3 = {.n_expert = "num_experts",
                                           .d_expert = "moe_intermediate_size",
                                           .n_expert_default = 128,
                                           .d_expert_default = 768,
                                           .top_k_default = 8};
const whim_moe_keys whim_moe_keys_qwen3_5 = {.n_expert = "num_experts",
                                             .d_expert = "moe_intermediate_size",
                                             .n_expert_default = 256,
                                             .d_expert_default = 512,
                                             .top_k_default = 8,
                                             .d_shared_default = 512,
                                             .renormalize = true,
                                             .uniform = true};
const whim_moe_keys whim_moe_keys_qwen3_next = {.n_expert = "num_experts",
                                                .d_expert = "moe_intermediate_size",
                                                .n_expert_default = 512,
                                                .d_expert_default = 512,
                                                .top_k_default = 10,
                                                .d_shared_default = 512,
                                                .renormalize = true};
const whim_moe_keys whim_moe_keys_minimax = {.n_expert = "num_local_experts",
                                             .d_expert = "intermediate_size",
                                             .n_expert_default = 256,
                                             .d_expert_default = 1536,
                                             .top_k_default = 8,
                                             .minimax = true};

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
                             "%s: \"mlp_only_layers[%lld]\" is no layer between 0 and %d",
                             top->path, (long long)i, config->n_layer - 1);
        }
        whim_config_set_dense(config, (int32_t)l);
    }
    return WHIM_ERR_OK;
}

static whim_err expect_text(const whim_json_scope *top, const char *key, const char *wanted)
{
    const char *value = wanted;
    WHIM_TRY(whim_json_get_string(top, key, &value));
    return strcmp(value, wanted) == 0
               ? WHIM_ERR_OK
               : whim_fail(top->diag, WHIM_ERR_UNSUPPORTED,
                           "%s: \"%s\" is \"%.64s\"; only \"%s\" is supported", top->path, key,
                           value, wanted);
}

/* Every layer of "attn_type_list" is full attention, which is 1. */
static whim_err check_attention_list(const whim_json_scope *top)
{
    const whim_json *list = NULL;
    WHIM_TRY(whim_json_get_array(top, "attn_type_list", &list));
    for (int64_t i = 0; list != NULL && i < whim_json_size(list); i++) {
        int64_t type = 0;
        if (!whim_json_as_int(whim_json_at(list, i), &type) || type != 1) {
            return whim_fail(top->diag, WHIM_ERR_UNSUPPORTED,
                             "%s: \"attn_type_list[%lld]\" is not 1; only full attention is "
                             "supported",
                             top->path, (long long)i);
        }
    }
    return WHIM_ERR_OK;
}

/* Keys of the publisher's own code that would change results; "routed_scaling_factor" is obeyed. Only their neutral
 * values are known from files. The other families' references have no such keys. */
static whim_err check_minimax_keys(const whim_json_scope *top)
{
    static const struct {
        const char *key;
        double least, most; /* neutral values */
    } keys[] = {
        {"num_expert_group", -1, 1},
        {"n_group", -1, 1},
        {"sliding_window", -1, 0},
        {"attn_window_size", -1, 0},
        {"layernorm_full_attention_beta", 1, 1},
        {"layernorm_linear_attention_beta", 1, 1},
        {"layernorm_mlp_beta", 1, 1},
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        double value = keys[i].most;
        WHIM_TRY(whim_json_get_real(top, keys[i].key, -1e9, 1e9, &value));
        if (value < keys[i].least || value > keys[i].most) {
            return whim_fail(top->diag, WHIM_ERR_UNSUPPORTED,
                             "%s: \"%s\" is %g, which is not supported in MiniMax-M2 models",
                             top->path, keys[i].key, value);
        }
    }
    return WHIM_ERR_OK;
}

static whim_err parse_minimax(whim_config *config, const whim_json_scope *top)
{
    bool qk_norm = true;
    int64_t shared = 0;
    double scale = 1;
    config->moe.sigmoid = config->moe.choice_bias = config->moe.renormalize = true;
    WHIM_TRY(expect_text(top, "scoring_func", "sigmoid"));
    WHIM_TRY(expect_text(top, "qk_norm_type", "per_layer"));
    WHIM_TRY(check_attention_list(top));
    WHIM_TRY(check_minimax_keys(top));
    WHIM_TRY(whim_json_get_real(top, "routed_scaling_factor", 0, 1e6, &scale));
    config->moe.scale = (float)scale;
    WHIM_TRY(whim_json_get_bool(top, "use_routing_bias", &config->moe.choice_bias));
    WHIM_TRY(whim_json_get_bool(top, "use_qk_norm", &qk_norm));
    WHIM_TRY(whim_json_get_int(top, "shared_intermediate_size", 0, INT32_MAX, &shared));
    if (!qk_norm || shared != 0) {
        return whim_fail(top->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: \"%s\" is not what MiniMax-M2 models have; they normalise queries "
                         "and keys and have no shared expert",
                         top->path, qk_norm ? "shared_intermediate_size" : "use_qk_norm");
    }
    return whim_json_get_int32(top, "num_mtp_modules", 0, WHIM_CONFIG_MAX_LAYER,
                               &config->n_draft_layer);
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
    if (keys->minimax) {
        return parse_minimax(config, top);
    }
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
