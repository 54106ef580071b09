/* SPDX-License-Identifier: Apache-2.0 */
/* A runner of a tiny model with dummy weights, without any file. */
#ifndef WHIM_TESTS_RUNNER_TINY_RUNNER_H
#define WHIM_TESTS_RUNNER_TINY_RUNNER_H

#include <stdint.h>

#include "runner/runner.h"
#include "support/cmocka.h"
#include "weights/bind.h"

#include <string.h>

enum { TINY_VOCAB = 61, TINY_WIDTH = 32, TINY_CTX = 160 };

typedef struct tiny_runner {
    whim_ckpt ckpt;
    const whim_model_def *def;
    whim_device *device;
    whim_arena arena;
    whim_binder binder;
    whim_model *model;
    whim_runner *runner;
} tiny_runner;

static inline void tiny_config(whim_config *c)
{
    *c = (whim_config){
        .n_layer = 2,
        .d_model = TINY_WIDTH,
        .n_head = 4,
        .n_kv = 2,
        .d_head = 8,
        .d_ff = 48,
        .n_vocab = TINY_VOCAB,
        .max_ctx = TINY_CTX,
        .rms_eps = 1e-5f,
        .rope = {.rotary_dim = 8, .theta = 10000.0},
        .dtype = WHIM_DTYPE_F32,
    };
}

static inline whim_exec_cfg tiny_cfg(bool graphs)
{
    return (whim_exec_cfg){
        .max_rows = 64,
        .max_seqs = 3,
        .max_outs = 8,
        .max_ctx = TINY_CTX,
        .n_page = 8,
        .page_len = 32,
        .kv_type = WHIM_KV_F32,
        .graphs = graphs,
    };
}

/* The same with recurrent states in its first layer. */
static inline void tiny_hybrid_config(whim_config *c)
{
    tiny_config(c);
    c->gdn = (whim_gdn_config){.n_key = 2, .n_value = 4, .d_key = 8, .d_value = 8, .n_tap = 4};
    whim_config_set_gdn(c, 0);
}

/* Experts in place of MLPs, as the family has them. */
static inline void tiny_set_experts(whim_config *c, const char *arch)
{
    bool minimax = strcmp(arch, "minimax_m2") == 0;
    c->moe = (whim_moe_config){.n_expert = 7,
                               .top_k = 3,
                               .d_expert = 24,
                               .d_shared = strcmp(arch, "qwen3_5") == 0 ? 16 : 0,
                               .sigmoid = minimax,
                               .choice_bias = minimax,
                               .renormalize = true,
                               .scale = 1.0f};
}

/* What of a model a rank has: whole experts, as one of n_deal, MLPs as
 * one of n_wide if there are any, and the rest as one of n_rank. More of it is as the binder has
 * it. */
typedef struct tiny_part {
    int32_t n_deal, deal_rank, n_rank, rank, n_wide, wide_rank;
    int32_t n_share, deal_span, deal_slots;
    bool whole_sums;
    whim_stream_watch *watch; /* of the device, or NULL */
} tiny_part;

/* Everything but the runner. experts: the model has some. */
static inline void tiny_load_part(tiny_runner *t, const char *backend, const char *arch,
                                  bool experts, const tiny_part *part)
{
    whim_diag diag = {{0}};
    *t = (tiny_runner){.ckpt = {.format = WHIM_CKPT_DUMMY}};
    whim_arena_init(&t->ckpt.arena);
    whim_arena_init(&t->arena);
    whim_binder_init(&t->binder);
    t->binder.n_deal = part->n_deal;
    t->binder.deal_rank = part->deal_rank;
    t->binder.n_rank = part->n_rank;
    t->binder.rank = part->rank;
    t->binder.n_wide = part->n_wide;
    t->binder.wide_rank = part->wide_rank;
    t->binder.n_share = part->n_share;
    t->binder.deal_span = part->deal_span;
    t->binder.deal_slots = part->deal_slots;
    t->binder.whole_sums = part->whole_sums;
    t->binder.ckpt = &t->ckpt;
    if (strcmp(arch, "qwen3_5") == 0) {
        tiny_hybrid_config(&t->ckpt.config);
    } else {
        tiny_config(&t->ckpt.config);
    }
    if (experts) {
        tiny_set_experts(&t->ckpt.config, arch);
    }
    whim_device_cfg device_cfg = {.n_thread = 1};
    assert_int_equal(whim_model_find(arch, &t->def, &diag), WHIM_ERR_OK);
    t->ckpt.config.arch = &t->def->arch;
    assert_int_equal(whim_backend_find(backend)->device_open(0, &device_cfg, &t->device, &diag),
                     WHIM_ERR_OK);
    t->device->watch = part->watch;
    assert_int_equal(t->def->bind(t->def, &t->ckpt.config, &t->arena, &t->binder, &t->model, &diag),
                     WHIM_ERR_OK);
    assert_int_equal(whim_bind_match(&t->binder, &t->ckpt, t->device, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_bind_load(&t->binder, &t->ckpt, t->device, 1, NULL, NULL, &diag),
                     WHIM_ERR_OK);
}

static inline void tiny_load_arch(tiny_runner *t, const char *backend, const char *arch)
{
    tiny_load_part(t, backend, arch, false, &(tiny_part){0});
}

static inline void tiny_load(tiny_runner *t, const char *backend)
{
    tiny_load_arch(t, backend, "llama");
}

static inline whim_err tiny_try(tiny_runner *t, const whim_exec_cfg *cfg, whim_diag *diag)
{
    return whim_runner_open(&t->ckpt.config, t->def, t->model, t->device, cfg, &t->runner, diag);
}

static inline void tiny_open(tiny_runner *t, const char *backend, const whim_exec_cfg *cfg)
{
    whim_diag diag = {{0}};
    tiny_load(t, backend);
    if (tiny_try(t, cfg, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
}

static inline void tiny_close(tiny_runner *t)
{
    whim_runner_close(t->runner);
    whim_binder_deinit(&t->binder);
    whim_device_close(t->device);
    whim_arena_reset(&t->arena);
    whim_arena_reset(&t->ckpt.arena);
}

static inline whim_sequence *tiny_sequence(tiny_runner *t)
{
    whim_sequence *seq;
    assert_int_equal(whim_runner_sequence_create(t->runner, &seq), WHIM_ERR_OK);
    return seq;
}

/* Step one sequence; the step must succeed. */
static inline void tiny_step(tiny_runner *t, whim_sequence *seq, const int32_t *tokens,
                             int64_t n_tok, int64_t n_out)
{
    whim_diag diag = {{0}};
    whim_step_part part = {.seq = seq, .tokens = tokens, .n_tok = n_tok, .n_out = n_out};
    if (whim_runner_step(t->runner, &part, 1, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
}

#endif
