/* SPDX-License-Identifier: Apache-2.0 */
/* What config.json says about experts: the reference's defaults, MiniMax's own keys, refusals. */
#include "unit/weights/fixture.h"

#define QWEN(more) "{\"architectures\": [\"Qwen3MoeForCausalLM\"]" more "}"
#define MINIMAX(more) "{\"architectures\": [\"MiniMaxM2ForCausalLM\"]" more "}"

static void defaults_are_those_of_the_reference(void **state)
{
    (void)state;
    whim_config c = good_config(QWEN(""));
    assert_string_equal(c.arch->name, "qwen3_moe");
    assert_true(c.moe.n_expert == 128 && c.moe.top_k == 8 && c.moe.d_expert == 768);
    assert_true(!c.moe.renormalize && !c.moe.sigmoid && !c.moe.choice_bias);
    assert_true(c.moe.scale == 1.0f && c.d_head == 64 && c.rope.theta == 1e4);
    assert_true(whim_config_has_experts(&c, 0) && whim_config_has_experts(&c, 23));
    c = good_config(MINIMAX(""));
    assert_string_equal(c.arch->name, "minimax_m2");
    assert_true(c.moe.n_expert == 256 && c.moe.top_k == 8 && c.moe.d_expert == 1536);
    assert_true(c.moe.renormalize && c.moe.sigmoid && c.moe.choice_bias);
    assert_true(c.rope.theta == 5e6 && c.rope.rotary_dim == 128 && c.eos[0] == 200020);
}

static void reads_what_files_say(void **state)
{
    (void)state;
    whim_config c = good_config(QWEN(", \"num_hidden_layers\": 6, \"decoder_sparse_step\": 2,"
                                     "\"mlp_only_layers\": [3], \"norm_topk_prob\": true,"
                                     "\"num_experts\": 12, \"num_experts_per_tok\": 3"));
    for (int32_t l = 0; l < 6; l++) {
        assert_int_equal(whim_config_has_experts(&c, l), l == 1 || l == 5);
    }
    assert_true(c.moe.renormalize && c.moe.n_expert == 12 && c.moe.top_k == 3);
    assert_int_equal(
        good_config(QWEN(", \"num_local_experts\": 5, \"num_experts_per_tok\": 2")).moe.n_expert,
        5);
    c = good_config(
        MINIMAX(", \"rotary_dim\": 64, \"num_mtp_modules\": 3, \"use_routing_bias\": false,"
                "\"attn_type_list\": [1, 1], \"intermediate_size\": 96,"
                "\"quantization_config\": {\"quant_method\": \"fp8\","
                "\"weight_block_size\": [128, 128]}"));
    assert_true(c.rope.rotary_dim == 64 && c.n_draft_layer == 3 && !c.moe.choice_bias);
    assert_int_equal(c.moe.d_expert, 96);
    c = good_config(
        MINIMAX(", \"model_type\": \"minimax\", \"routed_scaling_factor\": 2.5, \"sliding_window\":"
                " null, \"attn_window_size\": null, \"swa_rope_theta\": -1.0, \"n_group\": 1,"
                " \"layernorm_mlp_beta\": 1.0"));
    assert_true(c.moe.scale == 2.5f);
}

/* The reference has no such fields for Qwen3.5; Qwen3-Next obeys them. */
static void qwen3_5_always_divides(void **state)
{
    (void)state;
#define FIELDS "\"norm_topk_prob\": false, \"mlp_only_layers\": [0], \"decoder_sparse_step\": 2}"
    whim_config c = good_config("{\"architectures\": [\"Qwen3_5MoeForCausalLM\"]," FIELDS);
    assert_true(c.moe.renormalize && whim_config_has_experts(&c, 0));
    assert_true(whim_config_has_experts(&c, 2));
    c = good_config("{\"architectures\": [\"Qwen3NextForCausalLM\"]," FIELDS);
    assert_true(!c.moe.renormalize && !whim_config_has_experts(&c, 0));
    assert_true(!whim_config_has_experts(&c, 2) && whim_config_has_experts(&c, 3));
#undef FIELDS
}

static void refuses_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *text, *needle;
    } bad[] = {
        {QWEN(", \"num_experts\": 4097"), "num_experts"},
        {QWEN(", \"num_experts\": 4"), "num_experts_per_tok is 8, expected between 1 and 4"},
        {QWEN(", \"num_experts_per_tok\": 65"), "num_experts_per_tok"},
        {QWEN(", \"mlp_only_layers\": [24]"), "mlp_only_layers[0]"},
        {QWEN(", \"mlp_only_layers\": [\"x\"]"), "mlp_only_layers[0]"},
        {QWEN(", \"decoder_sparse_step\": 0"), "decoder_sparse_step"},
        {MINIMAX(", \"scoring_func\": \"softmax\""), "scoring_func"},
        {MINIMAX(", \"qk_norm_type\": \"per_head\""), "qk_norm_type"},
        {MINIMAX(", \"use_qk_norm\": false"), "use_qk_norm"},
        {MINIMAX(", \"shared_intermediate_size\": 8"), "shared_intermediate_size"},
        {MINIMAX(", \"attn_type_list\": [1, 0]"), "attn_type_list[1]"},
        {MINIMAX(", \"rotary_dim\": 130"), "rotary_dim"},
        {MINIMAX(", \"num_expert_group\": 4"), "num_expert_group"},
        {MINIMAX(", \"sliding_window\": 4096"), "sliding_window"},
        {MINIMAX(", \"layernorm_mlp_beta\": 3.5"), "layernorm_mlp_beta"},
        {MINIMAX(", \"model_type\": \"minimax_m3\""), "expected \"minimax_m2\""},
        {"{\"model_type\": \"minimax\"}", "minimax"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        whim_config config;
        whim_diag diag = {{0}};
        assert_int_not_equal(parse_config(&config, bad[i].text, &diag), WHIM_ERR_OK);
        expect_text(&diag, bad[i].text, bad[i].needle);
        expect_text(&diag, bad[i].text, "dir/config.json");
    }
}

static void knows_the_published_shapes(void **state)
{
    (void)state;
    static const char *const names[] = {"qwen3-30b-a3b", "qwen3-235b-a22b", "minimax-m2"};
    whim_config c;
    whim_diag diag = {{0}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(whim_config_shape(&c, whim_model_archs(), names[i], &diag), WHIM_ERR_OK);
        assert_true(c.moe.top_k == 8 && c.moe.d_expert == c.d_ff);
    }
    assert_true(c.dtype == WHIM_DTYPE_FP8 && c.rope.rotary_dim == 64 && c.moe.choice_bias);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_reference),
        cmocka_unit_test(reads_what_files_say),
        cmocka_unit_test(qwen3_5_always_divides),
        cmocka_unit_test(refuses_by_name),
        cmocka_unit_test(knows_the_published_shapes),
    };
    return cmocka_run_group_tests_name("config_moe", tests, NULL, NULL);
}
