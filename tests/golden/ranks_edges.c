/* SPDX-License-Identifier: Apache-2.0 */
/* Cut models in which wrong indices and counts show: a rank that has nothing at all, block scales
 * and KV heads that differ much from their neighbours, logits that are all below zero. */
#include "base/check.h"
#include "base/math/rng.h"
#include "golden/ranks.h"
#include "support/tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double CLOSE = 1e-3;

/* --- a rank that has nothing ------------------------------------------------------------------ */

/* One head, one key head, one block of each MLP and one tile of the vocabulary: rank 0's. */
static const char one_of_all[] =
    "{\"architectures\": [\"Qwen3_5MoeForCausalLM\"], \"model_type\": \"qwen3_5_moe_text\","
    " \"hidden_size\": 64, \"num_attention_heads\": 1, \"num_key_value_heads\": 1,"
    " \"head_dim\": 32, \"num_hidden_layers\": 2, \"vocab_size\": 16,"
    " \"max_position_embeddings\": 512, \"linear_conv_kernel_dim\": 4,"
    " \"linear_key_head_dim\": 16, \"linear_num_key_heads\": 1, \"linear_num_value_heads\": 2,"
    " \"linear_value_head_dim\": 16, \"num_experts\": 4, \"num_experts_per_tok\": 2,"
    " \"moe_intermediate_size\": 32, \"shared_expert_intermediate_size\": 32,"
    " \"full_attention_interval\": 2, \"torch_dtype\": \"bfloat16\"}";

static bool write_file(const char *dir, const char *name, const void *bytes, size_t n)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "wb");
    bool good = file != NULL && fwrite(bytes, 1, n, file) == n;
    return file != NULL && fclose(file) == 0 && good;
}

static void remove_file(const char *dir, const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    unlink(path);
}

/* A hundred steps of one token, and then some. */
static void check_empty(const char *dir, bool quick)
{
    enum { PROMPT = 3, STEPS = 100, VOCAB = 16 };
    int32_t tokens[2][PROMPT + STEPS + 1];
    golden g = {.vocab = VOCAB, .n_prompt = 2};
    for (int32_t p = 0; p < 2; p++) {
        g.prompts[p] = (golden_prompt){
            .tokens = tokens[p], .n_prompt = PROMPT, .n_greedy = p == 0 ? STEPS + 1 : 5};
        for (int32_t i = 0; i < PROMPT + STEPS + 1; i++) {
            tokens[p][i] = (int32_t)(whim_rng_at(18, (uint64_t)(1000 * p + i)) % VOCAB);
        }
    }
    if (tally_check(write_file(dir, "config.json", one_of_all, sizeof one_of_all - 1),
                    "empty ranks", "written")) {
        rank_member like = {.g = &g, .path = dir, .weight_type = "bf16"};
        ranks_check_sizes("empty ranks", like, quick);
        remove_file(dir, "config.json");
    }
}

/* --- weights of our own ----------------------------------------------------------------------- */

/* MiniMax with few heads. Heads of 96 end inside blocks of 128, and five ranks have three KV heads
 * to share. */
enum { HID = 256, HEADS = 6, KV = 3, D = 96, EXPERTS = 2, LAYERS = 2, BLOCK = 128, VOCAB = 149 };

static const char config_text[] =
    "{\"architectures\": [\"MiniMaxM2ForCausalLM\"], \"model_type\": \"minimax_m2\","
    " \"hidden_size\": 256, \"num_attention_heads\": 6, \"num_key_value_heads\": 3,"
    " \"head_dim\": 96, \"rotary_dim\": 32, \"num_hidden_layers\": 2, \"vocab_size\": 149,"
    " \"max_position_embeddings\": 512, \"num_local_experts\": 2, \"num_experts_per_tok\": 1,"
    " \"intermediate_size\": %d, \"use_qk_norm\": true, \"scoring_func\": \"sigmoid\","
    " \"use_routing_bias\": true, \"tie_word_embeddings\": false,"
    " \"eos_token_id\": 0, \"torch_dtype\": \"float32\"%s}";
static const char fp8_text[] = ", \"quantization_config\": {\"quant_method\": \"fp8\","
                               " \"weight_block_size\": [128, 128],"
                               " \"activation_scheme\": \"dynamic\","
                               " \"modules_to_not_convert\": [\"gate\","
                               " \"e_score_correction_bias\", \"lm_head\"]}";

/* A file of weights, as it is put together. */
typedef struct sheet {
    bool fp8; /* the matrices of the layers: e4m3 with scales that alternate */
    int64_t d_ff;
    char header[16384], *data;
    size_t n_header, n_data;
    uint64_t key; /* of the next tensor's numbers */
} sheet;

enum { MAX_DATA = 6 << 20 };

/* Room for a tensor, of a row if `rows` is 0. */
static void *tensor(sheet *s, const char *name, const char *type, int64_t rows, int64_t cols)
{
    int64_t n = (rows > 0 ? rows : 1) * cols;
    size_t at = s->n_data, bytes = (size_t)n * (strcmp(type, "F32") == 0 ? sizeof(float) : 1);
    char shape[32];
    if (rows > 0) {
        snprintf(shape, sizeof shape, "%d,%d", (int)rows, (int)cols);
    } else {
        snprintf(shape, sizeof shape, "%d", (int)cols);
    }
    int used = snprintf(s->header + s->n_header, sizeof s->header - s->n_header,
                        "%c\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                        s->n_header == 0 ? '{' : ',', name, type, shape, at, at + bytes);
    s->n_header += (size_t)used;
    s->n_data += bytes;
    s->key++;
    whim_check(s->n_header < sizeof s->header - 8 && s->n_data <= MAX_DATA);
    return s->data + at;
}

static float *floats(sheet *s, const char *name, int64_t rows, int64_t cols, float mean, float size)
{
    float *x = tensor(s, name, "F32", rows, cols);
    for (int64_t i = 0; i < (rows > 0 ? rows : 1) * cols; i++) {
        x[i] = mean + size * whim_rng_normal_at(s->key, (uint64_t)i);
    }
    return x;
}

/* A matrix of a layer. Scales of blocks are 1 and 1,000 in turn, times a small number. */
static float *matrix(sheet *s, int32_t layer, const char *part, int64_t rows, int64_t cols)
{
    char name[128];
    snprintf(name, sizeof name, "model.layers.%d.%s.weight", layer, part);
    if (!s->fp8) {
        return floats(s, name, rows, cols, 0.0f, 0.1f);
    }
    uint8_t *codes = tensor(s, name, "F8_E4M3", rows, cols);
    for (int64_t i = 0; i < rows * cols; i++) { /* of 1/8 to 4, and their negatives */
        uint64_t u = whim_rng_at(s->key, (uint64_t)i);
        codes[i] = (uint8_t)((u & 0x87) | (4 + (u >> 8) % 5) << 3);
    }
    strncat(name, "_scale_inv", sizeof name - strlen(name) - 1);
    int64_t n = (rows + BLOCK - 1) / BLOCK, m = (cols + BLOCK - 1) / BLOCK;
    float *scales = tensor(s, name, "F32", n, m);
    for (int64_t i = 0; i < n * m; i++) {
        scales[i] = (i / m + i % m) % 2 == 0 ? 1.0f / 64 : 1000.0f / 64;
    }
    return NULL;
}

static void row(sheet *s, int32_t layer, const char *part, int64_t n, float mean)
{
    char name[128];
    snprintf(name, sizeof name, "model.layers.%d.%s", layer, part);
    floats(s, name, 0, n, mean, 0.2f);
}

/* KV head 1 is a hundred times the size of the others, where floats can be. */
static void heads(sheet *s, int32_t l, const char *part)
{
    float *x = matrix(s, l, part, (int64_t)KV * D, HID);
    for (int64_t i = (int64_t)D * HID; x != NULL && i < (int64_t)2 * D * HID; i++) {
        x[i] *= 100.0f;
    }
}

/* What a layer adds to value 0 of the residual stream: nothing, where floats can be. */
static void adds(sheet *s, int32_t l, const char *part, int64_t cols)
{
    float *x = matrix(s, l, part, HID, cols);
    if (x != NULL) {
        memset(x, 0, (size_t)cols * sizeof *x);
    }
}

static void layer_make(sheet *s, int32_t l)
{
    char name[128];
    row(s, l, "input_layernorm.weight", HID, 1.0f);
    row(s, l, "post_attention_layernorm.weight", HID, 1.0f);
    row(s, l, "self_attn.q_norm.weight", (int64_t)HEADS * D, 1.0f);
    row(s, l, "self_attn.k_norm.weight", (int64_t)KV * D, 1.0f);
    matrix(s, l, "self_attn.q_proj", (int64_t)HEADS * D, HID);
    heads(s, l, "self_attn.k_proj");
    heads(s, l, "self_attn.v_proj");
    adds(s, l, "self_attn.o_proj", (int64_t)HEADS * D);
    snprintf(name, sizeof name, "model.layers.%d.block_sparse_moe.gate.weight", l);
    floats(s, name, EXPERTS, HID, 0.0f, 0.1f);
    row(s, l, "block_sparse_moe.e_score_correction_bias", EXPERTS, 0.0f);
    for (int32_t e = 0; e < EXPERTS; e++) {
        for (int32_t i = 1; i <= 3; i++) {
            snprintf(name, sizeof name, "block_sparse_moe.experts.%d.w%d", e, i);
            if (i == 2) {
                adds(s, l, name, s->d_ff);
            } else {
                matrix(s, l, name, s->d_ff, HID);
            }
        }
    }
}

/* Value 0 of the residual stream stays above zero and is turned round by the last norm; the head has a
 * lot of it: all logits are below zero. */
static void model_make(sheet *s)
{
    float *embed = floats(s, "model.embed_tokens.weight", VOCAB, HID, 0.0f, 1.0f);
    float *head = floats(s, "lm_head.weight", VOCAB, HID, 0.0f, 0.02f);
    float *norm = floats(s, "model.norm.weight", 0, HID, 1.0f, 0.1f);
    for (int64_t i = 0; i < VOCAB; i++) {
        embed[i * HID] = 20.0f;
        head[i * HID] = 40.0f + 0.1f * (float)(i % 7);
    }
    norm[0] = -1.0f;
    for (int32_t l = 0; l < LAYERS; l++) {
        layer_make(s, l);
    }
    s->header[s->n_header++] = '}';
    while (s->n_header % 8 != 0) {
        s->header[s->n_header++] = ' ';
    }
}

static bool model_write(const char *dir, sheet *s)
{
    char config[2048], path[600];
    int n = snprintf(config, sizeof config, config_text, (int)s->d_ff, s->fp8 ? fp8_text : "");
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    uint64_t n_header = s->n_header;
    FILE *file = fopen(path, "wb");
    bool good = file != NULL && fwrite(&n_header, sizeof n_header, 1, file) == 1 &&
                fwrite(s->header, 1, s->n_header, file) == s->n_header &&
                fwrite(s->data, 1, s->n_data, file) == s->n_data;
    good = file != NULL && fclose(file) == 0 && good;
    return good && write_file(dir, "config.json", config, (size_t)n);
}

static bool all_negative(const rank_member *m)
{
    bool below = true;
    for (int64_t i = 0; i < m->n_value; i++) {
        below = below && m->logits[0][i] < 0.0f;
    }
    return below;
}

/* Two, three and five ranks against one. */
static void check_written(const golden *g, const char *dir, const char *name, bool fp8)
{
    static const struct {
        int32_t n_rank;
        const char *holders;
    } sizes[] = {{2, "ab"}, {3, "abc"}, {5, "aabbc"}};
    char level[32];
    rank_member one = {0}, like = {.g = g,
                                   .path = dir,
                                   .backend = "cpu",
                                   .isa = drive_exact_level("cpu", level, sizeof level)};
    sheet *s = calloc(1, sizeof *s);
    whim_check(s != NULL && (s->data = malloc(MAX_DATA)) != NULL);
    s->fp8 = fp8;
    s->d_ff = fp8 ? 5 * BLOCK : 5 * 32;
    model_make(s);
    bool good = tally_check(model_write(dir, s), name, "written") && ranks_run(&one, 1, &like);
    tally_check(good && (fp8 || all_negative(&one)), name, "one rank %s", like.diag.text);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && good; i++) {
        rank_member many = like;
        many.holders = sizes[i].holders;
        ranks_check(name, &(rank_bound){.most = CLOSE}, &one, many, sizes[i].n_rank);
    }
    ranks_free(&one, 1);
    remove_file(dir, "config.json");
    remove_file(dir, "model.safetensors");
    free(s->data);
    free(s);
}

void ranks_edges_test(const golden *g, const char *dir, bool quick)
{
    check_empty(dir, quick);
    check_written(g, dir, "scales in turn", true);
    check_written(g, dir, "uneven heads", false);
}
