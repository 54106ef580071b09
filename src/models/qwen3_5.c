/* SPDX-License-Identifier: Apache-2.0 */
/* Qwen3.5: three layers in four are gated delta nets (layers/gated_delta.h), every fourth attends
 * to everything. There each head of q and k is normalised, the first quarter of it is rotated, and
 * the output is multiplied by the sigmoid of a gate that q_proj holds beside each head. Weights of
 * norms are stored around 0, but for the one inside the gated delta net. Checkpoints are
 * multimodal: the text's tensors lie under model.language_model. */
#include "models/decoder_model.h"

static const whim_moe_keys experts = {.n_expert = "num_experts",
                                      .d_expert = "moe_intermediate_size",
                                      .n_expert_default = 256,
                                      .d_expert_default = 512,
                                      .top_k_default = 8,
                                      .d_shared_default = 512,
                                      .renormalize = true,
                                      .uniform = true};
static const whim_arch_defaults dense = {.n_vocab = 248320,
                                         .d_model = 4096,
                                         .d_ff = 12288,
                                         .n_layer = 32,
                                         .n_head = 16,
                                         .n_kv = 4,
                                         .d_head = 256,
                                         .max_ctx = 32768,
                                         .eos = -1,
                                         .theta = 1e4,
                                         .has_gdn = true,
                                         .quarter_rotated = true};
static const whim_arch_defaults mixture = {.n_vocab = 248320,
                                           .d_model = 2048,
                                           .d_ff = 5632,
                                           .n_layer = 40,
                                           .n_head = 16,
                                           .n_kv = 2,
                                           .d_head = 256,
                                           .max_ctx = 32768,
                                           .eos = -1,
                                           .theta = 1e4,
                                           .has_gdn = true,
                                           .quarter_rotated = true,
                                           .moe = &experts};
static const whim_arch_class classes[] = {
    {"Qwen3_5ForConditionalGeneration", "qwen3_5", &dense},
    {"Qwen3_5ForCausalLM", "qwen3_5_text", &dense},
    {"Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe", &mixture},
    {"Qwen3_5MoeForCausalLM", "qwen3_5_moe_text", &mixture},
    {0},
};

static const whim_gguf_arch gguf[] = {
    {.name = "qwen35", .hybrid = true, .tiled = true},
    {.name = "qwen35moe", .experts = true, .hybrid = true, .tiled = true},
    {0},
};
static const whim_spelling gguf_names[] = {{"post_attention_norm", "post_attention_layernorm"},
                                           {0}};

/* Qwen3-Coder's templates have them, too. */
static const whim_tool_words tools = {
    .name = "xml",
    .form = WHIM_TOOLS_TAGGED,
    .mark = "<tool_call><function=$><parameter=",
    .open = "<tool_call>",
    .close = "</tool_call>",
    .function = "<function=",
    .function_end = "</function>",
    .parameter = "<parameter=",
    .parameter_end = "</parameter>",
    .padded = true,
    .value_ends = {"\n</parameter>", "</parameter>", "\n<parameter=", "\n</function>",
                   "\n</tool_call>"},
    .written = {.call = "<tool_call>\n",
                .call_end = "</tool_call>",
                .between = "\n",
                .function = "<function=",
                .function_close = ">\n",
                .function_end = "</function>\n",
                .key = "<parameter=",
                .key_close = ">\n",
                .value_end = "\n</parameter>",
                .after = "\n"},
};

#define FAMILY                                                                                     \
    .n_vocab = 248320, .max_ctx = 262144, .theta = 1e7, .rms_eps = 1e-6f, .eos = {248046, 248044}, \
    .n_eos = 2, .dtype = WHIM_DTYPE_BF16, .rotary_dim = 64, .is_hybrid = true
static const whim_shape_family family = {FAMILY};
static const whim_shape_family family_35b = {
    FAMILY,
    .moe = {.n_expert = 256, .top_k = 8, .d_shared = 512, .renormalize = true, .scale = 1.0f}};
static const whim_shape_family family_397b = {
    FAMILY,
    .moe = {.n_expert = 512, .top_k = 10, .d_shared = 1024, .renormalize = true, .scale = 1.0f}};
static const whim_shape shapes[] = {
    {"qwen3.5-4b", &family, 32, 2560, 16, 4, 256, 9216, true, 32},
    {"qwen3.5-35b-a3b", &family_35b, 40, 2048, 16, 2, 256, 512, false, 32},
    {"qwen3.5-397b-a17b", &family_397b, 60, 4096, 32, 2, 256, 1024, false, 64},
    {0},
};

extern const whim_model_def whim_model_qwen3_5;
const whim_model_def whim_model_qwen3_5 = {
    .arch = {.name = "qwen3_5",
             .classes = classes,
             .gguf = gguf,
             .gguf_names = gguf_names,
             .shapes = shapes},
    .traits = {.qk_norm = WHIM_QK_NORM_HEADS, .gated = true, .norm_at_zero = true},
    .tools = &tools,
    WHIM_DECODER_MODEL,
};
