/* SPDX-License-Identifier: Apache-2.0 */
/* How many requests may wait for the service, and what counts as one. */
#include "base/alloc.h"
#include "base/heap/budget.h"
#include "unit/engine/service_fixture.h"

#include <stdatomic.h>

/* --- a service that stands still --------------------------------------------------------------- */

static atomic_bool is_shut, has_come;

/* On the service's thread, behind its first step: nothing is let in or ends until the gate opens. */
static int64_t gate(int64_t n_row)
{
    atomic_store(&has_come, true);
    while (atomic_load(&is_shut)) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS / 5);
    }
    return n_row;
}

static int start_gated(void **state)
{
    (void)state;
    whim_diag diag = {""};
    whim_service_cfg cfg = service_cfg();
    cfg.max_waiting = N_JOB;
    cfg.step_ns = gate;
    atomic_store(&is_shut, true);
    atomic_store(&has_come, false);
    assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_OK);
    return 0;
}

static int stop_gated(void **state)
{
    atomic_store(&is_shut, false);
    return stop(state);
}

/* One request, which runs, and a service that stands still from then on. */
static whim_job *stand_still(uint64_t client, int32_t n_choice)
{
    whim_job_cfg cfg = job_cfg(0, 20, 40);
    cfg.client = client;
    cfg.n_choice = n_choice;
    whim_job *job = submit(&cfg);
    int64_t until = whim_clock_ns() + 240 * WHIM_NS_PER_S;
    while (!atomic_load(&has_come)) {
        assert_true(whim_clock_ns() < until);
        whim_clock_sleep_ns(WHIM_NS_PER_MS / 5);
    }
    return job;
}

/* Requests of a client until one is refused; how many were taken. */
static int32_t flood(uint64_t client, whim_job **jobs, int32_t max)
{
    whim_diag diag = {""};
    whim_job_cfg cfg = job_cfg(1, 20, 2);
    int32_t n = 0;
    cfg.client = client;
    while (n < max && whim_service_submit(service, &cfg, 1, &jobs[n], &diag) == WHIM_ERR_OK) {
        n++;
    }
    assert_true(n == max || strstr(diag.text, "waiting") != NULL);
    return n;
}

/* The last n_given of them were ended for others, and all before them are answered. */
static void read_flood(whim_job **jobs, int32_t n, int32_t n_given)
{
    answer a;
    for (int32_t i = 0; i < n; i++) {
        read_all(jobs[i], &a);
        assert_int_equal(a.failed, i >= n - n_given);
        assert_int_equal(a.err, i >= n - n_given ? WHIM_ERR_FULL : WHIM_ERR_OK);
        assert_true(!a.failed || (a.n[0] == 0 && strstr(a.message, "queue") != NULL));
    }
}

/* --- tests ------------------------------------------------------------------------------------ */

static void the_queue_has_a_limit(void **state)
{
    (void)state;
    enum { MANY = N_JOB + MAX_SEQS + 3 };
    whim_job *jobs[MANY];
    whim_diag diag = {""};
    int32_t n = 0;
    answer a;
    whim_job_cfg cfg = job_cfg(0, 90, 50);
    while (n < MANY && whim_service_submit(service, &cfg, 1, &jobs[n], &diag) == WHIM_ERR_OK) {
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
    assert_int_equal(whim_service_submit(service, &one, 1, &other, &diag), WHIM_ERR_FULL);
    whim_job_cancel(job, WHIM_REASON_RELEASED);
    whim_job_release(job);
    pages_come_back();
    answer a;
    read_all(submit(&one), &a);
    assert_false(a.failed);
}

/* A request's own prompts do not fill the queue for one another; behind others they count, all or
 * none. */
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
    if (whim_service_submit(service, cfgs, MANY, jobs, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    assert_int_equal(whim_service_submit(service, cfgs, N_JOB, more, &diag), WHIM_ERR_FULL);
    assert_int_equal(whim_service_get_stats(service).n_refused, N_JOB);
    for (int32_t i = 0; i < MANY; i++) {
        read_all(jobs[i], &a);
        assert_false(a.failed);
        assert_int_equal(a.n[0], 8);
    }
    cfgs[2].n_prompt = CTX; /* too long: none of them */
    assert_int_equal(whim_service_submit(service, cfgs, 4, more, &diag), WHIM_ERR_NO_FIT);
    pages_come_back();
}

/* Who comes takes the newest places of whoever has most, until both have the same. */
static void a_flood_fills_the_queue_for_itself(void **state)
{
    (void)state;
    enum { MANY = 2 * N_JOB };
    whim_job *first = stand_still(1, 1), *mine[MANY], *theirs[MANY], *third[MANY];
    answer a;
    assert_int_equal(flood(1, mine, MANY), N_JOB);
    assert_int_equal(flood(2, theirs, MANY), N_JOB / 2);
    assert_int_equal(flood(1, mine + N_JOB, MANY - N_JOB), 0);
    assert_int_equal(flood(2, theirs + N_JOB / 2, MANY - N_JOB / 2), 0);
    int32_t n = flood(3, third, MANY); /* from both, in turns */
    assert_int_equal(n, 4);
    assert_int_equal(flood(3, third + n, 1), 0);
    atomic_store(&is_shut, false);
    read_all(first, &a);
    assert_false(a.failed);
    read_flood(mine, N_JOB, N_JOB / 2 + n / 2);
    read_flood(theirs, N_JOB / 2, n / 2);
    read_flood(third, n, 0);
    pages_come_back();
    assert_int_equal(flood(1, mine, 1), 1); /* nothing of it is left */
    read_flood(mine, 1, 0);
}

/* Choices of a request that has begun are its client's, and not in the way of others. */
static void many_choices_are_in_nobodys_way(void **state)
{
    (void)state;
    enum { MANY = 2 * N_JOB };
    whim_job *first = stand_still(1, 128), *mine[MANY], *theirs[MANY];
    answer a;
    assert_int_equal(flood(1, mine, MANY), 0);
    assert_int_equal(flood(2, theirs, MANY), N_JOB);
    assert_int_equal(flood(1, mine, MANY), 0);
    atomic_store(&is_shut, false);
    whim_job_cancel(first, WHIM_REASON_RELEASED);
    whim_job_release(first);
    read_flood(theirs, N_JOB, 0);
    pages_come_back();
    read_all(submit(&(whim_job_cfg[]){job_cfg(1, 20, 1)}[0]), &a);
    assert_false(a.failed);
}

/* A request of several prompts gives its place as a whole, and for nothing where that is not
 * enough. */
static void a_request_gives_its_place_whole(void **state)
{
    (void)state;
    enum { SOME = 5 };
    whim_job *first = stand_still(1, 1), *jobs[2][SOME], *large[N_JOB], *one;
    whim_job_cfg cfgs[N_JOB];
    whim_diag diag = {""};
    for (int32_t i = 0; i < N_JOB; i++) {
        cfgs[i] = job_cfg(i, 20, 2);
        cfgs[i].client = 1;
    }
    for (int32_t k = 0; k < 2; k++) {
        assert_int_equal(whim_service_submit(service, cfgs, SOME, jobs[k], &diag), WHIM_ERR_OK);
    }
    assert_int_equal(whim_service_submit(service, cfgs, SOME, large, &diag), WHIM_ERR_FULL);
    for (int32_t i = 0; i < N_JOB; i++) {
        cfgs[i].client = 2;
    }
    assert_int_equal(whim_service_submit(service, cfgs, N_JOB, large, &diag), WHIM_ERR_FULL);
    assert_int_equal(whim_service_submit(service, cfgs, SOME, large, &diag), WHIM_ERR_OK);
    assert_int_equal(flood(3, &one, 1), 1);
    atomic_store(&is_shut, false);
    read_flood(&first, 1, 0);
    read_flood(jobs[0], SOME, 0);
    read_flood(jobs[1], SOME, SOME);
    read_flood(large, SOME, 0);
    read_flood(&one, 1, 0);
    pages_come_back();
}

/* Events that wait for a reader take little where the memory for requests is all taken; one that
 * reads goes on. */
static void what_waits_for_a_reader_is_bounded(void **state)
{
    (void)state;
    enum { MIB = 1 << 20 };
    whim_job_event event;
    whim_job_cfg many = job_cfg(0, 20, 130), one = job_cfg(1, 20, 8);
    many.n_choice = 4;
    many.params.want_logprob = true;
    many.params.n_logprob = 100;
    for (int short_of_it = 0; short_of_it < 2; short_of_it++) {
        whim_budget_set(MIB);
        void *all = whim_alloc(short_of_it ? 2 * MIB : 64);
        whim_job *job = submit(&many), *other = submit(&one);
        answer a;
        read_all(other, &a);
        assert_false(a.failed);
        int64_t until = whim_clock_ns() + 240 * WHIM_NS_PER_S;
        while (whim_service_active(service) > 0) {
            assert_true(whim_clock_ns() < until);
            whim_clock_sleep_ns(WHIM_NS_PER_MS);
        }
        int64_t n = 0;
        do {
            assert_true(whim_job_next(job, &event));
            n += event.kind == WHIM_JOB_TOKEN;
        } while (event.kind != WHIM_JOB_DONE && event.kind != WHIM_JOB_FAILED);
        assert_int_equal(event.kind, short_of_it ? WHIM_JOB_FAILED : WHIM_JOB_DONE);
        assert_true(short_of_it ? n < 4 * 130 : n == 4 * 130);
        assert_true(!short_of_it || strstr(event.message, "memory is short") != NULL);
        whim_job_release(job);
        whim_free(all);
        whim_budget_set(0);
        pages_come_back();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_queue_has_a_limit, start, stop),
        cmocka_unit_test_setup_teardown(choices_wait_too, start, stop),
        cmocka_unit_test_setup_teardown(a_request_comes_in_whole, start, stop),
        cmocka_unit_test_setup_teardown(what_waits_for_a_reader_is_bounded, start, stop),
        cmocka_unit_test_setup_teardown(a_flood_fills_the_queue_for_itself, start_gated,
                                        stop_gated),
        cmocka_unit_test_setup_teardown(many_choices_are_in_nobodys_way, start_gated, stop_gated),
        cmocka_unit_test_setup_teardown(a_request_gives_its_place_whole, start_gated, stop_gated),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
