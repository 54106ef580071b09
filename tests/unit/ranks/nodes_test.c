/* SPDX-License-Identifier: Apache-2.0 */
/* A leader and the agent of another host, both real, with stand-ins for what they start: this
 * program itself, which answers each message by what it was told first. Processes begin and end by
 * the leader's word, know their own host, and none is left when either end is lost. */
#include "base/clock.h"
#include "base/thread.h"
#include "ranks/agent_inner.h"
#include "ranks/bridge_order.h"
#include "ranks/bridges.h"
#include "ranks/order.h"
#include "support/cmocka.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SECRET ((whim_join_secret){"a secret of this job", 20})
#define WAIT_NS (20 * WHIM_NS_PER_S) /* for what must come */

enum { N_RANK = 3 };

/* --- stand-ins -------------------------------------------------------------------------------- */

/* What a rank answers. */
typedef struct said {
    char model[32];
    int32_t pid, rank, host_first, n_host, n_thread;
} said;

static int rank_main(void)
{
    static whim_follower_order order;
    char word[64];
    if (recv(WHIM_FOLLOWER_SOCKET, &order, sizeof order, 0) != sizeof order) {
        return 3;
    }
    do {
        said answer = {.pid = (int32_t)getpid(),
                       .rank = order.rank,
                       .host_first = order.host_first,
                       .n_host = order.n_host,
                       .n_thread = order.n_thread};
        snprintf(answer.model, sizeof answer.model, "%.31s", order.model);
        send(WHIM_FOLLOWER_SOCKET, &answer, sizeof answer, MSG_NOSIGNAL);
    } while (recv(WHIM_FOLLOWER_SOCKET, word, sizeof word, 0) > 0);
    return 0;
}

/* A bridge that is where it says: at the name of its device. */
static int bridge_main(void)
{
    whim_bridge_order order;
    whim_bridge_peer peer;
    static whim_bridge_reply reply;
    if (recv(WHIM_BRIDGE_SOCKET, &order, sizeof order, 0) != sizeof order ||
        strcmp(order.version, WHIM_VERSION) != 0) {
        return 3;
    }
    reply =
        (whim_bridge_reply){.magic = WHIM_BRIDGE_MAGIC, .bytes = sizeof reply, .address.bytes = 8};
    snprintf((char *)reply.address.data, 16, "%.7s", order.device);
    if (strcmp(order.device, "none") == 0) {
        reply.err = WHIM_ERR_UNSUPPORTED;
        snprintf(reply.diag.text, sizeof reply.diag.text, "install something");
    }
    send(WHIM_BRIDGE_SOCKET, &reply, sizeof reply, MSG_NOSIGNAL);
    for (int32_t i = 0; i < order.n_node; i++) {
        char device[16] = "";
        snprintf(device, sizeof device, "dev%d", i);
        if (recv(WHIM_BRIDGE_SOCKET, &peer, sizeof peer, 0) != sizeof peer || peer.node != i ||
            memcmp(peer.address.data, device, 8) != 0) {
            reply.err = WHIM_ERR_CORRUPT;
            snprintf(reply.diag.text, sizeof reply.diag.text, "node %d is not at %s", i, device);
        }
    }
    send(WHIM_BRIDGE_SOCKET, &reply, sizeof reply, MSG_NOSIGNAL);
    while (recv(WHIM_BRIDGE_SOCKET, &peer, sizeof peer, 0) > 0) {
    }
    return 0;
}

/* --- both ends -------------------------------------------------------------------------------- */

typedef struct fixture {
    whim_nodes *leader;
    whim_agent agent;
    whim_agent_cfg cfg;
    char port[8];
    whim_rank_process processes[3];
    bool is_asked[2];
    struct pollfd polls[4];
    whim_thread thread;
    atomic_bool stop;
    whim_err err;
    whim_diag diag;
} fixture;

static whim_join_facts facts(void)
{
    return (whim_join_facts){.n_node = 2, .n_rank = N_RANK};
}

static void agent_main(void *ctx)
{
    fixture *f = ctx;
    f->err = whim_agent_join(&f->agent, &f->diag);
    if (f->err == WHIM_ERR_OK) {
        f->err = whim_agent_serve(&f->agent, &f->diag);
    }
}

static void agent_start(fixture *f)
{
    whim_diag diag;
    f->cfg = (whim_agent_cfg){
        .engine = {.model = "/elsewhere", .n_thread = 5, .n_rank = N_RANK},
        .nodes = {.n_node = 2,
                  .node = 1,
                  .host = "127.0.0.1",
                  .port = f->port,
                  .device = "dev1",
                  .secret = SECRET},
        .stop = &f->stop,
    };
    f->agent = (whim_agent){.cfg = &f->cfg,
                            .facts = facts(),
                            .room.sizes = {1, 0, 64, 8},
                            .first = 2,
                            .n = 1,
                            .wire.fd = -1,
                            .processes = f->processes,
                            .is_asked = f->is_asked,
                            .polls = f->polls};
    f->processes[0] = (whim_rank_process){.name = "rank 2", .socket = -1};
    f->processes[1] = (whim_rank_process){.name = "the bridge of node 1", .socket = -1};
    atomic_store(&f->stop, false);
    assert_int_equal(whim_thread_create(&f->thread, "agent", agent_main, f, &diag), WHIM_ERR_OK);
}

static void agent_end(fixture *f)
{
    atomic_store(&f->stop, true);
    whim_thread_join(&f->thread);
}

static int setup(void **state)
{
    static fixture one;
    fixture *f = &one;
    whim_diag diag = {""};
    whim_join_facts own = facts();
    memset(f, 0, sizeof *f);
    whim_nodes_cfg cfg = {.n_node = 2, .host = "127.0.0.1", .port = "0", .secret = SECRET};
    assert_int_equal(whim_nodes_open(&cfg, &f->leader, &diag), WHIM_ERR_OK);
    snprintf(f->port, sizeof f->port, "%d", whim_nodes_port(f->leader));
    assert_int_equal(whim_nodes_start(f->leader, &own, 10 * WHIM_NS_PER_S, &diag), WHIM_ERR_OK);
    agent_start(f);
    *state = f;
    return 0;
}

static uint64_t begin(fixture *f)
{
    whim_diag diag = {""};
    uint64_t generation = 0;
    assert_int_equal(whim_nodes_begin(f->leader, WAIT_NS, &generation, &diag), WHIM_ERR_OK);
    return generation;
}

/* Rank 2, started on node 1; what it says. */
static said rank_start(fixture *f, whim_rank_process *p)
{
    static whim_follower_order order;
    whim_engine_cfg cfg = {.model = "/here", .n_rank = N_RANK, .n_thread = 1};
    whim_engine_sizes sizes = {1, 1, 64, 8};
    whim_diag diag = {""};
    said answer = {""};
    *p = (whim_rank_process){.name = "rank 2", .socket = -1};
    assert_int_equal(whim_follower_order_make(&order, &cfg, &sizes, 2, &diag), WHIM_ERR_OK);
    order.host_first = 2;
    order.n_host = 1;
    assert_int_equal(whim_nodes_process(f->leader, 1, 2, p, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_rank_send(p, &order, sizeof order, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_rank_hear(p, &answer, sizeof answer, &diag), WHIM_ERR_OK);
    return answer;
}

static void how_ended(whim_rank_process *p, char how[WHIM_RANK_HOW])
{
    int64_t until = whim_clock_ns() + WAIT_NS;
    while (!whim_rank_ended(p, how, WHIM_RANK_HOW)) {
        assert_true(whim_clock_ns() < until);
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
}

/* Nobody has that number any more: it was ended, and waited for. */
static void expect_gone(int32_t pid)
{
    int64_t until = whim_clock_ns() + WAIT_NS;
    while (kill(pid, 0) == 0 || errno != ESRCH) {
        assert_true(whim_clock_ns() < until);
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
}

/* --- tests ------------------------------------------------------------------------------------ */

static void processes_know_their_host_and_end_by_generations(void **state)
{
    fixture *f = *state;
    whim_rank_process p;
    char how[WHIM_RANK_HOW], text[64];
    begin(f);
    said first = rank_start(f, &p);
    assert_string_equal(first.model, "/elsewhere");
    assert_true(first.rank == 2 && first.host_first == 2 && first.n_host == 1);
    assert_int_equal(first.n_thread, 5);
    kill(first.pid, SIGKILL);
    how_ended(&p, how);
    snprintf(text, sizeof text, "rank 2 (process %d) was ended by signal 9", first.pid);
    assert_memory_equal(how, text, strlen(text));
    assert_non_null(strstr(how, "on node 1"));
    whim_rank_end(&p, 0);
    whim_nodes_end(f->leader);
    begin(f);
    said second = rank_start(f, &p);
    assert_true(second.pid != first.pid);
    whim_rank_end(&p, 0);
    whim_nodes_end(f->leader);
    expect_gone(second.pid);
    whim_nodes_close(f->leader);
    agent_end(f);
    assert_int_equal(f->err, WHIM_ERR_IO);
}

static void bridges_are_told_of_each_other(void **state)
{
    fixture *f = *state;
    whim_rank_process bridges[2];
    whim_comm_memory memory;
    whim_diag diag = {""};
    assert_int_equal(whim_comm_memory_make(N_RANK, &memory, &diag), WHIM_ERR_OK);
    whim_bridges_cfg cfg = {.nodes = f->leader,
                            .program = "/proc/self/exe",
                            .device = "dev0",
                            .memory = memory.fd,
                            .n_node = 2,
                            .n_rank = N_RANK,
                            .generation = begin(f)};
    for (int32_t i = 0; i < 2; i++) {
        bridges[i] = (whim_rank_process){.socket = -1};
    }
    assert_int_equal(whim_bridges_open(&cfg, bridges, &diag), WHIM_ERR_OK);
    for (int32_t i = 0; i < 2; i++) {
        whim_rank_end(&bridges[i], whim_clock_ns() + WAIT_NS);
    }
    whim_nodes_end(f->leader);
    cfg.generation = begin(f);
    cfg.device = "other"; /* then node 0 is elsewhere, which both bridges tell */
    assert_int_equal(whim_bridges_open(&cfg, bridges, &diag), WHIM_ERR_CORRUPT);
    assert_non_null(strstr(diag.text, ": node 0 is not at dev0"));
    for (int32_t i = 0; i < 2; i++) {
        whim_rank_end(&bridges[i], whim_clock_ns() + WAIT_NS);
    }
    whim_nodes_close(f->leader);
    agent_end(f);
    whim_comm_memory_close(&memory);
}

/* Before anybody joins, each looks whether it could have a bridge at all. */
static void bridges_are_tried(void **state)
{
    (void)state;
    whim_diag diag = {""};
    assert_int_equal(whim_bridge_try("/proc/self/exe", 1, "dev1", &diag), WHIM_ERR_OK);
    assert_int_equal(whim_bridge_try("/proc/self/exe", 1, "none", &diag), WHIM_ERR_UNSUPPORTED);
    assert_string_equal(diag.text, "the bridge of node 1: install something");
    assert_int_equal(whim_bridge_try("/nowhere", 1, NULL, &diag), WHIM_ERR_IO);
}

static void an_agent_that_stops_leaves_nothing_and_may_come_back(void **state)
{
    fixture *f = *state;
    whim_rank_process p;
    char how[WHIM_RANK_HOW];
    begin(f);
    said answer = rank_start(f, &p);
    agent_end(f);
    assert_int_equal(f->err, WHIM_ERR_OK);
    expect_gone(answer.pid);
    how_ended(&p, how);
    assert_non_null(strstr(how, "is lost: "));
    whim_rank_end(&p, 0);
    whim_nodes_end(f->leader);
    agent_start(f);
    begin(f);
    answer = rank_start(f, &p);
    whim_rank_end(&p, 0);
    whim_nodes_close(f->leader); /* a leader that goes takes all with it */
    expect_gone(answer.pid);
    agent_end(f);
}

static void orders_of_another_size_start_nothing(void **state)
{
    fixture *f = *state;
    whim_rank_process p = {.name = "rank 2", .socket = -1};
    char how[WHIM_RANK_HOW];
    whim_diag diag = {""};
    begin(f);
    assert_int_equal(whim_nodes_process(f->leader, 1, 2, &p, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_rank_send(&p, "short", 5, &diag), WHIM_ERR_OK);
    how_ended(&p, how);
    assert_non_null(strstr(how, "the leader's order for rank 2 has 5 bytes, not"));
    whim_rank_end(&p, 0);
    p = (whim_rank_process){.name = "rank 1", .socket = -1}; /* which is not node 1's */
    assert_int_equal(whim_nodes_process(f->leader, 1, 1, &p, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_rank_send(&p, "x", 1, &diag), WHIM_ERR_OK);
    how_ended(&p, how);
    whim_rank_end(&p, 0);
    agent_end(f);
    assert_non_null(strstr(f->diag.text, "the leader wants rank 1 here, not 2 to 2"));
    whim_nodes_close(f->leader);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "rank") == 0) {
        return rank_main();
    }
    if (argc == 2 && strcmp(argv[1], "bridge") == 0) {
        return bridge_main();
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(processes_know_their_host_and_end_by_generations, setup),
        cmocka_unit_test_setup(bridges_are_told_of_each_other, setup),
        cmocka_unit_test(bridges_are_tried),
        cmocka_unit_test_setup(an_agent_that_stops_leaves_nothing_and_may_come_back, setup),
        cmocka_unit_test_setup(orders_of_another_size_start_nothing, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
