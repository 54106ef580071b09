/* SPDX-License-Identifier: Apache-2.0 */
/* The shapes of published models by name, for dummy weights: timing and memory planning without a
 * download. */
#include "weights/config.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* What all sizes of a family share. */
typedef struct family {
    const char *arch;
    int32_t n_vocab;
    int32_t max_ctx;
    double theta;
    float rms_eps;
    int32_t eos[2];
    int32_t n_eos;
    whim_dtype dtype;
    int32_t rotary_dim; /* 0: all of a head */
    whim_moe_config moe;
    bool is_hybrid; /* three layers in four are gated delta nets with 16 key heads of 128 */
} family;

static const family smollm2 = {"llama", 49152,  8192,       1e5,
                               1e-5f,   {2, 0}, .n_eos = 2, .dtype = WHIM_DTYPE_BF16};
static const family qwen3 = {"qwen3", 151936,           40960,      1e6,
                             1e-6f,   {151645, 151643}, .n_eos = 2, .dtype = WHIM_DTYPE_BF16};
static const family qwen3_moe = {
    "qwen3_moe",
    151936,
    40960,
    1e6,
    1e-6f,
    {151645, 151643},
    .n_eos = 2,
    .dtype = WHIM_DTYPE_BF16,
    .moe = {.n_expert = 128, .top_k = 8, .renormalize = true, .scale = 1.0f}};
static const family minimax_m2 = {"minimax_m2",
                                  200064,
                                  196608,
                                  5e6,
                                  1e-6f,
                                  {200020},
                                  .n_eos = 1,
                                  .dtype = WHIM_DTYPE_FP8,
                                  .rotary_dim = 64,
                                  .moe = {.n_expert = 256,
                                          .top_k = 8,
                                          .sigmoid = true,
                                          .choice_bias = true,
                                          .renormalize = true,
                                          .scale = 1.0f}};

#define QWEN3_5_FAMILY                                                                             \
    "qwen3_5", 248320, 262144, 1e7, 1e-6f, {248046, 248044}, .n_eos = 2, .dtype = WHIM_DTYPE_BF16, \
                                                             .rotary_dim = 64, .is_hybrid = true
static const family qwen3_5 = {QWEN3_5_FAMILY};
static const family qwen3_5_35b = {
    QWEN3_5_FAMILY,
    .moe = {.n_expert = 256, .top_k = 8, .d_shared = 512, .renormalize = true, .scale = 1.0f}};
static const family qwen3_5_397b = {
    QWEN3_5_FAMILY,
    .moe = {.n_expert = 512, .top_k = 10, .d_shared = 1024, .renormalize = true, .scale = 1.0f}};

typedef struct shape {
    const char *name;
    const family *family;
    int32_t n_layer;
    int32_t d_model;
    int32_t n_head;
    int32_t n_kv;
    int32_t d_head;
    int32_t d_ff; /* of an expert, where there are any */
    bool tied_head;
    int32_t n_value; /* value heads of hybrids */
} shape;

static const shape shapes[] = {
    {"smollm2-135m", &smollm2, 30, 576, 9, 3, 64, 1536, true},
    {"qwen3-0.6b", &qwen3, 28, 1024, 16, 8, 128, 3072, true},
    {"qwen3-1.7b", &qwen3, 28, 2048, 16, 8, 128, 6144, true},
    {"qwen3-4b", &qwen3, 36, 2560, 32, 8, 128, 9728, true},
    {"qwen3-8b", &qwen3, 36, 4096, 32, 8, 128, 12288, false},
    {"qwen3-32b", &qwen3, 64, 5120, 64, 8, 128, 25600, false},
    {"qwen3-30b-a3b", &qwen3_moe, 48, 2048, 32, 4, 128, 768, false},
    {"qwen3-235b-a22b", &qwen3_moe, 94, 4096, 64, 4, 128, 1536, false},
    {"minimax-m2", &minimax_m2, 62, 3072, 48, 8, 128, 1536, false},
    {"qwen3.5-4b", &qwen3_5, 32, 2560, 16, 4, 256, 9216, true, 32},
    {"qwen3.5-35b-a3b", &qwen3_5_35b, 40, 2048, 16, 2, 256, 512, false, 32},
    {"qwen3.5-397b-a17b", &qwen3_5_397b, 60, 4096, 32, 2, 256, 1024, false, 64},
};

enum { N_SHAPE = sizeof shapes / sizeof shapes[0] };

static whim_err unknown_shape(const char *name, whim_diag *diag)
{
    char list[512] = "";
    for (int i = 0; i < N_SHAPE; i++) {
        size_t at = strlen(list);
        snprintf(list + at, sizeof list - at, "%s%s", i == 0 ? "" : ", ", shapes[i].name);
    }
    return whim_fail(diag, WHIM_ERR_NOT_FOUND, "no shape is called \"%.64s\"; known are %s", name,
                     list);
}

whim_err whim_config_shape(whim_config *config, const char *name, whim_diag *diag)
{
    for (int i = 0; i < N_SHAPE; i++) {
        const shape *s = &shapes[i];
        if (strcasecmp(name, s->name) != 0) {
            continue;
        }
        *config = (whim_config){
            .n_layer = s->n_layer,
            .d_model = s->d_model,
            .n_head = s->n_head,
            .n_kv = s->n_kv,
            .d_head = s->d_head,
            .d_ff = s->d_ff,
            .n_vocab = s->family->n_vocab,
            .max_ctx = s->family->max_ctx,
            .rms_eps = s->family->rms_eps,
            .rope = {.kind = WHIM_ROPE_DEFAULT,
                     .rotary_dim = s->family->rotary_dim > 0 ? s->family->rotary_dim : s->d_head,
                     .theta = s->family->theta,
                     .factor = 1.0,
                     .beta_fast = 32.0,
                     .beta_slow = 1.0,
                     .attn_factor = 1.0,
                     .truncate = true},
            .tied_head = s->tied_head,
            .dtype = s->family->dtype,
            .dtype_given = true,
            .eos = {s->family->eos[0], s->family->eos[1]},
            .n_eos = s->family->n_eos,
            .moe = s->family->moe,
        };
        if (s->family->is_hybrid) {
            config->gdn = (whim_gdn_config){
                .n_key = 16, .n_value = s->n_value, .d_key = 128, .d_value = 128, .n_tap = 4};
            whim_config_set_gdn_interval(config, 4);
        }
        config->moe.d_expert = s->family->moe.n_expert > 0 ? s->d_ff : 0;
        snprintf(config->arch, sizeof config->arch, "%s", s->family->arch);
        return whim_config_check(config, s->name, diag);
    }
    return unknown_shape(name, diag);
}
