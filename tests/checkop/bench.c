/* SPDX-License-Identifier: Apache-2.0 */
/* Times the ops: nanoseconds of a call, bytes and operations per second, and how many times faster
 * than the law. A figure is the best of a few batches of calls, so that other work on the machine
 * disturbs it little; calls are queued some at a time, as a step does it. Nothing is
 * judged here. */
#include "checkop/harness.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { N_BATCH = 5, QUEUE = 64 };
static const double batch_seconds = 0.02;
static const double law_patience = 0.2;

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

/* The law does rows one after the other, so a slow case is timed on one row. */
static whim_err law_seconds(checkop_case *c, checkop_run *run, double *out)
{
    checkop_call ready, alone = c->call[c->subject];
    double once;
    whim_op op = alone.op;
    if (c->n_row > 1) {
        checkop_slice(c, 0, &alone);
    }
    checkop_resolve(c, &alone, -1, ready.args.bytes);
    WHIM_TRY(call_seconds(&run->law, op, ready.args.bytes, 1, &once));
    double scale = c->n_row > 1 ? (double)c->n_row : 1.0;
    *out = once * scale;
    if (*out < law_patience) {
        checkop_resolve(c, &c->call[c->subject], -1, ready.args.bytes);
        WHIM_TRY(best_seconds(&run->law, op, ready.args.bytes, 2, out));
    }
    return WHIM_ERR_OK;
}

static whim_err case_time(checkop_case *c, checkop_run *run, double *seconds, double *law)
{
    checkop_call ready;
    whim_stream *s = run->side[0].stream;
    for (int32_t i = 0; i < c->n_buf; i++) {
        memcpy(c->buf[i].law, c->buf[i].init, (size_t)c->buf[i].bytes);
    }
    WHIM_TRY(checkop_images_in(c, run, 0));
    for (int32_t i = 0; i < c->subject; i++) {
        checkop_resolve(c, &c->call[i], 0, ready.args.bytes);
        WHIM_TRY(checkop_invoke(s, c->call[i].op, ready.args.bytes));
        checkop_resolve(c, &c->call[i], -1, ready.args.bytes);
        WHIM_TRY(checkop_invoke(&run->law, c->call[i].op, ready.args.bytes));
    }
    WHIM_TRY(whim_stream_sync(s));
    checkop_resolve(c, &c->call[c->subject], 0, ready.args.bytes);
    WHIM_TRY(best_seconds(s, c->call[c->subject].op, ready.args.bytes, N_BATCH, seconds));
    return law_seconds(c, run, law);
}

static bool op_bench(checkop_run *run, whim_op op, int32_t i)
{
    static checkop_case c;
    memset(&c, 0, sizeof c);
    c.rng.state = run->seed;
    c.dtype = WHIM_DTYPE_F32;
    if (!checkop_family(op)->bench(&c, i)) {
        return false;
    }
    checkop_fill_case(&c);
    double seconds = 0.0, law = 0.0;
    if (checkop_case_upload(&c, run)) {
        whim_err err = case_time(&c, run, &seconds, &law);
        if (err == WHIM_ERR_OK) {
            printf("%-14s %-22s %-52s %12.0f %8.2f %8.2f %8.2f\n", run->place, whim_op_name(op),
                   c.text, seconds * 1e9, c.traffic / seconds * 1e-9, c.flops / seconds * 1e-9,
                   law / seconds);
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
    printf("# %s: %s\n%-14s %-22s %-52s %12s %8s %8s %8s\n", place, run.side[0].dev->caps.summary,
           "place", "op", "size", "ns", "GB/s", "GFLOP/s", "x law");
    for (int32_t op = 0; op < WHIM_OP_COUNT; op++) {
        bool wanted = only == NULL || strcmp(only, whim_op_name((whim_op)op)) == 0;
        run.name = whim_op_name((whim_op)op);
        for (int32_t i = 0; wanted && op_bench(&run, (whim_op)op, i); i++) {
        }
    }
    checkop_run_close(&run);
    return 0;
}
