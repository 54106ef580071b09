/* SPDX-License-Identifier: Apache-2.0 */
/* A file of dummy weights is the dummy model: the same logits to the last bit, a vocabulary that
 * our own reader takes, and nothing written where something is or where it cannot be. */
#include "bench/dummy_gguf.h"
#include "support/cmocka.h"
#include "text/tokenizer.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_VOCAB = 300 };

static char dir[64], file[128];

static int write_config(const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/config.json", dir);
    FILE *f = fopen(path, "w");
    if (f == NULL || fputs(text, f) < 0) {
        return -1;
    }
    return fclose(f);
}

/* What all models here share. */
#define COMMON                                                                  \
    "\"vocab_size\":300,\"max_position_embeddings\":128,\"rms_norm_eps\":1e-6," \
    "\"rope_theta\":20000,\"tie_word_embeddings\":false,\"eos_token_id\":299,"  \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":32,"      \
    "\"hidden_act\":\"silu\",\"torch_dtype\":\"bfloat16\"}"
static const char dense[] =
    "{\"model_type\":\"qwen3\",\"architectures\":[\"Qwen3ForCausalLM\"],\"hidden_size\":128,"
    "\"intermediate_size\":256,\"num_hidden_layers\":2," COMMON;
#define DELTA                                                                             \
    "\"linear_num_key_heads\":2,\"linear_num_value_heads\":6,\"linear_key_head_dim\":32," \
    "\"linear_value_head_dim\":128,\"hidden_size\":256,"
static const char hybrid[] = "{\"model_type\":\"qwen3_5_text\","
                             "\"architectures\":[\"Qwen3_5ForCausalLM\"],"
                             "\"intermediate_size\":256,\"num_hidden_layers\":4," DELTA COMMON;
static const char hybrid_moe[] =
    "{\"model_type\":\"qwen3_5_moe_text\",\"architectures\":[\"Qwen3_5MoeForCausalLM\"],"
    "\"num_hidden_layers\":3,\"num_experts\":4,\"num_experts_per_tok\":2,"
    "\"layer_types\":[\"full_attention\",\"linear_attention\",\"linear_attention\"],"
    "\"moe_intermediate_size\":32,\"shared_expert_intermediate_size\":64," DELTA COMMON;
static const char next[] =
    "{\"model_type\":\"qwen3_next\",\"architectures\":[\"Qwen3NextForCausalLM\"],"
    "\"num_hidden_layers\":4,\"num_experts\":4,\"num_experts_per_tok\":2,"
    "\"intermediate_size\":64,"
    "\"moe_intermediate_size\":32,\"shared_expert_intermediate_size\":64," DELTA COMMON;

static int make_folder(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/whim_dummy_gguf_XXXXXX");
    if (mkdtemp(dir) == NULL) {
        return -1;
    }
    snprintf(file, sizeof file, "%s/model.gguf", dir);
    return write_config(dense);
}

static int remove_folder(void **state)
{
    (void)state;
    char path[128];
    unlink(file);
    snprintf(path, sizeof path, "%s/config.json", dir);
    unlink(path);
    return rmdir(dir);
}

static whim_engine *prepare(const char *model, const char *type)
{
    whim_engine_cfg cfg = {.model = model, .n_thread = 2, .ctx = 64, .kv_type = "f32"};
    whim_engine *engine = NULL;
    whim_diag diag = {{0}};
    cfg.load_format = type != NULL ? "dummy" : NULL;
    cfg.weight_type = type;
    if (whim_engine_prepare(&cfg, &engine, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    return engine;
}

/* Load, and the logits after some tokens. */
static void logits_of(whim_engine *engine, float *out)
{
    static const int32_t tokens[] = {5, 260, 17, 298, 0};
    whim_diag diag = {{0}};
    whim_sequence *seq;
    assert_int_equal(whim_engine_load(engine, &diag), WHIM_ERR_OK);
    whim_runner *runner = whim_engine_runner(engine);
    assert_int_equal(whim_runner_sequence_create(runner, &seq), WHIM_ERR_OK);
    whim_step_part part = {.seq = seq, .tokens = tokens, .n_tok = 5, .n_out = 1};
    assert_int_equal(whim_runner_step(runner, &part, 1, &diag), WHIM_ERR_OK);
    memcpy(out, whim_exec_logits(whim_runner_exec(runner), 0), N_VOCAB * sizeof *out);
    whim_runner_sequence_destroy(runner, seq);
}

/* Written and read again, a model of the folder's configuration has the same logits. */
static void check_same(const char *type)
{
    float made[N_VOCAB], read[N_VOCAB];
    whim_diag diag = {{0}};
    whim_engine *engine = prepare(dir, type);
    unlink(file);
    if (whim_dummy_gguf_write(engine, "tiny", file, NULL, NULL, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    logits_of(engine, made);
    whim_engine_close(engine);
    engine = prepare(file, NULL);
    const whim_config *c = whim_engine_config(engine);
    assert_int_equal(whim_engine_ckpt(engine)->format, WHIM_CKPT_GGUF);
    assert_int_equal(c->eos[0], 299);
    assert_int_equal(c->max_ctx, 128);
    logits_of(engine, read);
    assert_memory_equal(made, read, sizeof made);
    whim_engine_close(engine);
}

static void the_file_is_the_model(void **state)
{
    (void)state;
    static const char *const types[] = {"f32", "bf16", "q4_0", "q8_0", "mxfp4"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        check_same(types[i]);
    }
}

static void the_file_is_the_hybrid(void **state)
{
    (void)state;
    static const char *const configs[] = {hybrid, hybrid_moe, next};
    static const char *const types[] = {"f32", "q4_0", "q8_0", "q4_k"};
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        assert_int_equal(write_config(configs[i]), 0);
        for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
            check_same(types[t]);
        }
    }
    assert_int_equal(write_config(dense), 0);
    check_same("bf16");
}

static void its_vocabulary_is_readable(void **state)
{
    (void)state;
    whim_diag diag = {{0}};
    whim_tokenizer *tok = NULL;
    whim_engine *engine = prepare(file, NULL);
    if (whim_tokenizer_open(file, whim_engine_ckpt(engine), &tok, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    whim_tokenizer_close(tok);
    whim_engine_close(engine);
}

static void refuse(whim_engine *engine, const char *path, whim_err err, const char *text)
{
    whim_diag diag = {{0}};
    assert_int_equal(whim_dummy_gguf_write(engine, "tiny", path, NULL, NULL, &diag), err);
    if (strstr(diag.text, text) == NULL) {
        fail_msg("the message lacks \"%s\": %s", text, diag.text);
    }
}

static void what_cannot_be_written_is_refused(void **state)
{
    (void)state;
    char path[160];
    whim_engine *engine = prepare(dir, "bf16");
    refuse(engine, file, WHIM_ERR_INVALID, "exists already");
    snprintf(path, sizeof path, "%s/no/such/folder.gguf", dir);
    refuse(engine, path, WHIM_ERR_IO, "folder.gguf.part");
    whim_engine_close(engine);
    snprintf(path, sizeof path, "%s/other.gguf", dir);
    engine = prepare(dir, "fp8");
    refuse(engine, path, WHIM_ERR_UNSUPPORTED, "FP8");
    whim_engine_close(engine);
    engine = prepare(file, NULL);
    refuse(engine, path, WHIM_ERR_INVALID, "--load-format dummy");
    whim_engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_is_the_model),
        cmocka_unit_test(the_file_is_the_hybrid),
        cmocka_unit_test(its_vocabulary_is_readable),
        cmocka_unit_test(what_cannot_be_written_is_refused),
    };
    return cmocka_run_group_tests_name("dummy_gguf", tests, make_folder, remove_folder);
}
