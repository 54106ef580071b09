/* SPDX-License-Identifier: Apache-2.0 */
/* The service on tiny checkpoints, one with recurrent states among them: many jobs at once in a
 * pool that is too small for them give the ids that each gives alone; choices, prompt
 * log-probabilities, cancelling, stopping, an end in the middle. */
#include "unit/engine/service_fixture.h"

#include <math.h>

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
            cfg.client = k < N_JOB - 3 ? 1 : (uint64_t)k; /* one with most of them, and three */
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
    whim_sched_stats counted = whim_service_get_stats(service).sched;
    assert_true(counted.n_preempted[WHIM_PREEMPT_SHARE] > 0);
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

/* Each step of a prompt says how far it is; who does not ask is told nothing, and tokens are the
 * same. */
static void a_prompt_tells_how_far_it_is(void **state)
{
    (void)state;
    answer a, b, c;
    whim_job_cfg cfg = job_cfg(1, 3 * STEP + 5, 4);
    cfg.tell_progress = true;
    cfg.n_choice = 2;
    read_all(submit(&cfg), &a);
    assert_int_equal(a.n_cached, 0);
    assert_int_equal(a.n_told, 4);
    assert_int_equal(a.n_read, cfg.n_prompt);
    read_all(submit(&cfg), &b); /* the tree has it but for its end */
    assert_true(b.n_cached > 0 && b.n_told < a.n_told);
    assert_int_equal(b.n_read, cfg.n_prompt);
    cfg.tell_progress = false;
    whim_job *job = submit(&cfg);
    assert_int_equal(whim_job_look_at(job).n_prompt, cfg.n_prompt);
    whim_job_event e = {.kind = WHIM_JOB_ADMITTED};
    memset(&c, 0, sizeof c);
    while (e.kind != WHIM_JOB_DONE) {
        if (whim_job_next(job, &e)) {
            take(&c, &e);
        }
    }
    whim_job_look look = whim_job_look_at(job);
    assert_true(look.is_running && look.n_read == cfg.n_prompt && look.n_cached == c.n_cached);
    assert_int_equal(look.n_made, 8);
    whim_job_release(job);
    assert_int_equal(c.n_told, 0);
    assert_memory_equal(a.ids, b.ids, sizeof a.ids);
    assert_memory_equal(a.ids, c.ids, sizeof a.ids);
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
    assert_int_equal(whim_service_submit(service, &cfg, 1, &job, &diag), WHIM_ERR_NO_FIT);
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
    assert_int_equal(whim_service_submit(service, &cfg, 1, &job, &diag), WHIM_ERR_INVALID);
    cfg.n_prompt = 0;
    assert_int_equal(whim_service_submit(service, &cfg, 1, &job, &diag), WHIM_ERR_INVALID);
}

static void cancelled_jobs_leave(void **state)
{
    (void)state;
    answer a, b;
    whim_job_cfg cfg = job_cfg(1, 60, 40);
    whim_job *kept = submit(&cfg), *gone = submit(&cfg), *dropped = submit(&cfg);
    whim_job_cancel(gone, WHIM_REASON_RELEASED);
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

/* The others begin when the first has its prompt in the tree, or is out of the way: none waits for
 * ever. */
static void choices_can_be_stopped_before_they_begin(void **state)
{
    (void)state;
    static answer whole, a;
    whim_job_cfg cfg = job_cfg(1, 60, 20);
    cfg.n_choice = 3;
    read_all(submit(&cfg), &whole);
    for (int32_t n_stopped = 1; n_stopped <= 3; n_stopped += 2) {
        whim_job *job = submit(&cfg);
        for (int32_t i = 0; i < n_stopped; i++) {
            whim_job_stop_choice(job, i);
        }
        read_all(job, &a);
        assert_false(a.failed);
        for (int32_t i = 0; i < 3; i++) { /* on a busy machine a stop may come after the end */
            assert_true(a.end[i] == WHIM_END_LENGTH || i < n_stopped);
            assert_int_equal(a.end[i], a.n[i] == 20 ? WHIM_END_LENGTH : WHIM_END_STOP);
            assert_memory_equal(a.ids[i], whole.ids[i], a.n[i] * sizeof(int32_t));
        }
    }
}

static void a_circle_ends_a_choice(void **state)
{
    (void)state;
    enum { REPEATED = 24, ASKED = 50 };
    static answer before, a;
    whim_logit_bias bias = {7, 100};
    whim_job_cfg cfg = job_cfg(1, 40, ASKED);
    cfg.params.bias = &bias;
    cfg.params.n_bias = 1;
    cfg.n_choice = 2;
    read_all(submit(&cfg), &before);
    assert_int_equal(before.n[0], ASKED);
    cfg.max_repeated = REPEATED;
    read_all(submit(&cfg), &a);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(a.n[i], REPEATED);
        assert_int_equal(a.end[i], WHIM_END_REPETITION);
        assert_memory_equal(a.ids[i], before.ids[i], REPEATED * sizeof *a.ids[i]);
    }
    pages_come_back();
    assert_int_equal(whim_meter_get(&meters, FINISHED, WHIM_LABEL_FINISH_REPETITION), 1);
    cfg.min_tokens = REPEATED + 3;
    read_all(submit(&cfg), &a);
    assert_int_equal(a.n[0], REPEATED + 3);
    assert_int_equal(a.end[0], WHIM_END_REPETITION);
    cfg.max_tokens = REPEATED;
    cfg.min_tokens = 0;
    read_all(submit(&cfg), &a);
    assert_int_equal(a.end[0], WHIM_END_LENGTH);
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

/* The next step is under way before a token is known. Some end where nobody could foresee it, some
 * are cancelled then, and the others have the ids that they have alone. */
static void steps_go_ahead(void **state)
{
    (void)state;
    enum { N = 12 };
    static int32_t ids[N][MAX_MADE];
    static answer a;
    whim_job *jobs[N];
    whim_job_cfg cfg[N];
    for (int32_t k = 0; k < N; k++) {
        cfg[k] = job_cfg(k / 3, 33 + k * 5, 20 + k * 3); /* greedy, and drawn in two ways */
        assert_int_equal(alone(&cfg[k], ids[k]), 20 + k * 3);
    }
    for (int32_t k = 0; k < N; k += 3) {
        cfg[k].stop_ids = &ids[k][11 + k];
        cfg[k].n_stop_id = 1;
    }
    start(state);
    for (int32_t k = 0; k < N; k++) {
        jobs[k] = submit(&cfg[k]);
    }
    for (int32_t k = 0; k < N; k++) {
        if (k % 3 == 2) {
            whim_job_cancel(jobs[k], WHIM_REASON_RELEASED);
        }
        read_all(jobs[k], &a);
        int64_t n = 0;
        while (k % 3 == 0 && ids[k][n] != ids[k][11 + k]) {
            n++;
        }
        if (k % 3 != 2) {
            assert_false(a.failed);
            assert_int_equal(a.n[0], k % 3 == 0 ? n + 1 : 20 + k * 3);
        }
        assert_memory_equal(a.ids[0], ids[k], (size_t)a.n[0] * sizeof(int32_t));
    }
    pages_come_back();
    whim_service_stats stats = whim_service_get_stats(service);
    assert_true(stats.n_ahead > 20 && stats.n_ahead < stats.n_step);
    whim_job_cfg counting =
        job_cfg(2, 40, 20); /* each token changes what the next is chosen from */
    counting.params.frequency_penalty = 0.5f;
    read_all(submit(&counting), &a);
    pages_come_back();
    assert_int_equal(whim_service_get_stats(service).n_ahead, stats.n_ahead);
    whim_job_cfg longer = job_cfg(2, 40, 20); /* its first tokens have a mask, the others none */
    longer.min_tokens = 5;
    read_all(submit(&longer), &a);
    pages_come_back();
    assert_int_equal(whim_service_get_stats(service).n_ahead, stats.n_ahead + 20 - 5);
    stop(state);
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
    assert_false(whim_service_is_draining(service));
    whim_service_drain(service);
    assert_true(whim_service_is_draining(service));
    assert_int_equal(whim_service_submit(service, &cfg, 1, &none, &diag), WHIM_ERR_FULL);
    stop(state);
    for (int32_t i = 0; i < 6; i++) {
        read_all(jobs[i], &a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(together_as_alone, stop),
        cmocka_unit_test_setup_teardown(choices_share_a_prompt, start, stop),
        cmocka_unit_test_setup_teardown(prompt_logprobs, start, stop),
        cmocka_unit_test_setup_teardown(a_prompt_tells_how_far_it_is, start, stop),
        cmocka_unit_test_setup_teardown(ends_at_the_context, start, stop),
        cmocka_unit_test_setup_teardown(bad_prompts, start, stop),
        cmocka_unit_test_setup_teardown(cancelled_jobs_leave, start, stop),
        cmocka_unit_test_setup_teardown(a_choice_can_be_stopped, start, stop),
        cmocka_unit_test_setup_teardown(choices_can_be_stopped_before_they_begin, start, stop),
        cmocka_unit_test_setup_teardown(a_circle_ends_a_choice, start, stop),
        cmocka_unit_test_setup_teardown(stop_ids_and_min_tokens, start, stop),
        cmocka_unit_test(steps_go_ahead),
        cmocka_unit_test(ending_ends_all),
    };
    const struct CMUnitTest hybrid[] = {
        cmocka_unit_test_teardown(together_as_alone, stop),
        cmocka_unit_test_setup_teardown(choices_share_a_prompt, start, stop),
        cmocka_unit_test_setup_teardown(prompt_logprobs, start, stop),
        cmocka_unit_test_setup_teardown(a_prompt_tells_how_far_it_is, start, stop),
        cmocka_unit_test_setup_teardown(cancelled_jobs_leave, start, stop),
        cmocka_unit_test(steps_go_ahead),
        cmocka_unit_test(ending_ends_all),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine) +
           cmocka_run_group_tests(hybrid, open_hybrid, close_engine);
}
