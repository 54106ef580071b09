/* SPDX-License-Identifier: Apache-2.0 */
/* Groups over several "hosts", each with memory and a bridge of its own, over a link on which
 * messages overtake each other: the results are those of one host, bit for bit, and so are the ways
 * in which a group ends. */
#include "base/clock.h"
#include "support/cmocka.h"
#include "support/hosts.h"
#include "support/link_queue.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static whim_hosts *group_new(bool wild, uint64_t seed)
{
    static whim_hosts g;
    memset(&g, 0, sizeof g);
    g.ops = &whim_link_queue;
    g.seed = seed;
    whim_link_queue_reset(wild, seed);
    return &g;
}

/* Nodes with a rank each, of which only one opens. */
static whim_hosts *half_group_new(int32_t node)
{
    whim_hosts *g = group_new(false, 0);
    g->n_node = 2;
    g->rank_first[1] = 1;
    g->rank_first[2] = 2;
    whim_host_open(g, node);
    return g;
}

static void same_as_one_host(const int32_t *n_rank, uint64_t first_round)
{
    whim_hosts *g = group_new(true, first_round);
    whim_diag diag = {""};
    g->first_round = first_round;
    if (whim_hosts_same(g, n_rank, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
}

static void hosts_do_as_one(void **state)
{
    (void)state;
    same_as_one_host((const int32_t[]){1, 1, 0}, 0);
    same_as_one_host((const int32_t[]){3, 2, 0}, 0);
    same_as_one_host((const int32_t[]){2, 1, 3, 0}, 0);
}

static void counts_may_wrap(void **state)
{
    (void)state;
    same_as_one_host((const int32_t[]){1, 2, 0}, UINT32_MAX - 5);
}

/* --- letters ---------------------------------------------------------------------------------- */

enum { N_LETTER = 60 };

static void send_many(whim_hosts_rank *rank)
{
    static char body[WHIM_MAIL_BYTES];
    for (int64_t n = 0; n < N_LETTER && rank->err == WHIM_ERR_OK; n++) {
        int64_t bytes = n == 31 ? WHIM_MAIL_BYTES - 8 : n * 13;
        rank->err = whim_mail_send(&rank->mail, &n, sizeof n, body, bytes, &rank->diag);
    }
}

/* All letters, in order, by readers that may be slow; the writer waits for slots. */
static void read_many(whim_hosts_rank *rank)
{
    const void *text;
    int64_t bytes, number;
    if (rank->comm.rank == 0) {
        send_many(rank);
        return;
    }
    for (int64_t n = 0; n < N_LETTER && rank->err == WHIM_ERR_OK; n++) {
        rank->err = whim_mail_take(&rank->mail, true, &text, &bytes, &rank->diag);
        if (rank->err == WHIM_ERR_OK) {
            memcpy(&number, text, sizeof number);
            bool good = number == n && bytes == 8 + (n == 31 ? WHIM_MAIL_BYTES - 8 : n * 13);
            rank->err = good ? WHIM_ERR_OK : WHIM_ERR_CORRUPT;
            whim_clock_sleep_ns(n % 16 == 3 && rank->comm.rank == 2 ? WHIM_NS_PER_MS : 0);
            whim_mail_done(&rank->mail);
        }
    }
}

static void letters_come_in_order(void **state)
{
    (void)state;
    whim_hosts *g = group_new(true, 3);
    int64_t bytes = 0, head = sizeof(whim_link_head);
    whim_rank_meters meters;
    whim_hosts_begin(g, (const int32_t[]){2, 1, 1, 0}, read_many);
    whim_hosts_join_ranks(g);
    whim_hosts_stop(g);
    whim_rank_meters_look(&g->hosts[0].memory, 0, &meters);
    whim_hosts_close(g);
    for (int32_t r = 0; r < 4; r++) {
        assert_int_equal(g->ranks[r].err, WHIM_ERR_OK);
    }
    /* To each other host all letters went; beside them heads only, some for each letter. */
    for (int64_t n = 0; n < N_LETTER; n++) {
        bytes += 8 + (n == 31 ? WHIM_MAIL_BYTES - 8 : n * 13);
    }
    assert_true(meters.n_link_byte >= 2 * (bytes + N_LETTER * head));
    assert_true(meters.n_link_byte <= 2 * (bytes + 2 * (N_LETTER + 5) * head));
}

/* What was told before a bridge is stopped arrives. */
static void last_letter(whim_hosts_rank *rank)
{
    rank->err = whim_comm_barrier(&rank->comm, "connected");
    if (rank->err == WHIM_ERR_OK) {
        rank->err = whim_hosts_letter(rank, "end", 4);
    }
    if (rank->comm.rank == 0) {
        whim_bridge_stop(rank->of->hosts[0].bridge);
    }
}

/* What ranks of other hosts count comes to node 0. */
static void count_some(whim_hosts_rank *rank)
{
    const int64_t disk[WHIM_RANK_DISK_COUNT] = {1000 + rank->comm.rank, 1, 2, 3};
    whim_comm_count_wait(rank->comm.shared, rank->comm.rank, "a place", 1 + rank->comm.rank);
    whim_comm_disk_told(&rank->comm, disk);
    whim_comm_step_done(&rank->comm);
    rank->err = whim_comm_barrier(&rank->comm, "connected");
}

static bool has_come(whim_hosts *g, int32_t rank)
{
    whim_rank_meters m;
    whim_rank_meters_look(&g->hosts[0].memory, rank, &m);
    return m.step_ns > 0 && m.n_site > 0 && strcmp(m.sites[0].name, "a place") == 0 &&
           m.sites[0].waited_ns == 1 + rank && m.disk[WHIM_RANK_DISK_BYTES] == 1000 + rank &&
           m.disk[WHIM_RANK_DISK_ERRORS] == 1 && m.disk[WHIM_RANK_DISK_WRITTEN] == 2 &&
           m.disk[WHIM_RANK_DISK_DROPPED] == 3;
}

static void node_0_knows_what_others_count(void **state)
{
    (void)state;
    whim_hosts *g = group_new(false, 5);
    whim_rank_meters all, other;
    whim_hosts_begin(g, (const int32_t[]){1, 2, 1, 0}, count_some);
    whim_hosts_join_ranks(g);
    for (int32_t r = 0; r < 4; r++) {
        assert_int_equal(g->ranks[r].err, WHIM_ERR_OK);
        while (!has_come(g, r)) {
            whim_clock_sleep_ns(WHIM_NS_PER_MS);
        }
    }
    do { /* bytes that others have sent, too */
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
        whim_rank_meters_look(&g->hosts[0].memory, 0, &all);
        for (int32_t i = 1; i < 3; i++) {
            whim_rank_meters_look(&g->hosts[i].memory, 0, &other);
            all.n_link_byte -= other.n_link_byte;
        }
    } while (all.n_link_byte <= 0);
    whim_hosts_stop(g);
    whim_hosts_close(g);
}

/* Numbers go on from what an earlier group counted, and grow by what is new. */
static void numbers_of_others_are_added(void **state)
{
    (void)state;
    whim_hosts *g = half_group_new(0);
    whim_bridge *b = g->hosts[0].bridge;
    whim_rank_meters m;
    whim_link_head head = {.generation = WHIM_HOSTS_GENERATION,
                           .kind = WHIM_LINK_METER,
                           .node = 1,
                           .rank = 1,
                           .call.site = "here"};
    whim_comm_count_wait(b->shared, 1, "here", 7);
    const uint64_t numbers[] = {100, 150, 120, 150};
    for (size_t i = 0; i < 4; i++) {
        head.count = numbers[i];
        assert_ptr_equal(whim_bridge_place(b, &head), b->heard);
        whim_bridge_came(b, &head);
    }
    head.part = WHIM_BRIDGE_DISK + WHIM_RANK_DISK_BYTES;
    for (head.count = 9; head.count > 4; head.count--) { /* it may grow less */
        whim_bridge_came(b, &head);
    }
    whim_rank_meters_look(&g->hosts[0].memory, 1, &m);
    assert_int_equal(m.sites[0].waited_ns, 157);
    assert_int_equal(m.disk[WHIM_RANK_DISK_BYTES], 5);
    head.part = WHIM_BRIDGE_METERS;
    assert_null(whim_bridge_place(b, &head));
    assert_true(whim_comm_has_ended(b->shared));
    whim_bridge_close(b);
    whim_comm_memory_close(&g->hosts[0].memory);
}

static void the_last_letter_arrives(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 20; i++) {
        whim_hosts *g = group_new(true, i);
        whim_hosts_run(g, (const int32_t[]){1, 1, 1, 0}, last_letter);
        for (int32_t r = 1; r < 3; r++) {
            if (g->ranks[r].err != WHIM_ERR_OK) {
                fail_msg("rank %d: %s%s", r, g->ranks[r].diag.text, g->ranks[r].comm.diag.text);
            }
        }
    }
}

/* --- sleep ------------------------------------------------------------------------------------ */

/* Calls when its host's bridge sleeps, some times. */
static void call_sleepers(whim_hosts_rank *rank)
{
    for (int32_t i = 0; i < 3 && rank->err == WHIM_ERR_OK; i++) {
        while (atomic_load(&rank->comm.shared->bell.sleepers) == 0) {
            whim_clock_sleep_ns(100000);
        }
        rank->err = whim_comm_barrier(&rank->comm, "wake");
    }
    rank->hash = atomic_load(&rank->comm.shared->bell.n);
}

static void idle_bridges_sleep_until_they_are_rung(void **state)
{
    (void)state;
    whim_hosts *g = group_new(false, 0);
    whim_hosts_run(g, (const int32_t[]){1, 1, 0}, call_sleepers);
    for (int32_t r = 0; r < 2; r++) {
        assert_int_equal(g->ranks[r].err, WHIM_ERR_OK);
        assert_true(g->ranks[r].hash > 0);
    }
}

/* --- work ------------------------------------------------------------------------------------- */

static pid_t worker_start(void)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (volatile int n = 0;; n = n + 1) {
        }
    }
    return pid;
}

/* Rank 0 sees that rank 1, on another host, uses CPU time; then both meet. */
static void see_work(whim_hosts_rank *rank)
{
    _Atomic int64_t *ticks = &rank->comm.shared->seats[1].ticks;
    rank->err = whim_comm_barrier(&rank->comm, "connected");
    for (int64_t i = 0, was = 0; i < 3 && rank->comm.rank == 0; i++) {
        while (atomic_load(ticks) == was && !whim_comm_is_over(&rank->comm)) {
            whim_clock_sleep_ns(100000);
        }
        was = atomic_load(ticks);
        bool same = whim_comm_ticks(rank->comm.shared, 1) >= was;
        rank->err = rank->err == WHIM_ERR_OK && !same ? WHIM_ERR_CORRUPT : rank->err;
    }
    rank->err = rank->err != WHIM_ERR_OK ? rank->err : whim_comm_barrier(&rank->comm, "met");
}

static void work_is_told(void **state)
{
    (void)state;
    whim_hosts *g = group_new(true, 5);
    pid_t pid = worker_start();
    whim_hosts_begin(g, (const int32_t[]){1, 1, 0}, see_work);
    atomic_store(&g->hosts[1].memory.shared->seats[1].pid, (int32_t)pid);
    whim_hosts_join_ranks(g);
    whim_hosts_stop(g);
    whim_hosts_close(g);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(g->ranks[0].err, WHIM_ERR_OK);
    assert_int_equal(g->ranks[1].err, WHIM_ERR_OK);
}

static int64_t work_told(whim_bridge *b)
{
    int64_t before = atomic_load(&b->shared->n_link_byte);
    whim_bridge_give_work(b);
    return (atomic_load(&b->shared->n_link_byte) - before) / (int64_t)sizeof(whim_link_head);
}

/* A busy machine may give it no CPU time for long. */
static void who_waits_for_cpu_time_is_told_of(void **state)
{
    (void)state;
    whim_hosts *g = half_group_new(1);
    whim_bridge *b = g->hosts[1].bridge;
    pid_t pid = worker_start();
    b->ranks[1].ticks = INT64_MAX; /* no tick counts */
    assert_int_equal(work_told(b), 0);
    atomic_store(&b->shared->seats[1].pid, (int32_t)pid);
    while (whim_comm_ticks(b->shared, 1) == 0 || !whim_comm_is_busy(b->shared, 1)) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS); /* a sanitizer's or emulator's thread begins */
    }
    assert_int_equal(work_told(b), 1);
    assert_int_equal(work_told(b), 1);
    kill(pid, SIGSTOP);
    int status = 0; /* told when all of its threads stand still */
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    b->ranks[1].ticks = INT64_MAX;
    assert_int_equal(work_told(b), 0);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    whim_bridge_close(b);
    whim_comm_memory_close(&g->hosts[1].memory);
}

/* --- ends ------------------------------------------------------------------------------------- */

static void all_end_with(const whim_hosts *g, const char *why)
{
    for (int32_t r = 0; r < g->rank_first[g->n_node]; r++) {
        assert_int_equal(g->ranks[r].err, WHIM_ERR_DEVICE);
        if (strstr(g->ranks[r].comm.diag.text, why) == NULL) {
            fail_msg("rank %d: %s", r, g->ranks[r].comm.diag.text);
        }
    }
}

static void barriers(whim_hosts_rank *rank)
{
    while (rank->err == WHIM_ERR_OK) {
        rank->err = whim_comm_barrier(&rank->comm, "again");
    }
}

static void disagree(whim_hosts_rank *rank)
{
    rank->err = whim_comm_barrier(&rank->comm, "first");
    if (rank->err == WHIM_ERR_OK) {
        rank->err = whim_comm_barrier(&rank->comm, rank->comm.rank == 3 ? "there" : "here");
    }
    barriers(rank);
}

static void stay_away(whim_hosts_rank *rank)
{
    rank->err = whim_comm_barrier(&rank->comm, "again");
    while (rank->comm.rank == 2 && !whim_comm_is_over(&rank->comm)) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    barriers(rank);
}

static void ends_are_everywhere(void **state)
{
    (void)state;
    const int32_t n_rank[] = {1, 1, 2, 0};
    whim_hosts *g = group_new(true, 1);
    whim_hosts_run(g, n_rank, disagree);
    all_end_with(g, "ranks disagree: rank ");
    g = group_new(false, 2);
    g->wait_ns = 100 * WHIM_NS_PER_MS;
    whim_hosts_run(g, n_rank, stay_away);
    all_end_with(g, " did not reach barrier of 0 at \"again\" within ");
    g = group_new(true, 3);
    whim_hosts_begin(g, n_rank, barriers);
    whim_hosts_await_round(g, 1);
    whim_comm_abort(&g->hosts[1].memory, "rank 1 was killed");
    whim_hosts_join_ranks(g);
    whim_hosts_stop(g);
    whim_hosts_close(g);
    all_end_with(g, "rank 1 was killed");
}

/* The last rank follows a letter without the call that the others make. */
static void leave_out_the_last(whim_hosts_rank *rank)
{
    const void *text;
    int64_t bytes;
    bool leaves_out = rank->comm.rank == 2;
    whim_mail *mail = &rank->mail;
    rank->err = whim_comm_barrier(&rank->comm, "connected");
    if (rank->err == WHIM_ERR_OK) {
        rank->err = rank->comm.rank == 0
                        ? whim_mail_send(mail, &leaves_out, 1, NULL, 0, &rank->diag)
                        : whim_mail_take(mail, true, &text, &bytes, &rank->diag);
    }
    if (rank->err != WHIM_ERR_OK) {
        return;
    }
    whim_mail_begin(mail);
    if (leaves_out) { /* and waits for the next one */
        whim_mail_ended(mail, whim_mail_number(mail));
        whim_mail_done(mail);
        rank->err = whim_mail_take(mail, true, &text, &bytes, &rank->comm.diag);
        return;
    }
    rank->err = whim_comm_barrier(&rank->comm, "the last");
}

/* Long before the deadline; nobody waits for it. */
static void a_call_left_out_elsewhere_is_told(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        whim_hosts *g = group_new(true, seed);
        whim_hosts_run(g, (const int32_t[]){1, 1, 1, 0}, leave_out_the_last);
        all_end_with(g, "calls barrier of 0 at \"the last\", rank 2 has ended the step behind "
                        "\"connected\"");
    }
}

static void a_lost_node_is_named(void **state)
{
    (void)state;
    whim_hosts *g = group_new(true, 4);
    whim_hosts_begin(g, (const int32_t[]){1, 2, 0}, barriers);
    whim_hosts_await_round(g, 1);
    whim_link_queue_cut(1);
    whim_hosts_join_ranks(g);
    whim_hosts_stop(g);
    whim_hosts_close(g);
    assert_non_null(strstr(g->ranks[0].comm.diag.text,
                           "node 1 with ranks 1 to 2 cannot be reached any more: cut"));
    assert_non_null(strstr(g->ranks[2].comm.diag.text, "node 0 with ranks 0 to 0 cannot be"));
}

/* --- outside bytes ---------------------------------------------------------------------------- */

static void other_generations_are_dropped(void **state)
{
    (void)state;
    whim_hosts *g = group_new(false, 0);
    static char bytes[64];
    memset(bytes, 0xff, sizeof bytes);
    whim_hosts_begin(g, (const int32_t[]){1, 1, 0}, barriers);
    for (int32_t kind = WHIM_LINK_HELLO; kind <= WHIM_LINK_METER; kind++) {
        whim_link_head head = {.generation = WHIM_HOSTS_GENERATION - 1,
                               .kind = kind,
                               .node = 1,
                               .rank = 1,
                               .count = 1,
                               .bytes = sizeof bytes,
                               .n_part = 1};
        whim_link_queue_inject(0, &head, bytes);
    }
    while (whim_bridge_n_stale(g->hosts[0].bridge) < WHIM_LINK_METER + 1) {
        whim_clock_sleep_ns(100000);
    }
    whim_hosts_await_round(g, 1);
    whim_comm_abort(&g->hosts[0].memory, "enough");
    whim_hosts_join_ranks(g);
    whim_hosts_stop(g);
    assert_int_equal(whim_bridge_n_stale(g->hosts[0].bridge), WHIM_LINK_METER + 1);
    whim_hosts_close(g);
    all_end_with(g, "enough");
}

/* A round of rank 1 that is right, with one thing that is not. */
static whim_link_head round_with(size_t at, int64_t value, size_t bytes)
{
    whim_link_head head = {.generation = WHIM_HOSTS_GENERATION,
                           .kind = WHIM_LINK_ROUND,
                           .node = 1,
                           .rank = 1,
                           .count = 1,
                           .bytes = 8,
                           .n_part = 1};
    memcpy((char *)&head + at, &value, bytes);
    return head;
}

/* A head without bytes. */
static whim_link_head told(whim_link_kind kind, int32_t rank, uint64_t count, int64_t round)
{
    return (whim_link_head){.generation = WHIM_HOSTS_GENERATION,
                            .kind = kind,
                            .node = 1,
                            .rank = rank,
                            .count = count,
                            .call.size = round};
}

#define WITH(field, value) \
    round_with(offsetof(whim_link_head, field), value, sizeof((whim_link_head *)NULL)->field)

static void garbage_ends_the_group(void **state)
{
    (void)state;
    const whim_link_head heads[] = {WITH(kind, WHIM_LINK_ENDED + 1),
                                    WITH(kind, -1),
                                    WITH(kind, WHIM_LINK_HELLO),
                                    WITH(node, 0),
                                    WITH(node, 2),
                                    WITH(node, -1),
                                    WITH(rank, 0),
                                    WITH(rank, 2),
                                    WITH(rank, -1),
                                    WITH(rank, INT32_MAX),
                                    WITH(count, 0),
                                    WITH(count, 5),
                                    WITH(count, -1),
                                    WITH(bytes, -1),
                                    WITH(bytes, WHIM_COMM_PIECE + 1),
                                    WITH(at, -8),
                                    WITH(at, WHIM_COMM_PIECE - 7),
                                    WITH(at, INT32_MAX),
                                    WITH(back, WHIM_COMM_MOST_BACK + 1),
                                    WITH(back, -1),
                                    WITH(part, 1),
                                    WITH(part, -1),
                                    WITH(n_part, 0),
                                    WITH(n_part, 3),
                                    WITH(kind, WHIM_LINK_LETTER),
                                    WITH(kind, WHIM_LINK_READ),
                                    WITH(kind, WHIM_LINK_WORK),
                                    WITH(kind, WHIM_LINK_METER),
                                    WITH(kind, WHIM_LINK_ENDED),
                                    told(WHIM_LINK_READ, 0, 0, 0),
                                    told(WHIM_LINK_READ, 1, 1, 0),
                                    told(WHIM_LINK_WORK, 2, 1, 0),
                                    told(WHIM_LINK_WORK, 1, UINT64_MAX, 0),
                                    told(WHIM_LINK_METER, 2, 1, 0),
                                    told(WHIM_LINK_ENDED, 0, 0, 0),
                                    told(WHIM_LINK_ENDED, 1, 1, 0),
                                    told(WHIM_LINK_ENDED, 1, UINT64_MAX, 0),
                                    told(WHIM_LINK_ENDED, 1, 0, 5),
                                    WITH(kind, WHIM_LINK_BYE),
                                    WITH(node, 1) /* as before: once more */};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        whim_hosts *g = half_group_new(0);
        whim_bridge *b = g->hosts[0].bridge;
        whim_link_head good = WITH(node, 1);
        assert_ptr_equal(whim_bridge_place(b, &good), whim_comm_piece(&b->comm, 1, 1));
        assert_false(whim_comm_has_ended(b->shared));
        assert_null(whim_bridge_place(b, &heads[i]));
        whim_diag diag = {""};
        assert_int_equal(whim_comm_why(b->shared, &diag), WHIM_ERR_DEVICE);
        assert_non_null(strstr(diag.text, "node 0 was sent what no bridge sends: "));
        whim_bridge_close(b);
        whim_comm_memory_close(&g->hosts[0].memory);
    }
}

/* An end that overtakes rounds would make them look left out. */
static void ends_wait_for_rounds(void **state)
{
    (void)state;
    whim_hosts *g = half_group_new(1);
    whim_bridge *b = g->hosts[1].bridge;
    whim_comm_seat *seats = b->shared->seats;
    whim_link_head end = told(WHIM_LINK_ENDED, 0, 1, 1);
    whim_link_head round = WITH(node, 0);
    end.node = round.rank = 0;
    assert_non_null(whim_bridge_place(b, &end));
    whim_bridge_came(b, &end);
    assert_int_equal(atomic_load(&seats[0].ended), 0);
    assert_non_null(whim_bridge_place(b, &round));
    whim_bridge_came(b, &round);
    assert_int_equal(atomic_load(&seats[0].ended), 1);
    /* Here, too, rounds go first. */
    atomic_store(&seats[1].n_round, 1);
    atomic_store(&seats[1].ended, 1);
    whim_bridge_give_work(b);
    assert_int_equal(b->ranks[1].n_round, 1);
    assert_int_equal(b->ranks[1].ended, 1);
    whim_bridge_close(b);
    whim_comm_memory_close(&g->hosts[1].memory);
}

/* A letter has one place, also while its bytes are under way. */
static void letters_come_once(void **state)
{
    (void)state;
    whim_hosts *g = half_group_new(1);
    whim_bridge *b = g->hosts[1].bridge;
    whim_link_head head = {
        .generation = WHIM_HOSTS_GENERATION, .kind = WHIM_LINK_LETTER, .count = 2, .bytes = 8};
    assert_non_null(whim_bridge_place(b, &head));
    head.count = 1;
    assert_non_null(whim_bridge_place(b, &head));
    whim_bridge_came(b, &head);
    assert_int_equal(b->n_letter, 1);
    head.count = 2;
    assert_null(whim_bridge_place(b, &head));
    assert_true(whim_comm_has_ended(b->shared));
    whim_bridge_close(b);
    whim_comm_memory_close(&g->hosts[1].memory);
}

/* --- beginnings ------------------------------------------------------------------------------- */

static void a_node_that_stays_away_is_named(void **state)
{
    (void)state;
    whim_hosts *g = half_group_new(0);
    whim_link_address none[2] = {{0}};
    whim_diag diag = {""};
    assert_int_equal(whim_bridge_connect(g->hosts[0].bridge, none, 5 * WHIM_NS_PER_MS, &diag),
                     WHIM_ERR_DEVICE);
    assert_non_null(strstr(diag.text, "node 1 sent nothing to node 0 within 0.005 s"));
    whim_bridge_close(g->hosts[0].bridge);
    int32_t wrong[][3] = {{0, 1, 3}, {0, 0, 2}, {1, 1, 2}, {0, 2, 2}};
    for (int32_t i = 0; i < 4; i++) {
        whim_bridge *bridge;
        whim_bridge_cfg cfg = {.memory = &g->hosts[0].memory,
                               .ops = &whim_link_queue,
                               .n_node = 2,
                               .rank_first = wrong[i]};
        assert_int_equal(whim_bridge_open(&cfg, &bridge, none, &diag), WHIM_ERR_INVALID);
    }
    whim_comm_memory_close(&g->hosts[0].memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_do_as_one),
        cmocka_unit_test(counts_may_wrap),
        cmocka_unit_test(letters_come_in_order),
        cmocka_unit_test(the_last_letter_arrives),
        cmocka_unit_test(node_0_knows_what_others_count),
        cmocka_unit_test(numbers_of_others_are_added),
        cmocka_unit_test(idle_bridges_sleep_until_they_are_rung),
        cmocka_unit_test(work_is_told),
        cmocka_unit_test(who_waits_for_cpu_time_is_told_of),
        cmocka_unit_test(ends_are_everywhere),
        cmocka_unit_test(a_call_left_out_elsewhere_is_told),
        cmocka_unit_test(a_lost_node_is_named),
        cmocka_unit_test(other_generations_are_dropped),
        cmocka_unit_test(garbage_ends_the_group),
        cmocka_unit_test(ends_wait_for_rounds),
        cmocka_unit_test(letters_come_once),
        cmocka_unit_test(a_node_that_stays_away_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
