/* SPDX-License-Identifier: Apache-2.0 */
/* The workers: every command on every worker, barriers that hold, sleep between lists. */
#include "backends/cpu/workers.h"
#include "support/cmocka.h"

#include "base/clock.h"
#include "base/os/cpu.h"

#include <string.h>
#include <time.h>

enum { MAX_WORKERS = 64, MAX_COMMANDS = 16, LISTS = 4000, FEW_LISTS = 300, CREATIONS = 200 };

/* What the commands of a list work on. Plain memory: a barrier that does not hold is a data race,
 * which the thread sanitizer sees too. */
typedef struct board {
    int64_t cell[2][MAX_WORKERS];
    int64_t wrong[MAX_WORKERS];
} board;

typedef struct turn {
    board *board;
    int64_t number;
} turn;

static whim_cpu_command command(whim_cpu_kernel *kernel, bool barrier, board *b, int64_t number)
{
    whim_cpu_command c = {.kernel = kernel, .barrier = barrier};
    memcpy(c.args, &(turn){b, number}, sizeof(turn));
    return c;
}

/* Turn t reads what all workers wrote in turn t - 1 and writes for turn t + 1. */
static void pass_on(const void *args, const whim_cpu_worker *worker)
{
    const turn *t = args;
    for (int32_t i = 0; i < worker->count; i++) {
        t->board->wrong[worker->index] += t->board->cell[t->number & 1][i] != t->number;
    }
    t->board->cell[~t->number & 1][worker->index] = t->number + 1;
}

/* The worker's own cell only: needs no barrier. */
static void count_up(const void *args, const whim_cpu_worker *worker)
{
    const turn *t = args;
    t->board->wrong[worker->index] += t->board->cell[0][worker->index] != t->number;
    t->board->cell[0][worker->index] = t->number + 1;
}

static int64_t wrongs(const board *b)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < MAX_WORKERS; i++) {
        sum += b->wrong[i];
    }
    return sum;
}

/* Lists of 1 .. MAX_COMMANDS turns; the next list goes on where the last one stopped. */
static void play(whim_cpu_workers *w, whim_cpu_kernel *kernel, bool barrier, int32_t lists)
{
    static board b;
    whim_cpu_command commands[MAX_COMMANDS];
    int64_t number = 0;
    memset(&b, 0, sizeof b);
    for (int32_t list = 0; list < lists; list++) {
        int32_t n = list % MAX_COMMANDS + 1;
        for (int32_t i = 0; i < n; i++) {
            commands[i] = command(kernel, barrier, &b, number++);
        }
        whim_cpu_workers_run(w, commands, n);
    }
    assert_int_equal(wrongs(&b), 0);
    for (int32_t i = 0; i < w->count; i++) {
        assert_int_equal(b.cell[kernel == pass_on ? number & 1 : 0][i], number);
    }
}

static int32_t most_workers(void)
{
    int32_t n = whim_os_cpu_count();
    return n < MAX_WORKERS / 2 ? n : MAX_WORKERS / 2;
}

static void barriers_hold(void **state)
{
    (void)state;
    for (int32_t n = 1; n <= most_workers(); n = n < 4 ? n + 1 : 2 * n) {
        whim_cpu_workers w;
        assert_int_equal(whim_cpu_workers_init(&w, n, 0, 1, NULL), WHIM_ERR_OK);
        assert_int_equal(w.count, n);
        play(&w, pass_on, true, LISTS);
        whim_cpu_workers_deinit(&w);
    }
}

/* More workers than CPUs: every barrier goes through yields, many through sleep. */
static void barriers_hold_without_cpus(void **state)
{
    (void)state;
    whim_cpu_workers w;
    assert_int_equal(whim_cpu_workers_init(&w, most_workers() + 2, 0, 1, NULL), WHIM_ERR_OK);
    play(&w, pass_on, true, FEW_LISTS);
    whim_cpu_workers_deinit(&w);
}

/* Without barriers a worker may run ahead, but runs each command once and in order; the end of the
 * list is a barrier: the results of all are there. */
static void lists_without_barriers(void **state)
{
    (void)state;
    whim_cpu_workers w;
    assert_int_equal(whim_cpu_workers_init(&w, most_workers(), 0, 1, NULL), WHIM_ERR_OK);
    play(&w, count_up, false, LISTS);
    whim_cpu_workers_run(&w, NULL, 0);
    whim_cpu_workers_deinit(&w);
}

/* Fill the scratch with the worker's number, look at it one command later. */
static void scratch_fill(const void *args, const whim_cpu_worker *worker)
{
    (void)args;
    memset(worker->scratch, worker->index + 1, WHIM_CPU_SCRATCH);
}

static void scratch_check(const void *args, const whim_cpu_worker *worker)
{
    const turn *t = args;
    const char *scratch = worker->scratch;
    bool good = (uintptr_t)scratch % 64 == 0;
    for (int32_t i = 0; i < WHIM_CPU_SCRATCH; i++) {
        good = good && scratch[i] == (char)(worker->index + 1);
    }
    t->board->cell[0][worker->index] = good ? worker->count : -1;
}

static void workers_have_their_own_scratch(void **state)
{
    (void)state;
    int32_t n = most_workers() + 1;
    whim_cpu_workers w;
    static board b;
    whim_cpu_command commands[] = {command(scratch_fill, false, &b, 0),
                                   command(scratch_check, true, &b, 0)};
    assert_int_equal(whim_cpu_workers_init(&w, n, 0, 1, NULL), WHIM_ERR_OK);
    whim_cpu_workers_run(&w, commands, 2);
    whim_cpu_workers_deinit(&w);
    for (int32_t i = 0; i < n; i++) {
        assert_int_equal(b.cell[0][i], n);
    }
}

static void workers_come_and_go(void **state)
{
    (void)state;
    for (int32_t i = 0; i < CREATIONS; i++) {
        whim_cpu_workers w;
        assert_int_equal(whim_cpu_workers_init(&w, i % 5 + 1, 0, 1, NULL), WHIM_ERR_OK);
        play(&w, pass_on, true, i % 3); /* every third leaves without having worked */
        whim_cpu_workers_deinit(&w);
    }
}

typedef struct rival {
    whim_cpu_workers *workers;
    board board;
} rival;

static void rival_main(void *ctx)
{
    rival *r = ctx;
    for (int64_t number = 0; number < FEW_LISTS; number += 2) {
        whim_cpu_command commands[] = {command(pass_on, true, &r->board, number),
                                       command(pass_on, true, &r->board, number + 1)};
        whim_cpu_workers_run(r->workers, commands, 2);
    }
}

/* Two threads with lists of their own: one waits for the other. */
static void lists_of_two_threads(void **state)
{
    (void)state;
    whim_cpu_workers w;
    static rival rivals[2];
    whim_thread threads[2];
    assert_int_equal(whim_cpu_workers_init(&w, most_workers(), 0, 1, NULL), WHIM_ERR_OK);
    for (int i = 0; i < 2; i++) {
        rivals[i].workers = &w;
        assert_int_equal(whim_thread_create(&threads[i], "rival", rival_main, &rivals[i], NULL),
                         WHIM_ERR_OK);
    }
    for (int i = 0; i < 2; i++) {
        whim_thread_join(&threads[i]);
        assert_int_equal(wrongs(&rivals[i].board), 0);
        assert_int_equal(rivals[i].board.cell[FEW_LISTS & 1][w.count - 1], FEW_LISTS);
    }
    whim_cpu_workers_deinit(&w);
}

/* The CPUs that each worker has while it works. */
static whim_os_mask seen[MAX_WORKERS];

static void look_at_mask(const void *args, const whim_cpu_worker *worker)
{
    (void)args;
    (void)whim_os_thread_mask(&seen[worker->index]);
}

static void workers_keep_to_their_cores(void **state)
{
    (void)state;
    int32_t n = whim_os_topology_get()->n_core < most_workers() ? whim_os_topology_get()->n_core
                                                                : most_workers();
    whim_cpu_workers w;
    whim_os_mask before, after, one = {{0}};
    whim_cpu_command commands[] = {{.kernel = look_at_mask}};
    assert_int_equal(whim_cpu_workers_init(&w, n, 0, 1, NULL), WHIM_ERR_OK);
    assert_true(whim_os_thread_mask(&before));
    whim_cpu_workers_run(&w, commands, 1);
    for (int32_t i = 0; i < n; i++) {
        for (int32_t j = 0; j < i; j++) {
            for (int32_t k = 0; k < WHIM_OS_CPUS_MAX / 64; k++) {
                assert_true((seen[i].bits[k] & seen[j].bits[k]) == 0);
            }
        }
    }
    assert_true(whim_os_thread_mask(&after)); /* the caller's thread is as free as before */
    assert_memory_equal(&before, &after, sizeof after);
    if (w.pinned) { /* and one that its owner keeps elsewhere stays there */
        whim_os_mask_add(&one, whim_os_topology_get()->cpus[w.count - 1].cpu);
        assert_true(whim_os_thread_set_mask(&one));
        whim_cpu_workers_run(&w, commands, 1);
        assert_memory_equal(&seen[0], &one, sizeof one);
    }
    whim_os_thread_unpin();
    whim_cpu_workers_deinit(&w);
}

/* Workers with nothing to do sleep in the kernel: all of them come to be counted as sleepers. */
static void idle_workers_sleep(void **state)
{
    (void)state;
    whim_cpu_workers w;
    assert_int_equal(whim_cpu_workers_init(&w, 3, 0, 1, NULL), WHIM_ERR_OK);
    for (int turns = 0; turns < 2; turns++) {
        play(&w, pass_on, true, 10);
        int64_t start = whim_clock_ns();
        while (atomic_load(&w.sleepers) < 2 && whim_clock_ns() - start < INT64_C(20000000000)) {
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        }
        assert_int_equal(atomic_load(&w.sleepers), 2);
    }
    whim_cpu_workers_deinit(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(barriers_hold),          cmocka_unit_test(barriers_hold_without_cpus),
        cmocka_unit_test(lists_without_barriers), cmocka_unit_test(workers_have_their_own_scratch),
        cmocka_unit_test(workers_come_and_go),    cmocka_unit_test(lists_of_two_threads),
        cmocka_unit_test(idle_workers_sleep),     cmocka_unit_test(workers_keep_to_their_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
