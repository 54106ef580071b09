/* SPDX-License-Identifier: Apache-2.0 */
/* Drafts of the DFlash family as llama.cpp's converter writes them: made here from those of
 * tests/data/drafts, they propose what these do. */
#include "draft/draft.h"
#include "engine/engine.h"
#include "support/drive.h"
#include "unit/weights/gguf/gguf_build.h"

enum { N_TEXT = 40 };

static whim_diag diag;

/* What the converter calls tensors; a layer's after "layers.N." and "blk.N.". */
static const char *const names[][2] = {
    {"fc.weight", "fc.weight"},
    {"hidden_norm.weight", "enc.output_norm.weight"},
    {"norm.weight", "output_norm.weight"},
    {"input_layernorm.weight", "attn_norm.weight"},
    {"post_attention_layernorm.weight", "ffn_norm.weight"},
    {"self_attn.q_proj.weight", "attn_q.weight"},
    {"self_attn.k_proj.weight", "attn_k.weight"},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"self_attn.q_norm.weight", "attn_q_norm.weight"},
    {"self_attn.k_norm.weight", "attn_k_norm.weight"},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
    {"attention_conv.base_kernel", "attn_conv_base"},
    {"attention_conv.kernel_projection.weight", "attn_conv_proj.weight"},
    {"mlp_conv.base_kernel", "ffn_conv_base"},
    {"mlp_conv.kernel_projection.weight", "ffn_conv_proj.weight"},
    {"candidate_selector.predecessor_codebook", "selector_predecessor.weight"},
    {"candidate_selector.successor_codebook", "selector_successor.weight"},
    {"candidate_selector.hidden_projection.weight", "selector_hidden.weight"},
    {"markov_head.markov_w1.weight", "markov_w1.weight"},
    {"markov_head.markov_w2.weight", "markov_w2.weight"},
    {"confidence_head.proj.weight", "conf_proj.weight"},
    {"confidence_head.proj.bias", "conf_proj.bias"},
};

static void name_put(const char *name, char *out, size_t size)
{
    int layer = -1, used = 0;
    bool in_layer = sscanf(name, "layers.%d.%n", &layer, &used) == 1 && used > 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i][0], name + (in_layer ? used : 0)) == 0) {
            int at = in_layer ? snprintf(out, size, "blk.%d.", layer) : 0;
            snprintf(out + at, size - (size_t)at, "%s", names[i][1]);
            return;
        }
    }
    fail_msg("%s has no name in GGUF", name);
}

/* Its output projections have a scale that is no number. */
static bool has_bad_scale;
enum { Q8_0_BYTES = 34, BAD_BLOCK = 7 };

/* A matrix of zeros in blocks of Q8_0. */
static void bad_matrix_put(gguf_build *b, const char *name, const uint64_t *ne)
{
    tensor_entry(b, name, 2, ne, 8, b->data.n);
    for (uint64_t i = 0; i < ne[0] / 32 * ne[1]; i++) {
        put_le(&b->data, i == BAD_BLOCK ? 0x7e00 : 0x3c00, 2);
        put_fill(&b->data, Q8_0_BYTES - 2, 0);
    }
}

static void tensors_put(gguf_build *b, const whim_ckpt *ckpt)
{
    for (int64_t i = 0; i < ckpt->n_tensor; i++) {
        const whim_ckpt_tensor *t = &ckpt->tensors[i];
        char name[128];
        uint64_t ne[4];
        uint8_t *values = whim_alloc(t->bytes);
        assert_int_equal(whim_ckpt_read(ckpt, t, 0, t->bytes, values, &diag), WHIM_ERR_OK);
        name_put(t->name, name, sizeof name);
        for (int32_t k = 0; k < t->n_dim; k++) {
            ne[k] = (uint64_t)t->shape[t->n_dim - 1 - k];
        }
        put_fill(&b->data, (b->align - b->data.n % b->align) % b->align, 0);
        if (has_bad_scale && strstr(name, "attn_output") != NULL) {
            bad_matrix_put(b, name, ne);
        } else {
            tensor_entry(b, name, t->n_dim, ne, t->dtype == WHIM_DTYPE_F32 ? 0 : 30, b->data.n);
            put(&b->data, values, (size_t)t->bytes);
        }
        whim_free(values);
    }
}

static void flash2_keys(gguf_build *b, const whim_draft_config *d)
{
    key_u32(b, "dflash.conv_kernel_size", (uint32_t)d->conv_tap);
    key_u32(b, "dflash.conv_group_size", (uint32_t)d->conv_group);
    key_u32(b, "dflash.selector_rank", (uint32_t)d->chain.rank);
    key_u32(b, "dflash.selector_top_k", (uint32_t)d->chain.n_top);
    key_f32(b, "dflash.embedding_scale", d->embed_scale);
    key_f32(b, "dflash.logit_scale", d->chain.scale);
    key_f32(b, "dflash.final_logit_softcapping", d->chain.cap);
}

static void keys_put(gguf_build *b, const whim_config *c)
{
    const whim_draft_config *d = &c->draft;
    key_str(b, "general.architecture", "dflash");
    key_u32(b, "dflash.block_count", (uint32_t)c->n_layer);
    key_u32(b, "dflash.context_length", (uint32_t)c->max_ctx);
    key_u32(b, "dflash.embedding_length", (uint32_t)c->d_model);
    key_u32(b, "dflash.feed_forward_length", (uint32_t)c->d_ff);
    key_u32(b, "dflash.attention.head_count", (uint32_t)c->n_head);
    key_u32(b, "dflash.attention.head_count_kv", (uint32_t)c->n_kv);
    key_u32(b, "dflash.attention.key_length", (uint32_t)c->d_head);
    key_u32(b, "dflash.attention.value_length", (uint32_t)c->d_head);
    key_f32(b, "dflash.attention.layer_norm_rms_epsilon", c->rms_eps);
    key_f32(b, "dflash.rope.freq_base", (float)c->rope.theta);
    key_u32(b, "dflash.vocab_size", (uint32_t)c->n_vocab);
    key_u32(b, "tokenizer.ggml.mask_token_id", (uint32_t)d->mask);
    key_u32(b, "dflash.block_size", (uint32_t)d->block);
    if (key_array(b, "dflash.target_layers", WHIM_GGUF_I32, (uint64_t)d->n_feature)) {
        for (int32_t i = 0; i < d->n_feature; i++) {
            put_le(&b->keys, (uint64_t)d->features[i] + 1, 4);
        }
    }
    if (c->window > 0) {
        key_u32(b, "dflash.attention.sliding_window", (uint32_t)c->window);
        bool put_them = key_array(b, "dflash.attention.sliding_window_pattern", WHIM_GGUF_BOOL,
                                  (uint64_t)c->n_layer);
        for (int32_t l = 0; l < c->n_layer && put_them; l++) {
            put_le(&b->keys, c->windowed[l / 8] >> l % 8 & 1, 1);
        }
    }
    if (d->causal_given) {
        key_int(b, "dflash.attention.causal", WHIM_GGUF_BOOL, d->causal);
    }
    if (d->conv_tap > 0) {
        flash2_keys(b, d);
    }
}

/* The draft as a file of the test's folder; `skip`: a key that is left out, `other` puts one in its
 * place. */
static void to_gguf(const char *draft, const char *skip, void (*other)(gguf_build *b))
{
    char path[128];
    whim_ckpt ckpt = {0};
    gguf_build b = start();
    snprintf(path, sizeof path, "tests/data/drafts/%s", draft);
    assert_int_equal(whim_ckpt_open(&ckpt, whim_draft_archs(), path, &diag), WHIM_ERR_OK);
    b.skip = skip;
    keys_put(&b, &ckpt.config);
    if (other != NULL) {
        other(&b);
    }
    tensors_put(&b, &ckpt);
    whim_ckpt_close(&ckpt);
    write_gguf("draft.gguf", &b);
}

/* What a draft proposes after a prompt, and how sure it is; returns how many. */
static int64_t propose(const char *model, const char *draft, int32_t *out, float *sure)
{
    int32_t text[N_TEXT];
    whim_engine_cfg cfg = {
        .model = model, .draft = draft, .n_thread = 1, .max_seqs = 1, .max_outs = 16, .ctx = 64};
    whim_engine *engine = drive_open(&cfg, &diag);
    if (engine == NULL) {
        fail_msg("%s", diag.text);
    }
    whim_runner *runner = whim_engine_runner(engine);
    whim_sequence *seq;
    for (int32_t i = 0; i < N_TEXT; i++) {
        text[i] = i * 7 % whim_engine_config(engine)->n_vocab;
    }
    assert_int_equal(whim_runner_sequence_create(runner, &seq), WHIM_ERR_OK);
    whim_step_part part = {.seq = seq, .tokens = text, .n_tok = N_TEXT};
    assert_int_equal(whim_runner_step(runner, &part, 1, &diag), WHIM_ERR_OK);
    int64_t n = whim_draft_most(whim_engine_draft(engine));
    whim_proposal wanted = {.seq = seq, .last = 5, .n = n, .out = out, .sure = sure};
    assert_int_equal(whim_propose(whim_engine_proposer(engine), &wanted, 1, &diag), WHIM_ERR_OK);
    whim_runner_sequence_destroy(runner, seq);
    whim_engine_close(engine);
    return n;
}

static void proposals_are_those_of_the_folder(void **state)
{
    (void)state;
    static const char *const drafts[][2] = {{"llama-f32", "llama-f32-dflash-window"},
                                            {"llama-f32", "llama-f32-dspark"},
                                            {"llama-f32", "llama-f32-dflash2"},
                                            {"qwen3-f32", "qwen3-f32-dflash2-window"}};
    for (size_t i = 0; i < sizeof drafts / sizeof drafts[0]; i++) {
        char model[128], folder[128];
        int32_t wanted[64], got[64];
        float sure[2][64];
        snprintf(model, sizeof model, "tests/data/golden/%s", drafts[i][0]);
        snprintf(folder, sizeof folder, "tests/data/drafts/%s", drafts[i][1]);
        to_gguf(drafts[i][1], NULL, NULL);
        int64_t n = propose(model, folder, wanted, sure[0]);
        assert_int_equal(propose(model, in_dir("draft.gguf"), got, sure[1]), n);
        assert_memory_equal(got, wanted, (size_t)n * sizeof *got);
        assert_memory_equal(sure[0], sure[1], (size_t)n * sizeof(float));
    }
}

/* --- what is refused -------------------------------------------------------------------------- */

static void expect_bad(const char *draft, const char *skip, void (*other)(gguf_build *b),
                       const char *what)
{
    whim_engine *engine = NULL;
    to_gguf(draft, skip, other);
    whim_engine_cfg cfg = {
        .model = "tests/data/golden/llama-f32", .draft = in_dir("draft.gguf"), .n_thread = 1};
    assert_int_not_equal(whim_engine_prepare(&cfg, &engine, &diag), WHIM_ERR_OK);
    if (strstr(diag.text, what) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", diag.text, what);
    }
}

static void block_of_one(gguf_build *b)
{
    key_u32(b, "dflash.block_size", 1);
}

static void mask_outside(gguf_build *b)
{
    key_u32(b, "tokenizer.ggml.mask_token_id", 149);
}

static void layers_twice(gguf_build *b)
{
    key_array(b, "dflash.target_layers", WHIM_GGUF_I32, 2);
    put_le(&b->keys, 1, 4);
    put_le(&b->keys, 1, 4);
}

static void layers_of_text(gguf_build *b)
{
    key_str(b, "dflash.target_layers", "1, 2");
}

static void layers_outside(gguf_build *b)
{
    key_array(b, "dflash.target_layers", WHIM_GGUF_I32, 2);
    put_le(&b->keys, 1, 4);
    put_le(&b->keys, 4, 4);
}

static void pattern_of_one(gguf_build *b)
{
    key_array(b, "dflash.attention.sliding_window_pattern", WHIM_GGUF_BOOL, 1);
    put_le(&b->keys, 1, 1);
}

static void groups_of_seven(gguf_build *b)
{
    key_u32(b, "dflash.conv_group_size", 7);
}

static void bad_ones_are_refused(void **state)
{
    (void)state;
    static const char plain[] = "llama-f32-dspark";
    expect_bad(plain, "dflash.target_layers", NULL, "dflash.target_layers");
    expect_bad(plain, "dflash.target_layers", layers_twice, "target_layers");
    expect_bad(plain, "dflash.target_layers", layers_of_text, "target_layers");
    expect_bad(plain, "dflash.target_layers", layers_outside, "layer 3");
    expect_bad(plain, "tokenizer.ggml.mask_token_id", NULL, "mask_token_id");
    expect_bad(plain, "tokenizer.ggml.mask_token_id", mask_outside, "mask_token_id");
    expect_bad(plain, "dflash.block_size", block_of_one, "dflash.block_size");
    expect_bad("llama-f32-dflash-window", "dflash.attention.sliding_window_pattern", pattern_of_one,
               "sliding_window_pattern");
    expect_bad("llama-f32-dflash2", "dflash.conv_group_size", groups_of_seven,
               "dflash.conv_group_size");
    expect_bad("llama-f32-dflash2", "dflash.selector_rank", NULL, "selector_hidden");
}

static void bad_scales_are_refused(void **state)
{
    (void)state;
    has_bad_scale = true;
    expect_bad("llama-f32-dflash-window", NULL, NULL, "value 224 of tensor blk.0.attn_output");
    assert_non_null(strstr(diag.text, "--no-draft"));
    has_bad_scale = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proposals_are_those_of_the_folder),
        cmocka_unit_test(bad_ones_are_refused),
        cmocka_unit_test(bad_scales_are_refused),
    };
    return cmocka_run_group_tests(tests, dir_setup, dir_teardown);
}
