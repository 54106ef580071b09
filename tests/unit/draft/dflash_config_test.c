/* SPDX-License-Identifier: Apache-2.0 */
/* Drafts of the DFlash family that are refused, by name and number. */
#include "engine/engine.h"
#include "unit/draft/draft_variant.h"

#include <math.h>

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
    expect_refused(model, model, NULL, "a whole model");
    assert_non_null(strstr(diag.text, "LlamaForCausalLM"));
    expect_refused(model, "tests/data/golden/llama-mixed-gguf", NULL, "a whole model");
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

/* Opened as a draft whose config.json has another text. */
static whim_config opened(const char *draft, const char *from, const char *to)
{
    whim_ckpt ckpt = {0};
    diag = (whim_diag){""};
    variant_make(draft, from, to, NULL, NULL);
    if (whim_ckpt_open(&ckpt, whim_draft_archs(), tree_root, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    whim_config config = ckpt.config;
    whim_ckpt_close(&ckpt);
    assert_int_equal(tree_teardown(NULL), 0);
    return config;
}

/* As the files of several makers have it. */
static void labels_do_not_matter(void **state)
{
    (void)state;
    static const char spark[] = "llama-f32-dspark", type[] = "\"model_type\": \"qwen3\"";
    const whim_config usual = opened(spark, type, type);
    assert_true(usual.draft.anchor_first);
    whim_config other = opened(spark, "Qwen3DSparkModel", "DSparkDraftModel");
    assert_memory_equal(&usual.draft, &other.draft, sizeof other.draft);
    other = opened(spark, type, "\"model_type\": \"minimax_m2\", \"eos_token_id\": 151645");
    assert_memory_equal(&usual.draft, &other.draft, sizeof other.draft);
    opened("llama-f32-eagle3", "\"model_type\": \"llama\"",
           "\"model_type\": \"qwen2\", \"eos_token_id\": [2, 163585]");
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

static void last_is_nan(float *x, int64_t n)
{
    x[n - 1] = NAN;
}

static void third_is_infinite(float *x, int64_t n)
{
    (void)n;
    x[2] = -INFINITY;
}

static void first_is_large(float *x, int64_t n)
{
    (void)n;
    x[0] = 3000;
}

static void expect_bad_values(const char *part, variant_change *change, const char *type,
                              const char *what)
{
    variant_make("llama-f32-dflash", "{", "{", part, change);
    expect_refused("tests/data/golden/llama-f32", tree_root, type, what);
    assert_non_null(strstr(diag.text, tree_root));
    assert_non_null(strstr(diag.text, "--no-draft"));
    assert_int_equal(tree_teardown(NULL), 0);
}

/* One value that is no number, in a norm or a matrix: by its tensor's name and its place, and what
 * to do. */
static void bad_values_are_refused(void **state)
{
    (void)state;
    expect_bad_values("layers.1.input_layernorm.weight", last_is_nan, NULL,
                      "value 71 of tensor layers.1.input_layernorm.weight is nan");
    expect_bad_values("layers.0.mlp.up_proj.weight", third_is_infinite, NULL,
                      "value 2 of tensor layers.0.mlp.up_proj.weight is -inf");
    expect_bad_values("hidden_norm.weight", third_is_infinite, "q4_0",
                      "value 2 of tensor hidden_norm.weight is -inf, which is no number");
    expect_bad_values("layers.0.self_attn.o_proj.weight", first_is_large, "q4_0", "too large");
    variant_make("llama-f32-dflash", "{", "{", "layers.0.self_attn.o_proj.weight", first_is_large);
    whim_engine *engine = NULL; /* as it is, it is a number like others */
    whim_engine_cfg cfg = {
        .model = "tests/data/golden/llama-f32", .draft = tree_root, .n_thread = 1};
    assert_int_equal(whim_engine_prepare(&cfg, &engine, &diag), WHIM_ERR_OK);
    whim_engine_close(engine);
    assert_int_equal(tree_teardown(NULL), 0);
}

/* Memory for one page of the model is too little for one with the draft's keys and values. */
static void too_large_drafts_are_refused(void **state)
{
    (void)state;
    whim_engine *engine = NULL;
    whim_engine_cfg cfg = {.model = "tests/data/golden/llama-f32", .n_thread = 1, .ctx = 32};
    assert_int_equal(whim_engine_prepare(&cfg, &engine, &diag), WHIM_ERR_OK);
    cfg.kv_mem = whim_engine_runner_plan(engine)->page_bytes;
    whim_engine_close(engine);
    assert_int_equal(whim_engine_prepare(&cfg, &engine, &diag), WHIM_ERR_OK);
    whim_engine_close(engine);
    cfg.draft = "tests/data/drafts/llama-f32-dflash";
    assert_int_equal(whim_engine_prepare(&cfg, &engine, &diag), WHIM_ERR_INVALID);
    assert_non_null(strstr(diag.text, "below one KV page"));
    assert_non_null(strstr(diag.text, "--no-draft"));
}

/* A tensor that is not there. */
static void missing_tensors_are_refused(void **state)
{
    (void)state;
    expect_bad_config("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3",
                      "missing layers.2.input_layernorm.weight");
    assert_non_null(strstr(diag.text, "--no-draft"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(labels_do_not_matter),
        cmocka_unit_test(bad_markov_heads_are_refused),
        cmocka_unit_test(bad_selectors_are_refused),
        cmocka_unit_test(bad_values_are_refused),
        cmocka_unit_test(missing_tensors_are_refused),
        cmocka_unit_test(too_large_drafts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
