/* SPDX-License-Identifier: Apache-2.0 */
/* Drafts of the DFlash family that are refused, by name and number. */
#include "engine/engine.h"
#include "unit/draft/draft_variant.h"

static whim_diag diag;

static void expect_refused(const char *model, const char *draft, const char *type, const char *what)
{
    whim_engine *engine = NULL;
    whim_engine_cfg cfg = {.model = model, .draft = draft, .draft_type = type, .n_thread = 1};
    diag = (whim_diag){""};
    assert_int_not_equal(whim_engine_prepare(&cfg, &engine, &diag), WHIM_ERR_OK);
    if (strstr(diag.text, what) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", diag.text, what);
    }
}

static void expect_bad(const char *model, const char *draft, const char *from, const char *to,
                       const char *what)
{
    variant_make(draft, from, to, NULL, NULL);
    expect_refused(model, tree_root, NULL, what);
    assert_int_equal(tree_teardown(NULL), 0);
}

static void expect_bad_config(const char *from, const char *to, const char *what)
{
    expect_bad("tests/data/golden/llama-f32", "llama-f32-dflash", from, to, what);
}

static void expect_bad_spark(const char *from, const char *to, const char *what)
{
    expect_bad("tests/data/golden/llama-f32", "llama-f32-dspark", from, to, what);
}

static void others_are_refused(void **state)
{
    (void)state;
    static const char model[] = "tests/data/golden/llama-f32";
    expect_refused(model, "tests/data/drafts/qwen3-f32-dflash", NULL, "hidden_size");
    expect_refused(model, model, NULL, "LlamaForCausalLM");
    expect_refused(model, "tests/data/drafts/none", NULL, "no such file");
    expect_refused(model, "tests/data/drafts/llama-f32-dflash", "q5_1", "q8_0");
    expect_bad_config("\"vocab_size\": 149", "\"vocab_size\": 150", "vocab_size");
    expect_bad_config("\"num_target_layers\": 3", "\"num_target_layers\": 4", "num_target_layers");
    expect_bad_config("\"num_target_layers\": 3", "\"num_target_layers\": 0", "num_target_layers");
    expect_bad_config("\"mask_token_id\": 7", "\"mask_token_id\": 149", "mask_token_id");
    expect_bad_config("\"mask_token_id\": 7", "\"mask\": 7", "mask_token_id");
    expect_bad_config("\"block_size\": 5", "\"block_size\": 0", "block_size");
    expect_bad_config("\"block_size\": 5", "\"block_size\": 65", "block_size");
    expect_bad_config("\"target_layer_ids\": [", "\"target_layer_ids\": [5,", "target_layer_ids");
    expect_bad_config("\"mask_token_id\": 7", "\"mask_token_id\": 7, \"target_layer_ids\": [0, 3]",
                      "layer 3");
    expect_bad_config("\"mask_token_id\": 7", "\"mask_token_id\": 7, \"target_layer_ids\": [0]",
                      "fc.weight");
    expect_bad_config("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3", "layers.2.");
    expect_bad_config("\"mask_token_id\": 7", "\"mask_token_id\": 7, \"selector_rank\": 4",
                      "candidate_selector.predecessor_codebook");
    expect_bad_config("\"mask_token_id\": 7", "\"mask_token_id\": 7, \"input_embedding_scale\": 0",
                      "input_embedding_scale");
    expect_bad_config("\"block_size\": 5", "\"block_size\": 5, \"rope_is_neox_style\": false",
                      "rope_is_neox_style");
    expect_bad_config("\"mask_token_id\": 7", "\"mask_token_id\": 7, \"draft_tokens\": 9",
                      "draft_tokens");
}

static void expect_bad_flash2(const char *from, const char *to, const char *what)
{
    expect_bad("tests/data/golden/llama-f32", "llama-f32-dflash2", from, to, what);
}

static void bad_selectors_are_refused(void **state)
{
    (void)state;
    expect_bad_flash2("\"selector_rank\": 32", "\"selector_rank\": 16",
                      "candidate_selector.hidden_projection.weight");
    expect_bad_flash2("\"selector_rank\": 32", "\"selector_rank\": 0", "candidate_selector.");
    expect_bad_flash2("\"selector_top_k\": 16", "\"selector_top_k\": 0", "selector_top_k");
    expect_bad_flash2("\"selector_top_k\": 16", "\"selector_top_k\": 65", "selector_top_k");
    expect_bad_flash2("\"conv_group_size\": 8", "\"conv_group_size\": 7", "conv_group_size");
    expect_bad_flash2("\"conv_group_size\": 8", "\"conv_group_size\": 4", "kernel_projection");
    expect_bad_flash2("\"conv_kernel_size\": 2", "\"conv_kernel_size\": 3", "base_kernel");
    expect_bad_flash2("\"conv_kernel_size\": 2", "\"conv_kernel_size\": 17", "conv_kernel_size");
    expect_bad_flash2("\"conv_kernel_size\": 2", "\"conv_kernel_size\": 0", "attention_conv");
    expect_bad_flash2("\"output_multiplier\": 1.0", "\"output_multiplier\": 0",
                      "output_multiplier");
    expect_bad_flash2("\"output_multiplier\": 1.0", "\"final_logit_softcapping\": -1",
                      "final_logit_softcapping");
    expect_bad_flash2("\"output_multiplier\": 1.0", "\"markov_rank\": 8", "markov_rank");
}

static void bad_markov_heads_are_refused(void **state)
{
    (void)state;
    expect_bad_spark("\"vanilla\"", "\"gated\"", "\"markov_head_type\" is \"gated\"");
    expect_bad_spark("\"markov_rank\": 32", "\"markov_rank\": -1", "markov_rank");
    expect_bad_spark("\"markov_rank\": 32", "\"markov_rank\": 16", "markov_head.markov_w1.weight");
    expect_bad_spark("\"markov_rank\": 32", "\"markov_rank\": 0", "confidence_head_with_markov");
    expect_bad_spark("\"confidence_head_with_markov\": true",
                     "\"confidence_head_with_markov\": false", "confidence_head.proj.weight");
    expect_bad_spark("\"enable_confidence_head\": true", "\"enable_confidence_head\": false",
                     "confidence_head.proj");
    expect_bad_spark("\"num_anchors\": 512", "\"draft_tokens\": 9", "draft_tokens");
    expect_bad_spark("-1,", "-2,", "target_layer_ids[0]");
    expect_bad_spark("-1,", "-1, -1,", "target_layer_ids[1]");
    expect_bad_spark("\"block_size\": 5", "\"block_size\": 0", "block_size");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(bad_markov_heads_are_refused),
        cmocka_unit_test(bad_selectors_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
