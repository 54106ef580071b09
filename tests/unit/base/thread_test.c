/* SPDX-License-Identifier: Apache-2.0 */
/* Threads, and the loop that several of them share. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/os/cpu.h"
#include "base/thread.h"
#include "support/cmocka.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include <stdint.h>

typedef struct seen {
    char name[16];
    int cpus;
    pthread_t self;
} seen;

static void look_around(void *ctx)
{
    seen *s = ctx;
    cpu_set_t set;
    s->self = pthread_self();
    pthread_getname_np(s->self, s->name, sizeof s->name);
    sched_getaffinity(0, sizeof set, &set);
    s->cpus = CPU_COUNT(&set);
}

static void test_create(void **state)
{
    (void)state;
    whim_thread thread;
    seen s = {""};
    /* A pinned creator does not pin what it creates. */
    whim_os_mask one = {{0}};
    whim_os_mask_add(&one, sched_getcpu());
    assert_true(whim_os_thread_set_mask(&one));
    whim_err err = whim_thread_create(&thread, "a-very-long-thread-name", look_around, &s, NULL);
    whim_os_thread_unpin();
    assert_int_equal(err, WHIM_ERR_OK);
    whim_thread_join(&thread);
    assert_string_equal(s.name, "a-very-long-thr");
    assert_int_equal(s.cpus, whim_os_cpu_mask_count());
    assert_false(pthread_equal(s.self, pthread_self()));
}

enum { N_ITEM = 1000, N_WORKER = 4 };

typedef struct loop {
    atomic_int hits[N_ITEM];
    atomic_int workers[N_WORKER];
    int64_t fail_from; /* items that fail: this one and some above */
} loop;

static whim_err loop_item(void *ctx, int64_t item, int32_t worker)
{
    loop *l = ctx;
    assert_true(item >= 0 && item < N_ITEM && worker >= 0 && worker < N_WORKER);
    atomic_fetch_add(&l->hits[item], 1);
    atomic_fetch_add(&l->workers[worker], 1);
    if (item == l->fail_from) {
        whim_clock_sleep_ns(2 * WHIM_NS_PER_MS); /* so that a later one fails first */
        return WHIM_ERR_CORRUPT;
    }
    return item > l->fail_from ? WHIM_ERR_IO : WHIM_ERR_OK;
}

static void test_parallel_for(void **state)
{
    (void)state;
    for (int32_t n_thread = 0; n_thread <= N_WORKER; n_thread++) {
        static loop l;
        memset(&l, 0, sizeof l);
        l.fail_from = N_ITEM;
        assert_int_equal(whim_parallel_for(n_thread, N_ITEM, loop_item, &l), WHIM_ERR_OK);
        for (int i = 0; i < N_ITEM; i++) {
            assert_int_equal(l.hits[i], 1);
        }
        for (int i = n_thread > 0 ? n_thread : 1; i < N_WORKER; i++) {
            assert_int_equal(l.workers[i], 0);
        }
    }
}

static void test_parallel_for_error(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        static loop l;
        memset(&l, 0, sizeof l);
        l.fail_from = 50;
        assert_int_equal(whim_parallel_for(N_WORKER, N_ITEM, loop_item, &l), WHIM_ERR_CORRUPT);
        for (int i = 0; i <= 50; i++) {
            assert_int_equal(l.hits[i], 1);
        }
        assert_int_equal(l.hits[N_ITEM - 1], 0);
    }
}

static void test_parallel_for_edges(void **state)
{
    (void)state;
    static loop l;
    memset(&l, 0, sizeof l);
    l.fail_from = N_ITEM;
    assert_int_equal(whim_parallel_for(N_WORKER, 0, loop_item, &l), WHIM_ERR_OK);
    assert_int_equal(l.hits[0], 0);
    assert_int_equal(whim_parallel_for(N_WORKER, 1, loop_item, &l), WHIM_ERR_OK);
    assert_int_equal(l.hits[0], 1);
    assert_int_equal(l.workers[0], 1);
    /* Without memory for more threads the caller does it all. */
    memset(&l, 0, sizeof l);
    l.fail_from = N_ITEM;
    whim_alloc_fail_after(0);
    assert_int_equal(whim_parallel_for(N_WORKER, N_ITEM, loop_item, &l), WHIM_ERR_OK);
    whim_alloc_fail_after(-1);
    assert_int_equal(l.workers[0], N_ITEM);
}

static void test_clock(void **state)
{
    (void)state;
    int64_t t0 = whim_clock_ns();
    whim_clock_sleep_ns(3 * WHIM_NS_PER_MS);
    int64_t t1 = whim_clock_ns();
    assert_true(t1 - t0 >= 3 * WHIM_NS_PER_MS);
    whim_clock_sleep_ns(0);
    whim_clock_sleep_ns(-5); /* would not come back */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create),
        cmocka_unit_test(test_parallel_for),
        cmocka_unit_test(test_parallel_for_error),
        cmocka_unit_test(test_parallel_for_edges),
        cmocka_unit_test(test_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
