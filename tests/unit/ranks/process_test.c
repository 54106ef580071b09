/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of ranks that answer, exit, are killed or stopped before they are ready: who waits for
 * them is told which and how. This program is what they run. */
#include "ranks/process.h"

#include "base/clock.h"
#include "base/os/facts.h"
#include "ranks/order.h"
#include "support/cmocka.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

typedef enum deed { ANSWER, EXIT, DIE, STOP, WORK } deed;

enum { STATUS = 7 };

/* A rank: does what it is told, then waits for its end. */
static int rank_main(void)
{
    char order = 0;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (recv(WHIM_FOLLOWER_SOCKET, &order, 1, 0) == 1) {
        int64_t until = whim_clock_ns() + 300 * WHIM_NS_PER_MS;
        switch ((deed)order) {
        case EXIT:
            return STATUS;
        case DIE:
            raise(SIGKILL);
            break;
        case STOP:
            raise(SIGSTOP);
            break;
        case WORK:
            while (whim_clock_ns() < until) {
            }
            break;
        case ANSWER:
            break;
        }
        if (send(WHIM_FOLLOWER_SOCKET, &order, 1, MSG_NOSIGNAL) < 0) {
            return 1;
        }
    }
    return 0;
}

static whim_rank_process process;
static int memory = -1;

static void start(void *ctx)
{
    whim_diag diag = {""};
    process = (whim_rank_process){.name = "rank 5", .socket = -1};
    *(whim_err *)ctx = whim_rank_start(&process, "/proc/self/exe", "rank", memory, &diag);
}

static whim_err tell(deed what, whim_diag *diag)
{
    char order = (char)what;
    return whim_rank_send(&process, &order, 1, diag);
}

static whim_err ask(deed what, whim_diag *diag)
{
    char reply;
    WHIM_TRY(tell(what, diag));
    return whim_rank_hear(&process, &reply, 1, diag);
}

static void end(void)
{
    whim_rank_end(&process, whim_clock_ns());
    assert_int_equal(process.pid, 0);
    assert_int_equal(process.socket, -1);
}

static void begin(void)
{
    whim_err err = WHIM_ERR_DEVICE;
    start(&err);
    assert_int_equal(err, WHIM_ERR_OK);
}

static void answers_come(void **state)
{
    (void)state;
    whim_diag diag = {""};
    begin();
    assert_int_equal(ask(ANSWER, &diag), WHIM_ERR_OK);
    assert_int_equal(ask(WORK, &diag), WHIM_ERR_OK);
    end();
}

static void what_happened_is_told(void **state)
{
    (void)state;
    static const struct {
        deed what;
        const char *how;
    } cases[] = {
        {EXIT, "ended with status 7 before it was ready"},
        {DIE, "was ended by signal 9"},
        {STOP, "was stopped before it was ready"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[64];
        whim_diag diag = {""};
        begin();
        snprintf(text, sizeof text, "rank 5 (process %d) ", (int)process.pid);
        assert_int_equal(ask(cases[i].what, &diag), WHIM_ERR_DEVICE);
        assert_non_null(strstr(diag.text, text));
        assert_non_null(strstr(diag.text, cases[i].how));
        end();
    }
}

/* Whoever gives orders to one that is gone is told of that, and not of the socket. */
static void the_dead_take_no_orders(void **state)
{
    (void)state;
    whim_diag diag = {""};
    whim_os_process now = {0};
    begin();
    assert_int_equal(tell(EXIT, &diag), WHIM_ERR_OK);
    while (whim_os_process_get((int32_t)process.pid, &now) && now.state != 'Z') {
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    assert_int_equal(tell(ANSWER, &diag), WHIM_ERR_DEVICE);
    assert_non_null(strstr(diag.text, "ended with status 7 before it was ready"));
    end();
}

/* It is no matter which thread has started it. */
static void the_starter_may_leave(void **state)
{
    (void)state;
    whim_thread thread;
    whim_diag diag = {""};
    whim_err err = WHIM_ERR_DEVICE;
    assert_int_equal(whim_thread_create(&thread, "starter", start, &err, &diag), WHIM_ERR_OK);
    whim_thread_join(&thread);
    assert_int_equal(err, WHIM_ERR_OK);
    assert_int_equal(ask(WORK, &diag), WHIM_ERR_OK); /* long after that */
    end();
}

static void what_cannot_be_run_is_told(void **state)
{
    (void)state;
    whim_diag diag = {""};
    process = (whim_rank_process){.name = "rank 5", .socket = -1};
    assert_int_equal(whim_rank_start(&process, "/nowhere/at/all", "rank", memory, &diag),
                     WHIM_ERR_IO);
    assert_non_null(strstr(diag.text, "/nowhere/at/all cannot be run as rank 5"));
    assert_int_equal(whim_rank_start(&process, "/proc/self/exe", "rank", -1, &diag), WHIM_ERR_IO);
    end();
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "rank") == 0) {
        return rank_main();
    }
    memory = whim_rank_fd(open("/dev/null", O_RDWR | O_CLOEXEC));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_come),
        cmocka_unit_test(what_happened_is_told),
        cmocka_unit_test(the_dead_take_no_orders),
        cmocka_unit_test(the_starter_may_leave),
        cmocka_unit_test(what_cannot_be_run_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
