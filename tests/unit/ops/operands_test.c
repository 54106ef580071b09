/* SPDX-License-Identifier: Apache-2.0 */
/* Operands as lists: shapes, what is optional, where memory ends; and the tracer, which prints them
 * and changes nothing else. */
#include "ops/operands.h"
#include "ops/trace.h"
#include "support/cmocka.h"

#include <stdio.h>
#include <string.h>

extern const whim_backend whim_backend_guard;

static void expect_text(whim_op op, const void *args, const char *want)
{
    char text[160];
    whim_op_text(op, args, text, sizeof text);
    assert_string_equal(text, want);
}

static void test_linear(void **state)
{
    (void)state;
    float x[2 * 70], y[2 * 5];
    char w[5 * 68];
    whim_operand list[WHIM_OPERANDS_MAX];
    whim_linear_args a = {.w = {WHIM_DTYPE_Q8_0, 5, 64, w},
                          .x = x,
                          .x_stride = 70,
                          .y = y,
                          .y_stride = 5,
                          .n_row = 2};
    assert_int_equal(whim_operand_list(WHIM_OP_linear, &a, list), 4);
    expect_text(WHIM_OP_linear, &a, "linear w=Q8_0[5,64] x=F32[2,64] bias=none y=F32[2,5]");
    assert_int_equal(whim_operand_extent(&list[0]), 5 * 68);
    assert_int_equal(whim_operand_extent(&list[1]), 4 * (70 + 64));
    assert_int_equal(list[1].field, offsetof(whim_linear_args, x));
    assert_ptr_equal(list[1].data, x);
    assert_true(list[1].by_row && list[3].by_row && !list[0].by_row);
    assert_int_equal(list[2].use, WHIM_USE_READS | WHIM_USE_CONSTANT | WHIM_USE_OPTIONAL);
    assert_int_equal(list[3].use, WHIM_USE_WRITES);
}

/* A stride of 0 is one row for all; a matrix without rows ends where it begins. */
static void test_one_row_and_none(void **state)
{
    (void)state;
    float x[12], y[4];
    whim_operand list[WHIM_OPERANDS_MAX];
    whim_add_args a = {.x = x, .x_stride = 4, .y = y, .y_stride = 0, .n_row = 3, .n_col = 4};
    assert_int_equal(whim_operand_list(WHIM_OP_add, &a, list), 2);
    expect_text(WHIM_OP_add, &a, "add x=F32[3,4] y=F32[1,4]");
    assert_false(list[1].by_row);
    assert_int_equal(whim_operand_extent(&list[1]), 16);
    a.n_row = 0;
    whim_operand_list(WHIM_OP_add, &a, list);
    assert_int_equal(whim_operand_extent(&list[0]), 0);
}

/* Parts of pages and slots begin after the pointer. */
static void test_lead(void **state)
{
    (void)state;
    whim_operand list[WHIM_OPERANDS_MAX];
    whim_gdn_conv_args a = {
        .state = {.slots = list, .slot_stride = 4096, .offset = 64, .n_slot = 3},
        .n_chan = 8,
        .n_tap = 4,
    };
    int32_t n = whim_operand_list(WHIM_OP_gdn_conv, &a, list);
    for (int32_t i = 0; i < n; i++) {
        if (strcmp(list[i].name, "state") == 0) {
            assert_int_equal(list[i].rows, 3);
            assert_int_equal(list[i].cols, 24);
            assert_int_equal(whim_operand_extent(&list[i]), 64 + 2 * 4096 + 24 * 4);
            return;
        }
    }
    fail_msg("gdn_conv has no state");
}

enum { N = 4, K = 8 };

typedef struct lines {
    char text[4][256];
    int32_t n;
} lines;

static void keep(void *ctx, const char *line)
{
    lines *l = ctx;
    assert_true(l->n < 4);
    snprintf(l->text[l->n++], sizeof l->text[0], "%s", line);
}

/* A fused op, which the guard composes, and a norm; `trace` may be NULL. */
static void run_two(whim_trace *trace, float got[2 * N])
{
    whim_device *dev = NULL;
    whim_stream *s = NULL;
    void *mem = NULL;
    float in[3 * N * K];
    for (int32_t i = 0; i < 3 * N * K; i++) {
        in[i] = 0.01f * (float)(i % 17) - 0.05f;
    }
    assert_int_equal(whim_backend_guard.device_open(0, &(whim_device_cfg){0}, &dev, NULL), 0);
    if (trace != NULL) {
        dev->watch = whim_trace_watch(trace);
    }
    assert_int_equal(whim_stream_open(dev, &s, NULL), 0);
    assert_int_equal(whim_stream_reserve(s, 2 * N * 4, NULL), 0);
    assert_int_equal(whim_device_alloc(dev, sizeof in + 64 * 4, &mem, NULL), 0);
    float *w = mem, *y = w + 3 * N * K;
    assert_int_equal(whim_stream_copy_in(s, w, in, sizeof in), 0);
    assert_int_equal(whim_op_linear_swiglu(s,
                                           &(whim_linear_swiglu_args){
                                               .gate = {WHIM_DTYPE_F32, N, K, w},
                                               .up = {WHIM_DTYPE_F32, N, K, w + N * K},
                                               .x = w + 2 * N * K,
                                               .x_stride = K,
                                               .y = y,
                                               .y_stride = N,
                                               .n_row = 2,
                                           }),
                     0);
    assert_int_equal(
        whim_op_rmsnorm(
            s,
            &(whim_rmsnorm_args){
                .x = y, .x_stride = N, .w = w, .y = y, .y_stride = N, .n_row = 2, .n_col = N}),
        0);
    assert_int_equal(whim_stream_copy_out(s, got, y, 2 * N * 4), 0);
    assert_int_equal(whim_stream_sync(s), 0);
    whim_stream_close(s);
    whim_device_free(dev, mem, sizeof in + 64 * 4);
    whim_device_close(dev);
}

static void test_trace(void **state)
{
    (void)state;
    lines l = {.n = 0};
    whim_trace trace = {.line = keep, .ctx = &l};
    float plain[2 * N], traced[2 * N];
    run_two(NULL, plain);
    run_two(&trace, traced);
    assert_memory_equal(plain, traced, sizeof plain);
    assert_int_equal(l.n, 2); /* no lines for what the fused op is made of */
    assert_non_null(strstr(l.text[0], " us  linear_swiglu gate=F32[4,8] up=F32[4,8] x=F32[2,8] "));
    assert_non_null(strstr(l.text[1], " us  rmsnorm x=F32[2,4] w=F32[1,4] y=F32[2,4]"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_one_row_and_none),
        cmocka_unit_test(test_lead),
        cmocka_unit_test(test_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
