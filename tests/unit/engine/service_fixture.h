/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the service share: a tiny model with a pool that is too small for all jobs,
 * jobs by number, and their answers read to the end. Tests run from the root of the repository. */
#ifndef WHIM_TESTS_SERVICE_FIXTURE_H
#define WHIM_TESTS_SERVICE_FIXTURE_H

#include "base/clock.h"
#include "engine/service.h"
#include "support/cmocka.h"
#include "support/drive.h"
#include "support/law_sampler.h"

#include <stdio.h>
#include <string.h>

enum { CTX = 160, MAX_SEQS = 4, STEP = 24, OUTS = 6, N_JOB = 14, MAX_MADE = 60, KV_PAGES = 6 };

static whim_engine *engine;
static const whim_config *config;
static whim_service *service;
static int32_t words[4][CTX];
static const char *fixture_draft; /* of the model that is opened next, or NULL */
static int64_t fixture_pages = KV_PAGES;
static whim_graph_use fixture_graphs; /* replayed or not */
static whim_meters meters;

static inline int open_model_on(const char *model, const char *backend, const char *level)
{
    whim_diag diag = {""};
    whim_engine_cfg cfg = {.model = model,
                           .draft = fixture_draft,
                           .graphs = fixture_graphs,
                           .backend = backend,
                           .isa = level,
                           .n_checkpoint = 3,
                           .n_thread = 2,
                           .n_flight = 2,
                           .max_step_tokens = STEP,
                           .max_seqs = MAX_SEQS,
                           .max_outs = OUTS,
                           .max_kept = OUTS,
                           .ctx = CTX};
    engine = drive_open(&cfg, &diag);
    assert_non_null(engine);
    cfg.kv_mem = whim_engine_runner_plan(engine)->page_bytes * fixture_pages;
    whim_engine_close(engine);
    engine = drive_open(&cfg, &diag);
    assert_non_null(engine);
    config = whim_engine_config(engine);
    for (int32_t k = 0; k < 4; k++) {
        for (int32_t i = 0; i < CTX; i++) { /* alike for two pages, then each its own */
            words[k][i] = (i * 37 + 5 + (i < 64 ? 0 : k * 11)) % config->n_vocab;
        }
    }
    return 0;
}

static inline int open_model(const char *model)
{
    return open_model_on(model, NULL, NULL);
}

static inline int open_engine(void **state)
{
    (void)state;
    return open_model("tests/data/golden/llama-bf16");
}

static inline int open_hybrid(void **state)
{
    (void)state;
    return open_model("tests/data/golden/qwen35-f32");
}

static inline int close_engine(void **state)
{
    (void)state;
    whim_engine_close(engine);
    return 0;
}

static inline whim_service_cfg service_cfg(void)
{
    /* No disk is too slow for a test. */
    return (whim_service_cfg){.engine = engine,
                              .max_seqs = MAX_SEQS,
                              .max_step_tokens = STEP,
                              .max_outs = OUTS,
                              .fetch_ns = 240 * WHIM_NS_PER_S};
}

static inline int start(void **state)
{
    (void)state;
    whim_diag diag = {""};
    whim_service_cfg cfg = service_cfg();
    cfg.max_waiting = N_JOB;
    cfg.meters = &meters;
    memset(&meters, 0, sizeof meters);
    assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_OK);
    return 0;
}

static inline int stop(void **state)
{
    (void)state;
    whim_service_destroy(service);
    service = NULL;
    return 0;
}

/* --- asking ----------------------------------------------------------------------------------- */

static inline whim_job_cfg job_cfg(int32_t k, int64_t n_prompt, int64_t max_tokens)
{
    whim_job_cfg cfg = {.prompt = words[k % 4],
                        .n_prompt = n_prompt,
                        .n_choice = 1,
                        .max_tokens = max_tokens,
                        .prompt_logprobs = -1,
                        .ignore_eos = true};
    whim_sample_params_init(&cfg.params);
    cfg.params.temperature = k % 3 == 0 ? 0 : 1;
    cfg.params.top_k = k % 3 == 1 ? 8 : 0;
    cfg.params.seed = (uint64_t)k;
    return cfg;
}

static inline whim_job *submit(const whim_job_cfg *cfg)
{
    whim_diag diag = {""};
    whim_job *job;
    if (whim_service_submit(service, cfg, 1, &job, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    return job;
}

typedef struct answer {
    int32_t ids[3][MAX_MADE + 1];
    float logprobs[3][MAX_MADE + 1]; /* where they are asked for */
    int64_t n[3];
    whim_end end[3];
    float prompt_logprob[CTX];
    int64_t n_prompt;
    int32_t n_top;
    bool failed, admitted;
    whim_err err;
    char message[128];
    int64_t n_cached, n_read, n_told; /* of the prompt, as last told; how often */
} answer;

static inline void take(answer *a, const whim_job_event *e)
{
    switch (e->kind) {
    case WHIM_JOB_ADMITTED:
        assert_false(a->admitted);
        a->admitted = true;
        break;
    case WHIM_JOB_TOKEN:
        assert_true(a->admitted && a->n[e->choice] < MAX_MADE);
        a->logprobs[e->choice][a->n[e->choice]] = e->has_logprob ? e->logprob : 0;
        a->ids[e->choice][a->n[e->choice]++] = e->id;
        break;
    case WHIM_JOB_PROMPT_TOKEN:
        assert_int_equal(e->position, a->n_prompt);
        assert_int_equal(e->has_logprob, e->position > 0);
        a->prompt_logprob[a->n_prompt++] = e->logprob;
        a->n_top = e->n_top;
        break;
    case WHIM_JOB_PROGRESS: /* before all tokens, and never twice the same */
        assert_true(a->admitted && a->n[0] == 0 && e->position > a->n_read);
        a->n_read = e->position;
        a->n_told++;
        break;
    case WHIM_JOB_CHOICE_END:
        a->end[e->choice] = e->end;
        break;
    case WHIM_JOB_DONE:
        a->n_cached = e->n_cached;
        break;
    case WHIM_JOB_FAILED:
        a->failed = true;
        a->err = e->err;
        snprintf(a->message, sizeof a->message, "%s", e->message);
        break;
    }
}

/* Read to the last event; gives the job back. */
static inline void read_all(whim_job *job, answer *a)
{
    whim_job_event e;
    int64_t until = whim_clock_ns() + 240 * WHIM_NS_PER_S; /* it hangs, else */
    memset(a, 0, sizeof *a);
    for (;;) {
        if (whim_job_next(job, &e)) {
            take(a, &e);
            if (e.kind == WHIM_JOB_DONE || e.kind == WHIM_JOB_FAILED) {
                assert_false(whim_job_next(job, &e));
                break;
            }
        } else {
            assert_true(whim_clock_ns() < until);
            whim_clock_sleep_ns(WHIM_NS_PER_MS / 5);
        }
    }
    whim_job_release(job);
}

static inline void feed(whim_sequence *seq, const int32_t *tokens, int64_t n, int64_t n_out)
{
    whim_diag diag = {""};
    whim_step_part part = {seq, tokens, n, n_out, 0};
    assert_int_equal(whim_runner_step(whim_engine_runner(engine), &part, 1, &diag), WHIM_ERR_OK);
}

/* The plainest loop there is, on a sequence of its own: what the service's answers are held to. */
static inline int64_t alone(const whim_job_cfg *cfg, int32_t *ids)
{
    whim_runner *runner = whim_engine_runner(engine);
    whim_sequence *seq;
    law_sampler law = law_sampler_open(config->n_vocab);
    whim_diag diag = {""};
    uint32_t mask[64] = {0};
    assert_true(config->n_vocab <= 64 * 32);
    for (int32_t i = 0; i < cfg->n_allowed; i++) {
        mask[cfg->allowed[i] / 32] |= UINT32_C(1) << cfg->allowed[i] % 32;
    }
    assert_int_equal(whim_runner_sequence_create(runner, &seq), WHIM_ERR_OK);
    for (int64_t at = 0, n; at < cfg->n_prompt; at += n) {
        n = cfg->n_prompt - at < STEP ? cfg->n_prompt - at : STEP;
        feed(seq, cfg->prompt + at, n, at + n == cfg->n_prompt);
    }
    for (int64_t n = 0; n < cfg->max_tokens; n++) {
        whim_sampled token;
        law_row row = {.logits = whim_exec_logits(whim_runner_exec(runner), 0),
                       .ask = {.prompt = cfg->prompt,
                               .n_prompt = cfg->n_prompt,
                               .output = ids,
                               .n_output = n,
                               .mask = cfg->allowed != NULL ? mask : NULL,
                               .n_mask_word = 64}};
        assert_int_equal(law_pick(&law, &cfg->params, &row, &token, &diag), WHIM_ERR_OK);
        ids[n] = token.id;
        if (n + 1 < cfg->max_tokens) {
            feed(seq, &ids[n], 1, 1);
        }
    }
    law_sampler_close(&law);
    whim_runner_sequence_destroy(runner, seq);
    return cfg->max_tokens;
}

static inline void pages_come_back(void)
{
    int64_t until = whim_clock_ns() + 240 * WHIM_NS_PER_S;
    while (whim_service_get_stats(service).sched.pages_used > 0 ||
           whim_service_active(service) > 0) {
        assert_true(whim_clock_ns() < until);
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
}

/* How many values a histogram has seen, and their sum. */
static inline int64_t observed(int32_t meter)
{
    const whim_meter_spec *spec = &whim_meter_specs[meter];
    int64_t n = 0;
    for (int32_t i = 0; i <= spec->n_cell; i++) {
        n += atomic_load(&meters.cells[spec->cell + i]);
    }
    return n;
}

static inline int64_t sum_of(int32_t meter)
{
    const whim_meter_spec *spec = &whim_meter_specs[meter];
    return atomic_load(&meters.cells[spec->cell + spec->n_cell + 1]);
}

#endif
