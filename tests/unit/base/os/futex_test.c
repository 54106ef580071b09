/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting on a word, with and without end. */
#include "base/clock.h"
#include "base/os/futex.h"
#include "base/thread.h"
#include "support/cmocka.h"

#include <stdint.h>

static void test_no_wait_when_changed(void **state)
{
    (void)state;
    _Atomic uint32_t word = 1;
    whim_os_futex_wait(&word, 0, -1); /* would hang if it slept */
    whim_os_futex_wake(&word, 1);
    whim_os_cpu_relax();
}

static void test_timeout(void **state)
{
    (void)state;
    _Atomic uint32_t word = 0;
    for (int i = 0; i < 4; i++) {
        whim_os_futex_wait(&word, 0, 5 * WHIM_NS_PER_MS); /* nobody wakes it: the time does */
    }
}

typedef struct turns {
    _Atomic uint32_t word;
    int64_t count;
} turns;

enum { N_TURN = 2000 };

static void play(turns *t, uint32_t mine)
{
    for (int i = 0; i < N_TURN; i++) {
        for (uint32_t seen; (seen = atomic_load(&t->word)) % 2 != mine;) {
            whim_os_futex_wait(&t->word, seen, -1);
        }
        t->count++;
        atomic_fetch_add(&t->word, 1);
        whim_os_futex_wake_all(&t->word);
    }
}

static void play_odd(void *ctx)
{
    play(ctx, 1);
}

static void test_turns(void **state)
{
    (void)state;
    static turns t;
    whim_thread other;
    assert_int_equal(whim_thread_create(&other, "odd", play_odd, &t, NULL), WHIM_ERR_OK);
    play(&t, 0);
    whim_thread_join(&other);
    assert_int_equal(t.count, 2 * N_TURN);
    assert_int_equal(t.word, 2 * N_TURN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_wait_when_changed),
        cmocka_unit_test(test_timeout),
        cmocka_unit_test(test_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
