/* SPDX-License-Identifier: Apache-2.0 */
/* The service on a tiny checkpoint, by ids: many jobs at once in a pool that is too small for them give the ids that
 * each gives alone; choices, prompt log-probabilities, cancelling, deadlines, limits, and an end in the middle. */
#include "engine/service.h"

#include "base/clock.h"
#include "engine/generate.h"
#include "support/byte_vocab.h"
#include "support/cmocka.h"
#include "support/drive.h"
#include "unit/text/text_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CTX = 160, MAX_SEQS = 4, STEP = 24, OUTS = 6, N_JOB = 14, MAX_MADE = 60, KV_PAGES = 6 };

static whim_engine *engine;
static const whim_config *config;
static whim_service *service;
static int32_t words[4][CTX];
static whim_meters meters;

static int open_model(const char *model)
{
    whim_diag diag = {""};
    whim_engine_cfg cfg = {.model = model,
                           .n_checkpoint = 3,
                           .n_thread = 2,
                           .max_step_tokens = STEP,
                           .max_seqs = MAX_SEQS,
                           .max_outs = OUTS,
                           .ctx = CTX};
    engine = drive_open(&cfg, &diag);
    assert_non_null(engine);
    cfg.kv_mem = whim_engine_runner_plan(engine)->page_bytes * KV_PAGES;
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

static int open_engine(void **state)
{
    (void)state;
    return open_model("tests/golden/data/llama-bf16");
}

static int open_hybrid(void **state)
{
    (void)state;
    return open_model("tests/golden/data/qwen35-f32");
}

static int close_engine(void **state)
{
    (void)state;
    whim_engine_close(engine);
    return 0;
}

static int start(void **state)
{
    (void)state;
    whim_diag diag = {""};
    whim_service_cfg cfg = {.engine = engine,
                            .max_seqs = MAX_SEQS,
                            .max_step_tokens = STEP,
                            .max_outs = OUTS,
                            .max_waiting = N_JOB,
                            .meters = &meters};
    memset(&meters, 0, sizeof meters);
    assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_OK);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    whim_service_destroy(service);
    service = NULL;
    return 0;
}

/* --- asking --------------------------------------------------------------------------------------- */

static whim_job_cfg job_cfg(int32_t k, int64_t n_prompt, int64_t max_tokens)
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

static whim_job *submit(const whim_job_cfg *cfg)
{
    whim_diag diag = {""};
    whim_job *job;
    if (whim_service_submit(service, cfg, &job, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    return job;
}

typedef struct answer {
    int32_t ids[3][MAX_MADE + 1];
    int64_t n[3];
    whim_end end[3];
    float prompt_logprob[CTX];
    int64_t n_prompt;
    int32_t n_top;
    bool failed, admitted;
    whim_err err;
    char message[128];
    int64_t n_cached;
} answer;

static void take(answer *a, const whim_job_event *e)
{
    switch (e->kind) {
    case WHIM_JOB_ADMITTED:
        assert_false(a->admitted);
        a->admitted = true;
        break;
    case WHIM_JOB_TOKEN:
        assert_true(a->admitted && a->n[e->choice] < MAX_MADE);
        a->ids[e->choice][a->n[e->choice]++] = e->id;
        break;
    case WHIM_JOB_PROMPT_TOKEN:
        assert_int_equal(e->position, a->n_prompt);
        assert_int_equal(e->has_logprob, e->position > 0);
        a->prompt_logprob[a->n_prompt++] = e->logprob;
        a->n_top = e->n_top;
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
static void read_all(whim_job *job, answer *a)
{
    whim_job_event e;
    int64_t until = whim_clock_ns() + 60 * WHIM_NS_PER_S;
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

/* What a generator of its own makes of the same request. */
static int64_t alone(const whim_job_cfg *cfg, int32_t *ids)
{
    whim_generator *gen;
    whim_generated got;
    whim_diag diag = {""};
    whim_generator_cfg gen_cfg = {.runner = whim_engine_runner(engine),
                                  .config = config,
                                  .ctx = CTX,
                                  .max_step_tokens = STEP,
                                  .max_outs = OUTS};
    whim_generate_request req = {.prompt = cfg->prompt,
                                 .n_prompt = cfg->n_prompt,
                                 .params = &cfg->params,
                                 .max_tokens = cfg->max_tokens};
    assert_int_equal(whim_generator_create(&gen_cfg, &gen), WHIM_ERR_OK);
    assert_int_equal(whim_generate(gen, &req, &got, &diag), WHIM_ERR_OK);
    memcpy(ids, got.ids, (size_t)got.n_id * sizeof *ids);
    int64_t n = got.n_id;
    whim_generator_destroy(gen);
    return n;
}

static void pages_come_back(void)
{
    int64_t until = whim_clock_ns() + 10 * WHIM_NS_PER_S;
    while (whim_service_get_stats(service).sched.pages_used > 0 ||
           whim_service_active(service) > 0) {
        assert_true(whim_clock_ns() < until);
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
}

/* How many values a histogram has seen, and their sum. */
static int64_t observed(int32_t meter)
{
    const whim_meter_spec *spec = &whim_meter_specs[meter];
    int64_t n = 0;
    for (int32_t i = 0; i <= spec->n_cell; i++) {
        n += atomic_load(&meters.cells[spec->cell + i]);
    }
    return n;
}

static int64_t sum_of(int32_t meter)
{
    const whim_meter_spec *spec = &whim_meter_specs[meter];
    return atomic_load(&meters.cells[spec->cell + spec->n_cell + 1]);
}

/* --- tests ---------------------------------------------------------------------------------------- */

static int32_t solo[N_JOB][MAX_MADE];
static int64_t n_solo[N_JOB];

static void together_as_alone(void **state)
{
    whim_job *jobs[N_JOB];
    answer a;
    for (int32_t k = 0; k < N_JOB; k++) {
        whim_job_cfg cfg = job_cfg(k, 50 + k * 7 % 40, 10 + k * 3);
        n_solo[k] = alone(&cfg, solo[k]);
    }
    start(state);
    int64_t all_prompts = 0, all_made = 0, all_cached = 0;
    for (int32_t round = 0; round < 2; round++) { /* cold, then from the tree */
        int64_t cached = 0;
        for (int32_t k = 0; k < N_JOB; k++) {
            whim_job_cfg cfg = job_cfg(k, 50 + k * 7 % 40, 10 + k * 3);
            jobs[k] = submit(&cfg);
        }
        for (int32_t k = 0; k < N_JOB; k++) {
            read_all(jobs[k], &a);
            assert_false(a.failed);
            assert_int_equal(a.n[0], n_solo[k]);
            assert_memory_equal(a.ids[0], solo[k], (size_t)n_solo[k] * sizeof(int32_t));
            assert_int_equal(a.end[0], WHIM_END_LENGTH);
            cached += a.n_cached;
            all_made += a.n[0];
            all_prompts += 50 + k * 7 % 40;
        }
        assert_true(cached > 0);
        all_cached += cached;
    }
    assert_true(whim_service_get_stats(service).sched.n_preempted > 0);
    pages_come_back();
    assert_int_equal(whim_meter_get(&meters, PROMPT_TOKENS, 0), all_prompts);
    assert_int_equal(whim_meter_get(&meters, TOKENS, WHIM_LABEL_TOKENS_CACHED), all_cached);
    assert_int_equal(whim_meter_get(&meters, TOKENS, WHIM_LABEL_TOKENS_GENERATED), all_made);
    /* What was preempted is computed again, as far as the tree has lost it. */
    assert_true(whim_meter_get(&meters, TOKENS, WHIM_LABEL_TOKENS_PREFILL) >=
                all_prompts - all_cached);
    assert_int_equal(whim_meter_get(&meters, FINISHED, WHIM_LABEL_FINISH_LENGTH), 2 * N_JOB);
    static const int32_t once[] = {WHIM_METER_QUEUE_TIME,   WHIM_METER_TTFT,
                                   WHIM_METER_PREFILL_TIME, WHIM_METER_DECODE_TIME,
                                   WHIM_METER_E2E,          WHIM_METER_PROMPT_LENGTH,
                                   WHIM_METER_ANSWER_LENGTH};
    for (size_t i = 0; i < sizeof once / sizeof once[0]; i++) {
        assert_int_equal(observed(once[i]), 2 * N_JOB);
    }
    assert_int_equal(observed(WHIM_METER_ITL), all_made - 2 * N_JOB);
    assert_int_equal(observed(WHIM_METER_STEP_TIME), whim_service_get_stats(service).n_step);
    assert_int_equal(sum_of(WHIM_METER_ANSWER_LENGTH), all_made);
    assert_int_equal(sum_of(WHIM_METER_PROMPT_LENGTH), all_prompts);
    assert_true(sum_of(WHIM_METER_STEP_TOKENS) >= sum_of(WHIM_METER_STEP_SEQS));
    assert_true(sum_of(WHIM_METER_E2E) >= sum_of(WHIM_METER_TTFT));
    assert_true(sum_of(WHIM_METER_TTFT) >= sum_of(WHIM_METER_PREFILL_TIME));
}

static void choices_share_a_prompt(void **state)
{
    (void)state;
    answer a, b;
    whim_job_cfg cfg = job_cfg(2, 70, 12);
    cfg.n_choice = 3;
    read_all(submit(&cfg), &a);
    read_all(submit(&cfg), &b);
    assert_memory_equal(a.ids, b.ids, sizeof a.ids);
    assert_int_equal(a.n[0] + a.n[1] + a.n[2], 36);
    assert_memory_not_equal(a.ids[0], a.ids[1], 12 * sizeof(int32_t));
    cfg.n_choice = 1;
    read_all(submit(&cfg), &b);
    assert_memory_equal(a.ids[0], b.ids[0], 12 * sizeof(int32_t));
    pages_come_back();
}

static void prompt_logprobs(void **state)
{
    (void)state;
    answer a, b;
    whim_job_cfg cfg = job_cfg(0, 90, 3);
    read_all(submit(&cfg), &a); /* the tree has the prompt now; the rows are made all the same */
    cfg.prompt_logprobs = 2;
    read_all(submit(&cfg), &b);
    assert_int_equal(b.n_prompt, 90);
    assert_int_equal(b.n_top, 2);
    assert_memory_equal(a.ids[0], b.ids[0], 3 * sizeof(int32_t));
    for (int64_t i = 1; i < 90; i++) {
        assert_true(b.prompt_logprob[i] < 0 && isfinite(b.prompt_logprob[i]));
    }
    cfg.max_tokens = -1;
    read_all(submit(&cfg), &a);
    assert_int_equal(a.n[0], 0);
    assert_memory_equal(a.prompt_logprob, b.prompt_logprob, sizeof a.prompt_logprob);
}

static void ends_at_the_context(void **state)
{
    (void)state;
    answer a;
    whim_diag diag = {""};
    whim_job *job;
    whim_job_cfg cfg = job_cfg(0, CTX - 5, 0);
    read_all(submit(&cfg), &a);
    assert_int_equal(a.n[0], 5);
    assert_int_equal(a.end[0], WHIM_END_CONTEXT);
    cfg.n_prompt = CTX;
    assert_int_equal(whim_service_submit(service, &cfg, &job, &diag), WHIM_ERR_NO_FIT);
    assert_non_null(strstr(diag.text, "160"));
}

static void bad_prompts(void **state)
{
    (void)state;
    int32_t bad[] = {1, config->n_vocab};
    whim_diag diag = {""};
    whim_job *job;
    whim_job_cfg cfg = job_cfg(0, 2, 1);
    cfg.prompt = bad;
    assert_int_equal(whim_service_submit(service, &cfg, &job, &diag), WHIM_ERR_INVALID);
    cfg.n_prompt = 0;
    assert_int_equal(whim_service_submit(service, &cfg, &job, &diag), WHIM_ERR_INVALID);
}

static void cancelled_jobs_leave(void **state)
{
    (void)state;
    answer a, b;
    whim_job_cfg cfg = job_cfg(1, 60, 40);
    whim_job *kept = submit(&cfg), *gone = submit(&cfg), *dropped = submit(&cfg);
    whim_job_cancel(gone, "test");
    whim_job_release(dropped);
    read_all(gone, &a);
    assert_true(a.failed);
    read_all(kept, &b);
    assert_int_equal(b.n[0], 40);
    cfg.deadline_ns = whim_clock_ns() - 1;
    read_all(submit(&cfg), &a);
    assert_true(a.failed);
    pages_come_back();
    assert_int_equal(whim_meter_get(&meters, FINISHED, WHIM_LABEL_FINISH_LENGTH), 1);
    assert_int_equal(whim_meter_get(&meters, CANCELLED, WHIM_LABEL_CANCEL_DEADLINE), 1);
    assert_int_equal(whim_meter_get(&meters, CANCELLED, WHIM_LABEL_CANCEL_OTHER), 2);
    assert_int_equal(whim_meter_get(&meters, FAILED, 0), 0);
    assert_int_equal(whim_meter_get(&meters, LONGEST, 0), 100);
}

static void a_choice_can_be_stopped(void **state)
{
    (void)state;
    answer a;
    whim_job_cfg cfg = job_cfg(1, 60, 59);
    whim_job *job = submit(&cfg);
    whim_job_stop_choice(job, 0);
    read_all(job, &a);
    assert_false(a.failed);
    assert_int_equal(a.end[0], WHIM_END_STOP);
    assert_true(a.n[0] < 59);
}

static void stop_ids_and_min_tokens(void **state)
{
    (void)state;
    answer a, b;
    whim_job_cfg cfg = job_cfg(0, 40, 8);
    read_all(submit(&cfg), &a);
    cfg.stop_ids = &a.ids[0][0];
    cfg.n_stop_id = 1;
    read_all(submit(&cfg), &b);
    assert_int_equal(b.n[0], 1);
    assert_int_equal(b.end[0], WHIM_END_EOS);
    cfg.min_tokens = 4;
    read_all(submit(&cfg), &b);
    assert_true(b.n[0] >= 4);
    for (int64_t i = 0; i < 4; i++) {
        assert_int_not_equal(b.ids[0][i], a.ids[0][0]);
    }
}

/* After the budget come just the tokens of the end, from the first to the last, then what the model says. */
static void reasoning_has_a_budget(void **state)
{
    answer free_one, held;
    whim_diag diag = {""};
    whim_tokenizer *tok = open_file("cat tests/text/tiny/llama3.json");
    whim_ids end = encode(tok, "<E>", 3, (whim_encode_opts){.parse_special = true});
    whim_service_cfg with_text = {.engine = engine,
                                  .tok = tok,
                                  .max_seqs = MAX_SEQS,
                                  .max_step_tokens = STEP,
                                  .max_outs = OUTS};
    assert_int_equal(whim_service_create(&with_text, &service, &diag), WHIM_ERR_OK);
    whim_job_cfg cfg = job_cfg(0, 20, 12);
    read_all(submit(&cfg), &free_one);
    cfg.think_budget = 5;
    cfg.think_end = "<E>";
    read_all(submit(&cfg), &held); /* no reasoning, nothing to end */
    assert_memory_equal(held.ids[0], free_one.ids[0], 12 * sizeof(int32_t));
    cfg.think_open = true;
    read_all(submit(&cfg), &held);
    assert_int_equal(held.n[0], 12);
    assert_memory_equal(held.ids[0], free_one.ids[0], 5 * sizeof(int32_t));
    assert_true(end.n > 1 && end.n < 7);
    assert_memory_equal(held.ids[0] + 5, end.ids, (size_t)end.n * sizeof(int32_t));
    assert_memory_not_equal(held.ids[0] + 5 + end.n, end.ids, (size_t)end.n * sizeof(int32_t));
    stop(state);
    whim_ids_deinit(&end);
    whim_tokenizer_close(tok);
}

/* A service whose model writes with the vocabulary `tok`, and a grammar for it. */
typedef struct held_service {
    whim_tokenizer *tok;
    whim_grammar_vocab *vocab;
    whim_grammar *grammar;
} held_service;

static held_service hold(whim_tokenizer *tok, const char *regex)
{
    static const int32_t end = 3;
    held_service h = {.tok = tok};
    whim_diag diag = {""};
    whim_grammar_builder *b;
    assert_int_equal(whim_grammar_vocab_create(tok, &end, 1, &h.vocab), WHIM_ERR_OK);
    assert_int_equal(whim_grammar_builder_create(NULL, &b), WHIM_ERR_OK);
    assert_int_equal(whim_grammar_build(b, whim_grammar_regex(b, regex, "r"), &h.grammar, &diag),
                     WHIM_ERR_OK);
    whim_grammar_builder_destroy(b);
    whim_service_cfg with_text = {.engine = engine,
                                  .tok = tok,
                                  .vocab = h.vocab,
                                  .stop_ids = &end,
                                  .n_stop_id = 1,
                                  .max_seqs = MAX_SEQS,
                                  .max_step_tokens = STEP,
                                  .max_outs = OUTS};
    assert_int_equal(whim_service_create(&with_text, &service, &diag), WHIM_ERR_OK);
    return h;
}

static void let_go(held_service *h)
{
    pages_come_back();
    stop(NULL);
    whim_grammar_unref(h->grammar);
    whim_grammar_vocab_destroy(h->vocab);
    whim_tokenizer_close(h->tok);
}

static whim_tokenizer *open_abc(void)
{
    whim_diag diag = {""};
    whim_tokenizer *tok;
    assert_int_equal(open_text(ABC_VOCAB, sizeof ABC_VOCAB - 1, &tok, &diag), WHIM_ERR_OK);
    return tok;
}

/* A text that the vocabulary cannot write is no answer that stopped. */
static void a_grammar_may_not_fit_the_vocabulary(void **state)
{
    (void)state;
    answer a;
    held_service h = hold(open_abc(), "abc\xF1\x90\x80\x80");
    whim_job_cfg cfg = job_cfg(0, 20, 12);
    cfg.ignore_eos = false;
    cfg.grammar = h.grammar;
    read_all(submit(&cfg), &a);
    assert_int_equal(a.n[0], 3);
    assert_true(a.failed);
    assert_int_equal(a.err, WHIM_ERR_INVALID);
    assert_non_null(strstr(a.message, "vocabulary"));
    let_go(&h);
}

/* What the grammar cannot go on with ends its job and no other, also at the last token allowed. */
static void a_choice_that_fails_is_alone(void **state)
{
    (void)state;
    answer a, b;
    held_service h = hold(open_abc(), "ab\xF1\x90\x80\x80");
    whim_job_cfg good = job_cfg(1, 20, 30), bad = job_cfg(0, 20, 3);
    bad.grammar = h.grammar;
    whim_job *other = submit(&good);
    read_all(submit(&bad), &a);
    assert_true(a.failed);
    read_all(other, &b);
    assert_int_equal(b.n[0], 30);
    let_go(&h);
}

/* Where the grammar has no place for the end of reasoning yet, the model goes on until it has. */
static void the_budget_waits_for_the_grammar(void **state)
{
    (void)state;
    answer a;
    held_service h =
        hold(open_file("cat tests/text/tiny/llama3.json"), "[a-z0-9]{30}[a-z0-9<E>]{30}");
    whim_ids end = encode(h.tok, "<E>", 3, (whim_encode_opts){.parse_special = true});
    whim_job_cfg cfg = job_cfg(0, 20, 58);
    cfg.grammar = h.grammar;
    cfg.think_open = true;
    cfg.think_budget = 2;
    cfg.think_end = "<E>";
    read_all(submit(&cfg), &a);
    assert_false(a.failed);
    int64_t at = 0;
    while (at + end.n <= a.n[0] &&
           memcmp(a.ids[0] + at, end.ids, (size_t)end.n * sizeof(int32_t)) != 0) {
        at++;
    }
    assert_in_range(at, 3, a.n[0] - end.n);
    let_go(&h);
    whim_ids_deinit(&end);
}

static void the_queue_has_a_limit(void **state)
{
    (void)state;
    enum { MANY = N_JOB + MAX_SEQS + 3 };
    whim_job *jobs[MANY];
    whim_diag diag = {""};
    int32_t n = 0;
    answer a;
    whim_job_cfg cfg = job_cfg(0, 90, 50);
    while (n < MANY && whim_service_submit(service, &cfg, &jobs[n], &diag) == WHIM_ERR_OK) {
        n++;
    }
    assert_in_range(n, N_JOB, MANY - 1);
    assert_non_null(strstr(diag.text, "waiting"));
    for (int32_t i = 0; i < n; i++) {
        read_all(jobs[i], &a);
        assert_false(a.failed);
    }
}

/* Choices wait one by one: where the first was let in, its many others still fill the queue. */
static void choices_wait_too(void **state)
{
    (void)state;
    whim_diag diag = {""};
    whim_job *other;
    whim_job_event event = {.kind = WHIM_JOB_DONE};
    whim_job_cfg many = job_cfg(0, 20, 100), one = job_cfg(1, 20, 1);
    many.n_choice = 128;
    whim_job *job = submit(&many);
    while (event.kind != WHIM_JOB_ADMITTED) {
        if (!whim_job_next(job, &event)) {
            whim_clock_sleep_ns(WHIM_NS_PER_MS);
        }
    }
    assert_int_equal(whim_service_submit(service, &one, &other, &diag), WHIM_ERR_FULL);
    whim_job_cancel(job, "test");
    whim_job_release(job);
    pages_come_back();
    answer a;
    read_all(submit(&one), &a);
    assert_false(a.failed);
}

/* A request's own prompts do not fill the queue for one another; behind others they count, all or none. */
static void a_request_comes_in_whole(void **state)
{
    (void)state;
    enum { MANY = N_JOB + 20 };
    whim_job *jobs[MANY], *more[N_JOB];
    whim_job_cfg cfgs[MANY];
    whim_diag diag = {""};
    answer a;
    for (int32_t i = 0; i < MANY; i++) {
        cfgs[i] = job_cfg(0, 90, 8);
    }
    if (whim_service_submit_all(service, cfgs, MANY, jobs, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    assert_int_equal(whim_service_submit_all(service, cfgs, N_JOB, more, &diag), WHIM_ERR_FULL);
    assert_int_equal(whim_service_get_stats(service).n_refused, N_JOB);
    for (int32_t i = 0; i < MANY; i++) {
        read_all(jobs[i], &a);
        assert_false(a.failed);
        assert_int_equal(a.n[0], 8);
    }
    cfgs[2].n_prompt = CTX; /* too long: none of them */
    assert_int_equal(whim_service_submit_all(service, cfgs, 4, more, &diag), WHIM_ERR_NO_FIT);
    pages_come_back();
}

/* What a service had in its tree, the next one finds on disk: the same answer, and no prompt to feed. */
static void pages_come_from_the_disk(void **state)
{
    (void)state;
    char folder[] = "/tmp/whim_service_XXXXXX", command[64];
    answer cold, warm;
    int64_t cached[2];
    whim_diag diag = {""};
    assert_non_null(mkdtemp(folder));
    whim_service_cfg cfg = {.engine = engine,
                            .max_seqs = MAX_SEQS,
                            .max_step_tokens = STEP,
                            .max_outs = OUTS,
                            .kv_dir = folder,
                            .kv_space = "test"};
    for (int32_t round = 0; round < 2; round++) {
        assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_OK);
        whim_job_cfg job = job_cfg(2, 130, 12);
        read_all(submit(&job), round == 0 ? &cold : &warm);
        cached[round] = (round == 0 ? &cold : &warm)->n_cached;
        stop(state);
    }
    assert_int_equal(cached[0], 0);
    assert_int_equal(cached[1], 128);
    assert_memory_equal(cold.ids[0], warm.ids[0], 12 * sizeof(int32_t));
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static void ending_ends_all(void **state)
{
    whim_job *jobs[6];
    answer a;
    whim_diag diag = {""};
    whim_job *none;
    whim_job_cfg cfg = job_cfg(1, 90, 60);
    start(state);
    for (int32_t i = 0; i < 6; i++) {
        jobs[i] = submit(&cfg);
    }
    whim_service_drain(service);
    assert_int_equal(whim_service_submit(service, &cfg, &none, &diag), WHIM_ERR_FULL);
    stop(state);
    for (int32_t i = 0; i < 6; i++) {
        read_all(jobs[i], &a);
    }
}

/* A hybrid goes on from pages where a state was kept: where a prompt before ended, and where two of them part, from
 * the second on. */
static void states_are_taken_over(void **state)
{
    (void)state;
    static const struct {
        int32_t k;
        int64_t n_prompt, n_cached;
    } asked[] = {
        {0, 130, 0},  {0, 130, 128}, /* the same again */
        {1, 100, 0},                 /* alike for 64 tokens, but no state is there: it leaves one */
        {2, 100, 64}, {1, 100, 96},
    };
    enum { N = sizeof asked / sizeof asked[0] };
    int32_t ids[N][MAX_MADE];
    answer a;
    for (int32_t i = 0; i < N; i++) {
        whim_job_cfg cfg = job_cfg(asked[i].k, asked[i].n_prompt, 12);
        assert_int_equal(alone(&cfg, ids[i]), 12);
    }
    start(state);
    for (int32_t i = 0; i < N; i++) {
        whim_job_cfg cfg = job_cfg(asked[i].k, asked[i].n_prompt, 12);
        read_all(submit(&cfg), &a);
        assert_false(a.failed);
        assert_int_equal(a.n_cached, asked[i].n_cached);
        assert_memory_equal(a.ids[0], ids[i], 12 * sizeof(int32_t));
    }
    pages_come_back();
}

static void no_disk_for_states(void **state)
{
    (void)state;
    whim_diag diag = {""};
    whim_service_cfg cfg = {.engine = engine,
                            .max_seqs = MAX_SEQS,
                            .max_step_tokens = STEP,
                            .max_outs = OUTS,
                            .kv_dir = "/tmp",
                            .kv_space = "test"};
    assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "--kv-dir"));
}

/* Before any weight is loaded. */
static void states_refuse_a_disk_early(void **state)
{
    (void)state;
    static const char *const models[] = {"shape:qwen3-0.6b", "shape:qwen3.5-4b"};
    for (int i = 0; i < 2; i++) {
        whim_engine *prepared;
        whim_diag diag = {""};
        whim_engine_cfg cfg = {
            .model = models[i], .load_format = "dummy", .ctx = 64, .n_thread = 1};
        assert_int_equal(whim_engine_prepare(&cfg, &prepared, &diag), WHIM_ERR_OK);
        assert_int_equal(whim_service_check_disk(prepared, NULL, &diag), WHIM_ERR_OK);
        assert_int_equal(whim_service_check_disk(prepared, "dir", &diag),
                         i == 0 ? WHIM_ERR_OK : WHIM_ERR_UNSUPPORTED);
        whim_engine_close(prepared);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_refuse_a_disk_early),
        cmocka_unit_test_teardown(together_as_alone, stop),
        cmocka_unit_test_setup_teardown(choices_share_a_prompt, start, stop),
        cmocka_unit_test_setup_teardown(prompt_logprobs, start, stop),
        cmocka_unit_test_setup_teardown(ends_at_the_context, start, stop),
        cmocka_unit_test_setup_teardown(bad_prompts, start, stop),
        cmocka_unit_test_setup_teardown(cancelled_jobs_leave, start, stop),
        cmocka_unit_test_setup_teardown(a_choice_can_be_stopped, start, stop),
        cmocka_unit_test_setup_teardown(stop_ids_and_min_tokens, start, stop),
        cmocka_unit_test_setup_teardown(the_queue_has_a_limit, start, stop),
        cmocka_unit_test_setup_teardown(choices_wait_too, start, stop),
        cmocka_unit_test_setup_teardown(a_request_comes_in_whole, start, stop),
        cmocka_unit_test(a_grammar_may_not_fit_the_vocabulary),
        cmocka_unit_test(reasoning_has_a_budget),
        cmocka_unit_test(the_budget_waits_for_the_grammar),
        cmocka_unit_test(a_choice_that_fails_is_alone),
        cmocka_unit_test(pages_come_from_the_disk),
        cmocka_unit_test(ending_ends_all),
    };
    const struct CMUnitTest hybrid[] = {
        cmocka_unit_test_teardown(together_as_alone, stop),
        cmocka_unit_test_teardown(states_are_taken_over, stop),
        cmocka_unit_test_setup_teardown(choices_share_a_prompt, start, stop),
        cmocka_unit_test_setup_teardown(prompt_logprobs, start, stop),
        cmocka_unit_test_setup_teardown(cancelled_jobs_leave, start, stop),
        cmocka_unit_test(no_disk_for_states),
        cmocka_unit_test(ending_ends_all),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine) +
           cmocka_run_group_tests(hybrid, open_hybrid, close_engine);
}
