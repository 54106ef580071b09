/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives that fail on a stream: the part that has one tells so at its wait, with those behind
 * it, parts before it are well, and what a device lacks is refused before anything runs.
 * tests/checkop/ranks.c has those that succeed. */
#include "base/clock.h"
#include "base/thread.h"
#include "comm/comm.h"
#include "ops/ops.h"
#include "ops/recorder.h"
#include "support/cmocka.h"

#include <string.h>

enum { N = 100, LONG = 200000, TIMES = 20 };

typedef struct side {
    const char *backend;
    whim_comm_memory memory;
    whim_comm comm;
    whim_device *dev;
    whim_stream *s;
    float *x, *y;
} side;

static void side_open(side *p, const char *backend, int32_t n_rank, int64_t wait_ns)
{
    whim_diag diag = {{0}};
    void *x, *y;
    *p = (side){.backend = backend};
    whim_device_cfg cfg = {.n_thread = 0};
    assert_int_equal(whim_comm_memory_make(n_rank, &p->memory, &diag), WHIM_ERR_OK);
    whim_comm_open(&p->comm, &p->memory, &(whim_comm_cfg){.wait_ns = wait_ns, .crowded = true});
    assert_int_equal(whim_backend_find(backend)->device_open(0, &cfg, &p->dev, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_stream_open(p->dev, &p->s, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_device_alloc(p->dev, LONG * 4, &x, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_device_alloc(p->dev, N * 4, &y, &diag), WHIM_ERR_OK);
    p->s->comm = &p->comm;
    p->x = x;
    p->y = y;
}

static void side_close(side *p)
{
    whim_stream_close(p->s);
    whim_device_free(p->dev, p->x, LONG * 4);
    whim_device_free(p->dev, p->y, N * 4);
    whim_device_close(p->dev);
    whim_comm_memory_close(&p->memory);
}

static void add(side *p)
{
    whim_add_args args = {
        .x = p->x, .x_stride = N, .y = p->y, .y_stride = N, .n_row = 1, .n_col = N};
    assert_int_equal(whim_op_add(p->s, &args), WHIM_ERR_OK);
}

static void sum(side *p, int64_t n)
{
    whim_all_reduce_args args = {.x = p->x, .n_row = 1, .n_col = n, .site = "layer 7"};
    assert_int_equal(whim_op_all_reduce(p->s, &args), WHIM_ERR_OK);
}

static whim_event record(side *p)
{
    whim_event event;
    assert_int_equal(whim_stream_record(p->s, &event), WHIM_ERR_OK);
    return event;
}

/* The peer never comes. Work behind the collective does not run: x stays as it was. */
static void stays_away(const char *backend, bool begin)
{
    side p;
    whim_diag diag = {{0}};
    float in[N], out[N];
    side_open(&p, backend, 2, 50 * 1000 * 1000);
    for (int32_t i = 0; i < N; i++) {
        in[i] = (float)i;
    }
    assert_int_equal(whim_stream_copy_in(p.s, p.y, in, sizeof in), WHIM_ERR_OK);
    add(&p);
    whim_event well = record(&p);
    sum(&p, N);
    add(&p);
    whim_event ill = record(&p);
    assert_int_equal(begin ? whim_stream_begin(p.s, &diag) : WHIM_ERR_OK, WHIM_ERR_OK);
    assert_int_equal(whim_stream_wait(p.s, well), WHIM_ERR_OK);
    add(&p);
    whim_event behind = record(&p);
    assert_int_equal(whim_stream_wait(p.s, ill), WHIM_ERR_DEVICE);
    assert_non_null(strstr(p.comm.diag.text, "rank 1 did not reach all_reduce of 100 at"));
    whim_err after = whim_stream_wait(p.s, behind); /* taken along if it was queued in time */
    assert_true(after == WHIM_ERR_DEVICE || !begin);
    assert_int_equal(whim_stream_copy_out(p.s, out, p.y, sizeof out), WHIM_ERR_OK);
    assert_int_equal(whim_stream_sync(p.s), WHIM_ERR_OK); /* the stream itself is well */
    assert_memory_equal(in, out, sizeof in);
    sum(&p, N); /* the group is not */
    assert_int_equal(whim_stream_sync(p.s), WHIM_ERR_DEVICE);
    side_close(&p);
}

static void test_stays_away(void **state)
{
    (void)state;
    stays_away("cpu", false);
    stays_away("cpu", true);
    stays_away("guard", false);
}

/* --- another call ----------------------------------------------------------------------------- */

static void other_rank(void *ctx)
{
    const side *p = ctx;
    whim_comm comm;
    float x[N] = {0};
    whim_comm_open(&comm, &p->memory, &(whim_comm_cfg){.rank = 1, .wait_ns = 10 * WHIM_NS_PER_S});
    assert_int_equal(whim_comm_broadcast(&comm, x, 8, 0, "its end"), WHIM_ERR_DEVICE);
}

static void calls_another(const char *backend)
{
    side p;
    whim_thread thread;
    whim_diag diag = {{0}};
    side_open(&p, backend, 2, 10 * WHIM_NS_PER_S);
    assert_int_equal(whim_thread_create(&thread, "other", other_rank, &p, &diag), WHIM_ERR_OK);
    sum(&p, N);
    assert_int_equal(whim_stream_sync(p.s), WHIM_ERR_DEVICE);
    assert_non_null(strstr(p.comm.diag.text, "all_reduce of 100 at \"layer 7\""));
    assert_non_null(strstr(p.comm.diag.text, "broadcast of 8 at \"its end\""));
    whim_thread_join(&thread);
    side_close(&p);
}

static void test_calls_another(void **state)
{
    (void)state;
    calls_another("cpu");
    calls_another("guard");
}

/* --- long sums -------------------------------------------------------------------------------- */

/* A rank of one thread: what it gives is all ones, and what comes is the sum with the other's. */
static void plain_rank(void *ctx)
{
    const side *p = ctx;
    static float x[LONG];
    whim_comm comm;
    whim_comm_open(&comm, &p->memory, &(whim_comm_cfg){.rank = 1, .wait_ns = 60 * WHIM_NS_PER_S});
    for (int32_t i = 0; i < LONG; i++) {
        x[i] = 1.0f;
    }
    for (int32_t i = 0; i < TIMES; i++) { /* and then no more */
        assert_int_equal(whim_comm_all_reduce(&comm, NULL, x, LONG - i, "layer 7"), WHIM_ERR_OK);
    }
    assert_true(x[0] == 1 << (TIMES - 1) && x[LONG - 1] == 1.0f && x[LONG - TIMES] == x[0]);
}

/* All workers have a part in them, and all of them leave when a peer does not come. */
static void test_long_sums(void **state)
{
    (void)state;
    side p;
    whim_thread thread;
    whim_diag diag = {{0}};
    static float x[LONG];
    side_open(&p, "cpu", 2, 60 * WHIM_NS_PER_S);
    assert_int_equal(whim_thread_create(&thread, "other", plain_rank, &p, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_stream_copy_in(p.s, p.x, x, sizeof x), WHIM_ERR_OK);
    for (int32_t i = 0; i < TIMES; i++) {
        sum(&p, LONG - i);
    }
    assert_int_equal(whim_stream_copy_out(p.s, x, p.x, sizeof x), WHIM_ERR_OK);
    if (whim_stream_sync(p.s) != WHIM_ERR_OK) {
        fail_msg("%s", p.comm.diag.text);
    }
    whim_thread_join(&thread);
    assert_int_equal(p.comm.n_call, TIMES);
    assert_int_equal(p.comm.n_byte, 4 * (TIMES * LONG - TIMES * (TIMES - 1) / 2));
    for (int32_t i = 0; i < LONG; i++) {
        int32_t times = i <= LONG - TIMES ? TIMES : LONG - i;
        assert_true(x[i] == (float)(1 << (times - 1)));
    }
    p.comm.wait_ns = 50 * 1000 * 1000;
    sum(&p, LONG);
    add(&p);
    assert_int_equal(whim_stream_sync(p.s), WHIM_ERR_DEVICE);
    assert_non_null(strstr(p.comm.diag.text, "all_reduce of 200000 at"));
    side_close(&p);
}

/* Arguments for a group of another size are not run. */
static void test_wrong_group(void **state)
{
    (void)state;
    side p;
    static const int64_t cols[] = {1, 1, 1};
    side_open(&p, "cpu", 2, WHIM_NS_PER_S);
    whim_all_gather_v_args args = {
        .x = p.x, .cols = cols, .y = p.y, .n_row = 1, .n_rank = 3, .site = "three"};
    assert_int_equal(whim_op_all_gather_v(p.s, &args), WHIM_ERR_OK);
    assert_int_equal(whim_stream_sync(p.s), WHIM_ERR_INVALID);
    p.s->comm = NULL;
    assert_int_equal(whim_op_all_gather_v(p.s, &args), WHIM_ERR_INVALID);
    side_close(&p);
}

/* A device without collectives serves one rank, and refuses more in the dry run, by the op's
 * name. */
static void test_lacking(void **state)
{
    (void)state;
    whim_device *dev;
    whim_diag diag = {{0}};
    whim_device_cfg cfg = {.isa = "llama"};
    assert_int_equal(whim_backend_find("guard")->device_open(0, &cfg, &dev, &diag), WHIM_ERR_OK);
    whim_comm_memory memory;
    whim_comm comm;
    assert_int_equal(whim_comm_memory_make(2, &memory, &diag), WHIM_ERR_OK);
    whim_comm_open(&comm, &memory, &(whim_comm_cfg){0});
    whim_recorder r;
    float x[N];
    whim_all_reduce_args args = {.x = x, .n_row = 1, .n_col = N, .site = "layer 7"};
    whim_recorder_init(&r, dev);
    assert_int_equal(whim_op_all_reduce(&r.base, &args), WHIM_ERR_OK);
    r.base.comm = &comm;
    assert_int_equal(whim_op_all_reduce(&r.base, &args), WHIM_ERR_UNSUPPORTED);
    assert_string_equal(r.refused, "all_reduce x=F32[1,100]");
    whim_comm_memory_close(&memory);
    whim_device_close(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stays_away), cmocka_unit_test(test_calls_another),
        cmocka_unit_test(test_long_sums),  cmocka_unit_test(test_wrong_group),
        cmocka_unit_test(test_lacking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
