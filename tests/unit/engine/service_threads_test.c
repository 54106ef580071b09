/* SPDX-License-Identifier: Apache-2.0 */
/* All threads that meet in the step loop at once, for the thread sanitizer above all: 8 streams in a
 * pool that is too small for them, asked for and read on three threads, cancelled, stopped and
 * released on these and by a deadline, while a fourth looks at every number and a device fails now
 * and then, at the queueing of a step or at its end. An answer that came is the one of a run alone,
 * one that ended early its beginning. */
#include "base/thread.h"
#include "unit/engine/service_fixture.h"

enum { STREAMS = 8, ASKERS = 3, TURNS = 8, AT_ONCE = 4, KINDS = 12, FAILS_ONE_IN = 61 };

static whim_job_cfg cfgs[KINDS];
static int32_t expected[KINDS][MAX_MADE];
static atomic_int n_whole, n_cut, n_failed, n_wrong, n_woken, n_asking;

/* --- a device that fails ---------------------------------------------------------------------- */

static whim_stream_vt failing;
static whim_err (*real_record)(whim_stream *s, whim_event *event);
static whim_err (*real_wait)(whim_stream *s, whim_event event);
static atomic_int n_call;
static atomic_bool may_fail;

static bool fails(void)
{
    return atomic_load(&may_fail) && atomic_fetch_add(&n_call, 1) % FAILS_ONE_IN == 60;
}

static whim_err record_or_fail(whim_stream *s, whim_event *event)
{
    whim_err err = real_record(s, event);
    return fails() ? WHIM_ERR_DEVICE : err;
}

static whim_err wait_for(whim_stream *s, whim_event event)
{
    whim_err err = real_wait(s, event);
    return fails() ? WHIM_ERR_DEVICE : err;
}

static void opened(whim_stream_watch *watch, whim_stream *s)
{
    (void)watch;
    real_record = s->vt->record;
    real_wait = s->vt->wait;
    failing = *s->vt;
    failing.record = record_or_fail;
    failing.wait = wait_for;
    s->vt = &failing;
}

/* --- asking ----------------------------------------------------------------------------------- */

static void woken(void *ctx, whim_job *job)
{
    (void)ctx;
    (void)job;
    atomic_fetch_add(&n_woken, 1);
}

/* What came of a job that asked for `cfgs[k]`, up to its end. */
static void hear(whim_job *job, int32_t k)
{
    int32_t ids[MAX_MADE];
    int64_t n = 0;
    whim_job_event e = {.kind = WHIM_JOB_ADMITTED};
    while (e.kind != WHIM_JOB_DONE && e.kind != WHIM_JOB_FAILED) {
        if (!whim_job_next(job, &e)) {
            whim_clock_sleep_ns(WHIM_NS_PER_MS / 5);
        } else if (e.kind == WHIM_JOB_TOKEN && n < MAX_MADE) {
            ids[n++] = e.id;
        }
    }
    bool whole = n == cfgs[k].max_tokens;
    atomic_fetch_add(e.kind == WHIM_JOB_FAILED ? &n_failed : whole ? &n_whole : &n_cut, 1);
    bool same = n <= cfgs[k].max_tokens && memcmp(ids, expected[k], (size_t)n * sizeof *ids) == 0;
    atomic_fetch_add(&n_wrong, !same);
    whim_job_release(job);
}

/* All that the test is about has been there; on a busy machine that takes longer. */
static bool everything_happened(void)
{
    whim_service_stats stats = whim_service_get_stats(service);
    return stats.n_ahead > 0 && whim_sched_preempted(&stats.sched) > 0 && stats.n_failed > 0 &&
           stats.n_cancelled > 0 && atomic_load(&n_whole) > 0 && atomic_load(&n_cut) > 0;
}

static void ask(void *ctx)
{
    int32_t self = (int32_t)(intptr_t)ctx;
    for (int32_t turn = 0; turn < TURNS || (turn < 50 * TURNS && !everything_happened()); turn++) {
        whim_job *jobs[AT_ONCE] = {NULL};
        for (int32_t i = 0; i < AT_ONCE; i++) {
            whim_diag diag = {""};
            int32_t k = (turn * AT_ONCE + i + self * 5) % KINDS;
            whim_job_cfg cfg = cfgs[k];
            cfg.client = (uint64_t)self;
            cfg.wake = woken;
            cfg.priority = i % 2;
            cfg.deadline_ns = k == 7 ? whim_clock_ns() + 5 * WHIM_NS_PER_MS : 0;
            if (whim_service_submit(service, &cfg, 1, &jobs[i], &diag) != WHIM_ERR_OK) {
                jobs[i] = NULL; /* too many wait */
            }
        }
        for (int32_t i = 0; i < AT_ONCE; i++) {
            int32_t k = (turn * AT_ONCE + i + self * 5) % KINDS;
            if (jobs[i] != NULL && k == 5) {
                whim_job_cancel(jobs[i], WHIM_REASON_RELEASED);
            } else if (jobs[i] != NULL && k == 8) {
                whim_job_stop_choice(jobs[i], 0);
            }
            if (jobs[i] != NULL && k == 10) {
                whim_job_release(jobs[i]); /* nobody listens */
            } else if (jobs[i] != NULL) {
                hear(jobs[i], k);
            }
        }
    }
    atomic_fetch_sub(&n_asking, 1);
}

/* What /metrics, /health and the watchdog do. */
static void look(void *ctx)
{
    whim_str said = {0};
    int64_t *sum = ctx;
    while (atomic_load(&n_asking) > 0) {
        whim_service_stats stats = whim_service_get_stats(service);
        whim_str_clear(&said);
        whim_service_describe(service, &said);
        *sum += stats.n_step + whim_service_heartbeat_ns(service) + whim_service_active(service);
        *sum += whim_meter_get(&meters, TOKENS, WHIM_LABEL_TOKENS_GENERATED);
        whim_clock_sleep_ns(WHIM_NS_PER_MS / 2);
    }
    whim_str_deinit(&said);
}

/* --- the test --------------------------------------------------------------------------------- */

static int open_failing(const char *model)
{
    static whim_stream_watch watch = {.opened = opened};
    whim_diag diag = {""};
    whim_engine_cfg cfg = {.model = model,
                           .n_checkpoint = 3,
                           .n_thread = 2,
                           .n_flight = 2,
                           .max_step_tokens = STEP,
                           .max_seqs = STREAMS,
                           .max_outs = STREAMS,
                           .ctx = CTX,
                           .watch = &watch};
    engine = drive_open(&cfg, &diag);
    assert_non_null(engine);
    cfg.kv_mem = whim_engine_runner_plan(engine)->page_bytes * 8;
    whim_engine_close(engine);
    engine = drive_open(&cfg, &diag);
    assert_non_null(engine);
    config = whim_engine_config(engine);
    for (int32_t i = 0; i < 4 * CTX; i++) {
        words[i / CTX][i % CTX] = (i * 37 + (i % CTX < 64 ? 0 : i / CTX * 11)) % config->n_vocab;
    }
    return 0;
}

static int open_plain(void **state)
{
    (void)state;
    return open_failing("tests/data/golden/llama-bf16");
}

static int open_recurrent(void **state)
{
    (void)state;
    return open_failing("tests/data/golden/qwen35-f32");
}

static void threads_meet(void **state)
{
    (void)state;
    whim_thread askers[ASKERS], looker;
    whim_diag diag = {""};
    int64_t sum = 0;
    for (int32_t k = 0; k < KINDS; k++) {
        cfgs[k] = job_cfg(k, 30 + k * 7, 8 + k * 2);
        cfgs[k].params.frequency_penalty = k == 4 ? 0.5f : 0; /* no step goes ahead of this one */
        assert_int_equal(alone(&cfgs[k], expected[k]), cfgs[k].max_tokens);
    }
    whim_service_cfg cfg = {.engine = engine,
                            .max_seqs = STREAMS,
                            .max_step_tokens = STEP,
                            .max_outs = STREAMS,
                            .meters = &meters};
    assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_OK);
    atomic_store(&n_asking, ASKERS);
    atomic_store(&n_whole, 0);
    atomic_store(&n_cut, 0);
    atomic_store(&may_fail, true);
    assert_int_equal(whim_thread_create(&looker, "look", look, &sum, &diag), WHIM_ERR_OK);
    for (intptr_t i = 0; i < ASKERS; i++) {
        assert_int_equal(whim_thread_create(&askers[i], "ask", ask, (void *)i, &diag), WHIM_ERR_OK);
    }
    for (int32_t i = 0; i < ASKERS; i++) {
        whim_thread_join(&askers[i]);
    }
    whim_thread_join(&looker);
    atomic_store(&may_fail, false);
    pages_come_back();
    bool happened = everything_happened();
    stop(state);
    assert_int_equal(atomic_load(&n_wrong), 0);
    assert_true(happened && atomic_load(&n_woken) > 0 && sum > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_meet)};
    return cmocka_run_group_tests(tests, open_plain, close_engine) +
           cmocka_run_group_tests(tests, open_recurrent, close_engine);
}
