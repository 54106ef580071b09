/* SPDX-License-Identifier: Apache-2.0 */
/* Binding: every difference between model and file in one message, rows in their places, the same
 * bytes whatever the number of loader threads. */
#include "tensor/half.h"
#include "weights/bind.h"

#include "unit/weights/fixture.h"

static const char config[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_size\": 8,"
    " \"num_attention_heads\": 2, \"num_hidden_layers\": 1, \"vocab_size\": 16,"
    " \"intermediate_size\": 16, \"torch_dtype\": \"float32\"}";

/* A matrix "m" [8, 4] F32 whose element (r, c) is 10 r + c, a vector "v" [8] of 0, 1, ... in BF16,
 * and "more" [1], all in one file. */
static void write_model(void)
{
    static const char header[] =
        "{\"model.m\": {\"dtype\": \"F32\", \"shape\": [8, 4], \"data_offsets\": [0, 128]},"
        "\"model.v\": {\"dtype\": \"BF16\", \"shape\": [8], \"data_offsets\": [128, 144]},"
        "\"model.more\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [144, 148]}}";
    bytes b = {0};
    dir_clear();
    write_text("config.json", config);
    put_le(&b, strlen(header), 8);
    put(&b, header, strlen(header));
    for (int i = 0; i < 32; i++) {
        float value = (float)(10 * (i / 4) + i % 4);
        put(&b, &value, sizeof value);
    }
    for (int i = 0; i < 8; i++) {
        put_le(&b, whim_f32_to_bf16((float)i), 2);
    }
    put_le(&b, 0, 4);
    write_file("model.safetensors", b.p, b.n);
    bytes_free(&b);
}

static whim_device *device_open(void)
{
    whim_device *device = NULL;
    whim_device_cfg cfg = {.n_thread = 1};
    whim_diag diag = {{0}};
    /* The guard keeps rows as the file has them, which is what can be looked at. */
    assert_int_equal(whim_backend_find("guard")->device_open(0, &cfg, &device, &diag), WHIM_ERR_OK);
    return device;
}

static void fetch(whim_device *device, const void *src, void *dst, int64_t n)
{
    whim_stream *stream = NULL;
    whim_diag diag = {{0}};
    assert_int_equal(whim_stream_open(device, &stream, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_stream_copy_out(stream, dst, src, n), WHIM_ERR_OK);
    assert_int_equal(whim_stream_sync(stream), WHIM_ERR_OK);
    whim_stream_close(stream);
}

static void load(whim_binder *binder, const whim_ckpt *ckpt, whim_device *device, int32_t n_thread)
{
    whim_diag diag = {{0}};
    whim_err err = whim_bind_match(binder, ckpt, device, &diag);
    if (err == WHIM_ERR_OK) {
        err = whim_bind_load(binder, ckpt, device, n_thread, NULL, NULL, &diag);
    }
    if (err != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
}

static void all_differences_in_one_message(void **state)
{
    (void)state;
    whim_ckpt ckpt;
    whim_binder binder;
    whim_weight m, w;
    const float *v;
    whim_diag diag = {{0}};
    write_model();
    expect_opens(&ckpt, test_dir);
    whim_device *device = device_open();
    whim_binder_init(&binder);
    whim_bind(&binder, &(whim_param){.weight = &m, .n = 8, .k = 5}, "m");
    whim_bind(&binder, &(whim_param){.weight = &w, .n = 3, .k = 2}, "layers.%d.w", 7);
    whim_bind(&binder, &(whim_param){.values = &v, .n = 9}, "v");
    assert_int_equal(whim_bind_match(&binder, &ckpt, device, &diag), WHIM_ERR_CORRUPT);
    static const char *const texts[] = {"llama model of 1 layers", "missing layers.7.w",
                                        "wrong shape model.m: [8, 4], expected [8, 5]",
                                        "wrong shape model.v: [8], expected [9]",
                                        "extra model.more"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        expect_text(&diag, "differences", texts[i]);
    }
    whim_binder_deinit(&binder);
    whim_device_close(device);
    whim_ckpt_close(&ckpt);
}

/* Norms and biases are taken number by number: block types and integers are refused, never read as
 * zeros. */
static void vectors_must_be_floats(void **state)
{
    (void)state;
    static const whim_dtype types[] = {WHIM_DTYPE_Q8_0, WHIM_DTYPE_Q4_K, WHIM_DTYPE_I32};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        whim_ckpt ckpt;
        whim_binder binder;
        const float *v;
        whim_diag diag = {{0}};
        write_model();
        expect_opens(&ckpt, test_dir);
        whim_ckpt_tensor *tensor = &ckpt.tensors[whim_ckpt_find(&ckpt, "v") - ckpt.tensors];
        tensor->dtype = types[i];
        whim_device *device = device_open();
        whim_binder_init(&binder);
        whim_bind(&binder, &(whim_param){.values = &v, .n = 8}, "v");
        assert_int_equal(whim_bind_match(&binder, &ckpt, device, &diag), WHIM_ERR_CORRUPT);
        assert_non_null(strstr(diag.text, whim_dtype_get(types[i])->name));
        assert_non_null(strstr(diag.text, "expected F32, F16 or BF16: model.v"));
        whim_binder_deinit(&binder);
        whim_device_close(device);
        whim_ckpt_close(&ckpt);
    }
}

static void many_differences_are_counted(void **state)
{
    (void)state;
    whim_ckpt ckpt;
    whim_binder binder;
    static whim_weight w[300];
    whim_diag diag = {{0}};
    write_model();
    expect_opens(&ckpt, test_dir);
    whim_device *device = device_open();
    whim_binder_init(&binder);
    for (int i = 0; i < 300; i++) {
        whim_bind(&binder, &(whim_param){.weight = &w[i], .n = 3, .k = 2}, "w.%d", i);
    }
    assert_int_equal(whim_bind_match(&binder, &ckpt, device, &diag), WHIM_ERR_CORRUPT);
    expect_text(&diag, "many", "missing w.0");
    expect_text(&diag, "many", " more");
    whim_binder_deinit(&binder);
    whim_device_close(device);
    whim_ckpt_close(&ckpt);
}

/* Rows of pairs (0,1) (2,3) of a head of four become 0 2 1 3; the head after it likewise. */
static void pairs_are_undone(void **state)
{
    (void)state;
    static const int order[] = {0, 2, 1, 3, 4, 6, 5, 7};
    for (int64_t unpair = 0; unpair <= 4; unpair += 4) {
        whim_ckpt ckpt;
        whim_binder binder;
        whim_weight m;
        const float *v, *more;
        const void *constant;
        static const double numbers[] = {1.5, -2.5};
        double got_numbers[2];
        float got[32];
        write_model();
        expect_opens(&ckpt, test_dir);
        whim_device *device = device_open();
        whim_binder_init(&binder);
        whim_bind(&binder, &(whim_param){.weight = &m, .n = 8, .k = 4, .unpair = unpair}, "m");
        whim_bind(&binder, &(whim_param){.values = &v, .n = 8, .unpair = unpair}, "v");
        whim_bind(&binder, &(whim_param){.values = &more, .n = 1}, "more");
        whim_bind_constant(&binder, &constant, numbers, sizeof numbers);
        load(&binder, &ckpt, device, 1);
        assert_true(m.n == 8 && m.k == 4 && m.dtype == WHIM_DTYPE_F32);
        fetch(device, m.data, got, sizeof got);
        for (int i = 0; i < 32; i++) {
            int row = unpair > 0 ? order[i / 4] : i / 4;
            assert_true(got[i] == (float)(10 * row + i % 4));
        }
        fetch(device, v, got, 8 * sizeof(float));
        for (int i = 0; i < 8; i++) {
            assert_true(got[i] == (float)(unpair > 0 ? order[i] : i)); /* F32, whatever it was */
        }
        fetch(device, constant, got_numbers, sizeof got_numbers);
        assert_memory_equal(got_numbers, numbers, sizeof numbers);
        whim_binder_deinit(&binder);
        whim_device_close(device);
        whim_ckpt_close(&ckpt);
    }
}

/* The whole weights buffer of dummy weights, large enough for many slabs. */
static uint8_t *dummy_bytes(int32_t n_thread, whim_dtype dtype, int64_t *n)
{
    static const whim_arch llama = {.name = "llama"};
    whim_ckpt ckpt = {.format = WHIM_CKPT_DUMMY, .config = {.arch = &llama, .dtype = dtype}};
    whim_binder binder;
    whim_weight w[2];
    const float *v;
    whim_device *device = device_open();
    whim_binder_init(&binder);
    whim_bind(&binder, &(whim_param){.weight = &w[0], .n = 9000, .k = 1024}, "a");
    whim_bind(&binder, &(whim_param){.weight = &w[1], .n = 33, .k = 256}, "b");
    whim_bind(&binder, &(whim_param){.values = &v, .n = 100}, "v");
    load(&binder, &ckpt, device, n_thread);
    assert_true(whim_bind_staging_bytes(&binder, device, 4) <= 4 * (INT64_C(5) << 20));
    *n = binder.bytes;
    uint8_t *out = malloc((size_t)*n);
    assert_non_null(out);
    fetch(device, binder.buffer, out, *n);
    whim_binder_deinit(&binder);
    whim_device_close(device);
    return out;
}

static void threads_change_nothing(void **state)
{
    (void)state;
    static const whim_dtype types[] = {WHIM_DTYPE_BF16, WHIM_DTYPE_Q4_K};
    for (int i = 0; i < 2; i++) {
        int64_t n_one, n_many;
        uint8_t *one = dummy_bytes(1, types[i], &n_one), *many = dummy_bytes(3, types[i], &n_many);
        assert_int_equal(n_one, n_many);
        assert_memory_equal(one, many, (size_t)n_one);
        free(one);
        free(many);
    }
}

/* A file that became shorter after it was opened. */
static void a_lost_file_is_an_error(void **state)
{
    (void)state;
    whim_ckpt ckpt;
    whim_binder binder;
    whim_weight m;
    const float *v, *more;
    whim_diag diag = {{0}};
    write_model();
    expect_opens(&ckpt, test_dir);
    assert_int_equal(truncate(in_dir("model.safetensors"), 300), 0);
    whim_device *device = device_open();
    whim_binder_init(&binder);
    whim_bind(&binder, &(whim_param){.weight = &m, .n = 8, .k = 4}, "m");
    whim_bind(&binder, &(whim_param){.values = &v, .n = 8}, "v");
    whim_bind(&binder, &(whim_param){.values = &more, .n = 1}, "more");
    assert_int_equal(whim_bind_match(&binder, &ckpt, device, &diag), WHIM_ERR_OK);
    assert_int_not_equal(whim_bind_load(&binder, &ckpt, device, 2, NULL, NULL, &diag), WHIM_ERR_OK);
    expect_text(&diag, "lost file", "model.safetensors");
    whim_binder_deinit(&binder);
    whim_device_close(device);
    whim_ckpt_close(&ckpt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_differences_in_one_message), cmocka_unit_test(vectors_must_be_floats),
        cmocka_unit_test(many_differences_are_counted),   cmocka_unit_test(pairs_are_undone),
        cmocka_unit_test(threads_change_nothing),         cmocka_unit_test(a_lost_file_is_an_error),
    };
    return cmocka_run_group_tests_name("bind", tests, dir_setup, dir_teardown);
}
