/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that proposals may not change: what the plainest loop makes of prompts that go in circles,
 * and a service that is to make the same.
 * Threads: one at a time. */
#ifndef WHIM_TESTS_UNIT_ENGINE_CIRCLES_H
#define WHIM_TESTS_UNIT_ENGINE_CIRCLES_H

#include "unit/engine/service_fixture.h"

#include <stdlib.h>

enum { N = 12 };

#ifdef __SANITIZE_THREAD__
#define UNDER_TSAN true
#else
#define UNDER_TSAN false
#endif

static bool is_guarded; /* on a device that takes its time */

/* TEST_QUICK: for emulators and sanitizers. */
static inline int32_t n_job(void)
{
    return UNDER_TSAN ? 2 : is_guarded || getenv("TEST_QUICK") != NULL ? 4 : N;
}

/* Prompts that go in circles, so that a model without sense does, too. */
static inline whim_job_cfg circling(int32_t k, int64_t max_tokens)
{
    whim_job_cfg cfg = job_cfg(k, 40 + k, max_tokens);
    static int32_t prompts[N][CTX];
    for (int32_t i = 0; i < CTX; i++) {
        prompts[k][i] = (i % (2 + k % 5) * 7 + k) % config->n_vocab;
    }
    cfg.prompt = prompts[k];
    cfg.params.temperature = k % 3 == 0 ? 0 : 0.05f;
    cfg.params.frequency_penalty = k % 4 == 1 ? 0.001f : 0;
    return cfg;
}

static int32_t plain[N][MAX_MADE]; /* what the plainest loop makes */

static inline int open_plain(void)
{
    for (int32_t k = 0; k < n_job(); k++) {
        whim_job_cfg cfg = circling(k, MAX_MADE);
        assert_int_equal(alone(&cfg, plain[k]), MAX_MADE);
    }
    return 0;
}

/* A service that tries whatever its source proposes. */
static inline void start_with(whim_propose_fn propose)
{
    whim_diag diag = {""};
    whim_service_cfg cfg = service_cfg();
    cfg.max_waiting = N_JOB;
    cfg.propose = propose;
    cfg.propose_all = true;
    cfg.meters = &meters;
    memset(&meters, 0, sizeof meters);
    assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_OK);
}

static inline void answers_are_plain(void)
{
    static answer a;
    whim_job *jobs[N];
    for (int32_t k = 0; k < n_job(); k++) { /* one at a time */
        whim_job_cfg cfg = circling(k, MAX_MADE);
        read_all(submit(&cfg), &a);
        assert_int_equal(a.n[0], MAX_MADE);
        assert_memory_equal(a.ids[0], plain[k], sizeof plain[k]);
    }
    for (int32_t k = 0; k < n_job(); k++) { /* all at once, each with an end of its own */
        whim_job_cfg cfg = circling(k, MAX_MADE - 3 * k);
        jobs[k] = submit(&cfg);
    }
    for (int32_t k = 0; k < n_job(); k++) {
        read_all(jobs[k], &a);
        assert_int_equal(a.n[0], MAX_MADE - 3 * k);
        assert_int_equal(a.end[0], WHIM_END_LENGTH);
        assert_memory_equal(a.ids[0], plain[k], (size_t)a.n[0] * sizeof(int32_t));
    }
    pages_come_back();
}

/* Right ones by place are all that were right, no more at a place than at the one before it; blocks
 * are counted by what came of them. */
static inline void blocks_are_counted(const whim_service_stats *stats)
{
    int64_t n_right = 0, n_block = 0, before = INT64_MAX;
    for (int32_t i = 0; i < WHIM_LABEL_PLACE_COUNT; i++) {
        int64_t n = whim_meter_get(&meters, RIGHT_AT, i);
        assert_true(n <= before);
        n_right += n;
        before = n;
    }
    for (int32_t i = 0; i <= WHIM_HISTOGRAM_LIMITS_BLOCK_TOKENS; i++) {
        n_block += whim_meter_get(&meters, BLOCK_TOKENS, i);
    }
    assert_int_equal(n_right, stats->n_right);
    assert_in_range(whim_meter_get(&meters, RIGHT_AT, 0), 0, n_block);
    assert_int_equal(whim_meter_get(&meters, BLOCK_TOKENS, WHIM_HISTOGRAM_LIMITS_BLOCK_TOKENS + 1),
                     n_right + n_block);
}

static inline void lookup_keeps_the_text(void **state)
{
    start_with(NULL);
    answers_are_plain();
    whim_service_stats stats = whim_service_get_stats(service);
    assert_true(stats.n_proposed > 0 && stats.n_right < stats.n_proposed);
    assert_true(stats.n_right > 0 || n_job() < N); /* the hybrid's first texts do not repeat */
    blocks_are_counted(&stats);
    stop(state);
}

#endif
