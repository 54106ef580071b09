/* SPDX-License-Identifier: Apache-2.0 */
/* The account of the heap: what is counted, who is refused, and that all comes back. */
#include "base/heap/budget.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/str.h"
#include "base/thread.h"
#include "support/cmocka.h"

#include <pthread.h>

enum { MIB = 1 << 20 };

static int set_json(void **state)
{
    (void)state;
    whim_json_count_memory();
    return 0;
}

static int clear(void **state)
{
    (void)state;
    whim_budget_share(0);
    whim_budget_set(0);
    return 0;
}

/* Bytes, as near as counting is. */
static void assert_near(int64_t got, int64_t want)
{
    assert_in_range(got + WHIM_BUDGET_LATE, want, want + 2 * WHIM_BUDGET_LATE);
}

static void free_it(void *ctx)
{
    whim_free(ctx);
}

static void counts_what_is_held(void **state)
{
    (void)state;
    whim_budget_set(0);
    void *a = whim_alloc(3 * MIB), *b = whim_alloc_plain(2 * MIB);
    assert_near(whim_budget_used(), 5 * MIB);
    a = whim_realloc(a, 3 * MIB, 4 * MIB);
    assert_near(whim_budget_used(), 6 * MIB);
    whim_free(b);
    whim_free(NULL);
    assert_near(whim_budget_used(), 4 * MIB);
    whim_thread thread; /* whoever frees it */
    whim_diag diag = {{0}};
    assert_int_equal(whim_thread_create(&thread, "free", free_it, a, &diag), WHIM_ERR_OK);
    whim_thread_join(&thread);
    assert_near(whim_budget_used(), 0);
}

enum { RACERS = 4, ROUNDS = 10 };

typedef struct racer {
    whim_thread thread;
    pthread_barrier_t *start;
    void *got;
} racer;

static void race(void *ctx)
{
    racer *r = ctx;
    whim_budget_share(8);
    pthread_barrier_wait(r->start);
    r->got = whim_alloc(24 * MIB);
}

/* Of those that want the same room one gets it. */
static void room_is_for_one(void **state)
{
    (void)state;
    pthread_barrier_t start;
    whim_diag diag = {{0}};
    whim_budget_set(40 * MIB);
    for (int round = 0; round < ROUNDS; round++) {
        racer racers[RACERS];
        int n = 0;
        pthread_barrier_init(&start, NULL, RACERS);
        for (int i = 0; i < RACERS; i++) {
            racers[i].start = &start;
            assert_int_equal(whim_thread_create(&racers[i].thread, "race", race, &racers[i], &diag),
                             WHIM_ERR_OK);
        }
        for (int i = 0; i < RACERS; i++) {
            whim_thread_join(&racers[i].thread);
            n += racers[i].got != NULL;
        }
        assert_int_equal(n, 1);
        for (int i = 0; i < RACERS; i++) {
            whim_free(racers[i].got);
        }
        pthread_barrier_destroy(&start);
    }
}

static void refuses_by_share(void **state)
{
    (void)state;
    void *before = whim_alloc(8 * MIB); /* is no part of it */
    whim_budget_set(8 * MIB);
    assert_false(whim_budget_is_over(1));
    assert_int_equal(whim_budget_share(4), 0);
    assert_null(whim_alloc(5 * MIB));
    assert_null(whim_alloc_plain(5 * MIB));
    void *half = whim_alloc(3 * MIB);
    assert_non_null(half);
    assert_null(whim_realloc(half, 3 * MIB, 4 * MIB)); /* both are there for a moment */
    assert_null(whim_alloc(2 * MIB));
    assert_true(whim_budget_is_over(2) && !whim_budget_is_over(4));
    assert_int_equal(whim_budget_share(WHIM_BUDGET_WHOLE), 4);
    void *more = whim_alloc(4 * MIB);
    assert_non_null(more);
    assert_null(whim_alloc(2 * MIB));
    whim_budget_share(0); /* who works for those that run is not refused */
    void *most = whim_alloc(4 * MIB);
    assert_non_null(most);
    assert_true(whim_budget_is_over(WHIM_BUDGET_WHOLE));
    whim_free(most);
    whim_free(more);
    whim_free(half);
    assert_false(whim_budget_is_over(1));
    whim_free(before);
}

/* Values of a text are counted and refused; what was read of it is given back. */
static void refuses_values(void **state)
{
    (void)state;
    whim_str text = {0};
    whim_str_append_char(&text, '[');
    for (int i = 0; i < 100000; i++) {
        whim_str_append(&text, "{\"a\":\"b\"},");
    }
    whim_str_append(&text, "0]");
    whim_json *json = NULL;
    whim_diag diag = {{0}};
    const whim_json_limits limits = {.max_bytes = INT64_MAX, .max_depth = WHIM_JSON_DEPTH};
    whim_budget_set(8 * MIB);
    whim_budget_share(WHIM_BUDGET_WHOLE);
    assert_int_equal(whim_json_read(&json, text.text, text.len, limits, &diag), WHIM_ERR_NO_MEMORY);
    assert_near(whim_budget_used(), 0);
    whim_budget_share(0);
    assert_int_equal(whim_json_read(&json, text.text, text.len, limits, &diag), WHIM_ERR_OK);
    assert_true(whim_budget_is_over(WHIM_BUDGET_WHOLE));
    whim_json_free(json);
    assert_near(whim_budget_used(), 0);
    whim_str_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(counts_what_is_held, clear),
        cmocka_unit_test_teardown(refuses_by_share, clear),
        cmocka_unit_test_teardown(room_is_for_one, clear),
        cmocka_unit_test_teardown(refuses_values, clear),
    };
    return cmocka_run_group_tests(tests, set_json, NULL);
}
