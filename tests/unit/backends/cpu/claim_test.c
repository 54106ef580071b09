/* SPDX-License-Identifier: Apache-2.0 */
/* Sharing a command's items among workers: each exactly once, whoever is slow, list after list. */
#include "backends/cpu/workers.h"
#include "support/cmocka.h"

#include "base/clock.h"

#include <sched.h>
#include <string.h>
#include <time.h>

enum { MAX_WORKERS = 17, MAX_ITEMS = 1000, N_HIT = MAX_ITEMS * (MAX_ITEMS + 1) / 2, REPLAYS = 3 };

/* Plain bytes: an item given to two workers is a data race too, which the thread sanitizer sees. */
static unsigned char hits[N_HIT];
static atomic_bool went_on; /* a claim that was over gave items again */
static whim_cpu_command commands[MAX_ITEMS + 1];

typedef struct mark_args {
    unsigned char *hit; /* [n_item] */
    int64_t n_item;
    int32_t slow; /* number of the worker that naps before its first item; -1: none */
} mark_args;

static void mark(const void *args, const whim_cpu_worker *worker)
{
    const mark_args *a = args;
    if (worker->index == a->slow) {
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    }
    whim_cpu_claim c = whim_cpu_claim_open(worker, a->n_item);
    while (whim_cpu_claim_next(&c)) {
        for (int64_t i = c.begin; i < c.end; i++) {
            a->hit[i]++;
        }
    }
    if (whim_cpu_claim_next(&c)) { /* it stays so */
        atomic_store(&went_on, true);
    }
}

/* One command for each number of items, in one list; the barriers that stand in it: every
 * `every`-th. */
static void record(int32_t every, int32_t n_worker)
{
    unsigned char *hit = hits;
    for (int64_t n = 0; n <= MAX_ITEMS; n++) {
        mark_args a = {hit, n, n % 97 == 0 ? (int32_t)(n % n_worker) : -1};
        commands[n] = (whim_cpu_command){.kernel = mark, .barrier = every > 0 && n % every == 0};
        memcpy(commands[n].args, &a, sizeof a);
        hit += n;
    }
}

static void every_item_once(void **state)
{
    (void)state;
    for (int32_t n_worker = 1; n_worker <= MAX_WORKERS; n_worker++) {
        whim_cpu_workers w;
        assert_int_equal(whim_cpu_workers_init(&w, n_worker, 0, 1, NULL), WHIM_ERR_OK);
        record(n_worker % 2 == 0 ? 0 : 3 * n_worker, n_worker);
        memset(hits, 0, sizeof hits);
        for (int replay = 1; replay <= REPLAYS; replay++) {
            whim_cpu_workers_run(&w, commands, MAX_ITEMS + 1);
            assert_false(atomic_load(&went_on));
            for (int64_t i = 0; i < N_HIT; i++) {
                assert_int_equal(hits[i], replay);
            }
        }
        whim_cpu_workers_deinit(&w);
    }
}

enum { STALL_ITEMS = 96, STALL_WORKERS = 4, STALL_OWN = STALL_ITEMS / (2 * STALL_WORKERS) };

static atomic_llong done_by_others;
static atomic_bool gave_up;

/* The first worker stops in its own part until the others have done all the rest. */
static void stall(const void *args, const whim_cpu_worker *worker)
{
    const mark_args *a = args;
    whim_cpu_claim c = whim_cpu_claim_open(worker, a->n_item);
    while (whim_cpu_claim_next(&c)) {
        int64_t start = whim_clock_ns();
        while (worker->index == 0 && atomic_load(&done_by_others) < STALL_ITEMS - STALL_OWN) {
            if (whim_clock_ns() - start > INT64_C(20000000000)) {
                atomic_store(&gave_up, true);
                return;
            }
            sched_yield();
        }
        for (int64_t i = c.begin; i < c.end; i++) {
            a->hit[i]++;
        }
        atomic_fetch_add(&done_by_others, worker->index == 0 ? 0 : c.end - c.begin);
    }
}

static void others_take_over(void **state)
{
    (void)state;
    whim_cpu_workers w;
    mark_args a = {hits, STALL_ITEMS, -1};
    whim_cpu_command command = {.kernel = stall};
    memcpy(command.args, &a, sizeof a);
    memset(hits, 0, sizeof hits);
    assert_int_equal(whim_cpu_workers_init(&w, STALL_WORKERS, 0, 1, NULL), WHIM_ERR_OK);
    whim_cpu_workers_run(&w, &command, 1);
    whim_cpu_workers_deinit(&w);
    assert_false(atomic_load(&gave_up));
    for (int64_t i = 0; i < STALL_ITEMS; i++) {
        assert_int_equal(hits[i], 1);
    }
}

/* A lone worker, and workers with an item each at most, take no ticket. */
static void few_items_need_no_ticket(void **state)
{
    (void)state;
    for (int32_t count = 1; count <= MAX_WORKERS; count++) {
        whim_cpu_ticket ticket = {0};
        int64_t most = count == 1 ? MAX_ITEMS : count, n_done = 0;
        for (int32_t index = 0; index < count; index++) {
            whim_cpu_worker worker = {.index = index, .count = count, .ticket = &ticket};
            whim_cpu_claim c = whim_cpu_claim_open(&worker, most);
            while (whim_cpu_claim_next(&c)) {
                n_done += c.end - c.begin;
            }
        }
        assert_int_equal(n_done, most);
        assert_int_equal(atomic_load(&ticket.next), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_once),
        cmocka_unit_test(others_take_over),
        cmocka_unit_test(few_items_need_no_ticket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
