/* SPDX-License-Identifier: Apache-2.0 */
/* Proposals without a draft: texts that repeat come in fewer steps, whatever a source proposes the
 * text is the one that the plainest loop makes, and ends of every kind fall inside a block. */
#include "unit/engine/circles.h"

#include <stdatomic.h>

static int open_llama(void **state)
{
    return open_engine(state) + open_plain();
}

static int open_gated_delta(void **state)
{
    return open_hybrid(state) + open_plain();
}

/* --- sources that nobody would ship ----------------------------------------------------------- */

/* The text that begins so, from its token n on. */
static const int32_t *known_text(const int32_t *tokens, int64_t *n)
{
    for (int32_t k = 0; k < n_job(); k++) {
        whim_job_cfg cfg = circling(k, MAX_MADE);
        if (*n > cfg.n_prompt &&
            memcmp(tokens, cfg.prompt, (size_t)cfg.n_prompt * sizeof *tokens) == 0) {
            *n -= cfg.n_prompt;
            return plain[k];
        }
    }
    return NULL;
}

static int64_t always_right(void *ctx, const int32_t *tokens, int64_t n, int32_t *out, int64_t max)
{
    (void)ctx;
    const int32_t *text = known_text(tokens, &n);
    int64_t m = text == NULL ? 0 : max < MAX_MADE - n ? max : MAX_MADE - n;
    for (int64_t i = 0; i < m; i++) {
        out[i] = text[n + i];
    }
    return m;
}

static int64_t always_wrong(void *ctx, const int32_t *tokens, int64_t n, int32_t *out, int64_t max)
{
    int64_t m = always_right(ctx, tokens, n, out, max);
    for (int64_t i = 0; i < m; i++) {
        out[i] = (out[i] + 1) % config->n_vocab;
    }
    return m;
}

/* Wrong at another place each time. */
static int64_t half_right(void *ctx, const int32_t *tokens, int64_t n, int32_t *out, int64_t max)
{
    int64_t m = always_right(ctx, tokens, n, out, max);
    if (m > n % 4) {
        out[n % 4] = (out[n % 4] + 1) % config->n_vocab;
    }
    return m;
}

static int64_t senseless(void *ctx, const int32_t *tokens, int64_t n, int32_t *out, int64_t max)
{
    (void)ctx;
    const int32_t ids[] = {-1, config->n_vocab, INT32_MAX, INT32_MIN};
    for (int64_t i = 0; i < max; i++) {
        out[i] = ids[(n + tokens[n - 1] + i) % 4];
    }
    return max;
}

static void no_source_changes_the_text(void **state)
{
    start_with(always_right);
    answers_are_plain();
    whim_service_stats stats = whim_service_get_stats(service);
    assert_int_equal(stats.n_right, stats.n_proposed);
    blocks_are_counted(&stats);
    assert_true(stats.n_right > n_job() * MAX_MADE);
    stop(state);
    start_with(always_wrong);
    answers_are_plain();
    stats = whim_service_get_stats(service);
    assert_true(stats.n_right == 0 && stats.n_proposed > n_job() * MAX_MADE);
    stop(state);
    start_with(half_right);
    answers_are_plain();
    stats = whim_service_get_stats(service);
    assert_true(stats.n_right > 0 && stats.n_right < stats.n_proposed);
    stop(state);
    start_with(senseless);
    answers_are_plain();
    assert_int_equal(whim_service_get_stats(service).n_proposed, 0);
    stop(state);
}

/* The token that ends an answer stands in it for the first time where it is one of several that
 * came at once. */
static void ends_fall_inside_a_block(void **state)
{
    static answer a;
    int32_t n_tried = 0;
    start_with(always_right);
    for (int32_t k = 0; k < n_job(); k++) {
        for (int64_t n = 1; n < 40; n += UNDER_TSAN ? 5 : 1) {
            whim_job_cfg cfg = circling(k, 60);
            int64_t first = 0;
            while (plain[k][first] != plain[k][n]) {
                first++;
            }
            if (first < n) {
                continue;
            }
            cfg.stop_ids = &plain[k][n];
            cfg.n_stop_id = 1;
            read_all(submit(&cfg), &a);
            assert_int_equal(a.n[0], n + 1);
            assert_int_equal(a.end[0], WHIM_END_EOS);
            assert_memory_equal(a.ids[0], plain[k], (size_t)a.n[0] * sizeof(int32_t));
            n_tried++;
        }
    }
    assert_true(n_tried >= n_job());
    for (int64_t n = 1; n < 40; n += UNDER_TSAN ? 5 : 1) { /* and every length */
        whim_job_cfg cfg = circling(0, n);
        read_all(submit(&cfg), &a);
        assert_int_equal(a.n[0], n);
        assert_int_equal(a.end[0], WHIM_END_LENGTH);
        assert_memory_equal(a.ids[0], plain[0], (size_t)n * sizeof(int32_t));
    }
    whim_job_cfg cfg = circling(1, 0); /* up to the end of the context */
    cfg.n_prompt = whim_service_ctx(service) - 20;
    read_all(submit(&cfg), &a);
    assert_int_equal(a.n[0], 20);
    pages_come_back();
    stop(state);
}

static _Atomic(whim_job *) victim; /* the one with the first text; NULL: it is on its way */
static int64_t victim_at;          /* tokens made, with which it is cancelled */

/* It is cancelled when its proposals have been found, before the step that verifies them. */
static int64_t right_and_cancelled(void *ctx, const int32_t *tokens, int64_t n, int32_t *out,
                                   int64_t max)
{
    int64_t n_made = n;
    if (known_text(tokens, &n_made) == plain[0] && n_made >= victim_at) {
        whim_job *job = atomic_load(&victim);
        for (; job == NULL; job = atomic_load(&victim)) {
            whim_clock_sleep_ns(WHIM_NS_PER_MS / 10);
        }
        whim_job_cancel(job, WHIM_REASON_CLIENT_GONE);
    }
    return always_right(ctx, tokens, n, out, max);
}

static void cancelled_inside_a_block(void **state)
{
    static answer a;
    start_with(right_and_cancelled);
    for (victim_at = 1; victim_at < 40; victim_at += 5) {
        whim_diag diag = {""};
        whim_job_cfg both[2] = {circling(0, MAX_MADE), circling(1, MAX_MADE)};
        whim_job *jobs[2];
        atomic_store(&victim, NULL);
        assert_int_equal(whim_service_submit(service, both, 2, jobs, &diag), WHIM_ERR_OK);
        atomic_store(&victim, jobs[0]);
        read_all(jobs[0], &a);
        assert_true(a.failed && a.n[0] < MAX_MADE);
        assert_memory_equal(a.ids[0], plain[0], (size_t)a.n[0] * sizeof(int32_t));
        read_all(jobs[1], &a); /* who was in the same steps goes on */
        assert_int_equal(a.n[0], MAX_MADE);
        assert_memory_equal(a.ids[0], plain[1], sizeof plain[1]);
        pages_come_back();
    }
    stop(state);
}

/* A predicted answer comes in fewer steps, and is the same whatever of the prediction is right. */
static void predictions_keep_the_text(void **state)
{
    static answer a;
    for (int32_t wrong_every = 0; wrong_every < 30; wrong_every += 9) {
        start_with(NULL);
        for (int32_t k = 0; k < n_job(); k++) {
            whim_job_cfg cfg = circling(k, MAX_MADE);
            int32_t predicted[MAX_MADE];
            memcpy(predicted, plain[k], sizeof predicted);
            for (int32_t i = wrong_every; wrong_every > 0 && i < MAX_MADE; i += wrong_every) {
                predicted[i] = (predicted[i] + 1) % config->n_vocab;
            }
            cfg.prediction = predicted;
            cfg.n_prediction = MAX_MADE;
            int64_t before = whim_service_get_stats(service).n_step;
            whim_job *job = submit(&cfg);
            memset(predicted, 0xff, sizeof predicted); /* it is the caller's */
            read_all(job, &a);
            assert_int_equal(a.n[0], MAX_MADE);
            assert_memory_equal(a.ids[0], plain[k], sizeof plain[k]);
            pages_come_back();
            int64_t n_step = whim_service_get_stats(service).n_step - before;
            assert_true(wrong_every > 0 || n_step < MAX_MADE / 3);
        }
        stop(state);
    }
}

/* What is switched off proposes nothing. */
static void without_it_there_is_none(void **state)
{
    (void)state;
    static answer a;
    whim_diag diag = {""};
    whim_service_cfg off = service_cfg();
    off.no_lookup = true;
    assert_int_equal(whim_service_create(&off, &service, &diag), WHIM_ERR_OK);
    whim_job_cfg cfg = circling(0, 40);
    read_all(submit(&cfg), &a);
    assert_int_equal(whim_service_get_stats(service).n_proposed, 0);
    stop(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lookup_keeps_the_text),    cmocka_unit_test(no_source_changes_the_text),
        cmocka_unit_test(ends_fall_inside_a_block), cmocka_unit_test(predictions_keep_the_text),
        cmocka_unit_test(cancelled_inside_a_block), cmocka_unit_test(without_it_there_is_none),
    };
    int failed = cmocka_run_group_tests_name("llama", tests, open_llama, close_engine);
    if (!UNDER_TSAN) { /* that sees a hybrid with its own draft */
        failed += cmocka_run_group_tests_name("hybrid", tests, open_gated_delta, close_engine);
    }
    return failed;
}
