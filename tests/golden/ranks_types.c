/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that split no sum, with experts of every type of weights on every level of this machine:
 * rows travel as that level's products with that type would make them. Weights are dummies, and a
 * family's turn comes with every third type. */
#include "backends/cpu/cpu.h"
#include "golden/ranks.h"
#include "support/tally.h"
#include "tensor/dtype.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Sizes that fit all types; no number of ranks divides the experts. */
static const struct {
    const char *name, *config;
} families[] = {
    {"qwen3_moe",
     "{\"architectures\": [\"Qwen3MoeForCausalLM\"], \"model_type\": \"qwen3_moe\","
     " \"hidden_size\": 256, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
     " \"head_dim\": 64, \"intermediate_size\": 512, \"moe_intermediate_size\": 256,"
     " \"num_hidden_layers\": 2, \"vocab_size\": 149, \"max_position_embeddings\": 512,"
     " \"num_experts\": 5, \"num_experts_per_tok\": 2, \"norm_topk_prob\": true,"
     " \"torch_dtype\": \"bfloat16\"}"},
    {"minimax_m2",
     "{\"architectures\": [\"MiniMaxM2ForCausalLM\"], \"model_type\": \"minimax_m2\","
     " \"hidden_size\": 256, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
     " \"head_dim\": 64, \"rotary_dim\": 32, \"num_hidden_layers\": 2, \"vocab_size\": 149,"
     " \"max_position_embeddings\": 512, \"num_local_experts\": 5, \"num_experts_per_tok\": 2,"
     " \"intermediate_size\": 256, \"use_qk_norm\": true, \"scoring_func\": \"sigmoid\","
     " \"use_routing_bias\": true, \"tie_word_embeddings\": false, \"eos_token_id\": 0,"
     " \"torch_dtype\": \"bfloat16\"}"},
    {"qwen3_5_moe",
     "{\"architectures\": [\"Qwen3_5MoeForCausalLM\"], \"model_type\": \"qwen3_5_moe_text\","
     " \"hidden_size\": 256, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
     " \"head_dim\": 64, \"num_hidden_layers\": 2, \"vocab_size\": 149,"
     " \"max_position_embeddings\": 512, \"linear_conv_kernel_dim\": 4,"
     " \"linear_key_head_dim\": 32, \"linear_num_key_heads\": 2, \"linear_num_value_heads\": 8,"
     " \"linear_value_head_dim\": 32, \"num_experts\": 5, \"num_experts_per_tok\": 2,"
     " \"moe_intermediate_size\": 256, \"shared_expert_intermediate_size\": 256,"
     " \"full_attention_interval\": 2, \"torch_dtype\": \"bfloat16\"}"},
};

enum { N_FAMILY = sizeof families / sizeof families[0], MAX_LEVEL = 8, N_TURN = 4 };

/* Rows of two groups go to experts of both; and, in turn, ranks share prompts, do so with experts,
 * have other numbers of them, or send choices before rows. */
static void check_type_on(const char *name, rank_member like, int32_t turn)
{
    rank_member one = {0}, with = like;
    with.once = true;
    if (!tally_check(ranks_run(&one, 1, &with), name, "one rank %s", with.diag.text)) {
        ranks_free(&one, 1);
        return;
    }
    like.uneven = like.uncounted = true;
    with = like;
    with.deals = with.groups = true;
    ranks_check_same(name, &one, with, 2);
    with = like;
    with.shares = turn < 2;
    with.groups = !with.shares;
    with.deals = turn > 0;
    with.deal_counts = turn == 2 ? "4,1" : NULL;
    with.slots = turn == 3 ? 8 : 0;
    ranks_check_same(name, &one, with, 2);
    ranks_free(&one, 1);
}

static bool config_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    bool good = file != NULL && fputs(text, file) >= 0;
    return file != NULL && fclose(file) == 0 && good;
}

void ranks_types_test(const golden *g, const char *dir)
{
    const char *levels[MAX_LEVEL];
    char path[600], name[128];
    int32_t n_level = whim_cpu_levels(levels, MAX_LEVEL), at = 0;
    snprintf(path, sizeof path, "%s/config.json", dir);
    for (int32_t t = 0; t < WHIM_DTYPE_COUNT; t++) {
        const whim_dtype_info *type = whim_dtype_get((whim_dtype)t);
        if (type->kind == WHIM_DTYPE_KIND_INT) {
            continue;
        }
        int32_t family = at % N_FAMILY;
        if (!tally_check(config_write(path, families[family].config), type->name, "written")) {
            return;
        }
        for (int32_t l = 0; l < n_level; l++) {
            rank_member like = {
                .g = g, .path = dir, .weight_type = type->name, .backend = "cpu", .isa = levels[l]};
            snprintf(name, sizeof name, "dummy-%s-%s", families[family].name, type->name);
            check_type_on(name, like, (at / N_FAMILY + l) % N_TURN);
        }
        at++;
    }
    unlink(path);
}
