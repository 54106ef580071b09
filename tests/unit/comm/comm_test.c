/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives between threads and between processes, against plain loops over arrays of ranks: bit
 * for bit, for sizes around every cut, with ranks that come late, call something else or die. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/math/rng.h"
#include "base/thread.h"
#include "comm/shared.h"
#include "support/cmocka.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_RANKS = 5, WAIT_S = 60 };

static bool quick(void)
{
    return getenv("TEST_QUICK") != NULL;
}

/* --- ranks as threads ------------------------------------------------------------------------- */

typedef struct team team;

typedef struct rank_ctx {
    team *of;
    whim_comm comm;
    whim_err err;
    whim_thread thread;
} rank_ctx;

static uint64_t first_round; /* of the teams that run next: as if they had run so many before */

struct team {
    whim_comm_memory memory;
    int32_t n_rank;
    void (*fn)(rank_ctx *rank);
    rank_ctx ranks[MAX_RANKS];
};

static void rank_run(void *ctx)
{
    rank_ctx *rank = ctx;
    rank->of->fn(rank);
}

static void team_run(team *t, int32_t n_rank, int64_t wait_ns, void (*fn)(rank_ctx *rank))
{
    whim_diag diag = {""};
    memset(t, 0, sizeof *t);
    t->n_rank = n_rank;
    t->fn = fn;
    assert_int_equal(whim_comm_memory_make(n_rank, &t->memory, &diag), WHIM_ERR_OK);
    for (int32_t r = 0; r < n_rank; r++) {
        rank_ctx *rank = &t->ranks[r];
        rank->of = t;
        whim_comm_cfg cfg = {.rank = r, .wait_ns = wait_ns, .crowded = true};
        whim_comm_open(&rank->comm, &t->memory, &cfg);
        rank->comm.n_round = first_round;
        atomic_store(&t->memory.shared->seats[r].n_round, (uint32_t)first_round);
    }
    for (int32_t r = 0; r < n_rank; r++) {
        rank_ctx *rank = &t->ranks[r];
        assert_int_equal(whim_thread_create(&rank->thread, "rank", rank_run, rank, &diag),
                         WHIM_ERR_OK);
    }
    for (int32_t r = 0; r < n_rank; r++) {
        whim_thread_join(&t->ranks[r].thread);
    }
    whim_comm_memory_close(&t->memory);
}

static void team_run_well(int32_t n_rank, void (*fn)(rank_ctx *rank))
{
    static team t;
    team_run(&t, n_rank, WAIT_S * WHIM_NS_PER_S, fn);
    for (int32_t r = 0; r < n_rank; r++) {
        if (t.ranks[r].err != WHIM_ERR_OK) {
            fail_msg("rank %d: %s", r, t.ranks[r].comm.diag.text);
        }
    }
}

/* --- values that every rank can make of every other ------------------------------------------- */

/* Sums of these depend on their order. */
static float value(int32_t rank, int64_t i)
{
    static const float big[] = {1e8f, -1e8f, 3.25f, -0.0f, 1.0f / 3};
    return big[(rank + i) % 5] + (float)((rank * 31 + i * 7) % 101) / 7;
}

static float law_sum(int32_t n_rank, int64_t i)
{
    float sum = value(0, i);
    for (int32_t r = 1; r < n_rank; r++) {
        sum += value(r, i);
    }
    return sum;
}

/* Checks of a rank end its run, as a thread cannot fail a test by itself. */
static whim_err wrong(rank_ctx *rank, const char *what, int64_t n)
{
    return whim_fail(&rank->comm.diag, WHIM_ERR_CORRUPT, "%s of %lld is wrong", what, (long long)n);
}

static const int64_t sizes[] = {0,    1,    15,    16,    17,    1000,   8191,
                                8192, 8193, 65535, 65536, 65537, 131072, 200001};
enum { N_SIZE = sizeof sizes / sizeof sizes[0] };

static whim_err reduce_once(rank_ctx *rank, int64_t n)
{
    float *x = whim_alloc(n * 4 + 4);
    for (int64_t i = 0; i < n; i++) {
        x[i] = value(rank->comm.rank, i);
    }
    whim_err err = whim_comm_all_reduce(&rank->comm, NULL, x, n, "reduce");
    for (int64_t i = 0; err == WHIM_ERR_OK && i < n; i++) {
        float sum = law_sum(rank->comm.n_rank, i);
        err = memcmp(&x[i], &sum, 4) == 0 ? err : wrong(rank, "all_reduce", n);
    }
    whim_free(x);
    return err;
}

static void reduce_all(rank_ctx *rank)
{
    for (int32_t i = 0; i < N_SIZE && rank->err == WHIM_ERR_OK; i++) {
        rank->err = reduce_once(rank, sizes[i]);
    }
    if (rank->err == WHIM_ERR_OK && !quick()) {
        rank->err = reduce_once(rank, 65 * 1024 * 1024 / 4 + 1);
    }
}

static void sums_add_in_the_order_of_ranks(void **state)
{
    (void)state;
    for (int32_t n = 1; n <= MAX_RANKS; n += n < 3 ? 1 : 2) {
        team_run_well(n, reduce_all);
    }
}

/* Parts of several lengths, some of nothing. */
static int64_t part_of(int32_t rank, int64_t n)
{
    return rank % 3 == 1 ? 0 : n / (rank + 1);
}

static whim_err gather_once(rank_ctx *rank, int64_t n)
{
    int64_t bytes[MAX_RANKS], total = 0;
    for (int32_t r = 0; r < rank->comm.n_rank; r++) {
        total += bytes[r] = part_of(r, n);
    }
    unsigned char *part = whim_alloc(n + 1), *out = whim_alloc(total + 1), *at = out;
    memset(part, 'a' + rank->comm.rank, (size_t)n);
    whim_err err = whim_comm_all_gather(&rank->comm, part, bytes, out, "gather");
    for (int32_t r = 0; r < rank->comm.n_rank; at += bytes[r], r++) {
        for (int64_t i = 0; err == WHIM_ERR_OK && i < bytes[r]; i++) {
            err = at[i] == 'a' + r ? err : wrong(rank, "all_gather", n);
        }
    }
    whim_free(part);
    whim_free(out);
    return err;
}

static whim_err scatter_once(rank_ctx *rank, int64_t n)
{
    int64_t counts[MAX_RANKS], total = 0, first = 0;
    for (int32_t r = 0; r < rank->comm.n_rank; r++) {
        first = r == rank->comm.rank ? total : first;
        total += counts[r] = part_of(r, n);
    }
    float *x = whim_alloc(total * 4 + 4), *out = whim_alloc(n * 4 + 4);
    for (int64_t i = 0; i < total; i++) {
        x[i] = value(rank->comm.rank, i);
    }
    whim_err err = whim_comm_reduce_scatter(&rank->comm, x, counts, out, "scatter");
    for (int64_t i = 0; err == WHIM_ERR_OK && i < counts[rank->comm.rank]; i++) {
        float sum = law_sum(rank->comm.n_rank, first + i);
        err = memcmp(&out[i], &sum, 4) == 0 ? err : wrong(rank, "reduce_scatter", n);
    }
    whim_free(x);
    whim_free(out);
    return err;
}

/* Who makes row i: anybody, nobody (below the first, behind the last), or one rank all of them. */
static int32_t row_key(const rank_ctx *rank, int64_t n, int64_t i)
{
    int32_t n_rank = rank->comm.n_rank;
    return n % 3 == 0 ? (int32_t)(n / 3 % n_rank) : (int32_t)((i * 7 + n) % (n_rank + 2)) - 1;
}

static whim_err rows_once(rank_ctx *rank, int64_t n)
{
    enum { ROWS = 23 };
    int32_t me = rank->comm.rank, n_rank = rank->comm.n_rank, keys[ROWS], firsts[MAX_RANKS + 1];
    int64_t bytes = n / 5, each = n / 9 % 4; /* 0: everybody wants all */
    unsigned char *x = whim_alloc(ROWS * bytes + 1);
    for (int32_t r = 0; r <= n_rank; r++) {
        firsts[r] = r;
    }
    for (int64_t i = 0; i < ROWS; i++) {
        keys[i] = row_key(rank, n, i);
        memset(x + i * bytes, keys[i] == me ? (int)(16 * (me + 1) + i) : 0, (size_t)bytes);
    }
    const whim_comm_rows rows = {.x = (char *)x,
                                 .n = ROWS,
                                 .row_bytes = bytes,
                                 .keys = keys,
                                 .firsts = firsts,
                                 .wanted_by_each = each};
    whim_err err = whim_comm_exchange(&rank->comm, NULL, &rows, "rows");
    for (int64_t i = 0; err == WHIM_ERR_OK && i < ROWS * bytes; i++) {
        int64_t row = i / bytes, maker = keys[row];
        bool made = maker >= 0 && maker < n_rank, wants = each == 0 || row / each % n_rank == me;
        int64_t wish = made && (wants || maker == me) ? (16 * (maker + 1) + row) % 256 : 0;
        err = x[i] == wish ? err : wrong(rank, "exchange", n);
    }
    whim_free(x);
    return err;
}

/* Rows to all who have one of their two keys; the second is often nobody's, now and then both. */
static whim_err dispatch_once(rank_ctx *rank, int64_t n)
{
    enum { ROWS = 23 };
    int32_t me = rank->comm.rank, n_rank = rank->comm.n_rank, keys[2 * ROWS];
    int32_t firsts[MAX_RANKS + 1];
    int64_t bytes = n / 5;
    unsigned char *x = whim_alloc(ROWS * bytes + 1);
    for (int32_t r = 0; r <= n_rank; r++) {
        firsts[r] = r;
    }
    for (int64_t i = 0; i < ROWS; i++) {
        keys[2 * i] = row_key(rank, n, i);
        keys[2 * i + 1] = i % 3 == 0 ? -1 : row_key(rank, n + 1, i);
        memset(x + i * bytes, i % n_rank == me ? (int)(16 * (me + 1) + i) : 0, (size_t)bytes);
    }
    const whim_comm_rows rows = {
        .x = (char *)x, .n = ROWS, .row_bytes = bytes, .keys = keys, .firsts = firsts, .n_key = 2};
    whim_err err = whim_comm_exchange(&rank->comm, NULL, &rows, "dispatch");
    for (int64_t i = 0; err == WHIM_ERR_OK && i < ROWS * bytes; i++) {
        int64_t row = i / bytes, maker = row % n_rank;
        bool here = maker == me || keys[2 * row] == me || keys[2 * row + 1] == me;
        int64_t wish = here ? (16 * (maker + 1) + row) % 256 : 0;
        err = x[i] == wish ? err : wrong(rank, "dispatch", n);
    }
    whim_free(x);
    return err;
}

static whim_err broadcast_once(rank_ctx *rank, int64_t n)
{
    int32_t root = (int32_t)(n % rank->comm.n_rank);
    unsigned char *x = whim_alloc(n + 1);
    memset(x, rank->comm.rank == root ? 'x' : 0, (size_t)n);
    whim_err err = whim_comm_broadcast(&rank->comm, x, n, root, "broadcast");
    for (int64_t i = 0; err == WHIM_ERR_OK && i < n; i++) {
        err = x[i] == 'x' ? err : wrong(rank, "broadcast", n);
    }
    whim_free(x);
    return err;
}

static whim_err barrier_once(rank_ctx *rank, int64_t n)
{
    (void)n;
    return whim_comm_barrier(&rank->comm, "barrier");
}

static whim_err (*const each[])(rank_ctx *rank, int64_t n) = {
    reduce_once, gather_once, scatter_once, rows_once, dispatch_once, broadcast_once, barrier_once};
enum { N_KIND = sizeof each / sizeof each[0] };

/* All kinds and sizes in an order that is random and the same for all, each rank with its own
 * delays. */
static void mix_all(rank_ctx *rank)
{
    for (uint64_t i = 0; i < (quick() ? 60 : 300) && rank->err == WHIM_ERR_OK; i++) {
        uint64_t kind = whim_rng_at(7, 2 * i) % N_KIND, size = whim_rng_at(7, 2 * i + 1) % N_SIZE;
        uint64_t delay = whim_rng_at(11 + (uint64_t)rank->comm.rank, i);
        if (delay % 8 == 0) {
            whim_clock_sleep_ns((int64_t)(delay / 8 % 300000));
        }
        rank->err = each[kind](rank, sizes[size] + (int64_t)(size > 2 ? kind : 0));
    }
}

static void all_kinds_agree_with_plain_loops(void **state)
{
    (void)state;
    for (int32_t n = 1; n <= MAX_RANKS; n++) {
        team_run_well(n, mix_all);
    }
}

/* One after the other without a pause: counts go on and pieces come round. */
static void call_often(rank_ctx *rank)
{
    for (int32_t i = 0; i < (quick() ? 2000 : 100000) && rank->err == WHIM_ERR_OK; i++) {
        float x[2] = {(float)(i % 64), (float)rank->comm.rank};
        rank->err = whim_comm_all_reduce(&rank->comm, NULL, x, 2, "often");
        bool good = x[0] == 2 * (float)(i % 64) && x[1] == 1;
        rank->err = rank->err != WHIM_ERR_OK || good ? rank->err : wrong(rank, "call", i);
    }
}

static void many_calls_keep_step(void **state)
{
    (void)state;
    team_run_well(2, call_often);
}

/* What is told has 32 bits, which a server uses up within days: pieces still come in turn, and no
 * round has that of the one before. */
static void call_beyond_32_bits(rank_ctx *rank)
{
    whim_comm *comm = &rank->comm;
    for (int32_t i = 0; i < 12 && rank->err == WHIM_ERR_OK; i++) {
        rank->err = each[i % N_KIND](rank, 9000);
        for (uint64_t back = 0; back < WHIM_COMM_TURNS - 1 && rank->err == WHIM_ERR_OK; back++) {
            bool apart = whim_comm_piece(comm, 0, comm->n_round + 1) !=
                         whim_comm_piece(comm, 0, comm->n_round - back);
            rank->err = apart ? rank->err : wrong(rank, "turn", i);
        }
    }
    bool beyond = comm->n_round > UINT32_MAX;
    rank->err = rank->err != WHIM_ERR_OK || beyond ? rank->err : wrong(rank, "count", 12);
}

static void counts_outlast_what_is_told(void **state)
{
    (void)state;
    first_round = UINT32_MAX - 7;
    team_run_well(3, call_beyond_32_bits);
    first_round = 0;
}

/* --- what goes wrong -------------------------------------------------------------------------- */

static void expect_all_say(team *t, const char *const *parts)
{
    for (int32_t r = 0; r < t->n_rank; r++) {
        assert_int_equal(t->ranks[r].err, WHIM_ERR_DEVICE);
        assert_string_equal(t->ranks[r].comm.diag.text, t->ranks[0].comm.diag.text);
        for (int32_t i = 0; parts[i] != NULL; i++) {
            if (strstr(t->ranks[r].comm.diag.text, parts[i]) == NULL) {
                fail_msg("\"%s\" does not say \"%s\"", t->ranks[r].comm.diag.text, parts[i]);
            }
        }
    }
}

static void call_another(rank_ctx *rank)
{
    float x[4] = {0};
    rank->err = whim_comm_barrier(&rank->comm, "start");
    if (rank->err == WHIM_ERR_OK && rank->comm.rank == 1) {
        rank->err = whim_comm_barrier(&rank->comm, "layer 3");
    } else if (rank->err == WHIM_ERR_OK) {
        rank->err = whim_comm_all_reduce(&rank->comm, NULL, x, 4, "layer 2");
    }
    if (rank->err != WHIM_ERR_OK) { /* it stays so */
        rank->err = whim_comm_barrier(&rank->comm, "later");
    }
}

/* As many bytes, cut at another place. */
static void cut_otherwise(rank_ctx *rank)
{
    int32_t me = rank->comm.rank;
    const int64_t usual[3] = {4, 8, 4}, odd[3] = {4, 4, 8}, *own = me == 2 ? odd : usual;
    float x[4] = {0}, out[4];
    rank->err = whim_comm_all_gather(&rank->comm, x, own, out, "rows");
}

static void cut_sums_otherwise(rank_ctx *rank)
{
    const int64_t usual[3] = {1, 2, 1}, odd[3] = {1, 1, 2};
    float x[4] = {0}, out[4];
    rank->err = whim_comm_reduce_scatter(&rank->comm, x, rank->comm.rank == 2 ? odd : usual, out,
                                         "columns");
}

static void other_cuts_are_told(void **state)
{
    (void)state;
    static team t;
    team_run(&t, 3, WAIT_S * WHIM_NS_PER_S, cut_otherwise);
    expect_all_say(&t, (const char *const[]){"ranks disagree", "all_gather of 16 in parts ",
                                             "at \"rows\"", NULL});
    team_run(&t, 3, WAIT_S * WHIM_NS_PER_S, cut_sums_otherwise);
    expect_all_say(&t, (const char *const[]){"ranks disagree", "reduce_scatter of 4 in parts ",
                                             "at \"columns\"", NULL});
}

static void other_calls_are_told(void **state)
{
    (void)state;
    static team t;
    team_run(&t, 3, WAIT_S * WHIM_NS_PER_S, call_another);
    expect_all_say(&t, (const char *const[]){"ranks disagree", "all_reduce of 4 at \"layer 2\"",
                                             "rank 1 calls barrier of 0 at \"layer 3\"", NULL});
}

static void stay_away(rank_ctx *rank)
{
    if (rank->comm.rank != 2) {
        rank->err = whim_comm_barrier(&rank->comm, "step 9");
    }
}

static void absent_ranks_are_named(void **state)
{
    (void)state;
    static team t;
    team_run(&t, 3, 20 * WHIM_NS_PER_MS, stay_away);
    assert_int_equal(t.ranks[0].err, WHIM_ERR_DEVICE);
    assert_int_equal(t.ranks[1].err, WHIM_ERR_DEVICE);
    assert_non_null(strstr(t.ranks[0].comm.diag.text, "rank 2 did not reach barrier"));
    assert_string_equal(t.ranks[0].comm.diag.text, t.ranks[1].comm.diag.text);
}

/* --- ranks as processes ----------------------------------------------------------------------- */

/* The other rank of two, in a process that has the memory by its descriptor: sums till it ends. */
static void peer_process(int fd)
{
    whim_comm_memory memory;
    whim_comm comm;
    whim_diag diag = {""};
    if (whim_comm_memory_join(fd, &memory, &diag) != WHIM_ERR_OK) {
        _exit(2);
    }
    whim_comm_open(&comm, &memory,
                   &(whim_comm_cfg){.rank = 1, .wait_ns = WAIT_S * WHIM_NS_PER_S, .crowded = true});
    float x = 0;
    do {
        x = 1;
    } while (whim_comm_all_reduce(&comm, NULL, &x, 1, "process") == WHIM_ERR_OK && x == 3);
    _exit(0);
}

static void processes_are_ranks_and_may_die(void **state)
{
    (void)state;
    whim_comm_memory memory;
    whim_comm comm;
    whim_diag diag = {""};
    assert_int_equal(whim_comm_memory_make(2, &memory, &diag), WHIM_ERR_OK);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        peer_process(dup(memory.fd));
    }
    whim_comm_open(&comm, &memory,
                   &(whim_comm_cfg){.rank = 0, .wait_ns = WAIT_S * WHIM_NS_PER_S, .crowded = true});
    for (int32_t i = 0; i < 1000; i++) {
        float x = 2;
        assert_int_equal(whim_comm_all_reduce(&comm, NULL, &x, 1, "process"), WHIM_ERR_OK);
        assert_float_equal(x, 3, 0);
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    whim_comm_abort(&memory, "rank 1 died by signal 9");
    whim_comm_abort(&memory, "a later reason");
    float x = 2;
    while (whim_comm_all_reduce(&comm, NULL, &x, 1, "process") == WHIM_ERR_OK) {
    }
    assert_string_equal(comm.diag.text, "rank 1 died by signal 9");
    whim_comm_memory_close(&memory);
}

static void other_memory_is_refused(void **state)
{
    (void)state;
    whim_comm_memory memory;
    whim_diag diag = {""};
    assert_int_equal(whim_comm_memory_make(0, &memory, &diag), WHIM_ERR_INVALID);
    assert_int_equal(whim_comm_memory_make(WHIM_COMM_MAX_RANK + 1, &memory, &diag),
                     WHIM_ERR_INVALID);
    assert_non_null(strstr(diag.text, "1025 ranks"));
    int fd = open("/dev/null", O_RDWR);
    assert_int_equal(whim_comm_memory_join(fd, &memory, &diag), WHIM_ERR_INVALID);
    close(fd);
    FILE *f = tmpfile();
    assert_non_null(f);
    assert_int_equal(ftruncate(fileno(f), 1 << 20), 0);
    assert_int_equal(whim_comm_memory_join(fileno(f), &memory, &diag), WHIM_ERR_INVALID);
    fclose(f);
}

/* A rank that was stopped itself, as all of a machine may be, has not waited for that long. */
static void own_stops_are_no_wait(void **state)
{
    (void)state;
    whim_comm_wait wait = {0};
    int64_t now = 5 * WHIM_NS_PER_S, waited = whim_comm_wait_look(&wait, now);
    assert_int_equal(waited, 0);
    for (int32_t i = 1; i <= 50; i++) { /* naps count as they are */
        now += 10 * WHIM_NS_PER_MS;
        assert_int_equal(whim_comm_wait_look(&wait, now), i * 10 * WHIM_NS_PER_MS);
    }
    now += 3600 * WHIM_NS_PER_S;
    waited = whim_comm_wait_look(&wait, now);
    assert_int_equal(waited, 500 * WHIM_NS_PER_MS + WHIM_COMM_LOOK_NS);
    now += 3 * WHIM_NS_PER_MS;
    assert_int_equal(whim_comm_wait_look(&wait, now), waited + 3 * WHIM_NS_PER_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_add_in_the_order_of_ranks),
        cmocka_unit_test(all_kinds_agree_with_plain_loops),
        cmocka_unit_test(many_calls_keep_step),
        cmocka_unit_test(counts_outlast_what_is_told),
        cmocka_unit_test(other_calls_are_told),
        cmocka_unit_test(other_cuts_are_told),
        cmocka_unit_test(absent_ranks_are_named),
        cmocka_unit_test(own_stops_are_no_wait),
        cmocka_unit_test(processes_are_ranks_and_may_die),
        cmocka_unit_test(other_memory_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
