/* SPDX-License-Identifier: Apache-2.0 */
/* What GGUF metadata says about experts and gated delta nets. */
#include "weights/gguf/read.h"

#include <stddef.h>

/* The chosen experts' weights are divided by their sum unless a key says no. */
whim_err whim_gguf_config_experts(const whim_gguf_source *s, whim_config *config)
{
    static const char *const required[] = {"expert_count", "expert_used_count",
                                           "expert_feed_forward_length"};
    enum { GATING_SOFTMAX = 1, GATING_SIGMOID = 2 };
    whim_moe_config *moe = &config->moe;
    int32_t gating = s->facts->sigmoid ? GATING_SIGMOID : GATING_SOFTMAX;
    double scale = 1.0;
    char name[WHIM_GGUF_KEY_MAX];
    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++) {
        WHIM_TRY(whim_gguf_source_require(s, required[i]));
    }
    WHIM_TRY(whim_gguf_source_i32(s, "expert_count", 1, WHIM_CONFIG_MAX_EXPERT, &moe->n_expert));
    WHIM_TRY(whim_gguf_source_i32(s, "expert_used_count", 1, WHIM_CONFIG_MAX_TOP_K, &moe->top_k));
    WHIM_TRY(whim_gguf_source_i32(s, "expert_feed_forward_length", 1, WHIM_CONFIG_MAX_WIDTH,
                                  &moe->d_expert));
    WHIM_TRY(
        whim_gguf_source_i32(s, "expert_gating_func", GATING_SOFTMAX, GATING_SIGMOID, &gating));
    WHIM_TRY(whim_gguf_source_real(s, "expert_weights_scale", 0.0, 1e6, &scale));
    moe->sigmoid = gating == GATING_SIGMOID;
    moe->choice_bias = s->facts->choice_bias;
    moe->renormalize = true;
    WHIM_TRY(whim_gguf_get_bool(s->gguf, whim_gguf_source_name(s, "expert_weights_norm", name),
                                &moe->renormalize, s->diag));
    moe->scale = scale == 0.0 ? 1.0f : (float)scale;
    if (s->facts->hybrid) {
        WHIM_TRY(whim_gguf_source_require(s, "expert_shared_feed_forward_length"));
        WHIM_TRY(whim_gguf_source_i32(s, "expert_shared_feed_forward_length", 1,
                                      WHIM_CONFIG_MAX_WIDTH, &moe->d_shared));
    }
    return WHIM_ERR_OK;
}

/* Which layers are gated delta nets: a list, or all but every n-th. */
static whim_err read_layers(const whim_gguf_source *s, whim_config *config)
{
    char name[WHIM_GGUF_KEY_MAX];
    int32_t interval = 4;
    int64_t value = 0, n = config->n_layer + config->n_draft_layer;
    const whim_gguf_key *key =
        whim_gguf_find_key(s->gguf, whim_gguf_source_name(s, "attention.recurrent_layers", name));
    if (key == NULL) {
        WHIM_TRY(whim_gguf_source_i32(s, "full_attention_interval", 1, WHIM_CONFIG_MAX_LAYER,
                                      &interval));
        whim_config_set_gdn_interval(config, interval);
        return WHIM_ERR_OK;
    }
    bool is_list = key->is_array && key->count == n;
    if (!is_list || (key->type != WHIM_GGUF_BOOL && !whim_gguf_type_is_int(key->type))) {
        return whim_fail(s->diag, WHIM_ERR_CORRUPT,
                         "%s: key \"%s\" is not a list of yes or no for each of %lld blocks",
                         s->gguf->path, name, (long long)n);
    }
    whim_gguf_iter iter = whim_gguf_iter_begin(s->gguf, key);
    for (int32_t l = 0; l < config->n_layer && whim_gguf_next_int(&iter, &value); l++) {
        if (value != 0) {
            whim_config_set_gdn(config, l);
        }
    }
    return WHIM_ERR_OK;
}

whim_err whim_gguf_config_gdn(const whim_gguf_source *s, whim_config *config)
{
    whim_gdn_config *gdn = &config->gdn;
    int32_t inner = 0;
    const struct {
        const char *key;
        int32_t max, *out;
    } fields[] = {
        {"ssm.group_count", WHIM_CONFIG_MAX_HEAD, &gdn->n_key},
        {"ssm.time_step_rank", WHIM_CONFIG_MAX_HEAD, &gdn->n_value},
        {"ssm.state_size", WHIM_CONFIG_MAX_HEAD_DIM, &gdn->d_key},
        {"ssm.inner_size", WHIM_CONFIG_MAX_WIDTH, &inner},
        {"ssm.conv_kernel", 1 << 16, &gdn->n_tap},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        WHIM_TRY(whim_gguf_source_require(s, fields[i].key));
        WHIM_TRY(whim_gguf_source_i32(s, fields[i].key, 1, fields[i].max, fields[i].out));
    }
    if (inner % gdn->n_value != 0) {
        return whim_fail(s->diag, WHIM_ERR_CORRUPT,
                         "%s: key \"%s.ssm.inner_size\" is %d, expected a multiple of "
                         "ssm.time_step_rank = %d",
                         s->gguf->path, s->arch, inner, gdn->n_value);
    }
    gdn->d_value = inner / gdn->n_value;
    gdn->folded = true;
    gdn->tiled = s->facts->tiled && gdn->n_value != gdn->n_key;
    return read_layers(s, config);
}
