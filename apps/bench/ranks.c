/* SPDX-License-Identifier: Apache-2.0 */
/* whimbrel bench --ranks N: how long collectives between N ranks of this host take, without a
 * model. Ranks are threads here, each on a CPU of its own as far as there are. */
#include "base/clock.h"
#include "base/os/cpu.h"
#include "base/thread.h"
#include "bench/bench.h"
#include "cmd.h"
#include "comm/comm.h"
#include "tensor/act.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { WAIT_S = 60, WARM_CALLS = 50 };

static const int64_t sizes[] = {256, 4096, 32768, 262144, 1048576};
enum { N_SIZE = sizeof sizes / sizeof sizes[0] };

typedef enum timed {
    ALL_REDUCE,
    ALL_GATHER,
    BROADCAST,
    TIMED, /* the others have a size */
    EXPERTS = TIMED,
    AS_ONE,
    CHOICES_FIRST
} timed;

/* Rows to experts and their results back, as of qwen3-30b-a3b with block types: a row of int8 and
 * its choices go out, results come back as F32. */
enum { WIDTH = 2048, TOP_K = 8, N_EXPERT = 128, MAX_ROWS = 8, MAX_RANK = 64 };
static const int64_t expert_rows[] = {1, MAX_ROWS}; /* of each rank */
enum { N_ROWS = sizeof expert_rows / sizeof expert_rows[0] };
enum { STEP_ROWS = 512 }; /* of all ranks, of a prompt: their way to experts alone */
static_assert(MAX_ROWS * MAX_RANK <= STEP_ROWS, "choices of a few rows of each rank");

typedef struct bench_rank {
    whim_comm comm;
    whim_thread thread;
    whim_err err;
    char *in, *out;
    char *lines, *results; /* of experts */
    int32_t choices[STEP_ROWS * TOP_K], firsts[MAX_RANK + 1];
    int64_t n_repeat;
    double us[N_SIZE][TIMED]; /* for one call, the best of all repeats */
    double expert_us[N_ROWS], as_one_us, choices_first_us;
} bench_rank;

static whim_err call(bench_rank *r, timed kind, int64_t bytes)
{
    int64_t parts[WHIM_COMM_MAX_RANK];
    switch (kind) {
    case ALL_REDUCE:
        return whim_comm_all_reduce(&r->comm, NULL, (float *)r->out, bytes / 4, "bench");
    case ALL_GATHER:
        for (int32_t i = 0; i < r->comm.n_rank; i++) {
            parts[i] = bytes * (i + 1) / r->comm.n_rank - bytes * i / r->comm.n_rank;
        }
        return whim_comm_all_gather(&r->comm, r->in, parts, r->out, "bench");
    default:
        return whim_comm_broadcast(&r->comm, r->out, bytes, 0, "bench");
    }
}

/* n_row rows of each rank, to all ranks. */
static whim_err gather(bench_rank *r, int64_t n_row, int64_t row_bytes, const char *site)
{
    int64_t cols[WHIM_COMM_MAX_RANK];
    for (int32_t i = 0; i < r->comm.n_rank; i++) {
        cols[i] = row_bytes / 4;
    }
    return whim_comm_all_gather_rows(&r->comm, NULL, (float *)r->in, cols, n_row, (float *)r->lines,
                                     site);
}

/* The messages of layers/ranks/dealt_rows.h. A line is a row with its choices behind it. */
enum { CHOICE_BYTES = TOP_K * 4 };

static int64_t expert_row_bytes(void)
{
    return whim_act_bytes(WHIM_ACT_Q8, WIDTH);
}

static whim_err as_one_call(bench_rank *r, int64_t n_row)
{
    return gather(r, n_row, expert_row_bytes() + CHOICE_BYTES, "rows");
}

static whim_err choices_first_call(bench_rank *r, int64_t n_row)
{
    WHIM_TRY(gather(r, n_row, CHOICE_BYTES, "choices"));
    return whim_comm_exchange(&r->comm, NULL,
                              &(whim_comm_rows){.x = r->lines,
                                                .n = n_row * r->comm.n_rank,
                                                .row_bytes = expert_row_bytes(),
                                                .keys = r->choices,
                                                .n_key = TOP_K,
                                                .firsts = r->firsts},
                              "rows");
}

/* All lines to all ranks, then results to the ranks of their rows. */
static whim_err experts_call(bench_rank *r, int64_t n_row)
{
    WHIM_TRY(as_one_call(r, n_row));
    return whim_comm_exchange(&r->comm, NULL,
                              &(whim_comm_rows){.x = r->results,
                                                .n = n_row * r->comm.n_rank * TOP_K,
                                                .row_bytes = WIDTH * 4,
                                                .keys = r->choices,
                                                .firsts = r->firsts,
                                                .wanted_by_each = TOP_K},
                              "results");
}

static whim_err any_call(bench_rank *r, timed kind, int64_t size)
{
    return kind == EXPERTS         ? experts_call(r, size)
           : kind == AS_ONE        ? as_one_call(r, size)
           : kind == CHOICES_FIRST ? choices_first_call(r, size)
                                   : call(r, kind, size);
}

/* So many calls that they take some milliseconds. */
static whim_err time_calls(bench_rank *r, timed kind, int64_t size, double *us)
{
    int64_t bytes = kind == EXPERTS  ? size * TOP_K * WIDTH * 4
                    : kind > EXPERTS ? size * expert_row_bytes()
                                     : size;
    int64_t n = 1000000000 / (bytes * r->comm.n_rank + 200000);
    for (int32_t i = 0; i < WARM_CALLS; i++) {
        WHIM_TRY(any_call(r, kind, size));
    }
    WHIM_TRY(whim_comm_barrier(&r->comm, "begin"));
    int64_t start = whim_clock_ns();
    for (int64_t i = 0; i < n; i++) {
        WHIM_TRY(any_call(r, kind, size));
    }
    double one = (double)(whim_clock_ns() - start) / 1e3 / (double)n;
    *us = *us == 0 || one < *us ? one : *us;
    return WHIM_ERR_OK;
}

/* To the CPU of the rank's number, of those that the process may use. */
static void pin(int32_t rank)
{
    const whim_os_mask *all = whim_os_cpu_mask();
    whim_os_mask one = {{0}};
    int32_t left = rank % whim_os_cpu_mask_count();
    for (int64_t cpu = 0; cpu < WHIM_OS_CPUS_MAX; cpu++) {
        if (whim_os_mask_has(all, cpu) && left-- == 0) {
            whim_os_mask_add(&one, cpu);
            whim_os_thread_set_mask(&one);
        }
    }
}

/* Experts that rows chose, spread evenly, and whose they are. */
static void choices_make(bench_rank *r)
{
    for (int32_t i = 0; i <= r->comm.n_rank; i++) {
        r->firsts[i] = N_EXPERT * i / r->comm.n_rank;
    }
    for (int32_t i = 0; i < STEP_ROWS * TOP_K; i++) {
        r->choices[i] = i * 37 % N_EXPERT;
    }
}

static void rank_run(void *ctx)
{
    bench_rank *r = ctx;
    pin(r->comm.rank);
    choices_make(r);
    for (int64_t k = 0; k < r->n_repeat; k++) {
        for (int32_t i = 0; i < N_SIZE * TIMED && r->err == WHIM_ERR_OK; i++) {
            r->err =
                time_calls(r, (timed)(i % TIMED), sizes[i / TIMED], &r->us[i / TIMED][i % TIMED]);
        }
        for (int32_t i = 0; i < N_ROWS && r->err == WHIM_ERR_OK; i++) {
            r->err = time_calls(r, EXPERTS, expert_rows[i], &r->expert_us[i]);
        }
        int64_t n_row = STEP_ROWS / r->comm.n_rank;
        if (r->err == WHIM_ERR_OK) {
            r->err = time_calls(r, AS_ONE, n_row, &r->as_one_us);
        }
        if (r->err == WHIM_ERR_OK) {
            r->err = time_calls(r, CHOICES_FIRST, n_row, &r->choices_first_us);
        }
    }
}

static whim_err ranks_run(bench_rank *ranks, int32_t n, const whim_comm_memory *memory,
                          int64_t n_repeat, whim_diag *diag)
{
    whim_err err = WHIM_ERR_OK;
    int32_t n_begun = 0;
    int64_t most = sizes[N_SIZE - 1];
    for (; n_begun < n && err == WHIM_ERR_OK; n_begun++) {
        bench_rank *r = &ranks[n_begun];
        whim_comm_open(&r->comm, memory,
                       &(whim_comm_cfg){.rank = n_begun,
                                        .wait_ns = WAIT_S * WHIM_NS_PER_S,
                                        .crowded = n > whim_os_cpu_count()});
        r->n_repeat = n_repeat;
        r->in = calloc(1, (size_t)most);
        r->out = calloc(1, (size_t)most);
        r->lines = calloc(STEP_ROWS, (size_t)(expert_row_bytes() + CHOICE_BYTES));
        r->results = calloc((size_t)(MAX_ROWS * n * TOP_K), WIDTH * 4);
        bool got = r->in != NULL && r->out != NULL && r->lines != NULL && r->results != NULL;
        err = whim_got(got, diag, "no memory for a rank's message");
        if (err == WHIM_ERR_OK) {
            err = whim_thread_create(&r->thread, "rank", rank_run, r, diag);
        }
    }
    if (err != WHIM_ERR_OK) {
        whim_comm_abort(memory, diag->text);
        n_begun--; /* the one that did not begin */
    }
    for (int32_t i = 0; i < n_begun; i++) {
        whim_thread_join(&ranks[i].thread);
        if (err == WHIM_ERR_OK && ranks[i].err != WHIM_ERR_OK) {
            err = whim_fail(diag, ranks[i].err, "%s", ranks[i].comm.diag.text);
        }
    }
    for (int32_t i = 0; i < n; i++) {
        free(ranks[i].in);
        free(ranks[i].out);
        free(ranks[i].lines);
        free(ranks[i].results);
    }
    return err;
}

static void size_append(const whim_options *options, const bench_rank *ranks, int32_t size,
                        whim_str *out)
{
    double us[TIMED] = {0}; /* of the slowest rank */
    for (int32_t i = 0; i < options->ranks * TIMED; i++) {
        double one = ranks[i / TIMED].us[size][i % TIMED];
        us[i % TIMED] = one > us[i % TIMED] ? one : us[i % TIMED];
    }
    whim_str_printf(out,
                    options->json ? "{\"ranks\":%lld,\"bytes\":%lld,\"all_reduce_us\":%.3f,"
                                    "\"all_gather_us\":%.3f,\"broadcast_us\":%.3f}\n"
                                  : "%5lld %9lld %11.2f %11.2f %11.2f\n",
                    (long long)options->ranks, (long long)sizes[size], us[ALL_REDUCE],
                    us[ALL_GATHER], us[BROADCAST]);
}

static void experts_append(const whim_options *options, const bench_rank *ranks, int32_t which,
                           whim_str *out)
{
    double us = 0;
    for (int32_t i = 0; i < options->ranks; i++) {
        us = ranks[i].expert_us[which] > us ? ranks[i].expert_us[which] : us;
    }
    if (options->json) {
        whim_str_printf(out, "{\"ranks\":%lld,\"expert_rows\":%lld,\"experts_us\":%.3f}\n",
                        (long long)options->ranks, (long long)expert_rows[which], us);
    } else {
        whim_str_printf(out,
                        "%5lld rows of each to experts and back: %.2f (width %d, %d of %d "
                        "experts, rows of int8)\n",
                        (long long)expert_rows[which], us, WIDTH, TOP_K, N_EXPERT);
    }
}

static void step_append(const whim_options *options, const bench_rank *ranks, whim_str *out)
{
    double as_one = 0, first = 0;
    for (int32_t i = 0; i < options->ranks; i++) {
        as_one = ranks[i].as_one_us > as_one ? ranks[i].as_one_us : as_one;
        first = ranks[i].choices_first_us > first ? ranks[i].choices_first_us : first;
    }
    whim_str_printf(
        out,
        options->json ? "{\"ranks\":%lld,\"step_rows\":%lld,\"as_one_us\":%.3f,"
                        "\"choices_first_us\":%.3f}\n"
                      : "%5lld ranks, %lld rows of each to experts: %.2f as one message, "
                        "%.2f with the choices first\n",
        (long long)options->ranks, (long long)(STEP_ROWS / options->ranks), as_one, first);
}

int bench_ranks(const whim_options *options)
{
    int32_t n = (int32_t)options->ranks;
    whim_comm_memory memory = {0};
    whim_diag diag = {""};
    whim_str out = {0};
    bench_rank *ranks = calloc((size_t)n, sizeof *ranks);
    whim_err err = whim_got(ranks != NULL, &diag, "no memory for %d ranks", n);
    if (err == WHIM_ERR_OK) {
        err = whim_comm_memory_make(n, &memory, &diag);
    }
    if (err == WHIM_ERR_OK) {
        err = ranks_run(ranks, n, &memory, options->repeats, &diag);
    }
    if (err == WHIM_ERR_OK && !options->json) {
        whim_str_printf(&out, "%5s %9s %11s %11s %11s  microseconds, the best of %lld\n", "ranks",
                        "bytes", "all_reduce", "all_gather", "broadcast",
                        (long long)options->repeats);
    }
    for (int32_t i = 0; err == WHIM_ERR_OK && i < N_SIZE; i++) {
        size_append(options, ranks, i, &out);
    }
    for (int32_t i = 0; err == WHIM_ERR_OK && i < N_ROWS; i++) {
        experts_append(options, ranks, i, &out);
    }
    if (err == WHIM_ERR_OK) {
        step_append(options, ranks, &out);
    }
    whim_comm_memory_close(&memory);
    free(ranks);
    if (err == WHIM_ERR_OK && !print_out(&out)) {
        err = whim_fail(&diag, WHIM_ERR_IO, "the results could not be written");
    }
    whim_str_deinit(&out);
    return err == WHIM_ERR_OK ? EXIT_OK : complain(EXIT_FAILED, "%s", diag.text);
}
