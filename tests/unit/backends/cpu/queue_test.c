/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a stream's work: in order, run by whoever waits or by the queue's own thread, with
 * copies and graphs among them. */
#include "backends/cpu/stream.h"
#include "support/cmocka.h"

#include <stdatomic.h>
#include <string.h>

extern const whim_backend whim_backend_cpu;

enum { N = 64, ROUNDS = 200 };

typedef struct fixture {
    whim_device *dev;
    whim_stream *s;
    float *x, *y; /* [N] on the device */
} fixture;

static void fixture_open(fixture *f, int32_t n_thread)
{
    whim_diag diag = {""};
    void *x, *y;
    whim_device_cfg cfg = {.n_thread = n_thread};
    assert_int_equal(whim_backend_cpu.device_open(0, &cfg, &f->dev, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_stream_open(f->dev, &f->s, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_device_alloc(f->dev, N * 4, &x, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_device_alloc(f->dev, N * 4, &y, &diag), WHIM_ERR_OK);
    f->x = x;
    f->y = y;
}

static void fixture_close(fixture *f)
{
    whim_stream_close(f->s);
    whim_device_free(f->dev, f->x, N * 4);
    whim_device_free(f->dev, f->y, N * 4);
    whim_device_close(f->dev);
}

/* x += y */
static void add(fixture *f)
{
    assert_int_equal(
        whim_op_add(
            f->s,
            &(whim_add_args){
                .x = f->x, .x_stride = N, .y = f->y, .y_stride = N, .n_row = 1, .n_col = N}),
        WHIM_ERR_OK);
}

static void copy_in(fixture *f, const float *src)
{
    assert_int_equal(whim_stream_copy_in(f->s, f->y, src, N * 4), WHIM_ERR_OK);
}

static whim_event fetch_and_record(fixture *f, float *dst)
{
    whim_event event;
    assert_int_equal(whim_stream_copy_out(f->s, dst, f->x, N * 4), WHIM_ERR_OK);
    assert_int_equal(whim_stream_record(f->s, &event), WHIM_ERR_OK);
    return event;
}

static void expect_all(const float *got, float value)
{
    for (int i = 0; i < N; i++) {
        assert_float_equal(got[i], value, 0);
    }
}

static void fill(float *row, float value)
{
    for (int i = 0; i < N; i++) {
        row[i] = value;
    }
}

/* Two parts under way all the time: x += 1, x += 2, x += 3 ... by copies, ops and a graph. */
static void parts_in_order(int32_t n_thread, bool begin)
{
    fixture f;
    float src[2][N], got[2][N], sum[2] = {0};
    whim_event event[2];
    whim_graph *graph = NULL;
    whim_diag diag = {""};
    fixture_open(&f, n_thread);
    assert_int_equal(f.s->vt->capture_begin(f.s), WHIM_ERR_OK);
    add(&f);
    assert_int_equal(f.s->vt->capture_end(f.s, &graph), WHIM_ERR_OK);
    for (int i = 0; i <= ROUNDS; i++) {
        int at = i % 2;
        if (i < ROUNDS) {
            fill(src[at], (float)i);
            copy_in(&f, src[at]);
            add(&f);
            assert_int_equal(f.s->vt->replay(f.s, graph), WHIM_ERR_OK);
            add(&f);
            event[at] = fetch_and_record(&f, got[at]);
            sum[at] = sum[1 - at] + 3 * (float)i;
            if (begin) {
                assert_int_equal(whim_stream_begin(f.s, &diag), WHIM_ERR_OK);
            }
        }
        if (i > 0) {
            assert_int_equal(whim_stream_wait(f.s, event[1 - at]), WHIM_ERR_OK);
            expect_all(got[1 - at], sum[1 - at]);
        }
    }
    f.s->vt->graph_free(f.s, graph);
    fixture_close(&f);
}

static void results_do_not_depend_on_who_runs(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        parts_in_order(1 + i % 2, i >= 2);
    }
}

/* What was begun ends without anybody waiting for it. */
static void begun_parts_run_by_themselves(void **state)
{
    (void)state;
    fixture f;
    float src[N], got[N];
    whim_diag diag = {""};
    fixture_open(&f, 1);
    fill(src, 5);
    copy_in(&f, src);
    add(&f);
    (void)fetch_and_record(&f, got);
    assert_int_equal(whim_stream_begin(f.s, &diag), WHIM_ERR_OK);
    while (!whim_cpu_queue_idle(&((whim_cpu_stream *)f.s)->queue)) {
        atomic_thread_fence(memory_order_seq_cst);
    }
    expect_all(got, 5);
    fixture_close(&f);
}

/* A third event waits for the first; nothing is lost. */
static void more_events_than_there_are_places(void **state)
{
    (void)state;
    fixture f;
    float src[N], got[6][N];
    whim_event last = 0;
    fixture_open(&f, 1);
    fill(src, 1);
    copy_in(&f, src);
    for (int i = 0; i < 6; i++) {
        add(&f);
        last = fetch_and_record(&f, got[i]);
    }
    expect_all(got[3], 4); /* those before the last two are done */
    assert_int_equal(whim_stream_wait(f.s, last), WHIM_ERR_OK);
    expect_all(got[5], 6);
    assert_int_equal(whim_stream_wait(f.s, last + 1), WHIM_ERR_INVALID);
    /* More graphs than one part has room for. */
    whim_graph *graph = NULL;
    assert_int_equal(f.s->vt->capture_begin(f.s), WHIM_ERR_OK);
    add(&f);
    assert_int_equal(f.s->vt->capture_end(f.s, &graph), WHIM_ERR_OK);
    for (int i = 0; i < 3 * CPU_RUNS_MAX; i++) {
        assert_int_equal(f.s->vt->replay(f.s, graph), WHIM_ERR_OK);
    }
    assert_int_equal(whim_stream_wait(f.s, fetch_and_record(&f, got[0])), WHIM_ERR_OK);
    expect_all(got[0], 6 + 3 * CPU_RUNS_MAX);
    f.s->vt->graph_free(f.s, graph);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_do_not_depend_on_who_runs),
        cmocka_unit_test(begun_parts_run_by_themselves),
        cmocka_unit_test(more_events_than_there_are_places),
    };
    return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
