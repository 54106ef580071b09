/* SPDX-License-Identifier: Apache-2.0 */
/* Qwen3-MoE (30B-A3B, 235B-A22B): as Qwen3, with experts in place of the MLP of most layers. The
 * scores of all experts are a softmax; the top_k largest are chosen and, if norm_topk_prob says so,
 * divided by their sum. Layers of mlp_only_layers, and those that decoder_sparse_step leaves out,
 * keep an MLP. */
#include "models/decoder_model.h"

static const whim_moe_keys experts = {.n_expert = "num_experts",
                                      .d_expert = "moe_intermediate_size",
                                      .n_expert_default = 128,
                                      .d_expert_default = 768,
                                      .top_k_default = 8};
static const whim_arch_defaults defaults = {.n_vocab = 151936,
                                            .d_model = 2048,
                                            .d_ff = 6144,
                                            .n_layer = 24,
                                            .n_head = 32,
                                            .n_kv = 4,
                                            .max_ctx = 32768,
                                            .eos = -1,
                                            .theta = 1e4,
                                            .moe = &experts};
static const whim_arch_class classes[] = {{"Qwen3MoeForCausalLM", "qwen3_moe", &defaults}, {0}};

static const whim_gguf_arch gguf[] = {{.name = "qwen3moe", .experts = true}, {0}};

static const whim_shape_family family = {
    .n_vocab = 151936,
    .max_ctx = 40960,
    .theta = 1e6,
    .rms_eps = 1e-6f,
    .eos = {151645, 151643},
    .n_eos = 2,
    .dtype = WHIM_DTYPE_BF16,
    .moe = {.n_expert = 128, .top_k = 8, .renormalize = true, .scale = 1.0f}};
static const whim_shape shapes[] = {
    {"qwen3-30b-a3b", &family, 48, 2048, 32, 4, 128, 768, false},
    {"qwen3-235b-a22b", &family, 94, 4096, 64, 4, 128, 1536, false},
    {0},
};

static whim_err configure(const whim_config *config, whim_diag *diag)
{
    WHIM_TRY(whim_decoder_model_rotates_all(config, diag));
    if (config->moe.sigmoid || config->moe.choice_bias || config->moe.d_shared > 0) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "Qwen3-MoE chooses experts by softmax, without a bias and without a "
                         "shared expert; the file says otherwise");
    }
    return WHIM_ERR_OK;
}

extern const whim_model_def whim_model_qwen3_moe;
const whim_model_def whim_model_qwen3_moe = {
    .arch = {.name = "qwen3_moe", .classes = classes, .gguf = gguf, .shapes = shapes},
    .traits = {.qk_norm = WHIM_QK_NORM_HEADS},
    .configure = configure,
    WHIM_DECODER_MODEL,
};
