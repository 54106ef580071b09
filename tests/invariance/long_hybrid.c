/* SPDX-License-Identifier: Apache-2.0 */
/* 70,000 tokens through a small hybrid model, in one step and in uneven chunks: the same bits. More
 * rows than 16 bits count, and a state that has seen them all. */
#include "invariance/invariance.h"

#include "support/tally.h"

enum { LENGTH = 70000, OUTS = 4, VOCAB = 32 };

static const char config[] =
    "{\"architectures\": [\"Qwen3_5ForCausalLM\"], \"model_type\": \"qwen3_5_text\", "
    "\"hidden_size\": 16, \"intermediate_size\": 16, \"num_hidden_layers\": 2, "
    "\"layer_types\": [\"linear_attention\", \"full_attention\"], \"num_attention_heads\": 1, "
    "\"num_key_value_heads\": 1, \"head_dim\": 4, \"linear_num_key_heads\": 1, "
    "\"linear_num_value_heads\": 2, \"linear_key_head_dim\": 8, \"linear_value_head_dim\": 8, "
    "\"max_position_embeddings\": 131072, \"vocab_size\": 32, \"dtype\": \"float32\", "
    "\"rope_parameters\": {\"rope_theta\": 1e7, \"partial_rotary_factor\": 0.5}}";

static const int64_t whole[] = {LENGTH}, uneven[] = {8192, 1, 4777};
static const named_plan plans[] = {
    {"whole", {.n_at_once = 1, .chunks = whole, .n_chunk = 1}},
    {"uneven chunks", {.n_at_once = 1, .chunks = uneven, .n_chunk = 3}},
};

void invariance_long_hybrid(void)
{
    char folder[] = DUMMY_FOLDER;
    const int64_t length = LENGTH, outs = OUTS;
    whim_diag diag = {{0}};
    sequence_set set = {0};
    whim_engine_cfg cfg = {
        .model = folder,
        .load_format = "dummy",
        .weight_type = "f32",
        .ctx = LENGTH,
        .max_seqs = 1,
        .max_step_tokens = LENGTH,
        .max_outs = OUTS,
    };
    whim_engine *engine = dummy_folder_make(folder, config) ? drive_open(&cfg, &diag) : NULL;
    bool good = engine != NULL && set_init(&set, 1, 1, &length, &outs, NULL, VOCAB);
    for (int i = 0; i < 2 && good; i++) {
        good = set_check(&set, whim_engine_runner(engine), &plans[i], i == 0, &diag);
    }
    tally_check(good, "hybrid of 70,000 tokens", "%s", good ? "the same bits" : diag.text);
    set_free(&set);
    whim_engine_close(engine);
    dummy_folder_remove(folder);
}
