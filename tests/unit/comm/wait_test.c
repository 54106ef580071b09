/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that works is waited for, one that sleeps is not; clocks are the test's. */
#include "base/clock.h"
#include "base/os/facts.h"
#include "comm/shared.h"
#include "support/cmocka.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT = 1000 };

static whim_comm_memory memory;

static pid_t peer_start(bool works)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (volatile int n = 0;; n = n + 1) {
            if (!works) {
                pause();
            }
        }
    }
    for (whim_os_process process = {0}; !works && process.state != 'S';) {
        assert_true(whim_os_process_get((int32_t)pid, &process));
    }
    while (!works && whim_os_process_is_busy((int32_t)pid)) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS); /* a sanitizer's or emulator's thread begins */
    }
    atomic_store(&memory.shared->seats[1].pid, (int32_t)pid);
    return pid;
}

static void peer_end(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static int64_t ticks_of(pid_t pid)
{
    whim_os_process process = {0};
    assert_true(whim_os_process_get((int32_t)pid, &process));
    return process.cpu_ticks;
}

static bool is_over_at(whim_comm_wait *wait, int64_t waited)
{
    wait->waited_ns = waited;
    return whim_comm_wait_is_over(wait, memory.shared, 1, LIMIT);
}

static void work_is_waited_for(void **state)
{
    (void)state;
    whim_comm_wait wait = {0};
    pid_t pid = peer_start(true);
    for (int64_t at = 0; at < 5 * LIMIT; at += LIMIT / 2 - 1) {
        int64_t before = ticks_of(pid);
        while (ticks_of(pid) == before) {
            whim_clock_sleep_ns(WHIM_NS_PER_MS);
        }
        assert_false(is_over_at(&wait, at));
    }
    int64_t stopped = 5 * LIMIT;
    kill(pid, SIGSTOP);
    int status = 0; /* told when all threads stand still, those of a sanitizer or emulator too */
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
    (void)is_over_at(&wait, stopped + LIMIT); /* what it did before that may be seen once more */
    assert_true(is_over_at(&wait, stopped + 2 * LIMIT));
    peer_end(pid);
    whim_comm_wait endless = {.worked_ticks = -1};
    pid = peer_start(true);
    assert_true(is_over_at(&endless, 60 * WHIM_NS_PER_S)); /* it works, but does not come */
    peer_end(pid);
}

/* A busy machine may give a peer no CPU time for long. */
static void who_gets_no_cpu_time_is_waited_for(void **state)
{
    (void)state;
    pid_t pid = peer_start(true);
    whim_comm_wait wait = {.worked_ticks = INT64_MAX}; /* no tick counts */
    for (int64_t at = 0; at < 5 * LIMIT; at += LIMIT / 2 - 1) {
        while (!whim_os_process_is_busy((int32_t)pid)) { /* an emulator may sleep for a moment */
            whim_clock_sleep_ns(WHIM_NS_PER_MS);
        }
        assert_false(is_over_at(&wait, at));
    }
    peer_end(pid);
}

static void who_sleeps_or_is_gone_is_late(void **state)
{
    (void)state;
    pid_t pid = peer_start(false);
    for (int turn = 0; turn < 2; turn++) {
        whim_comm_wait wait = {0};
        for (int64_t at = 0; at <= LIMIT; at += LIMIT / 8) {
            assert_false(is_over_at(&wait, at));
        }
        assert_true(is_over_at(&wait, LIMIT + 1));
        if (turn == 0) {
            peer_end(pid);
        }
    }
    /* Ranks of one process cannot be told apart by its CPU time. */
    whim_comm_wait wait = {0};
    atomic_store(&memory.shared->seats[1].pid, (int32_t)getpid());
    assert_false(is_over_at(&wait, LIMIT));
    assert_true(is_over_at(&wait, LIMIT + 1));
}

/* Of a rank elsewhere its host tells; that is as good. */
static void work_elsewhere_is_waited_for(void **state)
{
    (void)state;
    whim_comm_wait wait = {0};
    whim_comm_seat *seat = &memory.shared->seats[1];
    atomic_store(&seat->pid, 0);
    for (int64_t at = 0; at < 5 * LIMIT; at += LIMIT / 2 - 1) {
        atomic_fetch_add(&seat->ticks, 1);
        assert_false(is_over_at(&wait, at));
    }
    assert_false(is_over_at(&wait, wait.worked_ns + LIMIT / 2));
    assert_true(is_over_at(&wait, wait.worked_ns + LIMIT / 2 + 1));
}

/* For minutes, as long as it comes nearer: by rounds, or by the letters that it reads. */
static void who_is_far_behind_is_waited_for(void **state)
{
    (void)state;
    whim_comm_wait wait = {0};
    whim_comm_seat *seat = &memory.shared->seats[1];
    atomic_store(&seat->pid, 0);
    for (int64_t at = 0; at < 400; at += 50) {
        atomic_fetch_add(&seat->ticks, 1);
        atomic_fetch_add(at % 100 == 0 ? &seat->n_round : &seat->read.n, 1);
        assert_false(is_over_at(&wait, at * WHIM_NS_PER_S));
    }
    atomic_fetch_add(&seat->ticks, 1);
    assert_false(is_over_at(&wait, 409 * WHIM_NS_PER_S));
    atomic_fetch_add(&seat->ticks, 1);
    assert_true(is_over_at(&wait, 410 * WHIM_NS_PER_S)); /* it works, but no nearer */
}

static int setup(void **state)
{
    (void)state;
    whim_diag diag = {""};
    return whim_comm_memory_make(2, &memory, &diag) == WHIM_ERR_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    whim_comm_memory_close(&memory);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_is_waited_for),
        cmocka_unit_test(who_gets_no_cpu_time_is_waited_for),
        cmocka_unit_test(who_sleeps_or_is_gone_is_late),
        cmocka_unit_test(work_elsewhere_is_waited_for),
        cmocka_unit_test(who_is_far_behind_is_waited_for),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
