/* SPDX-License-Identifier: Apache-2.0 */
/* MiniMax-M2, M2.1, M2.5 and M2.7. What differs from Llama:
 *   attention  q and k are normalised over all their heads together, with a weight for each value,
 *   before the heads are
 *              rotated; only the first rotary_dim dimensions of a head are.
 *   experts    in every layer, no shared one. Scores are sigmoids; those with the largest score +
 *   correction bias are
 *              chosen, and weighted by their scores without it, divided by their sum.
 * Published weights are e4m3 codes with a scale for each 128 x 128 of them
 * (weights/quantised/assemble.h). */
#include "models/decoder_model.h"

#include <string.h>

/* --- config.json ------------------------------------------------------------------------------ */

static const whim_moe_keys experts = {.n_expert = "num_local_experts",
                                      .d_expert = "intermediate_size",
                                      .n_expert_default = 256,
                                      .d_expert_default = 1536,
                                      .top_k_default = 8,
                                      .renormalize = true,
                                      .uniform = true};
static const whim_arch_defaults defaults = {.n_vocab = 200064,
                                            .d_model = 3072,
                                            .d_ff = 1536,
                                            .n_layer = 62,
                                            .n_head = 48,
                                            .n_kv = 8,
                                            .d_head = 128,
                                            .max_ctx = 196608,
                                            .eos = 200020,
                                            .theta = 5e6,
                                            .rotary_key = "rotary_dim",
                                            .moe = &experts};
static const whim_arch_class classes[] = {
    {"MiniMaxM2ForCausalLM", "minimax_m2", &defaults, .old_type = "minimax"}, {0}};

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

/* Keys of the publisher's own code that would change results; "routed_scaling_factor" is obeyed.
 * Only their neutral values are known from files. The other families' references have no such
 * keys. */
static whim_err check_keys(const whim_json_scope *top)
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

static whim_err parse_keys(whim_config *config, const whim_json_scope *top)
{
    bool qk_norm = true;
    int64_t shared = 0;
    double scale = 1;
    config->moe.sigmoid = config->moe.choice_bias = true;
    WHIM_TRY(expect_text(top, "scoring_func", "sigmoid"));
    WHIM_TRY(expect_text(top, "qk_norm_type", "per_layer"));
    WHIM_TRY(check_attention_list(top));
    WHIM_TRY(check_keys(top));
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

/* --- the rest --------------------------------------------------------------------------------- */

static const whim_gguf_arch gguf[] = {
    {.name = "minimax-m2", .experts = true, .sigmoid = true, .choice_bias = true}, {0}};

static const whim_spelling safetensors_names[] = {{".block_sparse_moe.", ".mlp."},
                                                  {".w1.", ".gate_proj."},
                                                  {".w3.", ".up_proj."},
                                                  {".w2.", ".down_proj."},
                                                  {0}};

static const whim_tool_words tools = {
    .name = "invoke",
    .form = WHIM_TOOLS_TAGGED,
    .mark = "<minimax:tool_call><invoke name=\"$\">",
    .thoughts_hold_tags = true,
    .open = "<minimax:tool_call>",
    .close = "</minimax:tool_call>",
    .function = "<invoke name=",
    .function_end = "</invoke>",
    .parameter = "<parameter name=",
    .parameter_end = "</parameter>",
    .value_ends = {NULL, "</parameter>", "\n<parameter name=", "\n</invoke>",
                   "\n</minimax:tool_call>"},
    .written = {.call = "<minimax:tool_call>\n",
                .call_end = "</minimax:tool_call>",
                .around_all = true,
                .between = "",
                .function = "<invoke name=\"",
                .function_close = "\">\n",
                .function_end = "</invoke>\n",
                .key = "<parameter name=\"",
                .key_close = "\">",
                .value_end = "</parameter>",
                .after = "\n"},
};
static const whim_pre_alias pre[] = {{"minimax-m2", "gpt-4o"}, {0}};

static const whim_shape_family family = {.n_vocab = 200064,
                                         .max_ctx = 196608,
                                         .theta = 5e6,
                                         .rms_eps = 1e-6f,
                                         .eos = {200020},
                                         .n_eos = 1,
                                         .dtype = WHIM_DTYPE_FP8,
                                         .rotary_dim = 64,
                                         .moe = {.n_expert = 256,
                                                 .top_k = 8,
                                                 .sigmoid = true,
                                                 .choice_bias = true,
                                                 .renormalize = true,
                                                 .scale = 1.0f}};
static const whim_shape shapes[] = {{"minimax-m2", &family, 62, 3072, 48, 8, 128, 1536, false},
                                    {0}};

static whim_err configure(const whim_config *config, whim_diag *diag)
{
    if (!config->moe.sigmoid || config->moe.d_shared > 0) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "MiniMax-M2 scores experts by sigmoids and has no shared expert; the file "
                         "says otherwise");
    }
    return WHIM_ERR_OK;
}

extern const whim_model_def whim_model_minimax_m2;
const whim_model_def whim_model_minimax_m2 = {
    .arch = {.name = "minimax_m2",
             .classes = classes,
             .gguf = gguf,
             .shapes = shapes,
             .safetensors_names = safetensors_names,
             .parse = parse_keys},
    .traits = {.qk_norm = WHIM_QK_NORM_WHOLE},
    .tools = &tools,
    .pre = pre,
    .configure = configure,
    WHIM_DECODER_MODEL,
};
