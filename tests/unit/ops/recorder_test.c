/* SPDX-License-Identifier: Apache-2.0 */
/* The dry run asks the device: what it lacks is refused by name, compositions are asked about in
 * parts, and the workspace that it tells is what the ops then take. */
#include "ops/recorder.h"
#include "support/cmocka.h"

#include <string.h>

extern const whim_backend whim_backend_guard;
extern const whim_backend whim_backend_cpu;

enum { ROWS = 3, N = 40, K = 32 };

static whim_device *open_device(const whim_backend *backend, const char *isa)
{
    whim_device *dev = NULL;
    whim_device_cfg cfg = {.n_thread = 1, .isa = isa};
    assert_int_equal(backend->device_open(0, &cfg, &dev, NULL), WHIM_ERR_OK);
    return dev;
}

/* Addresses that nobody follows. */
static whim_linear_swiglu_args swiglu_of(whim_dtype gate, whim_dtype up)
{
    void *p = (void *)64;
    return (whim_linear_swiglu_args){.gate = {gate, N, K, p},
                                     .up = {up, N, K, p},
                                     .x = p,
                                     .x_stride = K,
                                     .y = p,
                                     .y_stride = N,
                                     .n_row = ROWS};
}

static int64_t space_of(whim_device *dev, const whim_linear_swiglu_args *a)
{
    whim_recorder recorder;
    whim_recorder_init(&recorder, dev);
    assert_int_equal(whim_op_linear_swiglu(&recorder.base, a), WHIM_ERR_OK);
    assert_int_equal(recorder.base.workspace.used, 0);
    return recorder.base.workspace.peak;
}

static void test_composition_takes_workspace(void **state)
{
    (void)state;
    whim_device *guard = open_device(&whim_backend_guard, NULL);
    whim_device *cpu = open_device(&whim_backend_cpu, NULL);
    whim_linear_swiglu_args same = swiglu_of(WHIM_DTYPE_Q8_0, WHIM_DTYPE_Q8_0);
    whim_linear_swiglu_args mixed = swiglu_of(WHIM_DTYPE_Q8_0, WHIM_DTYPE_F32);
    int64_t rows = (ROWS * N * 4 + 63) / 64 * 64;
    assert_int_equal(space_of(guard, &same), rows); /* it has no fused op */
    assert_int_equal(space_of(cpu, &same), 0);      /* one kernel */
    assert_int_equal(space_of(cpu, &mixed), rows);  /* that takes one type of weights */
    whim_device_close(guard);
    whim_device_close(cpu);
}

static void test_missing_op_has_a_name(void **state)
{
    (void)state;
    whim_device *dev = open_device(&whim_backend_guard, "llama");
    whim_recorder recorder;
    void *p = (void *)64;
    whim_recorder_init(&recorder, dev);
    whim_linear_swiglu_args fused = swiglu_of(WHIM_DTYPE_F32, WHIM_DTYPE_F32);
    assert_int_equal(whim_op_linear_swiglu(&recorder.base, &fused), WHIM_ERR_OK);
    assert_string_equal(recorder.refused, "");
    whim_sigmoid_gate_args gate = {
        .x = p, .x_stride = 4, .gate = p, .gate_stride = 4, .n_row = 2, .n_col = 4};
    assert_int_equal(whim_op_sigmoid_gate(&recorder.base, &gate), WHIM_ERR_UNSUPPORTED);
    assert_string_equal(recorder.refused, "sigmoid_gate x=F32[2,4] gate=F32[2,4]");
    whim_device_close(dev);
}

/* The op itself, on a stream of that device, and on one without the workspace that it was said to
 * take. */
static void test_streams_refuse(void **state)
{
    (void)state;
    whim_device *dev = open_device(&whim_backend_guard, "llama");
    whim_stream *s = NULL;
    void *mem = NULL;
    assert_int_equal(whim_stream_open(dev, &s, NULL), WHIM_ERR_OK);
    assert_int_equal(whim_device_alloc(dev, 65536, &mem, NULL), WHIM_ERR_OK);
    whim_sigmoid_gate_args gate = {
        .x = mem, .x_stride = 4, .gate = mem, .gate_stride = 4, .n_row = 2, .n_col = 4};
    assert_int_equal(whim_op_sigmoid_gate(s, &gate), WHIM_ERR_UNSUPPORTED);
    whim_linear_swiglu_args a = swiglu_of(WHIM_DTYPE_F32, WHIM_DTYPE_F32);
    int64_t bytes = space_of(dev, &a);
    a.gate.data = a.up.data = mem;
    a.x = mem;
    a.y = mem;
    assert_int_equal(whim_op_linear_swiglu(s, &a), WHIM_ERR_NO_MEMORY);
    assert_int_equal(whim_stream_reserve(s, bytes, NULL), WHIM_ERR_OK);
    for (int i = 0; i < 3; i++) { /* each gives it back */
        assert_int_equal(whim_op_linear_swiglu(s, &a), WHIM_ERR_OK);
    }
    assert_int_equal(s->workspace.peak, bytes);
    whim_stream_close(s);
    whim_device_free(dev, mem, 65536);
    whim_device_close(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_composition_takes_workspace),
        cmocka_unit_test(test_missing_op_has_a_name),
        cmocka_unit_test(test_streams_refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
