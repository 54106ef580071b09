/* SPDX-License-Identifier: Apache-2.0 */
/* Times the ops: nanoseconds of a call, bytes and operations per second, and their shares of what
 * the machine reads and of what the level's units do at most (engine/machine.h). Calls are
 * repeated, so what fits a cache is read from there and may be above the memory's share. A figure
 * is the best of a few batches of calls, so that other work on the machine disturbs it little;
 * calls are queued some at a time, as a step does it. Nothing is judged here, and the law is not
 * run: it would take most of the time. */
#include "checkop/harness.h"

#include "backends/cpu/cpu.h"
#include "engine/machine.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { N_BATCH = 5, QUEUE = 64 };
static const double batch_seconds = 0.02;
static const double ceiling_seconds = 0.2;

/* What figures are divided by; a peak is measured when its type first occurs. */
typedef struct ceilings {
    const whim_device_caps *caps;
    double gbs, gflops[WHIM_DTYPE_COUNT];
} ceilings;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds for one call of `args` on a stream that syncs, or runs at once when it has no device. */
static whim_err call_seconds(whim_stream *s, whim_op op, const void *args, int64_t n, double *out)
{
    double start = now();
    for (int64_t i = 0; i < n; i++) {
        WHIM_TRY(checkop_invoke(s, op, args));
        if (s->vt != NULL && (i % QUEUE == QUEUE - 1 || i == n - 1)) {
            WHIM_TRY(whim_stream_sync(s));
        }
    }
    *out = (now() - start) / (double)n;
    return WHIM_ERR_OK;
}

static whim_err best_seconds(whim_stream *s, whim_op op, const void *args, int32_t batches,
                             double *out)
{
    double once;
    WHIM_TRY(call_seconds(s, op, args, 1, &once));
    int64_t n = once >= batch_seconds ? 1 : 1 + (int64_t)(batch_seconds / (once + 1e-9));
    *out = once;
    for (int32_t i = 0; i < batches; i++) {
        double t;
        WHIM_TRY(call_seconds(s, op, args, n, &t));
        *out = t < *out ? t : *out;
    }
    return WHIM_ERR_OK;
}

static whim_err case_time(checkop_case *c, checkop_run *run, double *seconds)
{
    checkop_call ready;
    whim_stream *s = run->side[0].stream;
    WHIM_TRY(checkop_images_in(c, run, 0));
    for (int32_t i = 0; i < c->subject; i++) {
        checkop_resolve(c, &c->call[i], 0, ready.args.bytes);
        WHIM_TRY(checkop_invoke(s, c->call[i].op, ready.args.bytes));
    }
    WHIM_TRY(whim_stream_sync(s));
    checkop_resolve(c, &c->call[c->subject], 0, ready.args.bytes);
    return best_seconds(s, c->call[c->subject].op, ready.args.bytes, N_BATCH, seconds);
}

static double peak_of(ceilings *top, whim_dtype dtype)
{
    double *gflops = &top->gflops[dtype];
    if (*gflops == 0 && whim_machine_peak_gflops(top->caps, dtype, top->caps->n_thread,
                                                 ceiling_seconds, gflops) != WHIM_ERR_OK) {
        *gflops = 1e30;
    }
    return *gflops;
}

/* The type whose units set the peak: of the weights, where an op has some; one for all block
 * types. */
static whim_dtype unit_type(const checkop_case *c)
{
    whim_dtype dtype = c->dtype;
    for (int32_t i = 0; i < c->n_buf; i++) {
        if (c->buf[i].role == CHECKOP_WEIGHT) {
            dtype = c->buf[i].dtype;
        }
    }
    return whim_dtype_get(dtype)->kind == WHIM_DTYPE_KIND_QUANT ? WHIM_DTYPE_Q8_0 : dtype;
}

static void print_figures(const checkop_case *c, const checkop_run *run, const char *op,
                          double seconds, ceilings *top)
{
    double gbs = c->traffic / seconds * 1e-9, gflops = c->flops / seconds * 1e-9;
    printf("%-14s %-22s %-52s %12.0f %8.2f %4.0f%% %8.2f %4.0f%%\n", run->place, op, c->text,
           seconds * 1e9, gbs, 100 * gbs / top->gbs, gflops,
           100 * gflops / peak_of(top, unit_type(c)));
}

static bool op_bench(checkop_run *run, whim_op op, int32_t i, ceilings *top)
{
    static checkop_case c;
    memset(&c, 0, sizeof c);
    c.rng.state = run->seed;
    c.dtype = WHIM_DTYPE_F32;
    c.page_len = run->side[0].dev->caps.page_len;
    if (checkop_family(op)->bench == NULL || !checkop_family(op)->bench(&c, i)) {
        return false;
    }
    checkop_space_add(&c);
    checkop_fill_case(&c);
    double seconds = 0.0;
    if (checkop_case_upload(&c, run)) {
        whim_err err = case_time(&c, run, &seconds);
        if (err == WHIM_ERR_OK) {
            print_figures(&c, run, whim_op_name(op), seconds, top);
        } else {
            printf("%-14s %-22s %-52s failed: %s\n", run->place, whim_op_name(op), c.text,
                   whim_err_name(err));
        }
    }
    checkop_case_free(&c, run);
    return true;
}

int checkop_bench(const whim_backend *backend, const char *isa, const char *only, uint64_t seed)
{
    char place[64];
    snprintf(place, sizeof place, "%s%s%s", backend->name, isa != NULL ? "/" : "",
             isa != NULL ? isa : "");
    checkop_run run = {.place = place, .seed = seed};
    whim_diag diag = {{0}};
    if (checkop_run_open(&run, backend, isa, &diag) != WHIM_ERR_OK) {
        printf("%s cannot be opened: %s\n", place, diag.text);
        checkop_run_close(&run);
        return 1;
    }
    run.n_side = 1;
    if (strcmp(backend->name, "cpu") == 0) { /* its workers wait as the program's do */
        ((whim_cpu_device *)run.side[0].dev)->workers.crowded = false;
    }
    ceilings top = {.caps = &run.side[0].dev->caps};
    if (whim_machine_read_gbs(top.caps->n_thread, ceiling_seconds, &top.gbs, &diag) !=
        WHIM_ERR_OK) {
        top.gbs = 1e30;
    }
    printf("# %s: %s; reads %.1f GB/s, F32 %.1f and int8 %.1f GFLOP/s\n", place, top.caps->summary,
           top.gbs, peak_of(&top, WHIM_DTYPE_F32), peak_of(&top, WHIM_DTYPE_Q8_0));
    printf("%-14s %-22s %-52s %12s %8s %5s %8s %5s\n", "place", "op", "size", "ns", "GB/s", "share",
           "GFLOP/s", "share");
    for (int32_t op = 0; op < WHIM_OP_COUNT; op++) {
        bool wanted = only == NULL || strcmp(only, whim_op_name((whim_op)op)) == 0;
        run.name = whim_op_name((whim_op)op);
        for (int32_t i = 0; wanted && op_bench(&run, (whim_op)op, i, &top); i++) {
        }
    }
    checkop_run_close(&run);
    return 0;
}
