/* SPDX-License-Identifier: Apache-2.0 */
/* Well-formed GGUF files of both versions, split and fused, and memory running out on them. */
#include "unit/weights/gguf/gguf_build.h"
#include "weights/gguf/read.h"

#include <math.h>

static void check_tiny(const whim_ckpt *ckpt)
{
    const whim_config *c = &ckpt->config;
    assert_string_equal(c->arch->name, "llama");
    assert_int_equal(c->n_layer, 1);
    assert_int_equal(c->d_model, 8);
    assert_int_equal(c->n_head, 2);
    assert_int_equal(c->n_kv, 1);
    assert_int_equal(c->d_head, 4);
    assert_int_equal(c->d_ff, 16);
    assert_int_equal(c->n_vocab, 4);
    assert_int_equal(c->max_ctx, 64);
    assert_true(c->rms_eps == 1e-5f);
    assert_true(c->rope.theta == 500000.0);
    assert_int_equal(c->rope.kind, WHIM_ROPE_DEFAULT);
    assert_int_equal(c->rope.rotary_dim, 4);
    assert_true(c->tied_head && c->qk_paired && !c->qkv_bias && !c->o_bias && !c->mlp_bias);
    assert_int_equal(c->dtype, WHIM_DTYPE_F32);
    assert_int_equal(c->n_eos, 1);
    assert_int_equal(c->eos[0], 3);
    assert_int_equal(ckpt->n_tensor, 11);
    const whim_ckpt_tensor *down = whim_ckpt_find(ckpt, "layers.0.mlp.down_proj.weight");
    assert_non_null(down);
    assert_string_equal(down->file_name, "blk.0.ffn_down.weight");
    assert_int_equal(down->n_dim, 2);
    assert_int_equal(down->shape[0], 8);
    assert_int_equal(down->shape[1], 16);
    assert_int_equal(down->bytes, 512);
    uint8_t raw[3];
    assert_int_equal(whim_ckpt_read(ckpt, down, 509, 3, raw, NULL), WHIM_ERR_OK);
    assert_true(raw[0] == 10 && raw[1] == 10 && raw[2] == 10);
    assert_int_equal(whim_ckpt_read(ckpt, down, 510, 3, raw, NULL), WHIM_ERR_INVALID);
    assert_null(whim_ckpt_find(ckpt, "lm_head.weight"));
    assert_null(whim_ckpt_find(ckpt, "blk.0.ffn_down.weight"));
}

static void opens_both_versions(void **state)
{
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        gguf_build b = start();
        b.version = version;
        tiny_keys(&b);
        tiny_tensors(&b);
        write_gguf("tiny.gguf", &b);
        whim_ckpt ckpt;
        expect_opens(&ckpt, in_dir("tiny.gguf"));
        check_tiny(&ckpt);
        assert_int_equal(ckpt.format, WHIM_CKPT_GGUF);
        whim_ckpt_close(&ckpt);
        expect_opens(&ckpt, test_dir); /* a directory with that one file */
        check_tiny(&ckpt);
        whim_ckpt_close(&ckpt);
    }
}

static void reads_keys_of_every_type(void **state)
{
    (void)state;
    gguf_build b = start();
    tiny_keys(&b);
    key_int(&b, "t.u8", WHIM_GGUF_U8, 200);
    key_int(&b, "t.i8", WHIM_GGUF_I8, (uint64_t)-7);
    key_int(&b, "t.u16", WHIM_GGUF_U16, 60000);
    key_int(&b, "t.i16", WHIM_GGUF_I16, (uint64_t)-300);
    key_int(&b, "t.i32", WHIM_GGUF_I32, (uint64_t)-70000);
    key_int(&b, "t.u64", WHIM_GGUF_U64, UINT64_MAX);
    key_int(&b, "t.i64", WHIM_GGUF_I64, (uint64_t)-5000000000);
    key_int(&b, "t.bool", WHIM_GGUF_BOOL, 1);
    double pi = 3.25;
    uint64_t bits;
    memcpy(&bits, &pi, sizeof bits);
    key_int(&b, "t.f64", WHIM_GGUF_F64, bits);
    if (key_array(&b, "t.nested", WHIM_GGUF_ARRAY, 2)) {
        put_le(&b.keys, WHIM_GGUF_U8, 4);
        put_le(&b.keys, 3, 8);
        put_fill(&b.keys, 3, 1);
        put_le(&b.keys, WHIM_GGUF_STRING, 4);
        put_le(&b.keys, 1, 8);
        put_str(&b.keys, "deep");
    }
    key_str(&b, "t.after", "still here");
    tiny_tensors(&b);
    write_gguf("types.gguf", &b);
    whim_ckpt ckpt;
    expect_opens(&ckpt, in_dir("types.gguf"));
    static const struct {
        const char *key;
        int64_t value;
    } ints[] = {{"t.u8", 200},     {"t.i8", -7},         {"t.u16", 60000},      {"t.i16", -300},
                {"t.i32", -70000}, {"t.u64", INT64_MAX}, {"t.i64", -5000000000}};
    for (size_t i = 0; i < sizeof ints / sizeof ints[0]; i++) {
        int64_t got = 0;
        assert_int_equal(
            whim_gguf_get_int(ckpt.gguf, ints[i].key, INT64_MIN, INT64_MAX, &got, NULL),
            WHIM_ERR_OK);
        assert_int_equal(got, ints[i].value);
    }
    bool flag = false;
    double real = 0.0;
    const char *text = NULL;
    int64_t n = 0;
    assert_int_equal(whim_gguf_get_bool(ckpt.gguf, "t.bool", &flag, NULL), WHIM_ERR_OK);
    assert_true(flag);
    assert_int_equal(whim_gguf_get_real(ckpt.gguf, "t.f64", 0.0, 9.0, &real, NULL), WHIM_ERR_OK);
    assert_true(real == 3.25);
    assert_int_equal(whim_gguf_get_string(ckpt.gguf, "t.after", &text, &n, NULL), WHIM_ERR_OK);
    assert_int_equal(n, 10);
    assert_memory_equal(text, "still here", 10);
    const whim_gguf_key *nested = whim_gguf_find_key(ckpt.gguf, "t.nested");
    assert_true(nested != NULL && nested->is_array && nested->type == WHIM_GGUF_ARRAY);
    whim_gguf_iter iter = whim_gguf_iter_begin(ckpt.gguf, nested);
    int64_t number;
    assert_false(whim_gguf_next_int(&iter, &number));

    const whim_gguf_key *tokens = whim_gguf_find_key(ckpt.gguf, "tokenizer.ggml.tokens");
    assert_int_equal(tokens->count, 4);
    iter = whim_gguf_iter_begin(ckpt.gguf, tokens);
    int seen = 0;
    for (; whim_gguf_next_string(&iter, &text, &n); seen++) {
        if (seen == 3) {
            assert_int_equal(n, 4);
            assert_memory_equal(text, "</s>", 4);
        }
    }
    assert_int_equal(seen, 4);
    assert_null(whim_gguf_find_key(ckpt.gguf, "t.absent"));
    whim_ckpt_close(&ckpt);
    unlink(in_dir("types.gguf"));
}

static void cuts_a_fused_qkv(void **state)
{
    (void)state;
    gguf_build b = start();
    tiny_keys(&b);
    tensor(&b, "token_embd.weight", 8, 4, 0, 128, 1);
    tensor(&b, "blk.0.attn_qkv.weight", 8, 16, 0, 512, 2);
    tensor(&b, "blk.0.attn_qkv.bias", 16, 0, 0, 64, 3);
    tensor(&b, "rope_freqs.weight", 2, 0, 0, 8, 4);
    tensor(&b, "blk.0.mystery.weight", 2, 0, 0, 8, 4);
    tensor(&b, "output.weight", 8, 4, 0, 128, 1);
    write_gguf("fused.gguf", &b);
    whim_ckpt ckpt;
    expect_opens(&ckpt, in_dir("fused.gguf"));
    const whim_ckpt_tensor *q = whim_ckpt_find(&ckpt, "layers.0.self_attn.q_proj.weight");
    const whim_ckpt_tensor *k = whim_ckpt_find(&ckpt, "layers.0.self_attn.k_proj.weight");
    const whim_ckpt_tensor *v = whim_ckpt_find(&ckpt, "layers.0.self_attn.v_proj.weight");
    const whim_ckpt_tensor *vb = whim_ckpt_find(&ckpt, "layers.0.self_attn.v_proj.bias");
    assert_true(q != NULL && k != NULL && v != NULL && vb != NULL);
    assert_true(q->shape[0] == 8 && q->shape[1] == 8 && q->bytes == 256);
    assert_true(k->shape[0] == 4 && k->offset == q->offset + 256 && k->bytes == 128);
    assert_true(v->shape[0] == 4 && v->offset == k->offset + 128 && v->bytes == 128);
    assert_true(vb->n_dim == 1 && vb->shape[0] == 4 && vb->bytes == 16);
    assert_non_null(whim_ckpt_find(&ckpt, "rope_freqs.weight"));
    assert_non_null(whim_ckpt_find(&ckpt, "blk.0.mystery.weight"));
    assert_non_null(whim_ckpt_find(&ckpt, "lm_head.weight"));
    assert_true(ckpt.config.qkv_bias && !ckpt.config.tied_head);
    whim_ckpt_close(&ckpt);
    unlink(in_dir("fused.gguf"));
}

static void keeps_unloadable_types(void **state)
{
    (void)state;
    gguf_build b = start();
    tiny_keys(&b);
    tensor(&b, "token_embd.weight", 256, 2, 19, 128, 1);
    tensor(&b, "output_norm.weight", 32, 0, 3, 20, 1);
    write_gguf("odd.gguf", &b);
    whim_ckpt ckpt;
    expect_opens(&ckpt, in_dir("odd.gguf"));
    const whim_ckpt_tensor *odd = whim_ckpt_find(&ckpt, "embed_tokens.weight");
    assert_non_null(odd->unsupported);
    assert_non_null(strstr(odd->unsupported, "IQ1_S"));
    assert_int_equal(whim_ckpt_find(&ckpt, "norm.weight")->dtype, WHIM_DTYPE_Q4_1);
    assert_int_equal(ckpt.config.dtype, WHIM_DTYPE_BF16);
    whim_ckpt_close(&ckpt);
    unlink(in_dir("odd.gguf"));
}

static void reads_qwen3_and_yarn(void **state)
{
    (void)state;
    gguf_build b = start();
    key_str(&b, "general.architecture", "qwen3");
    key_u32(&b, "qwen3.block_count", 2);
    key_u32(&b, "qwen3.context_length", 4096);
    key_u32(&b, "qwen3.embedding_length", 8);
    key_int(&b, "qwen3.vocab_size", WHIM_GGUF_U64, 40);
    if (key_array(&b, "qwen3.feed_forward_length", WHIM_GGUF_I32, 2)) {
        put_le(&b.keys, 24, 4);
        put_le(&b.keys, 24, 4);
    }
    key_int(&b, "qwen3.attention.head_count", WHIM_GGUF_U16, 4);
    key_u32(&b, "qwen3.attention.head_count_kv", 2);
    key_u32(&b, "qwen3.attention.key_length", 6);
    key_u32(&b, "qwen3.attention.value_length", 6);
    key_f32(&b, "qwen3.attention.layer_norm_rms_epsilon", 1e-6f);
    key_str(&b, "qwen3.rope.scaling.type", "yarn");
    key_f32(&b, "qwen3.rope.scaling.factor", 4.0f);
    key_u32(&b, "qwen3.rope.scaling.original_context_length", 1024);
    key_u32(&b, "tokenizer.ggml.eos_token_id", 5);
    key_u32(&b, "tokenizer.ggml.eot_token_id", 6);
    key_u32(&b, "tokenizer.ggml.eom_token_id", 5);
    write_gguf("qwen.gguf", &b);
    whim_ckpt ckpt;
    expect_opens(&ckpt, in_dir("qwen.gguf"));
    const whim_config *c = &ckpt.config;
    assert_string_equal(c->arch->name, "qwen3");
    assert_false(c->qk_paired);
    assert_true(c->n_head == 4 && c->n_kv == 2 && c->d_head == 6 && c->d_ff == 24);
    assert_true(c->n_vocab == 40 && c->n_eos == 2 && c->eos[0] == 5 && c->eos[1] == 6);
    assert_int_equal(c->rope.kind, WHIM_ROPE_YARN);
    assert_true(c->rope.theta == 10000.0 && c->rope.factor == 4.0 && c->rope.orig_ctx == 1024.0);
    assert_true(fabs(c->rope.attn_factor - (0.1 * log(4.0) + 1.0)) < 1e-12);
    whim_ckpt_close(&ckpt);
    unlink(in_dir("qwen.gguf"));
}

/* No key tells of Qwen2's biases: a file without them must not pass for one that has none. */
static void qwen2_wants_its_biases(void **state)
{
    (void)state;
    gguf_build b = start();
    key_str(&b, "general.architecture", "qwen2");
    key_u32(&b, "qwen2.block_count", 1);
    key_u32(&b, "qwen2.context_length", 64);
    key_u32(&b, "qwen2.embedding_length", 8);
    key_u32(&b, "qwen2.vocab_size", 40);
    key_u32(&b, "qwen2.feed_forward_length", 24);
    key_u32(&b, "qwen2.attention.head_count", 2);
    key_f32(&b, "qwen2.attention.layer_norm_rms_epsilon", 1e-6f);
    write_gguf("qwen2.gguf", &b);
    whim_ckpt ckpt;
    expect_opens(&ckpt, in_dir("qwen2.gguf"));
    assert_true(ckpt.config.qkv_bias && !ckpt.config.o_bias && !ckpt.config.qk_paired);
    whim_ckpt_close(&ckpt);
    unlink(in_dir("qwen2.gguf"));
}

static void write_part(const char *name, uint32_t no, uint32_t count, uint32_t total)
{
    gguf_build b = start();
    key_int(&b, "split.no", WHIM_GGUF_U16, no);
    key_int(&b, "split.count", WHIM_GGUF_U16, count);
    key_int(&b, "split.tensors.count", WHIM_GGUF_I32, total);
    if (no == 0) {
        tiny_keys(&b);
    } else {
        char tensor_name[64];
        snprintf(tensor_name, sizeof tensor_name, "blk.%u.attn_norm.weight", no);
        tensor(&b, tensor_name, 8, 0, 0, 32, (uint8_t)no);
    }
    write_gguf(name, &b);
}

static void opens_split_files(void **state)
{
    (void)state;
    dir_clear();
    write_part("m-00001-of-00003.gguf", 0, 3, 2);
    write_part("m-00002-of-00003.gguf", 1, 3, 2);
    write_part("m-00003-of-00003.gguf", 2, 3, 2);
    static const char *const given[] = {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf",
                                        "m-00003-of-00003.gguf", "."};
    for (int i = 0; i < 4; i++) {
        whim_ckpt ckpt;
        expect_opens(&ckpt, in_dir(given[i]));
        assert_int_equal(ckpt.n_file, 3);
        assert_int_equal(ckpt.n_tensor, 2);
        const whim_ckpt_tensor *t = whim_ckpt_find(&ckpt, "layers.2.input_layernorm.weight");
        assert_non_null(t);
        assert_int_equal(t->file, 2);
        uint8_t raw = 0;
        assert_int_equal(whim_ckpt_read(&ckpt, t, 0, 1, &raw, NULL), WHIM_ERR_OK);
        assert_int_equal(raw, 2);
        assert_non_null(whim_gguf_find_key(ckpt.gguf, "llama.block_count"));
        whim_ckpt_close(&ckpt);
    }
    sweep_allocations(in_dir("m-00002-of-00003.gguf"));

    write_part("m-00003-of-00003.gguf", 1, 3, 2);
    expect_refused("wrong split.no", in_dir(given[0]), WHIM_ERR_CORRUPT, given[2], "split.no");
    write_part("m-00003-of-00003.gguf", 2, 3, 2);
    write_part("m-00001-of-00003.gguf", 0, 3, 5);
    expect_refused("wrong total", in_dir(given[0]), WHIM_ERR_CORRUPT, given[0],
                   "split.tensors.count");
    unlink(in_dir(given[2]));
    expect_refused("missing part", in_dir(given[1]), WHIM_ERR_NOT_FOUND, given[2], "part 3 of 3");
    rename(in_dir(given[0]), in_dir("renamed.gguf"));
    expect_refused("renamed part", in_dir("renamed.gguf"), WHIM_ERR_NOT_FOUND, "renamed.gguf",
                   "-00001-of-00003.gguf");
    dir_clear();
}

static void survives_failing_allocations(void **state)
{
    (void)state;
    gguf_build b = start();
    tiny_keys(&b);
    tiny_tensors(&b);
    tensor(&b, "blk.1.attn_qkv.weight", 8, 16, 0, 512, 2);
    write_gguf("sweep.gguf", &b);
    sweep_allocations(in_dir("sweep.gguf"));
}

static void maps_names(void **state)
{
    (void)state;
    static const struct {
        const char *gguf;
        const char *canonical; /* NULL: unknown */
    } names[] = {
        {"token_embd.weight", "embed_tokens.weight"},
        {"output.weight", "lm_head.weight"},
        {"output_norm.weight", "norm.weight"},
        {"blk.0.attn_q.weight", "layers.0.self_attn.q_proj.weight"},
        {"blk.0.attn_q.bias", "layers.0.self_attn.q_proj.bias"},
        {"blk.61.attn_k_norm.weight", "layers.61.self_attn.k_norm.weight"},
        {"blk.9.ffn_norm.weight", "layers.9.post_attention_layernorm.weight"},
        {"blk.1234.ffn_up.weight", "layers.1234.mlp.up_proj.weight"},
        {"blk.12345.ffn_up.weight", NULL},
        {"blk.01.ffn_up.weight", NULL},
        {"blk..ffn_up.weight", NULL},
        {"blk.1.ffn_up", NULL},
        {"blk.1.weight", NULL},
        {"blk.1.ffn_up_exps.weight", "layers.1.mlp.experts.up_proj.weight"},
        {"blk.1.ffn_gate_up_exps.weight", "layers.1.mlp.experts.gate_up_proj"},
        {"blk.7.ffn_gate_inp.weight", "layers.7.mlp.gate.weight"},
        {"blk.7.exp_probs_b.bias", "layers.7.mlp.e_score_correction_bias"},
        {"blk.7.exp_probs_b.weight", NULL},
        {"blk.1.ffn_sideways.weight", NULL},
        {"rope_freqs.weight", NULL},
        {"weight", NULL},
        {".weight", NULL},
        {"blk.1.ssm_alpha.weight", NULL},
        {"blk.1.post_attention_norm.weight", NULL},
    };
    const whim_config config = {.n_layer = 8};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char out[WHIM_GGUF_NAME_MAX];
        whim_gguf_name kind;
        bool known = whim_gguf_canonical_name(&config, names[i].gguf, out, &kind);
        assert_int_equal(known, names[i].canonical != NULL);
        if (known) {
            char back[WHIM_GGUF_NAME_MAX];
            assert_string_equal(out, names[i].canonical);
            assert_true(whim_gguf_file_name(&config, out, back));
            assert_string_equal(back, names[i].gguf);
        }
    }
}

/* Block 1 attends, the others are gated delta nets, block 3 is MTP's. */
static void maps_names_of_hybrids(void **state)
{
    (void)state;
    static const struct {
        const char *gguf, *canonical;
        whim_gguf_name kind;
    } names[] = {
        {"blk.0.attn_qkv.weight", "layers.0.linear_attn.in_proj_qkv.weight", 0},
        {"blk.1.attn_qkv.weight", "layers.1.self_attn.qkv_proj.weight", WHIM_GGUF_NAME_QKV},
        {"blk.0.attn_gate.weight", "layers.0.linear_attn.in_proj_z.weight", 0},
        {"blk.2.ssm_alpha.weight", "layers.2.linear_attn.in_proj_a.weight", 0},
        {"blk.2.ssm_beta.weight", "layers.2.linear_attn.in_proj_b.weight", 0},
        {"blk.2.ssm_ba.weight", "layers.2.linear_attn.in_proj_ba.weight", 0},
        {"blk.2.ssm_in.weight", "layers.2.linear_attn.in_proj_qkvz.weight", 0},
        {"blk.2.ssm_conv1d.weight", "layers.2.linear_attn.conv1d.weight", 0},
        {"blk.2.ssm_a", "layers.2.linear_attn.A_log", 0},
        {"blk.2.ssm_dt.bias", "layers.2.linear_attn.dt_bias", 0},
        {"blk.2.ssm_norm.weight", "layers.2.linear_attn.norm.weight", 0},
        {"blk.2.ssm_out.weight", "layers.2.linear_attn.out_proj.weight", 0},
        {"blk.1.post_attention_norm.weight", "layers.1.post_attention_layernorm.weight", 0},
        {"blk.3.nextn.eh_proj.weight", "layers.3.nextn.eh_proj.weight", 0},
        {"blk.3.attn_q.weight", "layers.3.attn_q.weight", 0},
    };
    const whim_model_def *def;
    assert_int_equal(whim_model_find("qwen3_5", &def, NULL), WHIM_ERR_OK);
    const whim_config config = {
        .arch = &def->arch, .n_layer = 3, .n_draft_layer = 1, .gdn = {.n_key = 1, .layers = {5}}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char out[WHIM_GGUF_NAME_MAX], back[WHIM_GGUF_NAME_MAX];
        whim_gguf_name kind;
        assert_true(whim_gguf_canonical_name(&config, names[i].gguf, out, &kind));
        assert_string_equal(out, names[i].canonical);
        assert_int_equal(kind, names[i].kind);
        if (strncmp(out, "layers.3.", 9) != 0) {
            assert_true(whim_gguf_file_name(&config, out, back));
            assert_string_equal(back, names[i].gguf);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(qwen2_wants_its_biases),
        cmocka_unit_test(opens_both_versions),
        cmocka_unit_test(reads_keys_of_every_type),
        cmocka_unit_test(cuts_a_fused_qkv),
        cmocka_unit_test(keeps_unloadable_types),
        cmocka_unit_test(reads_qwen3_and_yarn),
        cmocka_unit_test(opens_split_files),
        cmocka_unit_test(survives_failing_allocations),
        cmocka_unit_test(maps_names),
        cmocka_unit_test(maps_names_of_hybrids),
    };
    return cmocka_run_group_tests(tests, dir_setup, dir_teardown);
}
