/* SPDX-License-Identifier: Apache-2.0 */
/* Qwen3 (dense): as Llama, but each head of the queries and keys is normalised over its d_head
 * values, with a weight of its own, before it is rotated. d_head is a number of the configuration,
 * not d_model / n_head. */
#include "models/decoder_model.h"

static const whim_arch_defaults defaults = {.n_vocab = 151936,
                                            .d_model = 4096,
                                            .d_ff = 22016,
                                            .n_layer = 32,
                                            .n_head = 32,
                                            .n_kv = 32,
                                            .d_head = 128,
                                            .max_ctx = 32768,
                                            .eos = -1,
                                            .has_windows = true,
                                            .theta = 1e4};
static const whim_arch_class classes[] = {{"Qwen3ForCausalLM", "qwen3", &defaults}, {0}};

static const whim_gguf_arch gguf[] = {{.name = "qwen3"}, {0}};

static const whim_shape_family family = {.n_vocab = 151936,
                                         .max_ctx = 40960,
                                         .theta = 1e6,
                                         .rms_eps = 1e-6f,
                                         .eos = {151645, 151643},
                                         .n_eos = 2,
                                         .dtype = WHIM_DTYPE_BF16};
static const whim_shape shapes[] = {
    {"qwen3-0.6b", &family, 28, 1024, 16, 8, 128, 3072, true},
    {"qwen3-1.7b", &family, 28, 2048, 16, 8, 128, 6144, true},
    {"qwen3-4b", &family, 36, 2560, 32, 8, 128, 9728, true},
    {"qwen3-8b", &family, 36, 4096, 32, 8, 128, 12288, false},
    {"qwen3-32b", &family, 64, 5120, 64, 8, 128, 25600, false},
    {0},
};

extern const whim_model_def whim_model_qwen3;
const whim_model_def whim_model_qwen3 = {
    .arch = {.name = "qwen3", .classes = classes, .gguf = gguf, .shapes = shapes},
    .traits = {.qk_norm = WHIM_QK_NORM_HEADS},
    .configure = whim_decoder_model_rotates_all,
    WHIM_DECODER_MODEL,
};
