/* SPDX-License-Identifier: Apache-2.0 */
/* What GGUF metadata says about experts and gated delta nets, and what is refused. */
#include "unit/weights/gguf/gguf_build.h"
#include "weights/gguf/read.h"

/* A hybrid of four blocks, one of them MTP's. `skip` is left to the test. */
static gguf_build hybrid(const char *skip)
{
    gguf_build b = start();
    b.skip = skip;
    key_str(&b, "general.architecture", "qwen35moe");
    key_u32(&b, "qwen35moe.block_count", 4);
    key_u32(&b, "qwen35moe.nextn_predict_layers", 1);
    key_u32(&b, "qwen35moe.context_length", 4096);
    key_u32(&b, "qwen35moe.embedding_length", 8);
    key_u32(&b, "qwen35moe.vocab_size", 40);
    key_u32(&b, "qwen35moe.attention.head_count", 4);
    key_u32(&b, "qwen35moe.attention.head_count_kv", 2);
    key_u32(&b, "qwen35moe.attention.key_length", 8);
    key_u32(&b, "qwen35moe.attention.value_length", 8);
    key_f32(&b, "qwen35moe.attention.layer_norm_rms_epsilon", 1e-6f);
    key_u32(&b, "qwen35moe.rope.dimension_count", 2);
    key_u32(&b, "qwen35moe.expert_count", 6);
    key_u32(&b, "qwen35moe.expert_used_count", 2);
    key_u32(&b, "qwen35moe.expert_feed_forward_length", 12);
    key_u32(&b, "qwen35moe.expert_shared_feed_forward_length", 10);
    key_u32(&b, "qwen35moe.ssm.conv_kernel", 4);
    key_u32(&b, "qwen35moe.ssm.state_size", 5);
    key_u32(&b, "qwen35moe.ssm.group_count", 2);
    key_u32(&b, "qwen35moe.ssm.time_step_rank", 6);
    key_u32(&b, "qwen35moe.ssm.inner_size", 42);
    key_u32(&b, "qwen35moe.full_attention_interval", 3);
    return b;
}

static whim_config open_config(gguf_build *b)
{
    whim_ckpt ckpt;
    write_gguf("mix.gguf", b);
    expect_opens(&ckpt, in_dir("mix.gguf"));
    whim_config config = ckpt.config;
    whim_ckpt_close(&ckpt);
    unlink(in_dir("mix.gguf"));
    return config;
}

static void reads_a_hybrid(void **state)
{
    (void)state;
    gguf_build b = hybrid(NULL);
    whim_config c = open_config(&b);
    assert_string_equal(c.arch->name, "qwen3_5");
    assert_true(c.n_layer == 3 && c.n_draft_layer == 1);
    assert_true(c.moe.n_expert == 6 && c.moe.top_k == 2 && c.moe.d_expert == 12);
    assert_true(c.moe.d_shared == 10 && c.moe.renormalize && !c.moe.sigmoid && c.d_ff == 12);
    assert_true(c.gdn.n_key == 2 && c.gdn.n_value == 6 && c.gdn.d_key == 5 && c.gdn.d_value == 7);
    assert_true(c.gdn.n_tap == 4 && c.gdn.folded && c.gdn.tiled && !c.gdn.apart);
    assert_true(whim_config_is_gdn(&c, 0) && whim_config_is_gdn(&c, 1));
    assert_false(whim_config_is_gdn(&c, 2));
    assert_string_equal(whim_gguf_arch_of(&c)->name, "qwen35moe");
    c.moe.n_expert = 0;
    assert_string_equal(whim_gguf_arch_of(&c)->name, "qwen35");
}

/* As many value heads as key heads: the order is the same. */
static void one_to_one_is_not_tiled(void **state)
{
    (void)state;
    gguf_build b = hybrid("qwen35moe.ssm.time_step_rank");
    key_u32(&b, "qwen35moe.ssm.time_step_rank", 2);
    assert_false(open_config(&b).gdn.tiled);
}

static void obeys_a_list_of_layers(void **state)
{
    (void)state;
    static const uint8_t kinds[] = {0, 1, 1, 0};
    gguf_build b = hybrid(NULL);
    if (key_array(&b, "qwen35moe.attention.recurrent_layers", WHIM_GGUF_BOOL, 4)) {
        put(&b.keys, kinds, sizeof kinds);
    }
    whim_config c = open_config(&b);
    for (int32_t l = 0; l < 3; l++) {
        assert_int_equal(whim_config_is_gdn(&c, l), kinds[l]);
    }
}

static void obeys_what_is_said_of_weights(void **state)
{
    (void)state;
    gguf_build b = hybrid(NULL);
    key_int(&b, "qwen35moe.expert_weights_norm", WHIM_GGUF_BOOL, 0);
    assert_false(open_config(&b).moe.renormalize);
    b = hybrid(NULL);
    key_int(&b, "qwen35moe.expert_weights_norm", WHIM_GGUF_BOOL, 1);
    key_f32(&b, "qwen35moe.expert_weights_scale", 2.5f);
    whim_config c = open_config(&b);
    assert_true(c.moe.renormalize && c.moe.scale == 2.5f);
}

/* The key with another value, or none where the value is 0. */
static void refuse(const char *key, uint32_t value, const char *needle)
{
    gguf_build b = hybrid(key);
    if (value != 0) {
        key_u32(&b, key, value);
    }
    write_gguf("mix.gguf", &b);
    expect_refused(key, in_dir("mix.gguf"), WHIM_ERR_CORRUPT, needle, NULL);
    unlink(in_dir("mix.gguf"));
}

static void refuses_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        uint32_t value;
        const char *needle;
    } bad[] = {
        {"qwen35moe.ssm.conv_kernel", 0, "ssm.conv_kernel\" is missing"},
        {"qwen35moe.ssm.group_count", 0, "ssm.group_count\" is missing"},
        {"qwen35moe.ssm.group_count", 4, "linear_num_value_heads is 6"},
        {"qwen35moe.ssm.inner_size", 43, "ssm.inner_size\" is 43"},
        {"qwen35moe.ssm.state_size", 8192, "linear_key_head_dim"},
        {"qwen35moe.expert_shared_feed_forward_length", 0,
         "shared_feed_forward_length\" is missing"},
        {"qwen35moe.expert_used_count", 7, "num_experts_per_tok"},
        {"qwen35moe.nextn_predict_layers", 4, "nextn_predict_layers"},
        {"qwen35moe.full_attention_interval", 1000, "full_attention layers"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        refuse(bad[i].key, bad[i].value, bad[i].needle);
    }
    gguf_build b = hybrid(NULL);
    if (key_array(&b, "qwen35moe.attention.recurrent_layers", WHIM_GGUF_BOOL, 3)) {
        put(&b.keys, "\1\1", 3);
    }
    write_gguf("mix.gguf", &b);
    expect_refused("a short list", in_dir("mix.gguf"), WHIM_ERR_CORRUPT, "each of 4 blocks", NULL);
    unlink(in_dir("mix.gguf"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_hybrid),         cmocka_unit_test(one_to_one_is_not_tiled),
        cmocka_unit_test(obeys_a_list_of_layers), cmocka_unit_test(obeys_what_is_said_of_weights),
        cmocka_unit_test(refuses_by_name),
    };
    return cmocka_run_group_tests(tests, dir_setup, dir_teardown);
}
