/* SPDX-License-Identifier: Apache-2.0 */
/* Mistral (7B, NeMo, Small to 3): as Llama, without biases. The first version attends to windows of
 * 4096 positions in all layers; the files of later ones say null. GGUF files call it "llama". */
#include "models/decoder_model.h"

static const whim_arch_defaults defaults = {.n_vocab = 32000,
                                            .d_model = 4096,
                                            .d_ff = 14336,
                                            .n_layer = 32,
                                            .n_head = 32,
                                            .n_kv = 8,
                                            .max_ctx = 131072,
                                            .eos = 2,
                                            .has_windows = true,
                                            .windows_all = true,
                                            .theta = 1e4};
static const whim_arch_class classes[] = {{"MistralForCausalLM", "mistral", &defaults}, {0}};

static const whim_shape_family v3 = {.n_vocab = 32768,
                                     .max_ctx = 32768,
                                     .theta = 1e6,
                                     .rms_eps = 1e-5f,
                                     .eos = {2},
                                     .n_eos = 1,
                                     .dtype = WHIM_DTYPE_BF16};
static const whim_shape shapes[] = {{"mistral-7b", &v3, 32, 4096, 32, 8, 128, 14336, false}, {0}};

extern const whim_model_def whim_model_mistral;
const whim_model_def whim_model_mistral = {
    .arch = {.name = "mistral", .classes = classes, .shapes = shapes},
    .configure = whim_decoder_model_rotates_all,
    WHIM_DECODER_MODEL,
};
