/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring memory and arithmetic. Work is cut into items that threads take one by one, so that a
 * thread that is held up delays a pass by one item only. */
#include "engine/machine.h"

#include "base/clock.h"
#include "base/os/mem.h"
#include "base/os/procfile.h"
#include "base/str.h"
#include "base/thread.h"

#include <stdbool.h>
#include <string.h>

enum {
    SLAB = 4 << 20, /* bytes of one read item: some 100 us, thousands of times a hand-over */
    READ_STREAMS = 2,
    READ_LANES = 4, /* of 16 bytes: one line of most caches */
    LEAST_PASSES = 2,
    READ_PASSES = 4, /* of one timing, so that starting the threads is little against it */
    FMA_LANES = 64,  /* floats in flight: 16 vectors of 4 */
    PEAK_ITEM_US = 100,
    PEAK_ITEMS = 32, /* for each thread: milliseconds, against which starting a thread is little */
};

static const int64_t buffer_least = INT64_C(256) << 20;

typedef uint64_t pair __attribute__((vector_size(16)));

typedef struct reading {
    const char *buffer;
    int64_t n_slab;
    uint64_t *sums; /* [READ_PASSES * n_slab]; keeps the loads from being optimised away */
} reading;

static whim_err touch_slab(void *ctx, int64_t item, int32_t worker)
{
    (void)worker;
    char *buffer = ctx;
    memset(buffer + item * SLAB, (int)item + 1, SLAB);
    return WHIM_ERR_OK;
}

/* Several places of the slab at once: one core then has more lines on their way from memory than
 * its prefetcher keeps for a single walk. */
__attribute__((optimize("O3"))) static whim_err read_slab(void *ctx, int64_t item, int32_t worker)
{
    (void)worker;
    const reading *r = ctx;
    const char *base = r->buffer + item % r->n_slab * SLAB;
    pair sum[READ_STREAMS][READ_LANES] = {0};
    for (int64_t at = 0; at < SLAB / READ_STREAMS; at += READ_LANES * (int64_t)sizeof(pair)) {
        for (int s = 0; s < READ_STREAMS; s++) {
            const char *from = base + s * (SLAB / READ_STREAMS) + at;
            for (int i = 0; i < READ_LANES; i++) {
                pair value;
                memcpy(&value, from + i * (int)sizeof(pair), sizeof value);
                sum[s][i] += value;
            }
        }
    }
    pair total = {0};
    for (int i = 0; i < READ_STREAMS * READ_LANES; i++) {
        total += sum[i / READ_LANES][i % READ_LANES];
    }
    r->sums[item] = total[0] + total[1];
    return WHIM_ERR_OK;
}

/* The last-level cache as the kernel tells it, 0 when it does not. */
static int64_t cache_bytes(void)
{
    char text[32];
    int64_t bytes = 0;
    if (whim_os_file_text("/sys/devices/system/cpu/cpu0/cache/index3/size", text, sizeof text) <=
        0) {
        return 0;
    }
    text[strcspn(text, "\n")] = '\0';
    return whim_parse_bytes(text, &bytes, NULL) == WHIM_ERR_OK ? bytes : 0;
}

/* Large against the cache, small against what is free. */
static int64_t buffer_bytes(void)
{
    int64_t bytes = 4 * cache_bytes();
    int64_t room = whim_os_mem_available() / 4;
    bytes = bytes > buffer_least ? bytes : buffer_least;
    bytes = bytes < room ? bytes : room;
    return bytes / SLAB * SLAB;
}

/* Time passes over all items until the time is up, two at least; the shortest pass in seconds. */
static whim_err best_pass(int32_t n_thread, int64_t n_item, whim_parallel_fn fn, void *ctx,
                          double seconds, double *best)
{
    int64_t start = whim_clock_ns();
    int64_t stop = start + (int64_t)(seconds * (double)WHIM_NS_PER_S);
    *best = 0;
    int64_t before = start;
    for (int32_t n = 0; n < LEAST_PASSES || before < stop; n++) {
        WHIM_TRY(whim_parallel_for(n_thread, n_item, fn, ctx));
        int64_t after = whim_clock_ns();
        double pass = (double)(after - before) / (double)WHIM_NS_PER_S;
        *best = *best == 0 || pass < *best ? pass : *best;
        before = after;
    }
    return WHIM_ERR_OK;
}

whim_err whim_machine_read_gbs(int32_t n_thread, double seconds, double *gbs, whim_diag *diag)
{
    whim_err err = WHIM_ERR_OK;
    int64_t bytes = buffer_bytes();
    int64_t n_slab = bytes / SLAB;
    int64_t sum_bytes = READ_PASSES * n_slab * (int64_t)sizeof(uint64_t);
    double best;
    char *buffer = whim_os_pages_alloc(bytes);
    reading r = {.buffer = buffer, .n_slab = n_slab, .sums = whim_os_pages_alloc(sum_bytes)};
    if (buffer == NULL || r.sums == NULL) {
        err = whim_fail(
            diag, WHIM_ERR_NO_MEMORY,
            "measuring the memory's speed needs a buffer of %lld MiB, and there is no room",
            (long long)(buffer_least >> 20));
        goto out;
    }
    WHIM_TRY_OUT(whim_parallel_for(n_thread, n_slab, touch_slab, buffer));
    WHIM_TRY_OUT(best_pass(n_thread, READ_PASSES * n_slab, read_slab, &r, seconds, &best));
    *gbs = READ_PASSES * (double)bytes / best / 1e9;
out:
    whim_os_pages_free(buffer, buffer != NULL ? bytes : 0);
    whim_os_pages_free(r.sums, r.sums != NULL ? sum_bytes : 0);
    return err;
}

/* Rounds of independent multiply-adds; -O3 keeps the lanes in vector registers. Where the baseline
 * has no fused instruction, a multiplication and an addition stand for it, with the sum inside the
 * product: a product of constants would be computed once. */
__attribute__((optimize("O3"))) static int64_t baseline_macs(whim_dtype dtype, int64_t rounds)
{
    (void)dtype;
    float lane[FMA_LANES];
    volatile float unknown = 0.875f; /* when compiled */
    float scale = unknown;
    for (int i = 0; i < FMA_LANES; i++) {
        lane[i] = (float)i;
    }
    for (int64_t round = 0; round < rounds; round++) {
        for (int i = 0; i < FMA_LANES; i++) {
#ifdef __FP_FAST_FMAF
            lane[i] = __builtin_fmaf(scale, 0.5f, lane[i]);
#else
            lane[i] = lane[i] * scale + 0.5f;
#endif
        }
    }
    float sum = 0;
    for (int i = 0; i < FMA_LANES; i++) {
        sum += lane[i];
    }
    unknown = sum;
    return rounds * FMA_LANES;
}

typedef struct adding {
    whim_peak_macs *fn;
    whim_dtype dtype;
    int64_t rounds;
} adding;

static whim_err peak_item(void *ctx, int64_t item, int32_t worker)
{
    (void)item;
    (void)worker;
    const adding *a = ctx;
    a->fn(a->dtype, a->rounds);
    return WHIM_ERR_OK;
}

/* Rounds that take long enough to be an item; the multiply-adds of so many. */
static int64_t peak_calibrate(adding *a)
{
    for (a->rounds = 64;; a->rounds *= 2) {
        int64_t start = whim_clock_ns();
        int64_t macs = a->fn(a->dtype, a->rounds);
        if (whim_clock_ns() - start >= PEAK_ITEM_US * 1000) {
            return macs;
        }
    }
}

whim_err whim_machine_peak_gflops(const whim_device_caps *caps, whim_dtype dtype, int32_t n_thread,
                                  double seconds, double *gflops)
{
    int64_t n_item = (int64_t)n_thread * PEAK_ITEMS;
    adding a = {.fn = caps != NULL && caps->peak_macs != NULL ? caps->peak_macs : baseline_macs,
                .dtype = dtype};
    double best;
    double macs = (double)peak_calibrate(&a) * (double)n_item;
    WHIM_TRY(best_pass(n_thread, n_item, peak_item, &a, seconds, &best));
    *gflops = 2.0 * macs / best / 1e9;
    return WHIM_ERR_OK;
}
