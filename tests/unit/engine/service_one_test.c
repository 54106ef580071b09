/* SPDX-License-Identifier: Apache-2.0 */
/* One request after the other on a service with one sequence, as `run` and `chat` use it: every
 * kind of end, the same ids whatever the prefix tree has kept, prompt rows in chunks, an interrupt.
 * Answers are held to the plainest loop, which needs the pages for itself and so comes before the
 * service. */
#include "unit/engine/service_fixture.h"

#include "ops/ref/sample_ref.h"

enum { N_PROMPT = 40 };

static int start_one(void **state)
{
    (void)state;
    whim_diag diag = {""};
    whim_service_cfg cfg = service_cfg();
    cfg.max_seqs = 1;
    cfg.ctx = CTX + 1;
    assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_OK);
    return 0;
}

static void length_and_stop_ids_end_it(void **state)
{
    int32_t ids[MAX_MADE], stops[2] = {-1, -1};
    static answer a;
    whim_job_cfg cfg = job_cfg(1, N_PROMPT, 20);
    alone(&cfg, ids);
    start_one(state);
    /* The first id that was not there before it. */
    int at = 5;
    stops[1] = ids[at];
    for (int i = 0; i < at; i++) {
        at = ids[i] == stops[1] ? i : at;
    }
    cfg.stop_ids = stops;
    cfg.n_stop_id = 2;
    read_all(submit(&cfg), &a);
    assert_int_equal(a.end[0], WHIM_END_EOS);
    assert_int_equal(a.n[0], at + 1);
    assert_memory_equal(a.ids[0], ids, (size_t)a.n[0] * sizeof *ids);
    cfg.n_stop_id = 1;
    read_all(submit(&cfg), &a);
    assert_int_equal(a.end[0], WHIM_END_LENGTH);
    assert_int_equal(a.n[0], 20);
}

/* A conversation's turns: the prompt grows, is asked again, shrinks, changes in the middle and at
 * once. Whole pages that are the same are kept. */
static void reuse_changes_nothing(void **state)
{
    static const struct {
        int64_t n_prompt, changed, n_cached;
    } turns[] = {{10, -1, 0},  {40, -1, 0},   {40, -1, 32},  {25, -1, 0}, {1, -1, 0},
                 {70, -1, 32}, {100, 66, 64}, {100, 80, 64}, {100, 0, 0}};
    enum { N_TURN = sizeof turns / sizeof turns[0], N_MADE = 12 };
    int32_t ids[N_TURN][N_MADE], prompts[N_TURN][CTX];
    static answer a;
    for (int i = 0; i < N_TURN; i++) {
        memcpy(prompts[i], words[1], sizeof prompts[i]);
        if (turns[i].changed >= 0) {
            prompts[i][turns[i].changed] ^= 1;
        }
        whim_job_cfg cfg = job_cfg(1, turns[i].n_prompt, N_MADE);
        cfg.prompt = prompts[i];
        alone(&cfg, ids[i]);
    }
    start_one(state);
    for (int i = 0; i < N_TURN; i++) {
        whim_job_cfg cfg = job_cfg(1, turns[i].n_prompt, N_MADE);
        cfg.prompt = prompts[i];
        read_all(submit(&cfg), &a);
        assert_int_equal(a.n_cached, turns[i].n_cached);
        assert_int_equal(a.n[0], N_MADE);
        assert_memory_equal(a.ids[0], ids[i], sizeof ids[i]);
    }
}

/* The next turn begins with the answer that was just made: its whole pages are not fed again. */
static void an_answer_is_not_fed_again(void **state)
{
    enum { N_MADE = 30 };
    int32_t longer[CTX], ids[MAX_MADE];
    static answer a;
    whim_job_cfg cfg = job_cfg(0, N_PROMPT, N_MADE);
    memcpy(longer, cfg.prompt, sizeof longer);
    alone(&cfg, longer + N_PROMPT);
    longer[N_PROMPT + N_MADE] = 3;
    whim_job_cfg next = job_cfg(0, N_PROMPT + N_MADE + 1, N_MADE);
    next.prompt = longer;
    alone(&next, ids);
    start_one(state);
    read_all(submit(&cfg), &a);
    assert_memory_equal(a.ids[0], longer + N_PROMPT, N_MADE * sizeof *longer);
    read_all(submit(&next), &a);
    assert_int_equal(a.n_cached, 64); /* of 69 that were fed */
    assert_memory_equal(a.ids[0], ids, N_MADE * sizeof *ids);
}

/* The last token needs no place, so a context that the prompt fills has one. */
static void a_full_context_is_told(void **state)
{
    (void)state;
    whim_diag diag = {""};
    whim_job *job;
    static answer a;
    int32_t longer[CTX + 1] = {0};
    whim_job_cfg cfg = job_cfg(0, CTX - 3, 0);
    read_all(submit(&cfg), &a);
    assert_int_equal(a.end[0], WHIM_END_CONTEXT);
    assert_int_equal(a.n[0], 4);
    cfg.n_prompt = CTX;
    read_all(submit(&cfg), &a);
    assert_int_equal(a.n[0], 1);
    cfg.prompt = longer;
    cfg.n_prompt = CTX + 1;
    assert_int_equal(whim_service_submit(service, &cfg, 1, &job, &diag), WHIM_ERR_NO_FIT);
    assert_non_null(strstr(diag.text, "161 tokens"));
    cfg.n_prompt = 0;
    assert_int_equal(whim_service_submit(service, &cfg, 1, &job, &diag), WHIM_ERR_INVALID);
    cfg.n_prompt = 3;
    cfg.params.top_p = 7;
    assert_int_equal(whim_service_submit(service, &cfg, 1, &job, &diag), WHIM_ERR_INVALID);
    assert_non_null(strstr(diag.text, "top_p"));
}

/* A service whose pages end before the context says which it was. */
static void full_pages_are_told(void **state)
{
    whim_diag diag = {""};
    whim_job *job;
    static answer a;
    whim_engine *roomy = engine;
    whim_engine_cfg cfg = {.model = "tests/data/golden/llama-bf16",
                           .n_thread = 2,
                           .max_step_tokens = STEP,
                           .max_outs = OUTS,
                           .ctx = CTX,
                           .kv_mem = 2 * whim_engine_runner_plan(engine)->page_bytes};
    engine = drive_open(&cfg, &diag);
    assert_non_null(engine);
    start_one(state);
    whim_job_cfg ask = job_cfg(0, 2 * 32 - 3, 0);
    read_all(submit(&ask), &a);
    assert_int_equal(a.end[0], WHIM_END_KV);
    assert_int_equal(a.n[0], 4);
    ask.n_prompt = 2 * 32 + 1;
    assert_int_equal(whim_service_submit(service, &ask, 1, &job, &diag), WHIM_ERR_NO_FIT);
    assert_non_null(strstr(diag.text, "memory for keys"));
    stop(state);
    whim_engine_close(engine);
    engine = roomy;
}

/* Reads on the service's thread, so that the interrupt comes before the step after the third
 * token. */
typedef struct interrupter {
    answer a;
    atomic_bool over;
} interrupter;

static void stop_after_three(void *ctx, whim_job *job)
{
    interrupter *in = ctx;
    whim_job_event e;
    while (whim_job_next(job, &e)) {
        take(&in->a, &e);
        if (in->a.n[0] == 3) {
            whim_job_stop_choice(job, 0);
        }
        if (e.kind == WHIM_JOB_DONE || e.kind == WHIM_JOB_FAILED) {
            atomic_store(&in->over, true);
        }
    }
}

static void an_interrupt_ends_with_what_was_made(void **state)
{
    int32_t ids[MAX_MADE];
    static interrupter in;
    static answer a;
    whim_job_cfg cfg = job_cfg(2, N_PROMPT, 30);
    alone(&cfg, ids);
    start_one(state);
    cfg.wake = stop_after_three;
    cfg.wake_ctx = &in;
    whim_job *job = submit(&cfg);
    while (!atomic_load(&in.over)) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    whim_job_release(job);
    assert_int_equal(in.a.end[0], WHIM_END_STOP);
    assert_in_range(in.a.n[0], 3, 4); /* a step may be under way */
    assert_memory_equal(in.a.ids[0], ids, (size_t)in.a.n[0] * sizeof *ids);
    cfg.wake = NULL;
    job = submit(&cfg);
    whim_job_stop_choice(job, 0); /* maybe before the prompt was fed */
    read_all(job, &a);
    assert_false(a.failed);
    assert_int_equal(a.end[0], WHIM_END_STOP);
    read_all(submit(&cfg), &a); /* and nothing was spoilt */
    assert_int_equal(a.n[0], 30);
    assert_memory_equal(a.ids[0], ids, 30 * sizeof *ids);
}

/* Each row alone, in its own run of a shorter prompt, has the log-probability that the chunks gave;
 * rows are made also of what could be reused. */
static void prompt_rows_come_in_chunks(void **state)
{
    enum { N = 45 };
    static answer a;
    float want[N];
    int32_t ids[MAX_MADE];
    whim_runner *runner = whim_engine_runner(engine);
    whim_job_cfg cfg = job_cfg(0, N, 6);
    alone(&cfg, ids);
    for (int64_t i = 1; i < N; i++) {
        whim_sequence *seq;
        assert_int_equal(whim_runner_sequence_create(runner, &seq), WHIM_ERR_OK);
        for (int64_t at = 0; at < i; at += STEP) {
            feed(seq, cfg.prompt + at, i - at < STEP ? i - at : STEP, 1);
        }
        whim_sample_logprobs_at(whim_exec_logits(whim_runner_exec(runner), 0), config->n_vocab,
                                &cfg.prompt[i], 1, &want[i]);
        whim_runner_sequence_destroy(runner, seq);
    }
    start_one(state);
    read_all(submit(&cfg), &a);
    cfg.prompt_logprobs = 2;
    read_all(submit(&cfg), &a);
    assert_int_equal(a.n_prompt, N);
    assert_int_equal(a.n_top, 2);
    assert_memory_equal(a.prompt_logprob + 1, want + 1, (N - 1) * sizeof *want);
    assert_memory_equal(a.ids[0], ids, 6 * sizeof *ids);
}

/* Wanting log-probabilities makes every step give all logits, and must change no id. */
static void the_best_alone_give_the_same_ids(void **state)
{
    (void)state;
    enum { N_MADE = 30 };
    static answer some, all;
    for (int32_t t = 0; t < 24; t++) {
        whim_job_cfg cfg = job_cfg(0, 7 + t, N_MADE);
        cfg.params.seed = (uint64_t)t;
        cfg.params.temperature = t % 4 == 0 ? 0.0f : 0.9f;
        cfg.params.top_k = t % 3 == 0 ? 1 : 5 + t;
        cfg.params.top_p = t % 2 == 0 ? 1.0f : 0.9f;
        whim_sample_ask ask = {.params = &cfg.params};
        assert_true(whim_sample_best_needed(&ask, config->n_vocab) > 0);
        read_all(submit(&cfg), &some);
        cfg.params.want_logprob = true;
        assert_int_equal(whim_sample_best_needed(&ask, config->n_vocab), 0);
        read_all(submit(&cfg), &all);
        assert_int_equal(some.n[0], N_MADE);
        assert_memory_equal(all.ids[0], some.ids[0], N_MADE * sizeof all.ids[0][0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(length_and_stop_ids_end_it, stop),
        cmocka_unit_test_teardown(reuse_changes_nothing, stop),
        cmocka_unit_test_teardown(an_answer_is_not_fed_again, stop),
        cmocka_unit_test_setup_teardown(a_full_context_is_told, start_one, stop),
        cmocka_unit_test(full_pages_are_told),
        cmocka_unit_test_teardown(an_interrupt_ends_with_what_was_made, stop),
        cmocka_unit_test_teardown(prompt_rows_come_in_chunks, stop),
        cmocka_unit_test_setup_teardown(the_best_alone_give_the_same_ids, start_one, stop),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
