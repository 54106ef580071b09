/* SPDX-License-Identifier: Apache-2.0 */
/* What the system tells of a process that works, sleeps, was stopped, is gone. */
#include "base/clock.h"
#include "base/os/facts.h"
#include "support/cmocka.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void processes_are_seen(void **state)
{
    (void)state;
    whim_os_process first = {0}, now = {0};
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (volatile int n = 0;; n = n + 1) {
        }
    }
    assert_true(whim_os_process_get((int32_t)pid, &first));
    do {
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
        assert_true(whim_os_process_get((int32_t)pid, &now));
    } while (now.cpu_ticks <= first.cpu_ticks);
    while (!whim_os_process_is_busy((int32_t)pid)) { /* an emulator may sleep for a moment */
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    kill(pid, SIGSTOP);
    int status = 0; /* told when all threads stand still, those of an emulator too */
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
    assert_true(whim_os_process_get((int32_t)pid, &now));
    assert_int_equal(now.state, 'T');
    assert_false(whim_os_process_is_busy((int32_t)pid));
    /* Its parent is this process, and has its memory in the sum. */
    whim_os_process own = {0};
    assert_int_equal(now.parent, getpid());
    assert_true(now.resident_bytes > 0 && whim_os_process_get((int32_t)getpid(), &own));
    assert_int_equal(whim_os_process_family_bytes((int32_t)pid), now.resident_bytes);
    assert_true(whim_os_process_family_bytes((int32_t)getpid()) >= own.resident_bytes);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_false(whim_os_process_get((int32_t)pid, &now));
    assert_false(whim_os_process_is_busy((int32_t)pid));
    assert_int_equal(whim_os_process_family_bytes((int32_t)pid), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(processes_are_seen)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
