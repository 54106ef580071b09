/* SPDX-License-Identifier: Apache-2.0 */
/* The guard device keeps its threats: memory out of reach, work only at sync, graphs that
 * replay. */
#include "base/alloc.h"
#include "base/os/mem.h"
#include "base/thread.h"
#include "ops/ops.h"
#include "support/cmocka.h"
#include "support/death.h"

#include <string.h>

#include <stdint.h>

extern const whim_backend whim_backend_guard;

enum { MAX_BUF = 4 };

typedef struct fixture {
    whim_device *dev;
    whim_stream *s;
    struct {
        void *ptr;
        int64_t bytes;
    } bufs[MAX_BUF]; /* freed by teardown, so that a failed test is reported and not the leak */
    int n_buf;
} fixture;

static int setup(void **state)
{
    static fixture f;
    whim_diag diag;
    f = (fixture){0};
    if (whim_backend_guard.device_open(0, &(whim_device_cfg){0}, &f.dev, &diag) != WHIM_ERR_OK ||
        whim_stream_open(f.dev, &f.s, &diag) != WHIM_ERR_OK) {
        print_error("%s\n", diag.text);
        return 1;
    }
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    whim_stream_close(f->s);
    for (int i = 0; i < f->n_buf; i++) {
        whim_device_free(f->dev, f->bufs[i].ptr, f->bufs[i].bytes);
    }
    whim_device_close(f->dev);
    return 0;
}

static void *device_bytes(fixture *f, int64_t bytes)
{
    void *ptr = NULL;
    assert_true(f->n_buf < MAX_BUF);
    assert_int_equal(whim_device_alloc(f->dev, bytes, &ptr, NULL), WHIM_ERR_OK);
    f->bufs[f->n_buf].ptr = ptr;
    f->bufs[f->n_buf++].bytes = bytes;
    assert_int_equal((uintptr_t)ptr % 64, 0);
    return ptr;
}

static float *floats(fixture *f, int64_t n)
{
    return device_bytes(f, n * 4);
}

static whim_err add_to(fixture *f, float *x, const float *y, int64_t n)
{
    return whim_op_add(
        f->s,
        &(whim_add_args){.x = x, .x_stride = n, .y = y, .y_stride = n, .n_row = 1, .n_col = n});
}

static void copy_in(fixture *f, void *dst, const void *src, int64_t bytes)
{
    assert_int_equal(whim_stream_copy_in(f->s, dst, src, bytes), WHIM_ERR_OK);
}

/* Two floats of the device after a sync. */
static void expect(fixture *f, const float *at, float a, float b)
{
    float got[2];
    assert_int_equal(whim_stream_copy_out(f->s, got, at, sizeof got), WHIM_ERR_OK);
    assert_int_equal(whim_stream_sync(f->s), WHIM_ERR_OK);
    assert_float_equal(got[0], a, 0);
    assert_float_equal(got[1], b, 0);
}

static void host_reads(void *ctx)
{
    (void)*(volatile char *)ctx;
}

static void host_writes(void *ctx)
{
    *(volatile char *)ctx = 1;
}

static void test_host_touch_faults(void **state)
{
    fixture *f = *state;
    float *x = floats(f, 5000);
    assert_int_equal(death_signal(host_reads, x), SIGSEGV);
    assert_int_equal(death_signal(host_writes, x + 4999), SIGSEGV);
    expect(f, x, 0, 0); /* new memory is zero */
    assert_int_equal(death_signal(host_reads, x), SIGSEGV);
    assert_int_equal(death_signal(host_writes, x + 4999), SIGSEGV);
}

static void test_nothing_before_sync(void **state)
{
    fixture *f = *state;
    float *x = floats(f, 2), *y = floats(f, 2);
    float src[2] = {0, 2}, got[2] = {-1, -1};
    copy_in(f, x, (float[]){1, 2}, sizeof src);
    copy_in(f, y, src, sizeof src);
    src[0] = 10; /* copies read when they run */
    assert_int_equal(add_to(f, x, y, 2), WHIM_ERR_OK);
    assert_int_equal(whim_stream_copy_out(f->s, got, x, sizeof got), WHIM_ERR_OK);
    unsigned char nonsense[sizeof got];
    memset(nonsense, 0xa5, sizeof nonsense);
    assert_memory_equal(got, nonsense, sizeof got);
    assert_int_equal(whim_stream_sync(f->s), WHIM_ERR_OK);
    assert_float_equal(got[0], 11, 0);
    assert_float_equal(got[1], 4, 0);
    /* What was never synced never happened. */
    whim_stream *other = NULL;
    assert_int_equal(whim_stream_open(f->dev, &other, NULL), WHIM_ERR_OK);
    assert_int_equal(whim_stream_copy_in(other, x, src, sizeof src), WHIM_ERR_OK);
    whim_stream_close(other);
    expect(f, x, 11, 4);
}

static void test_order_and_growth(void **state)
{
    fixture *f = *state;
    float *x = floats(f, 2), *y = floats(f, 2);
    copy_in(f, y, (float[]){1, 2}, 8);
    whim_alloc_guard_enter(); /* a step's worth of work takes nothing from the heap */
    float src[50][2];
    for (int i = 0; i < 5000; i++) {
        assert_int_equal(add_to(f, x, y, 2), WHIM_ERR_OK);
        if (i % 100 == 0) {
            src[i / 100][0] = (float)i;
            src[i / 100][1] = 0;
            copy_in(f, x, src[i / 100], 8);
        }
    }
    whim_alloc_guard_leave();
    expect(f, x, 4900 + 99, 198);
}

static void test_sync_empties_the_queue(void **state)
{
    fixture *f = *state;
    enum { BYTES = 4 << 20, ROUNDS = 24 };
    float *x = floats(f, BYTES / 4);
    char *src = whim_alloc(BYTES);
    assert_non_null(src);
    int64_t before = 0;
    for (int i = 0; i < ROUNDS; i++) {
        copy_in(f, x, src, BYTES);
        assert_int_equal(whim_stream_sync(f->s), WHIM_ERR_OK);
        before = i == 0 ? whim_os_mem_anon_resident() : before;
    }
    assert_true(whim_os_mem_anon_resident() < before + BYTES * (ROUNDS / 4));
    whim_free(src);
}

static void test_fused_op_is_composed(void **state)
{
    fixture *f = *state;
    float *m = floats(f, 8);
    copy_in(f, m, (float[]){1, 2, 3, 4, 1, 1, 0, 0}, 32);
    assert_int_equal(whim_op_add_rmsnorm(f->s, &(whim_add_rmsnorm_args){.x = m,
                                                                        .x_stride = 2,
                                                                        .delta = m + 2,
                                                                        .delta_stride = 2,
                                                                        .w = m + 4,
                                                                        .y = m + 6,
                                                                        .y_stride = 2,
                                                                        .n_row = 1,
                                                                        .n_col = 2}),
                     WHIM_ERR_OK);
    float host[8] = {1, 2, 3, 4, 1, 1, 0, 0};
    whim_stream law;
    whim_law_stream_init(&law);
    assert_int_equal(whim_op_add_rmsnorm(&law, &(whim_add_rmsnorm_args){.x = host,
                                                                        .x_stride = 2,
                                                                        .delta = host + 2,
                                                                        .delta_stride = 2,
                                                                        .w = host + 4,
                                                                        .y = host + 6,
                                                                        .y_stride = 2,
                                                                        .n_row = 1,
                                                                        .n_col = 2}),
                     WHIM_ERR_OK);
    float got[8];
    assert_int_equal(whim_stream_copy_out(f->s, got, m, sizeof got), WHIM_ERR_OK);
    assert_int_equal(whim_stream_sync(f->s), WHIM_ERR_OK);
    assert_memory_equal(got, host, sizeof host);
    assert_float_equal(got[0], 4, 0);
    assert_true(f->s->ops->add_rmsnorm == whim_ops_law()->add_rmsnorm);
    assert_true(f->s->ops->add != whim_ops_law()->add);
}

static void test_graph(void **state)
{
    fixture *f = *state;
    whim_graph *graph = NULL, *empty = NULL;
    float *x = floats(f, 2), *y = floats(f, 2), host[2];
    assert_int_equal(f->s->vt->capture_end(f->s, &graph), WHIM_ERR_INVALID);
    copy_in(f, y, (float[]){1, 2}, 8);
    assert_int_equal(f->s->vt->capture_begin(f->s), WHIM_ERR_OK);
    assert_int_equal(add_to(f, x, y, 2), WHIM_ERR_OK);
    assert_int_equal(add_to(f, x, y, 2), WHIM_ERR_OK);
    assert_int_equal(f->s->vt->capture_begin(f->s), WHIM_ERR_INVALID);
    assert_int_equal(whim_stream_copy_in(f->s, x, host, 8), WHIM_ERR_INVALID);
    assert_int_equal(whim_stream_copy_out(f->s, host, x, 8), WHIM_ERR_INVALID);
    assert_int_equal(whim_stream_sync(f->s), WHIM_ERR_INVALID);
    assert_int_equal(f->s->vt->capture_end(f->s, &graph), WHIM_ERR_OK);
    expect(f, x, 0, 0); /* recorded, not run; what was queued before capture did run */
    expect(f, y, 1, 2);
    assert_int_equal(f->s->vt->replay(f->s, graph), WHIM_ERR_OK);
    expect(f, x, 2, 4);
    copy_in(f, y, (float[]){10, 20}, 8); /* a replay sees what its inputs hold by then */
    assert_int_equal(f->s->vt->replay(f->s, graph), WHIM_ERR_OK);
    copy_in(f, y, (float[]){100, 200}, 8);
    assert_int_equal(f->s->vt->replay(f->s, graph), WHIM_ERR_OK);
    assert_int_equal(f->s->vt->replay(f->s, graph), WHIM_ERR_OK);
    expect(f, x, 2 + 20 + 400, 4 + 40 + 800);
    assert_int_equal(f->s->vt->capture_begin(f->s), WHIM_ERR_OK);
    assert_int_equal(f->s->vt->replay(f->s, graph), WHIM_ERR_INVALID);
    assert_int_equal(f->s->vt->capture_end(f->s, &empty), WHIM_ERR_OK);
    assert_int_equal(f->s->vt->replay(f->s, empty), WHIM_ERR_OK);
    expect(f, x, 422, 844);
    f->s->vt->graph_free(f->s, graph);
    f->s->vt->graph_free(f->s, empty);
    f->s->vt->graph_free(f->s, NULL);
}

/* Parts end in order; a later one is done early or not, but never before it may be. */
static void test_parts(void **state)
{
    fixture *f = *state;
    float *x = floats(f, 2), *y = floats(f, 2), got[2][2];
    whim_event event[2];
    int n_early = 0;
    copy_in(f, y, (float[]){1, 2}, 8);
    assert_int_equal(whim_stream_begin(f->s, NULL), WHIM_ERR_OK);
    for (int round = 0; round < 40; round++) {
        for (int part = 0; part < 2; part++) {
            assert_int_equal(add_to(f, x, y, 2), WHIM_ERR_OK);
            assert_int_equal(whim_stream_copy_out(f->s, got[part], x, 8), WHIM_ERR_OK);
            assert_int_equal(whim_stream_record(f->s, &event[part]), WHIM_ERR_OK);
        }
        unsigned char nonsense[8];
        memset(nonsense, 0xa5, sizeof nonsense);
        assert_memory_equal(got[0], nonsense, 8);
        assert_int_equal(whim_stream_wait(f->s, event[0]), WHIM_ERR_OK);
        assert_float_equal(got[0][0], 2 * round + 1, 0);
        n_early += memcmp(got[1], nonsense, 8) != 0;
        assert_int_equal(whim_stream_wait(f->s, event[1]), WHIM_ERR_OK);
        assert_float_equal(got[1][0], 2 * round + 2, 0);
    }
    assert_true(n_early > 0 && n_early < 40);
    assert_int_equal(whim_stream_wait(f->s, event[1] + 1), WHIM_ERR_INVALID);
}

/* A part that fails takes the next one along; each says so once it is waited for. What comes later
 * is not touched. */
static void test_parts_fail_together(void **state)
{
    fixture *f = *state;
    float *x = floats(f, 2), *y = floats(f, 2);
    whim_event event[2];
    copy_in(f, y, (float[]){1, 2}, 8);
    whim_add_args bad = {.x = x, .x_stride = 2, .y = y, .y_stride = 2, .n_row = -1, .n_col = 2};
    assert_int_equal(f->s->ops->add(f->s, &bad), WHIM_ERR_OK);
    assert_int_equal(whim_stream_record(f->s, &event[0]), WHIM_ERR_OK);
    assert_int_equal(add_to(f, x, y, 2), WHIM_ERR_OK);
    assert_int_equal(whim_stream_record(f->s, &event[1]), WHIM_ERR_OK);
    assert_int_equal(whim_stream_wait(f->s, event[0]), WHIM_ERR_INVALID);
    assert_int_equal(whim_stream_wait(f->s, event[1]), WHIM_ERR_INVALID);
    expect(f, x, 0, 0);
}

/* Pinned memory is the copy's until its event is waited for, whether it has run or not; what it
 * reads may be read. */
static void test_pinned_memory_is_waited_for(void **state)
{
    fixture *f = *state;
    float *x = floats(f, 2), *pinned[3];
    whim_event event[2];
    for (int i = 0; i < 3; i++) {
        void *p;
        assert_int_equal(whim_device_host_alloc(f->dev, 8, &p, NULL), WHIM_ERR_OK);
        pinned[i] = p;
    }
    for (int round = 0; round < 20; round++) {
        pinned[0][0] = (float)round;
        copy_in(f, x, pinned[0], 8);
        for (int part = 0; part < 2; part++) {
            assert_int_equal(whim_stream_copy_out(f->s, pinned[1 + part], x, 8), WHIM_ERR_OK);
            assert_int_equal(whim_stream_record(f->s, &event[part]), WHIM_ERR_OK);
        }
        assert_float_equal(pinned[0][0], round, 0);
        assert_int_equal(death_signal(host_writes, pinned[0]), SIGSEGV);
        assert_int_equal(death_signal(host_reads, pinned[1]), SIGSEGV);
        assert_int_equal(whim_stream_wait(f->s, event[0]), WHIM_ERR_OK);
        assert_float_equal(pinned[1][0], round, 0);
        pinned[0][0] = -1;
        assert_int_equal(death_signal(host_reads, pinned[2]), SIGSEGV);
        assert_int_equal(round % 2 == 0 ? whim_stream_wait(f->s, event[1]) : whim_stream_sync(f->s),
                         WHIM_ERR_OK);
        assert_float_equal(pinned[2][0], round, 0);
    }
    for (int i = 0; i < 3; i++) {
        whim_device_host_free(f->dev, pinned[i], 8);
    }
}

static void test_errors_surface_at_sync(void **state)
{
    fixture *f = *state;
    float *x = floats(f, 2), *y = floats(f, 2);
    copy_in(f, y, (float[]){1, 2}, 8);
    /* Past the caller's check, straight into the table: the device finds out when it runs. */
    whim_add_args bad = {.x = x, .x_stride = 2, .y = y, .y_stride = 2, .n_row = -1, .n_col = 2};
    assert_int_equal(whim_op_add(f->s, &bad), WHIM_ERR_INVALID);
    assert_int_equal(f->s->ops->add(f->s, &bad), WHIM_ERR_OK);
    assert_int_equal(add_to(f, x, y, 2), WHIM_ERR_OK);
    assert_int_equal(whim_stream_sync(f->s), WHIM_ERR_INVALID);
    assert_int_equal(whim_stream_sync(f->s), WHIM_ERR_OK); /* told once */
    expect(f, x, 0, 0);
    expect(f, y, 1, 2);
}

typedef struct run_over {
    fixture *f;
    float *x;
    const float *y;
    int64_t n;
} run_over;

/* A stream's worker does not live on in a fork, so the child opens a device of its own. */
static void add_in_child(void *ctx)
{
    int64_t n = *(int64_t *)ctx;
    void *state = NULL;
    if (setup(&state) != 0) {
        _exit(1);
    }
    fixture *f = state;
    void *x, *y;
    if (whim_device_alloc(f->dev, 32 * 4, &x, NULL) ||
        whim_device_alloc(f->dev, 64 * 4, &y, NULL) || add_to(f, x, y, n) ||
        whim_stream_sync(f->s)) {
        _exit(1);
    }
}

static void test_over_run_faults(void **state)
{
    (void)state;
    int64_t n = 32;
    assert_int_equal(death_signal(add_in_child, &n), 0);
    n = 33; /* named when it is queued */
    assert_int_equal(death_signal(add_in_child, &n), SIGABRT);
}

/* Which page is zeroed is known on the device only. */
static void zero_in_child(void *ctx)
{
    void *state = NULL, *pages, *ids;
    if (setup(&state) != 0) {
        _exit(1);
    }
    fixture *f = state;
    if (whim_device_alloc(f->dev, 2 * 128, &pages, NULL) ||
        whim_device_alloc(f->dev, 4, &ids, NULL) || whim_stream_copy_in(f->s, ids, ctx, 4) ||
        whim_op_page_zero(f->s, &(whim_page_zero_args){pages, 128, ids, 1}) ||
        whim_stream_sync(f->s)) {
        _exit(1);
    }
}

static void test_over_run_by_contents_faults(void **state)
{
    (void)state;
    int32_t page = 1;
    assert_int_equal(death_signal(zero_in_child, &page), 0);
    page = 2;
    assert_int_equal(death_signal(zero_in_child, &page), SIGSEGV);
}

static void add_host_memory(void *ctx)
{
    run_over *r = ctx;
    if (add_to(r->f, r->x, r->y, 2) != WHIM_ERR_OK) {
        _exit(1);
    }
}

static void copy_to_host_memory(void *ctx)
{
    run_over *r = ctx;
    if (whim_stream_copy_in(r->f->s, r->x, r->y, r->n) != WHIM_ERR_OK) {
        _exit(1);
    }
}

static void test_host_pointers_are_refused(void **state)
{
    fixture *f = *state;
    float *x = floats(f, 2), host[4] = {0};
    assert_int_equal(death_signal(add_host_memory, &(run_over){f, x, x, 0}), 0);
    assert_int_equal(death_signal(add_host_memory, &(run_over){f, x, host, 0}), SIGABRT);
    assert_int_equal(death_signal(add_host_memory, &(run_over){f, host, x, 0}), SIGABRT);
    assert_int_equal(death_signal(copy_to_host_memory, &(run_over){f, x, host, 8}), 0);
    assert_int_equal(death_signal(copy_to_host_memory, &(run_over){f, x, host, 9}), SIGABRT);
    assert_int_equal(death_signal(copy_to_host_memory, &(run_over){f, host, host, 8}), SIGABRT);
}

static void close_device(void *ctx)
{
    fixture *f = ctx;
    f->dev->vt->close(f->dev);
}

static void test_leaks_are_refused(void **state)
{
    fixture *f = *state;
    whim_device *dev = NULL;
    whim_device_cfg cfg = {0};
    assert_int_equal(death_signal(close_device, f), SIGABRT); /* its stream is open */
    assert_int_equal(whim_backend_guard.device_open(0, &cfg, &dev, NULL), WHIM_ERR_OK);
    void *ptr = NULL;
    assert_int_equal(whim_device_alloc(dev, 0, &ptr, NULL), WHIM_ERR_OK);
    assert_non_null(ptr);
    assert_int_equal(death_signal(close_device, &(fixture){.dev = dev}), SIGABRT);
    whim_device_free(dev, ptr, 0);
    assert_int_equal(death_signal(close_device, &(fixture){.dev = dev}), 0);
    whim_device_close(dev);
}

enum { PACK_N = 37, PACK_K = 64 };

typedef struct pack_job {
    whim_device *dev;
    const unsigned char *src;
    void *dst;
} pack_job;

static whim_err pack_row(void *ctx, int64_t item, int32_t worker)
{
    (void)worker;
    pack_job *job = ctx;
    int64_t row_bytes = whim_dtype_row_bytes(WHIM_DTYPE_Q8_0, PACK_K);
    return whim_device_pack(job->dev, &(whim_pack){.dtype = WHIM_DTYPE_Q8_0,
                                                   .n = PACK_N,
                                                   .k = PACK_K,
                                                   .row0 = item,
                                                   .n_row = 1,
                                                   .src = job->src + item * row_bytes,
                                                   .dst = job->dst});
}

static void test_pack(void **state)
{
    fixture *f = *state;
    assert_int_equal(whim_device_weight_bytes(f->dev, WHIM_DTYPE_Q8_0, 3, 64), 3 * 68);
    assert_int_equal(whim_device_weight_bytes(f->dev, WHIM_DTYPE_F32, 3, 5), 60);
    assert_int_equal(whim_device_weight_bytes(f->dev, WHIM_DTYPE_F32, 0, 5), 0);
    assert_int_equal(whim_device_weight_bytes(f->dev, WHIM_DTYPE_Q8_0, 3, 63), -1);
    assert_int_equal(whim_device_weight_bytes(f->dev, WHIM_DTYPE_I32, 3, 64), -1);
    assert_int_equal(whim_device_weight_bytes(f->dev, WHIM_DTYPE_F32, INT64_MAX / 2, 64), -1);
    unsigned char src[PACK_N * 68], got[PACK_N * 68];
    for (size_t i = 0; i < sizeof src; i++) {
        src[i] = (unsigned char)(i * 7 + 3);
    }
    void *dst = device_bytes(f, sizeof src);
    pack_job job = {f->dev, src, dst};
    assert_int_equal(whim_parallel_for(4, PACK_N, pack_row, &job), WHIM_ERR_OK);
    assert_int_equal(pack_row(&job, PACK_N, 0), WHIM_ERR_INVALID);
    assert_int_equal(pack_row(&job, -1, 0), WHIM_ERR_INVALID);
    assert_int_equal(death_signal(host_reads, dst), SIGSEGV);
    assert_int_equal(whim_stream_copy_out(f->s, got, dst, sizeof got), WHIM_ERR_OK);
    assert_int_equal(whim_stream_sync(f->s), WHIM_ERR_OK);
    assert_memory_equal(got, src, sizeof src);
}

/* Memory of one device is nothing to the other. */
static void test_two_devices(void **state)
{
    fixture *f = *state;
    fixture other = {0};
    whim_device_cfg cfg = {0};
    void *far;
    assert_int_equal(whim_backend_guard.device_open(1, &cfg, &other.dev, NULL), WHIM_ERR_OK);
    assert_int_equal(whim_stream_open(other.dev, &other.s, NULL), WHIM_ERR_OK);
    assert_int_equal(whim_device_alloc(other.dev, 8, &far, NULL), WHIM_ERR_OK);
    float *x = floats(f, 2), *y = far;
    copy_in(f, x, (float[]){1, 2}, 8);
    copy_in(&other, y, (float[]){10, 20}, 8);
    assert_int_equal(add_to(f, x, x, 2), WHIM_ERR_OK);
    assert_int_equal(add_to(&other, y, y, 2), WHIM_ERR_OK);
    expect(&other, y, 20, 40); /* whoever is waited for runs; nobody else */
    expect(f, x, 2, 4);
    assert_int_equal(death_signal(add_host_memory, &(run_over){f, x, y, 0}), SIGABRT);
    assert_int_equal(death_signal(add_host_memory, &(run_over){&other, y, x, 0}), SIGABRT);
    whim_device_free(other.dev, far, 8);
    whim_stream_close(other.s);
    whim_device_close(other.dev);
}

static void test_open(void **state)
{
    fixture *f = *state;
    assert_string_equal(f->dev->caps.isa, "law");
    assert_int_equal(f->dev->caps.n_thread, 1);
    assert_int_equal(f->dev->caps.pack_row_granule, 1);
    assert_true(f->dev->caps.graph_capture);
    assert_string_equal(whim_backend_guard.name, "guard");
    assert_int_equal(whim_backend_guard.device_count(), 2);
    whim_device *dev = NULL;
    whim_diag diag;
    whim_device_cfg cfg = {.isa = "fast"};
    assert_int_equal(whim_backend_guard.device_open(0, &cfg, &dev, &diag), WHIM_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "fast"));
    cfg.isa = "law";
    assert_int_equal(whim_backend_guard.device_open(2, &cfg, &dev, &diag), WHIM_ERR_NOT_FOUND);
    for (int64_t n = 0; n < 2; n++) { /* out of memory at each allocation */
        whim_stream *s = NULL;
        void *ptr = NULL;
        whim_alloc_fail_after(0);
        assert_int_equal(whim_backend_guard.device_open(0, &cfg, &dev, &diag), WHIM_ERR_NO_MEMORY);
        assert_int_equal(whim_stream_open(f->dev, &s, &diag), WHIM_ERR_NO_MEMORY);
        assert_int_equal(whim_device_alloc(f->dev, 4, &ptr, &diag), WHIM_ERR_NO_MEMORY);
        whim_alloc_fail_after(-1);
    }
    void *ptr = NULL;
    assert_int_equal(whim_device_alloc(f->dev, -1, &ptr, &diag), WHIM_ERR_INVALID);
    assert_int_equal(whim_device_alloc(f->dev, INT64_C(1) << 60, &ptr, &diag), WHIM_ERR_NO_MEMORY);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_open),
        TEST(test_host_touch_faults),
        TEST(test_nothing_before_sync),
        TEST(test_order_and_growth),
        TEST(test_sync_empties_the_queue),
        TEST(test_fused_op_is_composed),
        TEST(test_graph),
        TEST(test_errors_surface_at_sync),
        TEST(test_parts),
        TEST(test_parts_fail_together),
        TEST(test_pinned_memory_is_waited_for),
        cmocka_unit_test(test_over_run_faults),
        cmocka_unit_test(
            test_over_run_by_contents_faults), /* its child makes threads: no others here */
        TEST(test_host_pointers_are_refused),
        TEST(test_two_devices),
        TEST(test_leaks_are_refused),
        TEST(test_pack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
