/* SPDX-License-Identifier: Apache-2.0 */
/* What answers hold while they are made, and who gives his up where memory is short. */
#include "server/answer/run.h"
#include "unit/server/server_fixture.h"

enum { MIB = 1 << 20, LEAST = WHIM_ANSWER_LEAST_HELD };

/* --- who ---------------------------------------------------------------------------------------- */

typedef struct made {
    whim_answer answer;
    whim_answer_run run;
    whim_answer_choice choice;
    whim_task task;
    whim_exchange ex;
} made;

/* Answers of clients that hold so many bytes each, in a list. */
static whim_answer *list_of(made *m, int n, const uint64_t *clients, const int64_t *bytes)
{
    for (int i = 0; i < n; i++) {
        m[i] = (made){.choice.pending.n_byte = bytes[i], .ex.notes.client = clients[i]};
        m[i].run.next = i + 1 < n ? &m[i + 1].answer : NULL;
        m[i].answer = (whim_answer){.choices = &m[i].choice,
                                    .n_choice = 1,
                                    .task = &m[i].task,
                                    .ex = &m[i].ex,
                                    .run = &m[i].run};
    }
    return &m[0].answer;
}

static void the_largest_of_who_holds_most(void **state)
{
    (void)state;
    enum { N = 5 };
    static const uint64_t clients[N] = {1, 2, 1, 3, 1};
    static const int64_t bytes[N] = {2 * LEAST, 5 * LEAST, 3 * LEAST, 4 * LEAST, LEAST};
    made m[N];
    whim_answer *first = list_of(m, N, clients, bytes);
    assert_ptr_equal(whim_answer_greediest(first), &m[2].answer); /* 6 together */
    m[2].run.failed = true; /* it is on its way out, and what it held is given back */
    m[2].choice.pending.n_byte = 0;
    assert_ptr_equal(whim_answer_greediest(first), &m[1].answer);
    m[1].run.mute = true;
    assert_ptr_equal(whim_answer_greediest(first), &m[3].answer);
}

static void small_ones_stay(void **state)
{
    (void)state;
    enum { N = 3 };
    static const uint64_t clients[N] = {1, 1, 1};
    static const int64_t bytes[N] = {LEAST - 1, LEAST - 1, 0};
    made m[N];
    assert_null(whim_answer_greediest(list_of(m, N, clients, bytes)));
    assert_null(whim_answer_greediest(NULL));
}

/* --- and what happens to him ------------------------------------------------------------------- */

static const whim_job_logprob tops[] = {{97, 0},   {98, -1},  {99, -2},  {100, -3}, {101, -4},
                                        {102, -5}, {103, -6}, {104, -7}, {105, -8}, {106, -9}};

/* An answer whose log-probabilities nobody reads before its end takes what there is, and no more:
 * its client is told why, and all that it held is given back. */
static void endless_log_probabilities(void **state)
{
    (void)state;
    static const whim_job_event endless[] = {
        ADMITTED,
        {.kind = WHIM_JOB_TOKEN,
         .id = 97,
         .text = "a",
         .n_text = 1,
         .has_logprob = true,
         .top = tops,
         .n_top = 10},
    };
    static const char body[] = "{\"prompt\":[97],\"logprobs\":10}";
    exchange = (whim_exchange){.request = {.method = "POST",
                                           .path = "/v1/completions",
                                           .body = body,
                                           .n_body = sizeof body - 1,
                                           .client = "c",
                                           .request_id = "req-0"},
                               .write_limit = -1};
    script = endless;
    n_script = N_OF(endless);
    cancelled = WHIM_REASON_NONE;
    end_reason = WHIM_REASON_SHORT_MEMORY;
    whim_budget_set(8 * MIB);
    atomic_store(&repeated, endless);
    whim_route_completions(&api, &exchange);
    while (whim_answer_thread_active(api.answer_thread) > 0) {
        if (whim_budget_used() > 64 * MIB) {
            atomic_store(&repeated, NULL);
            fail_msg("%lld bytes are held", (long long)whim_budget_used());
        }
        sched_yield();
    }
    atomic_store(&repeated, NULL);
    assert_int_equal(exchange.status, 503);
    assert_non_null(strstr(whim_str_text(&exchange.headers), "Retry-After: 1\n"));
    assert_non_null(strstr(whim_str_text(&exchange.body), "this answer held most of it"));
    assert_int_not_equal(cancelled, WHIM_REASON_NONE);
    assert_true(whim_budget_used() < MIB);
    whim_budget_set(0);
    end_reason = WHIM_REASON_STOP;
}

/* A reply that would take more than there is is not begun. */
static void a_large_reply_must_fit(void **state)
{
    (void)state;
    enum { N = 1000 };
    static whim_job_event events[N + 2];
    events[0] = (whim_job_event)ADMITTED;
    for (int i = 1; i <= N; i++) {
        events[i] = (whim_job_event){.kind = WHIM_JOB_TOKEN,
                                     .id = 97,
                                     .text = "a",
                                     .n_text = 1,
                                     .has_logprob = true,
                                     .top = tops,
                                     .n_top = 10};
    }
    events[N + 1] = (whim_job_event)CHOICE_END(0, WHIM_END_LENGTH);
    for (int fits = 0; fits < 2; fits++) {
        whim_budget_set(fits ? 64 * MIB : MIB / 4);
        const char *got = call(whim_route_completions, "/v1/completions",
                               "{\"prompt\":[97],\"logprobs\":10}", events, N + 2);
        assert_int_equal(exchange.status, fits ? 200 : 503);
        assert_int_equal(strstr(got, "out of memory") == NULL, fits);
        whim_budget_set(0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_of_who_holds_most),
        cmocka_unit_test(small_ones_stay),
        cmocka_unit_test(endless_log_probabilities),
        cmocka_unit_test(a_large_reply_must_fit),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
