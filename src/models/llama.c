/* SPDX-License-Identifier: Apache-2.0 */
/* Llama (2, 3.x) and models of its layout such as SmolLM2: full rotary positions, optional biases,
 * no norm of queries and keys. GGUF files keep the rows of q and k as adjacent pairs; binding puts
 * them back (whim_config.qk_paired). */
#include "models/decoder_model.h"

static const whim_arch_defaults defaults = {.n_vocab = 32000,
                                            .d_model = 4096,
                                            .d_ff = 11008,
                                            .n_layer = 32,
                                            .n_head = 32,
                                            .max_ctx = 2048,
                                            .eos = 2,
                                            .has_mlp_bias = true,
                                            .theta = 1e4};
/* The second is the name that the first uploads have, from before Transformers had the class. */
static const whim_arch_class classes[] = {
    {"LlamaForCausalLM", "llama", &defaults},
    {"LLaMAForCausalLM", "llama", &defaults},
    {0},
};

static const whim_gguf_arch gguf[] = {{.name = "llama", .qk_paired = true}, {0}};

/* Of Llama 3.1 to 3.3. The template asks for an answer that is the call and nothing else. */
static const whim_tool_words tools = {
    .name = "llama3",
    .form = WHIM_TOOLS_OBJECT,
    .mark = "{\"name\": \"$\", \"parameters\": {",
    .thoughts_hold_tags = true,
    .prefix = "<|python_tag|>",
    .written = {.call = "",
                .call_end = "",
                .around_all = true,
                .between = "; ",
                .function = "{\"name\": ",
                .function_close = ", \"parameters\": ",
                .function_end = "}"},
};

static const whim_shape_family smollm2 = {.n_vocab = 49152,
                                          .max_ctx = 8192,
                                          .theta = 1e5,
                                          .rms_eps = 1e-5f,
                                          .eos = {2, 0},
                                          .n_eos = 2,
                                          .dtype = WHIM_DTYPE_BF16};
static const whim_shape shapes[] = {{"smollm2-135m", &smollm2, 30, 576, 9, 3, 64, 1536, true}, {0}};

extern const whim_model_def whim_model_llama;
const whim_model_def whim_model_llama = {
    .arch = {.name = "llama", .classes = classes, .gguf = gguf, .shapes = shapes},
    .tools = &tools,
    .configure = whim_decoder_model_rotates_all,
    WHIM_DECODER_MODEL,
};
