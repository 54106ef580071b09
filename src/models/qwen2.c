/* SPDX-License-Identifier: Apache-2.0 */
/* Qwen2, Qwen2.5 and Qwen2.5-Coder: as Llama, but q, k and v always have biases, and o never has
 * one; no key says so. GGUF files do not pair the rows of q and k. */
#include "models/decoder_model.h"

static const whim_arch_defaults defaults = {.n_vocab = 151936,
                                            .d_model = 4096,
                                            .d_ff = 22016,
                                            .n_layer = 32,
                                            .n_head = 32,
                                            .n_kv = 32,
                                            .max_ctx = 32768,
                                            .eos = -1,
                                            .has_windows = true,
                                            .theta = 1e4};
static const whim_arch_class classes[] = {{"Qwen2ForCausalLM", "qwen2", &defaults}, {0}};

static const whim_gguf_arch gguf[] = {{.name = "qwen2"}, {0}};

#define FAMILY                                                                             \
    .max_ctx = 32768, .theta = 1e6, .rms_eps = 1e-6f, .eos = {151645, 151643}, .n_eos = 2, \
    .dtype = WHIM_DTYPE_BF16
static const whim_shape_family small = {FAMILY, .n_vocab = 151936};
static const whim_shape_family large = {FAMILY, .n_vocab = 152064};
static const whim_shape shapes[] = {
    {"qwen2.5-0.5b", &small, 24, 896, 14, 2, 64, 4864, true},
    {"qwen2.5-1.5b", &small, 28, 1536, 12, 2, 128, 8960, true},
    {"qwen2.5-3b", &small, 36, 2048, 16, 2, 128, 11008, true},
    {"qwen2.5-7b", &large, 28, 3584, 28, 4, 128, 18944, false},
    {0},
};

extern const whim_model_def whim_model_qwen2;
const whim_model_def whim_model_qwen2 = {
    .arch = {.name = "qwen2", .classes = classes, .gguf = gguf, .shapes = shapes, .qkv_bias = true},
    .configure = whim_decoder_model_rotates_all,
    WHIM_DECODER_MODEL,
};
