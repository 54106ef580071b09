/* SPDX-License-Identifier: Apache-2.0 */
/* An agent gives signs of life whatever its processes do: while one is slow to go, and while one
 * takes nothing that it is told. The leader is this test, at the other end of the wire; the agent's
 * rank is this program. */
#include "base/clock.h"
#include "base/os/facts.h"
#include "base/thread.h"
#include "ranks/agent_inner.h"
#include "ranks/order.h"
#include "support/cmocka.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_NS (60 * WHIM_NS_PER_S) /* for what must come */

#define TAKES_NOTHING "takes no orders"

enum { GENERATION = 5, N_BEAT = 3 };

/* Answers its order by its number; then takes what comes. */
static int rank_main(void)
{
    static char data[WHIM_WIRE_MOST];
    int32_t pid = (int32_t)getpid();
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    ssize_t n = recv(WHIM_FOLLOWER_SOCKET, data, sizeof data, 0);
    send(WHIM_FOLLOWER_SOCKET, &pid, sizeof pid, MSG_NOSIGNAL);
    while (n > 0) {
        n = recv(WHIM_FOLLOWER_SOCKET, data, sizeof data, 0);
    }
    return 0;
}

typedef struct fixture {
    whim_agent agent;
    whim_agent_cfg cfg;
    whim_rank_process processes[2];
    bool is_asked[2];
    struct pollfd polls[3];
    whim_thread thread;
    atomic_bool stop;
    whim_wire leader;
    int32_t n_beat, pid;     /* heard: signs of life before one takes nothing; what the rank said */
    char how[WHIM_RANK_HOW]; /* and how it ended */
} fixture;

static void agent_main(void *ctx)
{
    fixture *f = ctx;
    whim_diag diag = {""};
    whim_err ignored = whim_agent_serve(&f->agent, &diag);
    (void)ignored;
}

static whim_err on_frame(void *ctx, const whim_wire_head *head, const void *data, whim_diag *diag)
{
    fixture *f = ctx;
    (void)diag;
    f->n_beat += head->kind == WHIM_WIRE_BEAT && strstr(f->how, TAKES_NOTHING) == NULL;
    if (head->kind == WHIM_WIRE_DATA) {
        assert_int_equal(head->bytes, sizeof f->pid);
        memcpy(&f->pid, data, sizeof f->pid);
    }
    if (head->kind == WHIM_WIRE_ENDED) {
        snprintf(f->how, sizeof f->how, "%.*s", (int)head->bytes, (const char *)data);
    }
    return WHIM_ERR_OK;
}

static void hear(fixture *f)
{
    whim_diag diag = {""};
    assert_int_equal(whim_wire_take(&f->leader, on_frame, f, &diag), WHIM_ERR_OK);
    whim_clock_sleep_ns(WHIM_NS_PER_MS);
}

/* What was said before does not count. */
static void expect_beats(fixture *f)
{
    int64_t until = whim_clock_ns() + WAIT_NS;
    hear(f);
    for (f->n_beat = 0; f->n_beat < N_BEAT;) {
        assert_true(whim_clock_ns() < until);
        hear(f);
    }
}

static void tell(fixture *f, whim_wire_kind kind, const void *data, size_t bytes)
{
    whim_wire_head head = {
        .kind = (int32_t)kind, .bytes = (uint32_t)bytes, .generation = GENERATION};
    whim_diag diag = {""};
    assert_int_equal(whim_wire_send(&f->leader, head, data, &diag), WHIM_ERR_OK);
}

/* An agent with one rank, which runs. */
static int setup(void **state)
{
    static fixture one;
    fixture *f = &one;
    static whim_follower_order order;
    whim_diag diag = {""};
    int pair[2];
    memset(f, 0, sizeof *f);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    f->cfg = (whim_agent_cfg){.engine = {.model = "/here", .n_rank = 1}, .stop = &f->stop};
    f->agent = (whim_agent){.cfg = &f->cfg,
                            .n = 1,
                            .processes = f->processes,
                            .is_asked = f->is_asked,
                            .polls = f->polls};
    f->processes[0] = (whim_rank_process){.name = "rank 0", .socket = -1};
    f->processes[1] = (whim_rank_process){.name = "the bridge", .socket = -1};
    whim_wire_open(&f->agent.wire, pair[0], WAIT_NS);
    whim_wire_open(&f->leader, pair[1], WAIT_NS);
    assert_int_equal(whim_thread_create(&f->thread, "agent", agent_main, f, &diag), WHIM_ERR_OK);
    tell(f, WHIM_WIRE_BEGIN, NULL, 0);
    tell(f, WHIM_WIRE_DATA, &order, sizeof order);
    while (f->pid == 0) {
        hear(f);
    }
    *state = f;
    return 0;
}

static void end(fixture *f)
{
    atomic_store(&f->stop, true);
    whim_thread_join(&f->thread);
    whim_wire_close(&f->leader);
    assert_int_equal(f->processes[0].pid, 0);
}

static void await_state(int32_t pid, char state)
{
    int64_t until = whim_clock_ns() + WAIT_NS;
    for (whim_os_process process = {0}; process.state != state;) {
        assert_true(whim_clock_ns() < until);
        assert_true(whim_os_process_get(pid, &process));
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
}

/* A process that traces another; who is traced is waited for by nobody else. 0: it may not. */
static pid_t tracer_start(int32_t pid)
{
    int pair[2];
    char traces = 0;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    pid_t tracer = fork();
    assert_true(tracer >= 0);
    if (tracer == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        traces = ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0;
        for (ssize_t n = write(pair[1], &traces, 1); n > 0;) {
            pause();
        }
        _exit(1);
    }
    assert_int_equal(read(pair[0], &traces, 1), 1);
    close(pair[0]);
    close(pair[1]);
    if (!traces) {
        kill(tracer, SIGKILL);
        assert_int_equal(waitpid(tracer, NULL, 0), tracer);
    }
    return traces ? tracer : 0;
}

static void who_is_slow_to_go_is_waited_for(void **state)
{
    fixture *f = *state;
    pid_t tracer = tracer_start(f->pid);
    if (tracer == 0) {
        end(f);
        print_message("skipped: processes may not trace each other here\n");
        skip();
    }
    tell(f, WHIM_WIRE_END, NULL, 0);
    await_state(f->pid, 'Z');
    expect_beats(f);
    assert_int_equal(kill(f->pid, 0), 0); /* not gone yet */
    kill(tracer, SIGKILL);
    assert_int_equal(waitpid(tracer, NULL, 0), tracer);
    end(f);
}

static void who_takes_nothing_keeps_nobody(void **state)
{
    fixture *f = *state;
    static const char data[WHIM_WIRE_MOST];
    int64_t until = whim_clock_ns() + WAIT_NS;
    kill(f->pid, SIGSTOP);
    await_state(f->pid, 'T');
    int room = 0;
    socklen_t size = sizeof room;
    assert_int_equal(getsockopt(f->leader.fd, SOL_SOCKET, SO_SNDBUF, &room, &size), 0);
    assert_int_equal(setsockopt(f->leader.fd, SOL_SOCKET, SO_SNDBUF, &room, size), 0); /* doubles */
    /* more than a rank's socket has room for; more signs than may come before it is full */
    f->n_beat = 0;
    for (int n = 0; n < room + 2 * WHIM_WIRE_MOST; n += WHIM_WIRE_MOST) {
        tell(f, WHIM_WIRE_DATA, data, sizeof data);
    }
    while (f->n_beat < 2 * N_BEAT) {
        assert_true(whim_clock_ns() < until);
        hear(f);
    }
    kill(f->pid, SIGCONT);
    end(f);
}

/* The leader cannot see that a process elsewhere was stopped, and is told while it waits for it. */
static void who_was_stopped_is_told_of(void **state)
{
    fixture *f = *state;
    char text[64];
    int64_t until = whim_clock_ns() + WAIT_NS;
    kill(f->pid, SIGSTOP);
    await_state(f->pid, 'T');
    tell(f, WHIM_WIRE_DATA, "load", 4);
    while (f->how[0] == '\0') {
        assert_true(whim_clock_ns() < until);
        hear(f);
    }
    snprintf(text, sizeof text, "rank 0 (process %d) was stopped", f->pid);
    assert_string_equal(f->how, text);
    end(f);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "rank") == 0) {
        return rank_main();
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(who_is_slow_to_go_is_waited_for, setup),
        cmocka_unit_test_setup(who_takes_nothing_keeps_nobody, setup),
        cmocka_unit_test_setup(who_was_stopped_is_told_of, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
