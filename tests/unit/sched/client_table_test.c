/* SPDX-License-Identifier: Apache-2.0 */
/* Tags of clients: who got least goes first, newcomers are not behind the past, time goes on. */
#include "sched/client_table.h"
#include "support/cmocka.h"

#include "base/alloc.h"

enum { U = WHIM_SERVICE_UNIT };

static int64_t enter(whim_client_table *t, uint64_t id, int64_t cost, whim_client **client)
{
    int64_t tag;
    assert_int_equal(whim_client_enter(t, id, cost, client, &tag), WHIM_ERR_OK);
    return tag;
}

static void a_clients_requests_queue_behind_each_other(void **state)
{
    (void)state;
    whim_client_table t = {0};
    whim_client *a, *b;
    assert_int_equal(enter(&t, 1, 100, &a), 0);
    assert_int_equal(enter(&t, 1, 50, &a), 100 * U);
    assert_int_equal(enter(&t, 2, 10, &b), 0);
    assert_int_equal(enter(&t, 1, 1, &a), 150 * U);
    assert_int_equal(enter(&t, 2, 10, &b), 10 * U);
    assert_int_equal(t.n_client, 2);
    whim_client_leave(&t, a, 30); /* it took 30 less */
    assert_int_equal(enter(&t, 1, 1, &a), 121 * U);
    for (int i = 0; i < 3; i++) {
        whim_client_leave(&t, a, 0);
    }
    whim_client_leave(&t, b, 0);
    whim_client_leave(&t, b, 0);
    assert_int_equal(t.n_client, 0);
}

static void newcomers_begin_now(void **state)
{
    (void)state;
    whim_client_table t = {0};
    whim_client *a, *b, *c;
    enter(&t, 1, 100, &a);
    enter(&t, 1, 100, &a);
    whim_client_reached(&t, 100 * U);
    whim_client_reached(&t, 50 * U); /* never back */
    assert_int_equal(enter(&t, 2, 1, &b), 100 * U);
    whim_client_served(&t, 8); /* between two */
    assert_int_equal(enter(&t, 3, 1, &c), 104 * U);
    int64_t before = t.now;
    whim_client_served(&t, 0);
    assert_true(t.now > before);
    whim_client_leave(&t, b, 0);
    whim_client_leave(&t, c, 0);
    whim_client_leave(&t, a, 0);
    whim_client_leave(&t, a, 0);
}

static void many_clients_share_buckets(void **state)
{
    (void)state;
    enum { N = 2000 };
    static whim_client *clients[N];
    whim_client_table t = {0};
    for (uint64_t i = 0; i < N; i++) {
        assert_int_equal(enter(&t, i, (int64_t)i, &clients[i]), 0);
    }
    for (uint64_t i = 0; i < N; i++) {
        whim_client *again;
        assert_int_equal(enter(&t, i, 1, &again), (int64_t)i * U);
        assert_ptr_equal(again, clients[i]);
    }
    for (uint64_t i = 0; i < N; i++) {
        whim_client_leave(&t, clients[(i * 7) % N], 0);
        whim_client_leave(&t, clients[(i * 7) % N], 0);
    }
    assert_int_equal(t.n_client, 0);
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    whim_client_table t = {0};
    whim_client *client;
    int64_t tag;
    whim_alloc_fail_after(0);
    assert_int_equal(whim_client_enter(&t, 1, 1, &client, &tag), WHIM_ERR_NO_MEMORY);
    whim_alloc_fail_after(-1);
    assert_int_equal(t.n_client, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clients_requests_queue_behind_each_other),
        cmocka_unit_test(newcomers_begin_now),
        cmocka_unit_test(many_clients_share_buckets),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests_name("client_table", tests, NULL, NULL);
}
