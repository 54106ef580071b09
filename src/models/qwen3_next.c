/* SPDX-License-Identifier: Apache-2.0 */
/* Qwen3-Next: as Qwen3.5 with experts (models/qwen3_5.c), but the projections of its gated delta
 * nets are two, in which the parts of each key head lie together. */
#include "models/decoder_model.h"

static const whim_moe_keys experts = {.n_expert = "num_experts",
                                      .d_expert = "moe_intermediate_size",
                                      .n_expert_default = 512,
                                      .d_expert_default = 512,
                                      .top_k_default = 10,
                                      .d_shared_default = 512,
                                      .renormalize = true};
static const whim_arch_defaults defaults = {.n_vocab = 151936,
                                            .d_model = 2048,
                                            .d_ff = 5632,
                                            .n_layer = 48,
                                            .n_head = 16,
                                            .n_kv = 2,
                                            .d_head = 256,
                                            .max_ctx = 32768,
                                            .eos = -1,
                                            .theta = 1e4,
                                            .has_gdn = true,
                                            .quarter_rotated = true,
                                            .moe = &experts};
static const whim_arch_class classes[] = {{"Qwen3NextForCausalLM", "qwen3_next", &defaults}, {0}};

static const whim_gguf_arch gguf[] = {
    {.name = "qwen3next", .experts = true, .hybrid = true, .grouped = true}, {0}};
static const whim_spelling gguf_names[] = {{"post_attention_norm", "post_attention_layernorm"},
                                           {0}};

extern const whim_model_def whim_model_qwen3_next;
const whim_model_def whim_model_qwen3_next = {
    .arch = {.name = "qwen3_next", .classes = classes, .gguf = gguf, .gguf_names = gguf_names},
    .traits = {.qk_norm = WHIM_QK_NORM_HEADS,
               .gated = true,
               .norm_at_zero = true,
               .gdn_grouped = true},
    WHIM_DECODER_MODEL,
};
