/* SPDX-License-Identifier: Apache-2.0 */
/* config.json: defaults of the reference, rotary variants, refusals; published shapes. */
#include "unit/weights/fixture.h"

#include <math.h>

static void defaults_are_those_of_the_reference(void **state)
{
    (void)state;
    whim_config c = good_config("{\"architectures\": [\"LlamaForCausalLM\"]}");
    assert_string_equal(c.arch->name, "llama");
    assert_true(c.n_vocab == 32000 && c.d_model == 4096 && c.d_ff == 11008 && c.n_layer == 32);
    assert_true(c.n_head == 32 && c.n_kv == 32 && c.d_head == 128 && c.max_ctx == 2048);
    assert_true(c.rms_eps == 1e-6f && c.rope.theta == 10000.0 && c.rope.rotary_dim == 128);
    assert_int_equal(c.rope.kind, WHIM_ROPE_DEFAULT);
    assert_true(!c.tied_head && !c.qkv_bias && !c.o_bias && !c.mlp_bias && !c.qk_paired);
    assert_true(c.n_eos == 1 && c.eos[0] == 2);
    assert_false(c.dtype_given);

    c = good_config("{\"model_type\": \"qwen3\"}");
    assert_string_equal(c.arch->name, "qwen3");
    assert_true(c.n_vocab == 151936 && c.d_model == 4096 && c.d_ff == 22016 && c.n_layer == 32);
    assert_true(c.n_head == 32 && c.n_kv == 32 && c.d_head == 128 && c.max_ctx == 32768);
    assert_int_equal(c.n_eos, 0);

    c = good_config(
        "{\"model_type\": \"qwen2\", \"num_attention_heads\": 64, \"attention_bias\": false}");
    assert_string_equal(c.arch->name, "qwen2");
    assert_true(c.n_kv == 32 && c.d_head == 64 && c.n_eos == 0);
    assert_true(c.qkv_bias && !c.o_bias); /* whatever the file says */

    c = good_config("{\"model_type\": \"llama\", \"hidden_size\": 96, \"num_attention_heads\": 6,"
                    "\"num_key_value_heads\": null, \"head_dim\": null, \"eos_token_id\": null}");
    assert_true(c.n_kv == 6 && c.d_head == 16 && c.n_eos == 0);
}

static void reads_every_field(void **state)
{
    (void)state;
    whim_config c = good_config(
        "{\"architectures\": [\"Qwen3ForCausalLM\"], \"model_type\": \"qwen3\","
        "\"vocab_size\": 1000, \"hidden_size\": 64, \"intermediate_size\": 128,"
        "\"num_hidden_layers\": 3, \"num_attention_heads\": 8, \"num_key_value_heads\": 2,"
        "\"head_dim\": 32, \"max_position_embeddings\": 4.096e3, \"rms_norm_eps\": 1e-05,"
        "\"rope_theta\": 1000000, \"tie_word_embeddings\": true, \"attention_bias\": true,"
        "\"hidden_act\": \"silu\", \"use_sliding_window\": false, \"sliding_window\": 4096,"
        "\"n_ctx\": 1000000000000000019884624838656, \"time_step_limit\": [NaN, Infinity],"
        "\"layer_types\": [\"full_attention\", \"full_attention\", \"full_attention\"],"
        "\"eos_token_id\": [5, 6, 5], \"torch_dtype\": \"bfloat16\", \"rope_scaling\": null}");
    assert_true(c.n_vocab == 1000 && c.d_model == 64 && c.d_ff == 128 && c.n_layer == 3);
    assert_true(c.n_head == 8 && c.n_kv == 2 && c.d_head == 32 && c.max_ctx == 4096);
    assert_true(c.rms_eps == 1e-5f && c.rope.theta == 1e6 && c.tied_head && c.qkv_bias && c.o_bias);
    assert_true(c.n_eos == 2 && c.eos[0] == 5 && c.eos[1] == 6);
    assert_int_equal(c.dtype, WHIM_DTYPE_BF16);
    assert_true(c.dtype_given);
    c = good_config(
        "{\"model_type\": \"llama\", \"dtype\": \"float32\", \"torch_dtype\": \"float16\","
        "\"mlp_bias\": true, \"eos_token_id\": 9}");
    assert_int_equal(c.dtype, WHIM_DTYPE_F32);
    assert_true(c.mlp_bias && c.n_eos == 1 && c.eos[0] == 9);
    c = good_config("{\"architectures\": [\"LlamaModel\", \"LlamaForCausalLM\"],"
                    "\"torch_dtype\": \"auto\", \"eos_token_id\": [7, -1, 32000]}");
    assert_string_equal(c.arch->name, "llama");
    assert_true(!c.dtype_given && c.n_eos == 1 && c.eos[0] == 7); /* no other can come */
}

#define QWEN3(text) "{\"model_type\": \"qwen3\", \"num_hidden_layers\": 4, " text "}"

#define MISTRAL(text) \
    "{\"architectures\": [\"MistralForCausalLM\"], \"num_hidden_layers\": 4, " text "}"

static uint32_t windowed_layers(const whim_config *c)
{
    uint32_t bits = 0;
    for (int32_t l = 0; l < c->n_layer; l++) {
        bits |= (uint32_t)whim_config_is_windowed(c, l) << l;
    }
    return bits;
}

/* Which layers have a window: by list, or from a layer on; none unless the file says to use it. */
static void reads_windows(void **state)
{
    (void)state;
    whim_config c = good_config(
        QWEN3("\"use_sliding_window\": true, \"sliding_window\": 7, \"max_window_layers\": 1"));
    assert_int_equal(c.window, 7);
    assert_int_equal(windowed_layers(&c), 0xe);
    c = good_config(QWEN3("\"use_sliding_window\": true, \"sliding_window\": 9,"
                          "\"max_window_layers\": 0, \"layer_types\": [\"sliding_attention\","
                          "\"full_attention\", \"sliding_attention\", \"full_attention\"]"));
    assert_int_equal(c.window, 9);
    assert_int_equal(windowed_layers(&c), 0x5);
    c = good_config(QWEN3("\"use_sliding_window\": true, \"max_window_layers\": 3"));
    assert_int_equal(c.window, 4096);
    assert_int_equal(windowed_layers(&c), 0x8);
    static const char *const none[] = {
        QWEN3("\"use_sliding_window\": false, \"sliding_window\": 7, \"max_window_layers\": 1"),
        QWEN3("\"sliding_window\": 7, \"max_window_layers\": 1"),
        QWEN3("\"use_sliding_window\": true, \"sliding_window\": null, \"max_window_layers\": 1"),
        QWEN3("\"use_sliding_window\": true, \"sliding_window\": 7"), /* from layer 28 on */
    };
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        c = good_config(none[i]);
        assert_int_equal(windowed_layers(&c), 0);
    }
    /* Mistral's are on all layers, unless the size is null. */
    c = good_config(MISTRAL("\"sliding_window\": 7"));
    assert_true(c.window == 7 && windowed_layers(&c) == 0xf);
    c = good_config(MISTRAL("\"hidden_act\": \"silu\""));
    assert_true(c.window == 4096 && windowed_layers(&c) == 0xf && c.n_kv == 8);
    c = good_config(MISTRAL("\"sliding_window\": null"));
    assert_true(c.window == 0 && windowed_layers(&c) == 0);
}

#define ROPE(text) "{\"model_type\": \"llama\", \"max_position_embeddings\": 1000, " text "}"

/* Hybrids: nested as published, or flat; the kinds of layers by list or by interval. */
static void reads_hybrids(void **state)
{
    (void)state;
    whim_config c = good_config(
        "{\"architectures\": [\"Qwen3_5ForConditionalGeneration\"], \"model_type\": \"qwen3_5\","
        "\"tie_word_embeddings\": true, \"vision_config\": {\"hidden_size\": 7},"
        "\"text_config\": {\"model_type\": \"qwen3_5_text\", \"hidden_size\": 64,"
        "\"num_hidden_layers\": 3, \"layer_types\": [\"linear_attention\", \"full_attention\","
        "\"linear_attention\"], \"linear_num_key_heads\": 2, \"linear_num_value_heads\": 6,"
        "\"linear_key_head_dim\": 12, \"linear_value_head_dim\": 20, \"linear_conv_kernel_dim\": 3,"
        "\"dtype\": \"bfloat16\", \"rope_parameters\": {\"rope_theta\": 1e7,"
        "\"partial_rotary_factor\": 0.5, \"mrope_section\": [11, 11, 10]}}}");
    assert_string_equal(c.arch->name, "qwen3_5");
    assert_true(c.d_model == 64 && c.tied_head && c.dtype == WHIM_DTYPE_BF16 && c.dtype_given);
    assert_true(c.gdn.n_key == 2 && c.gdn.n_value == 6 && c.gdn.d_key == 12 && c.gdn.d_value == 20);
    assert_true(c.gdn.n_tap == 3 && c.rope.rotary_dim == 128 && c.rope.theta == 1e7);
    assert_true(whim_config_is_gdn(&c, 0) && !whim_config_is_gdn(&c, 1) &&
                whim_config_is_gdn(&c, 2));
    assert_true(whim_config_n_gdn(&c) == 2 && whim_config_n_attn(&c) == 1);

    c = good_config("{\"model_type\": \"qwen3_5_text\"}");
    assert_true(whim_config_n_attn(&c) == 8 && !whim_config_is_gdn(&c, 3) &&
                whim_config_is_gdn(&c, 4));
    assert_true(c.rope.rotary_dim == 64 && c.gdn.n_key == 16 && c.gdn.n_value == 32);
    c = good_config("{\"model_type\": \"qwen3_5_moe_text\"}");
    assert_true(c.moe.n_expert == 256 && c.moe.top_k == 8 && c.moe.d_shared == 512 &&
                c.moe.renormalize);
    /* as tools write it that keep a multimodal model's text alone */
    c = good_config("{\"architectures\": [\"Qwen3_5MoeForConditionalGeneration\"],"
                    "\"model_type\": \"qwen3_5_moe_text\", \"num_experts\": 180}");
    assert_true(c.moe.n_expert == 180 && whim_config_n_gdn(&c) == 30);
    c = good_config("{\"model_type\": \"qwen3_next\", \"full_attention_interval\": 2}");
    assert_string_equal(c.arch->name, "qwen3_next");
    assert_true(whim_config_n_attn(&c) == 24 && c.moe.n_expert == 512 && c.moe.top_k == 10);
}

static void reads_rope_variants(void **state)
{
    (void)state;
    whim_rope_config r =
        good_config(
            ROPE("\"rope_theta\": 7.5, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}"))
            .rope;
    assert_true(r.kind == WHIM_ROPE_LINEAR && r.theta == 7.5 && r.factor == 2.0);

    r = good_config(
            ROPE("\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 500000.0},"
                 "\"rope_scaling\": {}"))
            .rope;
    assert_true(r.kind == WHIM_ROPE_DEFAULT && r.theta == 500000.0);

    r = good_config(ROPE("\"rope_theta\": 500000.0, \"rope_scaling\": {\"rope_type\": \"llama3\","
                         "\"factor\": 8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0,"
                         "\"original_max_position_embeddings\": 8192}"))
            .rope;
    assert_true(r.kind == WHIM_ROPE_LLAMA3 && r.factor == 8.0 && r.low_freq == 1.0);
    assert_true(r.high_freq == 4.0 && r.orig_ctx == 8192.0);

    r = good_config(ROPE("\"partial_rotary_factor\": 0.5")).rope;
    assert_int_equal(r.rotary_dim, 64);

    r = good_config(ROPE("\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"linear\","
                         "\"factor\": 3.0, \"rope_theta\": 77}}"))
            .rope;
    assert_true(r.kind == WHIM_ROPE_LINEAR && r.factor == 3.0 && r.theta == 77.0);
}

static void reads_yarn(void **state)
{
    (void)state;
    whim_rope_config r =
        good_config(ROPE("\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0,"
                         "\"original_max_position_embeddings\": 250}"))
            .rope;
    assert_true(r.kind == WHIM_ROPE_YARN && r.factor == 4.0 && r.orig_ctx == 250.0);
    assert_true(r.beta_fast == 32.0 && r.beta_slow == 1.0 && r.truncate);
    assert_true(fabs(r.attn_factor - 1.138629436111989) < 1e-14);

    /* No original length: the context itself; no factor: the ratio of the two. */
    r = good_config(
            ROPE("\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2, \"truncate\": false}"))
            .rope;
    assert_true(r.orig_ctx == 1000.0 && !r.truncate);
    r = good_config(ROPE("\"original_max_position_embeddings\": 500,"
                         "\"rope_parameters\": {\"rope_type\": \"yarn\", \"beta_fast\": 0,"
                         "\"beta_slow\": 2, \"original_max_position_embeddings\": 100}"))
            .rope;
    assert_true(r.orig_ctx == 500.0 && r.factor == 2.0 && r.beta_fast == 32.0);
    assert_true(r.beta_slow == 2.0);

    r = good_config(ROPE("\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 40, \"mscale\": 1.0,"
                         "\"mscale_all_dim\": 0.5}"))
            .rope;
    assert_true(fabs(r.attn_factor - (0.1 * log(40) + 1) / (0.05 * log(40) + 1)) < 1e-14);
    r = good_config(ROPE("\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 40,"
                         "\"attention_factor\": 0.75}"))
            .rope;
    assert_true(r.attn_factor == 0.75);
    r = good_config(ROPE("\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 0.5}")).rope;
    assert_true(r.attn_factor == 1.0);
}

#define LLAMA(text) "{\"model_type\": \"llama\", " text "}"
#define HYBRID(text) "{\"model_type\": \"qwen3_5_text\", " text "}"

static const struct {
    const char *text;
    whim_err err;
    const char *needle;
} bad[] = {
    {"", WHIM_ERR_CORRUPT, "JSON"},
    {"{\"a\": Nan}", WHIM_ERR_CORRUPT, "line 1"},
    {LLAMA("\"rms_norm_eps\": NaN"), WHIM_ERR_CORRUPT, "\"rms_norm_eps\" is"},
    {LLAMA("\"rope_theta\": Infinity"), WHIM_ERR_CORRUPT, "\"rope_theta\" is"},
    {"[]", WHIM_ERR_CORRUPT, "object"},
    {"{}", WHIM_ERR_CORRUPT, "model_type"},
    {"{\"model_type\": \"llama\", \"model_type\": \"bert\"}", WHIM_ERR_UNSUPPORTED, "\"bert\""},
    {"{\"model_type\": \"bert\"}", WHIM_ERR_UNSUPPORTED, "Qwen3ForCausalLM"},
    {"{\"architectures\": [\"GemmaForCausalLM\"]}", WHIM_ERR_UNSUPPORTED, "architectures"},
    {"{\"architectures\": [3]}", WHIM_ERR_CORRUPT, "architectures"},
    {"{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"qwen3\"}", WHIM_ERR_UNSUPPORTED,
     "model_type"},
    {LLAMA("\"num_attention_heads\": \"32\""), WHIM_ERR_CORRUPT,
     "\"num_attention_heads\" is a string, expected an integer between 1 and 65536"},
    {LLAMA("\"num_attention_heads\": 0"), WHIM_ERR_CORRUPT, "\"num_attention_heads\" is 0"},
    {LLAMA("\"num_attention_heads\": -4"), WHIM_ERR_CORRUPT, "num_attention_heads"},
    {LLAMA("\"num_attention_heads\": 2.5"), WHIM_ERR_CORRUPT, "num_attention_heads"},
    {LLAMA("\"num_attention_heads\": 33"), WHIM_ERR_CORRUPT, "head_dim"},
    {LLAMA("\"num_key_value_heads\": 5"), WHIM_ERR_CORRUPT, "num_key_value_heads"},
    {LLAMA("\"num_key_value_heads\": 64"), WHIM_ERR_CORRUPT, "num_key_value_heads"},
    {LLAMA("\"hidden_size\": 4294967296"), WHIM_ERR_CORRUPT, "hidden_size"},
    {LLAMA("\"hidden_size\": 9223372036854775808"), WHIM_ERR_CORRUPT, "integer"},
    {LLAMA("\"num_hidden_layers\": 1025"), WHIM_ERR_CORRUPT, "num_hidden_layers"},
    {LLAMA("\"vocab_size\": 16777217"), WHIM_ERR_CORRUPT, "vocab_size"},
    {LLAMA("\"intermediate_size\": true"), WHIM_ERR_CORRUPT, "intermediate_size"},
    {LLAMA("\"max_position_embeddings\": 0"), WHIM_ERR_CORRUPT, "max_position_embeddings"},
    {LLAMA("\"head_dim\": 127"), WHIM_ERR_CORRUPT, "even"},
    {LLAMA("\"head_dim\": 8192, \"num_attention_heads\": 8192"), WHIM_ERR_CORRUPT, "head_dim"},
    {LLAMA("\"rms_norm_eps\": -1e-6"), WHIM_ERR_CORRUPT, "rms_norm_eps"},
    {LLAMA("\"rms_norm_eps\": 0"), WHIM_ERR_CORRUPT, "rms_norm_eps"},
    {LLAMA("\"rms_norm_eps\": 1e-60"), WHIM_ERR_CORRUPT, "rms_norm_eps"},
    {LLAMA("\"rms_norm_eps\": \"x\""), WHIM_ERR_CORRUPT, "rms_norm_eps"},
    {LLAMA("\"hidden_act\": \"gelu\""), WHIM_ERR_UNSUPPORTED, "hidden_act"},
    {LLAMA("\"use_sliding_window\": true"), WHIM_ERR_UNSUPPORTED, "use_sliding_window"},
    {LLAMA("\"layer_types\": [\"sliding_attention\"]"), WHIM_ERR_UNSUPPORTED, "layer_types[0]"},
    {LLAMA("\"tie_word_embeddings\": 1"), WHIM_ERR_CORRUPT, "tie_word_embeddings"},
    {LLAMA("\"eos_token_id\": \"2\""), WHIM_ERR_CORRUPT, "eos_token_id"},
    {LLAMA("\"eos_token_id\": [1, \"2\"]"), WHIM_ERR_CORRUPT, "eos_token_id[1]"},
    {LLAMA(
         "\"eos_token_id\": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,"
         "27,28,29,30,31,32,33]"),
     WHIM_ERR_UNSUPPORTED, "eos_token_id"},
    {LLAMA("\"dtype\": 64"), WHIM_ERR_CORRUPT, "dtype"},
    {LLAMA("\"rope_theta\": 0"), WHIM_ERR_CORRUPT, "rope_theta"},
    {LLAMA("\"rope_theta\": 1e400"), WHIM_ERR_CORRUPT, "\"rope_theta\" is"},
    {LLAMA("\"rope_scaling\": 4"), WHIM_ERR_CORRUPT, "rope_scaling"},
    {LLAMA("\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}"), WHIM_ERR_UNSUPPORTED,
     "rope_scaling.type"},
    {LLAMA("\"rope_scaling\": {\"rope_type\": \"linear\"}"), WHIM_ERR_CORRUPT,
     "rope_scaling.factor"},
    {LLAMA("\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 0}"), WHIM_ERR_CORRUPT,
     "rope_scaling.factor"},
    {LLAMA("\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8}"), WHIM_ERR_CORRUPT,
     "low_freq_factor"},
    {LLAMA("\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4,"
           "\"high_freq_factor\": 4}"),
     WHIM_ERR_CORRUPT, "high_freq_factor"},
    {LLAMA("\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 8, \"beta_fast\": 1,"
           "\"beta_slow\": 2}"),
     WHIM_ERR_CORRUPT, "beta_fast"},
    {QWEN3("\"layer_types\": [\"sliding_attention\", \"full_attention\", \"full_attention\","
           "\"full_attention\"]"),
     WHIM_ERR_CORRUPT, "use_sliding_window"},
    {QWEN3("\"layer_types\": [\"linear_attention\"]"), WHIM_ERR_UNSUPPORTED, "layer_types[0]"},
    {QWEN3("\"layer_types\": [\"full_attention\"]"), WHIM_ERR_CORRUPT, "1 entries"},
    {QWEN3("\"use_sliding_window\": true, \"sliding_window\": 0"), WHIM_ERR_CORRUPT,
     "sliding_window"},
    {QWEN3("\"use_sliding_window\": true, \"rope_parameters\": {\"full_attention\": {},"
           "\"sliding_attention\": {\"rope_theta\": 100}}"),
     WHIM_ERR_UNSUPPORTED, "rope_parameters.sliding_attention"},
    {HYBRID("\"use_sliding_window\": true"), WHIM_ERR_UNSUPPORTED, "use_sliding_window"},
    {HYBRID("\"layer_types\": [\"full_attention\"]"), WHIM_ERR_CORRUPT, "layer_types"},
    {HYBRID("\"num_hidden_layers\": 1, \"layer_types\": [\"mamba\"]"), WHIM_ERR_UNSUPPORTED,
     "layer_types[0]"},
    {HYBRID("\"num_hidden_layers\": 1, \"layer_types\": [3]"), WHIM_ERR_CORRUPT, "layer_types[0]"},
    {HYBRID("\"num_hidden_layers\": 2"), WHIM_ERR_CORRUPT, "full_attention"},
    {HYBRID("\"linear_num_value_heads\": 40"), WHIM_ERR_CORRUPT, "linear_num_value_heads"},
    {HYBRID("\"linear_key_head_dim\": 2048"), WHIM_ERR_CORRUPT, "linear_key_head_dim"},
    {HYBRID("\"linear_conv_kernel_dim\": 17"), WHIM_ERR_CORRUPT, "linear_conv_kernel_dim"},
    {HYBRID("\"full_attention_interval\": 0"), WHIM_ERR_CORRUPT, "full_attention_interval"},
    {"{\"model_type\": \"qwen3_5\", \"text_config\": {\"hidden_size\": -1}}", WHIM_ERR_CORRUPT,
     "text_config.hidden_size"},
    {"{\"model_type\": \"qwen3_5\", \"text_config\": 3}", WHIM_ERR_CORRUPT, "text_config"},
    {LLAMA("\"partial_rotary_factor\": 1.5"), WHIM_ERR_CORRUPT, "partial_rotary_factor"},
    {LLAMA("\"partial_rotary_factor\": 0.001"), WHIM_ERR_CORRUPT, "rotary"},
};

static void refuses_bad_configs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        whim_config config;
        whim_diag diag = {{0}};
        whim_err err = parse_config(&config, bad[i].text, &diag);
        if (err != bad[i].err) {
            fail_msg("%s: got %s: %s", bad[i].text, whim_err_name(err), diag.text);
        }
        expect_text(&diag, bad[i].text, "dir/config.json");
        expect_text(&diag, bad[i].text, bad[i].needle);
    }
}

static void refuses_every_truncation(void **state)
{
    (void)state;
    static const char text[] = "{\"model_type\": \"llama\", \"eos_token_id\": [1, 2]}";
    for (int64_t n = 0; n < (int64_t)sizeof text - 1; n++) {
        whim_config config;
        whim_diag diag = {{0}};
        assert_int_equal(
            whim_config_parse(&config, whim_model_archs(), text, n, "config.json", &diag),
            WHIM_ERR_CORRUPT);
        expect_text(&diag, "truncation", "config.json: ");
    }
}

static void joins_generation_config(void **state)
{
    (void)state;
    whim_config c = good_config("{\"model_type\": \"llama\", \"eos_token_id\": 4}");
    whim_generation gen = {0};
    static const char text[] = "{\"eos_token_id\": [4, 8], \"temperature\": 0.6}";
    assert_int_equal(
        whim_generation_parse(&gen, &c, text, sizeof text - 1, "generation_config.json", NULL),
        WHIM_ERR_OK);
    assert_true(c.n_eos == 2 && c.eos[0] == 4 && c.eos[1] == 8);
    whim_diag diag = {{0}};
    static const char wrong[] = "{\"eos_token_id\": {}}";
    assert_int_equal(
        whim_generation_parse(&gen, &c, wrong, sizeof wrong - 1, "generation_config.json", &diag),
        WHIM_ERR_CORRUPT);
    expect_text(&diag, "generation", "generation_config.json");
    expect_text(&diag, "generation", "eos_token_id");
}

static void knows_published_shapes(void **state)
{
    (void)state;
    /* Parameters of the whole model, computed from the shape, against the published counts. */
    static const struct {
        const char *name;
        double billions;
    } shapes[] = {{"smollm2-135m", 0.1345}, {"qwen3-0.6b", 0.596},   {"QWEN3-1.7B", 1.72},
                  {"qwen3-4b", 4.02},       {"qwen3-8b", 8.19},      {"qwen3-32b", 32.76},
                  {"mistral-7b", 7.248},    {"qwen2.5-0.5b", 0.494}, {"qwen2.5-1.5b", 1.544},
                  {"qwen2.5-3b", 3.086},    {"qwen2.5-7b", 7.616}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        whim_config c;
        assert_int_equal(whim_config_shape(&c, whim_model_archs(), shapes[i].name, NULL),
                         WHIM_ERR_OK);
        double attn = 2.0 * c.d_model * c.d_head * (c.n_head + c.n_kv);
        double layer = attn + 3.0 * c.d_model * c.d_ff;
        double n = c.n_layer * layer + (c.tied_head ? 1.0 : 2.0) * c.n_vocab * c.d_model;
        assert_true(fabs(n / 1e9 / shapes[i].billions - 1.0) < 0.005);
    }
    whim_config c;
    whim_diag diag = {{0}};
    assert_int_equal(whim_config_shape(&c, whim_model_archs(), "qwen3-9b", &diag),
                     WHIM_ERR_NOT_FOUND);
    expect_text(&diag, "shape", "qwen3-9b");
    expect_text(&diag, "shape", "qwen3-32b");
    expect_text(&diag, "shape", "qwen3.5-397b-a17b"); /* the last of the list */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_reference),
        cmocka_unit_test(reads_every_field),
        cmocka_unit_test(reads_windows),
        cmocka_unit_test(reads_hybrids),
        cmocka_unit_test(reads_rope_variants),
        cmocka_unit_test(reads_yarn),
        cmocka_unit_test(refuses_bad_configs),
        cmocka_unit_test(refuses_every_truncation),
        cmocka_unit_test(joins_generation_config),
        cmocka_unit_test(knows_published_shapes),
    };
    return cmocka_run_group_tests(tests, dir_setup, dir_teardown);
}
