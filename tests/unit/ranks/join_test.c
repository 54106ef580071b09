/* SPDX-License-Identifier: Apache-2.0 */
/* How nodes join: who may and who may not, with both values in the refusal; what garbage, silence
 * and half an exchange do; and what goes on with a node that has joined. The leader is the real
 * one; the other end is written here byte by byte (nodes_test.c has the real agent). */
#include "base/clock.h"
#include "ranks/join.h"
#include "ranks/nodes_inner.h"
#include "ranks/wire.h"
#include "support/cmocka.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define SECRET ((whim_join_secret){"a secret of this job", 20})
#define WAIT_NS (20 * WHIM_NS_PER_S) /* for what must come */

static const whim_join_room room = {.memory = 1 << 20,
                                    .sizes = {.max_seqs = 4, .max_ctx = 256, .n_page = 64}};

static whim_nodes *leader;

static whim_join_facts facts(void)
{
    return (whim_join_facts){.n_node = 2,
                             .n_rank = 3,
                             .n_layer = 7,
                             .architecture = "llama",
                             .model = "00000000000000aa",
                             .isa = "avx2",
                             .kv_type = "bf16"};
}

/* Machines that run tests may stand still for a while. */
enum { LONG_MS = 10000 };
static int64_t hello_ns = LONG_MS * WHIM_NS_PER_MS;

static whim_nodes_cfg cfg_of(const char *port)
{
    return (whim_nodes_cfg){
        .n_node = 2, .host = "127.0.0.1", .port = port, .secret = SECRET, .hello_ns = hello_ns};
}

static void leader_start(int64_t limit_ns)
{
    whim_diag diag = {""};
    whim_nodes_cfg cfg = cfg_of("0");
    whim_join_facts own = facts();
    assert_int_equal(whim_nodes_open(&cfg, &leader, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_nodes_start(leader, &own, limit_ns, &diag), WHIM_ERR_OK);
}

static void leader_end(void)
{
    whim_nodes_close(leader);
    leader = NULL;
}

/* --- the other end ---------------------------------------------------------------------------- */

static int dial(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)whim_nodes_port(leader)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* Whole, or the test fails; false: the other end has closed. */
static bool get(int fd, void *out, size_t bytes)
{
    for (size_t n = 0; n < bytes;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        assert_true(poll(&p, 1, (int)(WAIT_NS / WHIM_NS_PER_MS)) > 0);
        ssize_t got = recv(fd, (char *)out + n, bytes - n, 0);
        if (got <= 0) {
            return false;
        }
        n += (size_t)got;
    }
    return true;
}

static void put(int fd, const void *data, size_t bytes)
{
    assert_int_equal(send(fd, data, bytes, MSG_NOSIGNAL), bytes);
}

/* Joins as that node with those facts; what it is told. */
static whim_err join_as(int fd, int32_t node, const whim_join_facts *own, whim_join_secret secret,
                        whim_diag *diag)
{
    whim_join_challenge challenge;
    whim_join_hello hello;
    whim_join_answer answer;
    assert_true(get(fd, &challenge, sizeof challenge));
    assert_int_equal(whim_join_hello_make(&challenge, own, node, &room, secret, &hello, diag),
                     WHIM_ERR_OK);
    put(fd, &hello, sizeof hello);
    assert_true(get(fd, &answer, sizeof answer));
    return whim_join_answer_check(&challenge, &hello, &answer, secret, diag);
}

static int joined(void)
{
    whim_diag diag = {""};
    whim_join_facts own = facts();
    int fd = dial();
    assert_int_equal(join_as(fd, 1, &own, SECRET, &diag), WHIM_ERR_OK);
    return fd;
}

/* The next frame that is no sign of life. */
static whim_wire_head frame_get(int fd, void *data)
{
    whim_wire_head head;
    do {
        assert_true(get(fd, &head, sizeof head));
        assert_int_equal(head.magic, WHIM_WIRE_MAGIC);
        assert_true(head.bytes <= WHIM_WIRE_MOST);
        assert_true(get(fd, data, head.bytes));
    } while (head.kind == WHIM_WIRE_BEAT);
    return head;
}

static void frame_put(int fd, whim_wire_kind kind, uint64_t generation, int32_t channel,
                      const char *text)
{
    whim_wire_head head = {.magic = WHIM_WIRE_MAGIC,
                           .bytes = (uint32_t)strlen(text),
                           .generation = generation,
                           .kind = kind,
                           .channel = channel};
    put(fd, &head, sizeof head);
    put(fd, text, head.bytes);
}

/* Waits until a process is known to have ended. */
static void how_ended(whim_rank_process *p, char how[WHIM_RANK_HOW])
{
    int64_t until = whim_clock_ns() + WAIT_NS;
    while (!whim_rank_ended(p, how, WHIM_RANK_HOW)) {
        assert_true(whim_clock_ns() < until);
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
}

/* What the leader says of who is missing, and of the last that was refused. */
static void expect_missing(const char *word)
{
    whim_diag diag = {""};
    uint64_t generation;
    assert_int_equal(whim_nodes_begin(leader, WHIM_NS_PER_MS, &generation, &diag), WHIM_ERR_DEVICE);
    assert_non_null(strstr(diag.text, "node 1 of 2 has not joined"));
    assert_non_null(strstr(diag.text, word));
}

/* --- who may ---------------------------------------------------------------------------------- */

static void a_node_joins_and_is_served(void **state)
{
    (void)state;
    char data[WHIM_WIRE_MOST], how[WHIM_RANK_HOW];
    whim_diag diag = {""};
    uint64_t first, second;
    leader_start(LONG_MS * WHIM_NS_PER_MS);
    int fd = joined();
    assert_int_equal(whim_nodes_begin(leader, WAIT_NS, &first, &diag), WHIM_ERR_OK);
    whim_wire_head head = frame_get(fd, data);
    assert_true(head.kind == WHIM_WIRE_BEGIN && head.generation == first);
    assert_int_equal(whim_nodes_await(leader, WAIT_NS, &diag), WHIM_ERR_OK);
    whim_join_room there = whim_nodes_room(leader, 1);
    assert_memory_equal(&there, &room, sizeof room);
    whim_rank_process p = {.name = "rank 2", .socket = -1};
    assert_int_equal(whim_nodes_process(leader, 1, 2, &p, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_rank_send(&p, "order", 5, &diag), WHIM_ERR_OK);
    head = frame_get(fd, data);
    assert_true(head.kind == WHIM_WIRE_DATA && head.channel == 2 && head.bytes == 5);
    assert_memory_equal(data, "order", 5);
    frame_put(fd, WHIM_WIRE_DATA, first - 1, 2, "STALE"); /* nobody's any more */
    frame_put(fd, WHIM_WIRE_DATA, first, 2, "reply");
    assert_int_equal(whim_rank_hear(&p, data, 5, &diag), WHIM_ERR_OK);
    assert_memory_equal(data, "reply", 5);
    assert_false(whim_rank_ended(&p, how, sizeof how));
    frame_put(fd, WHIM_WIRE_ENDED, first, 2, "rank 2 (process 7) ended with status 1");
    assert_int_equal(whim_rank_hear(&p, data, 5, &diag), WHIM_ERR_DEVICE);
    assert_string_equal(diag.text,
                        "rank 2 (process 7) ended with status 1 on node 1 before it was ready");
    whim_rank_end(&p, 0);
    whim_nodes_end(leader);
    assert_int_equal(frame_get(fd, data).kind, WHIM_WIRE_END);
    frame_put(fd, WHIM_WIRE_ENDED, first, 2, "late"); /* it was under way */
    assert_int_equal(whim_nodes_begin(leader, WAIT_NS, &second, &diag), WHIM_ERR_OK);
    assert_true(second > first);
    assert_int_equal(frame_get(fd, data).generation, second);
    close(fd);
    leader_end();
}

static void others_are_refused_by_name(void **state)
{
    (void)state;
    whim_diag diag = {""};
    whim_join_facts own = facts();
    leader_start(LONG_MS * WHIM_NS_PER_MS);
    int fd = dial();
    assert_int_equal(join_as(fd, 1, &own, (whim_join_secret){"a secret of another", 19}, &diag),
                     WHIM_ERR_NOT_FOUND);
    assert_non_null(strstr(diag.text, "node 0 does not have node 1's secret"));
    assert_false(get(fd, &(char){0}, 1));
    close(fd);
    expect_missing("it does not have node 0's secret");
    fd = dial();
    assert_int_equal(join_as(fd, 2, &own, SECRET, &diag), WHIM_ERR_INVALID);
    assert_non_null(strstr(diag.text, "--node-rank 2 of 2"));
    close(fd);
    snprintf(own.model, sizeof own.model, "00000000000000bb");
    fd = dial();
    assert_int_equal(join_as(fd, 1, &own, SECRET, &diag), WHIM_ERR_INVALID);
    assert_non_null(strstr(diag.text, "node 1 has 00000000000000bb, node 0 00000000000000aa"));
    expect_missing("00000000000000bb");
    close(fd);
    fd = joined();
    int twin = dial();
    own = facts();
    assert_int_equal(join_as(twin, 1, &own, SECRET, &diag), WHIM_ERR_BUSY);
    assert_non_null(strstr(diag.text, "node 1 has joined already, from 127.0.0.1"));
    close(twin);
    close(fd);
    leader_end();
}

/* Lists of experts may be long, and differ at their ends alone. */
static void long_texts_count_to_their_ends(void **state)
{
    (void)state;
    whim_diag diag = {""};
    whim_join_facts own = facts(), other = facts();
    whim_join_text(own.deal_counts, "12,12,12,12,12,12,12,12,12,12,12,12");
    whim_join_text(other.deal_counts, "12,12,12,12,12,12,12,12,12,12,11,13");
    assert_int_equal(whim_join_compare(&own, &own, 1, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_join_compare(&own, &other, 1, &diag), WHIM_ERR_INVALID);
    assert_non_null(strstr(diag.text, "--ep-experts: node 1 has 12,12,12,12,.. ("));
}

static void each_fact_counts(void **state)
{
    (void)state;
    whim_join_facts own = facts(), other;
    whim_diag diag = {""};
    assert_int_equal(whim_join_compare(&own, &own, 1, &diag), WHIM_ERR_OK);
#define WHIM_JOIN_NUMBER(field, name)                                              \
    other = own;                                                                   \
    other.field += 100;                                                            \
    assert_int_equal(whim_join_compare(&own, &other, 1, &diag), WHIM_ERR_INVALID); \
    assert_non_null(strstr(diag.text, name ": node 1 has 1"));
#define WHIM_JOIN_TEXT_OF(field, name)                                             \
    other = own;                                                                   \
    snprintf(other.field, sizeof other.field, "x\x1b[2J");                         \
    assert_int_equal(whim_join_compare(&own, &other, 1, &diag), WHIM_ERR_INVALID); \
    assert_non_null(strstr(diag.text, name ": node 1 has x, node 0 "));            \
    assert_int_equal(whim_join_compare(&other, &own, 1, &diag), WHIM_ERR_INVALID);
#include "ranks/join.def"
    memset(other.isa, 'y', sizeof other.isa); /* no end */
    assert_int_equal(whim_join_compare(&own, &other, 1, &diag), WHIM_ERR_INVALID);
}

/* All have what the smallest has room for; who has none for a page is refused. */
static void the_smallest_counts(void **state)
{
    (void)state;
    whim_diag diag = {""};
    whim_join_facts own = facts();
    whim_join_challenge challenge;
    whim_join_hello hello;
    whim_join_room none = room;
    whim_engine_sizes sizes = room.sizes;
    assert_false(whim_join_lower(&sizes, &room));
    sizes.n_page++;
    sizes.n_state += 2;
    sizes.max_ctx--;
    assert_true(whim_join_lower(&sizes, &room));
    assert_int_equal(sizes.max_ctx, room.sizes.max_ctx - 1);
    sizes.max_ctx++;
    assert_memory_equal(&sizes, &room.sizes, sizeof sizes);
    none.sizes.n_page = 0;
    assert_int_equal(whim_join_challenge_make(&challenge, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_join_hello_make(&challenge, &own, 1, &none, SECRET, &hello, &diag),
                     WHIM_ERR_OK);
    assert_int_equal(whim_join_hello_check(&challenge, &hello, &own, SECRET, &diag),
                     WHIM_ERR_INVALID);
    assert_non_null(strstr(diag.text, "node 1 has no room for a page"));
}

static void another_version_is_told_by_both(void **state)
{
    (void)state;
    whim_diag diag = {""};
    whim_join_facts own = facts();
    whim_join_challenge challenge;
    whim_join_hello hello;
    whim_join_answer answer;
    assert_int_equal(whim_join_challenge_make(&challenge, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_join_hello_make(&challenge, &own, 1, &room, SECRET, &hello, &diag),
                     WHIM_ERR_OK);
    assert_int_equal(whim_join_hello_check(&challenge, &hello, &own, SECRET, &diag), WHIM_ERR_OK);
    hello.node = 2; /* what is proved cannot be changed on the way */
    assert_int_equal(whim_join_hello_check(&challenge, &hello, &own, SECRET, &diag),
                     WHIM_ERR_NOT_FOUND);
    whim_join_answer_make(&challenge, &hello, WHIM_ERR_OK, "", 1, SECRET, &answer);
    assert_int_equal(whim_join_answer_check(&challenge, &hello, &answer, SECRET, &diag),
                     WHIM_ERR_OK);
    answer.limit_ns = 2;
    assert_int_equal(whim_join_answer_check(&challenge, &hello, &answer, SECRET, &diag),
                     WHIM_ERR_NOT_FOUND);
    snprintf(challenge.version, sizeof challenge.version, "9.9.9");
    assert_int_equal(whim_join_hello_make(&challenge, &own, 1, &room, SECRET, &hello, &diag),
                     WHIM_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "node 1 is whimbrel " WHIM_VERSION ", node 0 9.9.9"));
    challenge.magic++;
    assert_int_equal(whim_join_hello_make(&challenge, &own, 1, &room, SECRET, &hello, &diag),
                     WHIM_ERR_CORRUPT);
}

/* --- who knocks otherwise --------------------------------------------------------------------- */

static void strangers_keep_nobody_out(void **state)
{
    (void)state;
    char junk[sizeof(whim_join_hello)];
    whim_join_challenge challenge;
    int idle[40];
    hello_ns = 2 * WHIM_NS_PER_S;
    leader_start(LONG_MS * WHIM_NS_PER_MS);
    hello_ns = LONG_MS * WHIM_NS_PER_MS;
    int fd = dial(); /* garbage is cut off at its first words */
    memset(junk, 'G', sizeof junk);
    put(fd, junk, 16);
    assert_true(get(fd, &challenge, sizeof challenge));
    assert_false(get(fd, junk, 1));
    close(fd);
    expect_missing("its message is not that of a whimbrel");
    fd = dial(); /* one byte, and no more */
    put(fd, "j", 1);
    assert_true(get(fd, &challenge, sizeof challenge));
    assert_false(get(fd, junk, 1));
    close(fd);
    expect_missing("it sent 1 of");
    fd = dial(); /* it dies in the middle */
    assert_true(get(fd, &challenge, sizeof challenge));
    close(fd);
    for (size_t i = 0; i < sizeof idle / sizeof idle[0]; i++) {
        idle[i] = dial();
    }
    fd = joined();
    for (size_t i = 0; i < sizeof idle / sizeof idle[0]; i++) {
        close(idle[i]);
    }
    close(fd);
    leader_end();
}

static void a_port_is_one_leaders(void **state)
{
    (void)state;
    char port[8];
    whim_nodes *second = NULL;
    whim_diag diag = {""};
    leader_start(LONG_MS * WHIM_NS_PER_MS);
    snprintf(port, sizeof port, "%d", whim_nodes_port(leader));
    whim_nodes_cfg cfg = cfg_of(port);
    assert_int_equal(whim_nodes_open(&cfg, &second, &diag), WHIM_ERR_BUSY);
    assert_non_null(strstr(diag.text, port));
    leader_end();
}

/* Who cannot be let in for want of descriptors waits, and so does the leader. */
static void without_descriptors_nobody_is_heard(void **state)
{
    (void)state;
    whim_nodes_cfg cfg = cfg_of("0");
    whim_diag diag = {""};
    struct rlimit was, none;
    int64_t now = whim_clock_ns();
    assert_int_equal(whim_nodes_open(&cfg, &leader, &diag), WHIM_ERR_OK);
    int fd = dial();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = was.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    whim_nodes_accept(leader, now);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    assert_true(leader->accept_at_ns > now);
    assert_int_equal(leader->guests[0].fd, -1);
    leader->accept_at_ns = 0;
    whim_nodes_accept(leader, now);
    assert_true(leader->accept_at_ns == 0 && leader->guests[0].fd >= 0);
    close(fd);
    leader_end();
}

/* --- who is lost ------------------------------------------------------------------------------ */

static void expect_lost(int fd, void (*how_lost)(int fd), const char *word)
{
    char how[WHIM_RANK_HOW], data[WHIM_WIRE_MOST];
    whim_diag diag = {""};
    uint64_t generation;
    assert_int_equal(whim_nodes_begin(leader, WAIT_NS, &generation, &diag), WHIM_ERR_OK);
    frame_get(fd, data);
    whim_rank_process p = {.name = "rank 2", .socket = -1};
    assert_int_equal(whim_nodes_process(leader, 1, 2, &p, &diag), WHIM_ERR_OK);
    how_lost(fd);
    how_ended(&p, how);
    assert_non_null(strstr(how, "node 1 (127.0.0.1"));
    assert_non_null(strstr(how, word));
    whim_rank_end(&p, 0);
    whim_nodes_end(leader);
    expect_missing("");
    close(fd);
}

static void says_nothing(int fd)
{
    (void)fd;
}

static void hangs_up(int fd)
{
    shutdown(fd, SHUT_RDWR);
}

static void sends_junk(int fd)
{
    put(fd, "this is no frame of anybody's at all", 36);
}

static void says_too_much(int fd)
{
    whim_wire_head head = {
        .magic = WHIM_WIRE_MAGIC, .bytes = WHIM_WIRE_MOST + 1, .kind = WHIM_WIRE_DATA};
    put(fd, &head, sizeof head);
}

static void nodes_that_fail_are_lost_and_may_come_back(void **state)
{
    (void)state;
    leader_start(3 * WHIM_NS_PER_S);
    expect_lost(joined(), says_nothing, "nothing was heard of it for");
    leader_end();
    leader_start(LONG_MS * WHIM_NS_PER_MS);
    expect_lost(joined(), hangs_up, "is lost: "); /* by whichever call sees it first */
    expect_lost(joined(), sends_junk, "not a frame");
    expect_lost(joined(), says_too_much, "not a frame");
    leader_end();
}

/* A node that came back in a beginning was not told of it: who is to run there is lost. */
static void a_node_that_came_back_has_not_begun(void **state)
{
    (void)state;
    char how[WHIM_RANK_HOW], data[WHIM_WIRE_MOST];
    whim_diag diag = {""};
    uint64_t generation;
    leader_start(LONG_MS * WHIM_NS_PER_MS);
    int fd = joined();
    assert_int_equal(whim_nodes_begin(leader, WAIT_NS, &generation, &diag), WHIM_ERR_OK);
    assert_int_equal(frame_get(fd, data).kind, WHIM_WIRE_BEGIN);
    close(fd);
    while (whim_nodes_await(leader, WHIM_NS_PER_MS, &diag) == WHIM_ERR_OK) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    fd = joined();
    whim_rank_process p = {.name = "rank 2", .socket = -1};
    assert_int_equal(whim_nodes_process(leader, 1, 2, &p, &diag), WHIM_ERR_OK);
    how_ended(&p, how);
    assert_string_equal(how, "its node is lost");
    whim_rank_end(&p, 0);
    leader_end();
    close(fd);
}

/* --- an agent that takes nothing for a while -------------------------------------------------- */

enum { N_ORDER = 600 };

static void orders_send(void *ctx)
{
    whim_rank_process *p = ctx;
    static char order[WHIM_WIRE_MOST];
    whim_diag diag = {""};
    for (int32_t i = 0; i < N_ORDER; i++) {
        memcpy(order, &i, sizeof i);
        if (whim_rank_send(p, order, sizeof order, &diag) != WHIM_ERR_OK) {
            return; /* who reads misses it */
        }
    }
}

/* Longer than a frame may wait, and with more than sockets hold; all of it comes whole, in order. */
static void who_is_busy_gets_all_orders(void **state)
{
    (void)state;
    static char data[WHIM_WIRE_MOST];
    whim_rank_process p = {.name = "rank 2", .socket = -1};
    whim_diag diag = {""};
    uint64_t generation;
    whim_thread sender;
    leader_start(LONG_MS * WHIM_NS_PER_MS);
    int fd = joined();
    assert_int_equal(whim_nodes_begin(leader, WAIT_NS, &generation, &diag), WHIM_ERR_OK);
    assert_int_equal(frame_get(fd, data).kind, WHIM_WIRE_BEGIN);
    assert_int_equal(whim_nodes_process(leader, 1, 2, &p, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_thread_create(&sender, "sender", orders_send, &p, &diag), WHIM_ERR_OK);
    whim_clock_sleep_ns(400 * WHIM_NS_PER_MS);
    for (int32_t i = 0; i < N_ORDER; i++) {
        int32_t number;
        assert_int_equal(frame_get(fd, data).bytes, sizeof data);
        memcpy(&number, data, sizeof number);
        assert_int_equal(number, i);
    }
    whim_thread_join(&sender);
    whim_rank_end(&p, 0);
    leader_end();
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_joins_and_is_served),
        cmocka_unit_test(others_are_refused_by_name),
        cmocka_unit_test(each_fact_counts),
        cmocka_unit_test(long_texts_count_to_their_ends),
        cmocka_unit_test(the_smallest_counts),
        cmocka_unit_test(another_version_is_told_by_both),
        cmocka_unit_test(strangers_keep_nobody_out),
        cmocka_unit_test(a_port_is_one_leaders),
        cmocka_unit_test(without_descriptors_nobody_is_heard),
        cmocka_unit_test(nodes_that_fail_are_lost_and_may_come_back),
        cmocka_unit_test(a_node_that_came_back_has_not_begun),
        cmocka_unit_test(who_is_busy_gets_all_orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
