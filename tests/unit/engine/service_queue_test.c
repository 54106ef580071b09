/* SPDX-License-Identifier: Apache-2.0 */
/* How many requests may wait for the service, and what counts as one. */
#include "unit/engine/service_fixture.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_queue_has_a_limit, start, stop),
        cmocka_unit_test_setup_teardown(choices_wait_too, start, stop),
        cmocka_unit_test_setup_teardown(a_request_comes_in_whole, start, stop),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
