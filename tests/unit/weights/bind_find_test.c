/* SPDX-License-Identifier: Apache-2.0 */
/* Experts and e4m3 codes: every layout of a file gives the same rows on the device, and what does
 * not fit is refused by name before any memory is taken. */
#include "ops/args/moe_args.h"
#include "tensor/fp8.h"
#include "weights/bind.h"

#include "unit/weights/fixture.h"

#include <math.h>

static const char config[] =
    "{\"architectures\": [\"%s\"], \"hidden_size\": 8, \"num_attention_heads\": 2,"
    " \"num_key_value_heads\": 2, \"num_hidden_layers\": 1, \"vocab_size\": 16,"
    " \"eos_token_id\": 1, \"torch_dtype\": \"float32\", \"quantization_config\": "
    "{\"quant_method\": \"fp8\","
    " \"weight_block_size\": [128, 128]}}";

enum { N_EXPERT = 3, N = 5, K = 6 };

/* A file made tensor by tensor. */
typedef struct file {
    char header[4096];
    bytes data;
    bool minimax; /* which has words of its own */
} file;

static void add(file *f, const char *name, const char *dtype, const char *shape, const void *data,
                size_t n)
{
    size_t at = strlen(f->header);
    snprintf(f->header + at, sizeof f->header - at,
             "%s\"%s\": {\"dtype\": \"%s\", \"shape\": [%s], \"data_offsets\": [%zu, %zu]}",
             at == 0 ? "{" : ", ", name, dtype, shape, f->data.n, f->data.n + n);
    put(&f->data, data, n);
}

static void finish(file *f)
{
    bytes b = {0};
    char text[512];
    snprintf(text, sizeof text, config,
             f->minimax ? "MiniMaxM2ForCausalLM" : "Qwen3MoeForCausalLM");
    strcat(f->header, "}");
    dir_clear();
    write_text("config.json", text);
    put_le(&b, strlen(f->header), 8);
    put(&b, f->header, strlen(f->header));
    put(&b, f->data.p, f->data.n);
    write_file("model.safetensors", b.p, b.n);
    bytes_free(&b);
    bytes_free(&f->data);
}

/* Element (e, r, c) of the experts. */
static float value(int e, int r, int c)
{
    return (float)(100 * e + 10 * r + c);
}

static void rows_of(int e, float *out)
{
    for (int i = 0; i < N * K; i++) {
        out[i] = value(e, i / K, i % K);
    }
}

static void add_experts(file *f, const char *block, const char *leaf, int first, int end)
{
    for (int e = first; e < end; e++) {
        char name[128];
        float rows[N * K];
        rows_of(e, rows);
        snprintf(name, sizeof name, "model.layers.0.%s.experts.%d.%s.weight", block, e, leaf);
        add(f, name, "F32", "5, 6", rows, sizeof rows);
    }
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

static const whim_expert_names second_half = {"up_proj", "gate_up_proj", N, 2 * N};

/* Bind the file's one stack, or its matrix [n, k] if n > 0, and fetch what is on the device. */
static whim_err bind(int64_t n, int64_t k, whim_weight *w, void *out, int64_t size, whim_diag *diag)
{
    whim_ckpt ckpt;
    whim_binder binder;
    whim_stream *stream = NULL;
    expect_opens(&ckpt, test_dir);
    whim_device *device = device_open();
    whim_binder_init(&binder);
    if (n > 0) {
        whim_bind(&binder, &(whim_param){.weight = w, .n = n, .k = k}, "w.weight");
    } else {
        whim_bind(&binder,
                  &(whim_param){
                      .weight = w, .n_expert = N_EXPERT, .n = N, .k = K, .experts = second_half},
                  "layers.%d.mlp.experts", 0);
    }
    whim_err err = whim_bind_match(&binder, &ckpt, device, diag);
    if (err == WHIM_ERR_OK) {
        assert_int_equal(whim_bind_load(&binder, &ckpt, device, 2, NULL, NULL, diag), WHIM_ERR_OK);
        assert_int_equal(whim_stream_open(device, &stream, diag), WHIM_ERR_OK);
        assert_int_equal(whim_stream_copy_out(stream, out, w->data, size), WHIM_ERR_OK);
        assert_int_equal(whim_stream_sync(stream), WHIM_ERR_OK);
        whim_stream_close(stream);
    } else {
        assert_null(binder.buffer);
    }
    whim_binder_deinit(&binder);
    whim_device_close(device);
    whim_ckpt_close(&ckpt);
    return err;
}

static void expect_experts(void)
{
    whim_weight w;
    whim_diag diag = {{0}};
    int64_t pitch = whim_moe_pitch(N);
    float got[N_EXPERT * 16 * K];
    if (bind(0, 0, &w, got, sizeof got, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    assert_true(w.dtype == WHIM_DTYPE_F32 && w.n == N_EXPERT * pitch && w.k == K);
    for (int e = 0; e < N_EXPERT; e++) {
        float want[N * K];
        rows_of(e, want);
        assert_memory_equal(got + e * pitch * K, want, sizeof want);
    }
}

static void expect_bad(int64_t n, int64_t k, const char *needle)
{
    whim_weight w;
    whim_diag diag = {{0}};
    assert_int_equal(bind(n, k, &w, NULL, 0, &diag), WHIM_ERR_CORRUPT);
    expect_text(&diag, needle, needle);
}

static void every_layout_gives_the_same(void **state)
{
    (void)state;
    static float all[N_EXPERT][N * K], fused[N_EXPERT][2][N * K];
    for (int e = 0; e < N_EXPERT; e++) {
        rows_of(e, all[e]);
        rows_of(e, fused[e][1]);
    }
    file f = {.header = ""};
    add_experts(&f, "mlp", "up_proj", 0, N_EXPERT);
    finish(&f);
    expect_experts();
    f = (file){.header = "", .minimax = true};
    add_experts(&f, "block_sparse_moe", "w3", 0, N_EXPERT);
    finish(&f);
    expect_experts();
    f = (file){.header = ""};
    add(&f, "model.layers.0.mlp.experts.up_proj.weight", "F32", "3, 5, 6", all, sizeof all);
    finish(&f);
    expect_experts();
    f = (file){.header = ""};
    add(&f, "model.layers.0.mlp.experts.gate_up_proj", "F32", "3, 10, 6", fused, sizeof fused);
    finish(&f);
    expect_experts();
}

static void experts_that_do_not_fit_are_named(void **state)
{
    (void)state;
    float more[4][N * K] = {{0}}, half[N * K] = {0};
    file f = {.header = ""};
    add_experts(&f, "mlp", "up_proj", 0, 1);
    add_experts(&f, "mlp", "up_proj", 2, 3);
    finish(&f);
    expect_bad(0, 0, "missing layers.0.mlp.experts.1.up_proj.weight");
    f = (file){.header = "", .minimax = true};
    add_experts(&f, "block_sparse_moe", "w3", 0, 2);
    finish(&f);
    expect_bad(0, 0, "missing layers.0.block_sparse_moe.experts.2.w3.weight");
    f = (file){.header = ""};
    add_experts(&f, "mlp", "up_proj", 0, N_EXPERT + 2);
    finish(&f);
    expect_bad(0, 0, "extra model.layers.0.mlp.experts.4.up_proj.weight");
    f = (file){.header = ""};
    add(&f, "model.layers.0.mlp.experts.up_proj.weight", "F32", "4, 5, 6", more, sizeof more);
    finish(&f);
    expect_bad(0, 0, "[4, 5, 6], expected [3, 5, 6]");
    f = (file){.header = ""};
    add_experts(&f, "mlp", "up_proj", 0, 2);
    add(&f, "model.layers.0.mlp.experts.2.up_proj.weight", "BF16", "5, 6", half, 2 * N * K);
    finish(&f);
    expect_bad(0, 0, "type BF16, but expert 0 has F32: model.layers.0.mlp.experts.2.up_proj");
}

/* Also of a family without recurrent layers, the layers after the last one are counted for the
 * user's line. */
static void layers_that_draft_are_counted(void **state)
{
    (void)state;
    file f = {{0}};
    float rows[N * K] = {0};
    add(&f, "w.weight", "F32", "5, 6", rows, sizeof rows);
    add(&f, "model.layers.1.w.weight", "F32", "5, 6", rows, sizeof rows);
    finish(&f);
    whim_ckpt ckpt;
    whim_binder binder;
    whim_weight w;
    whim_diag diag = {{0}};
    expect_opens(&ckpt, test_dir);
    ckpt.config.n_draft_layer = 1;
    whim_device *device = device_open();
    whim_binder_init(&binder);
    whim_bind(&binder, &(whim_param){.weight = &w, .n = N, .k = K}, "w.weight");
    assert_int_equal(whim_bind_match(&binder, &ckpt, device, &diag), WHIM_ERR_OK);
    assert_true(binder.n_skipped[0] == 0 && binder.n_skipped[1] == 1);
    assert_int_equal(binder.skipped_bytes[1], sizeof rows);
    whim_binder_deinit(&binder);
    whim_device_close(device);
    whim_ckpt_close(&ckpt);
}

/* --- codes ------------------------------------------------------------------------------------ */

enum { ROWS = 130, COLS = 256, BLOCK = 128 };

/* Codes [130, k] and four scales for them, in a file without or with a mistake. */
static void write_codes(int64_t k, const char *shape, const char *scale_shape, const float *scales,
                        size_t n_scale)
{
    static uint8_t codes[ROWS * COLS];
    file f = {.header = ""};
    for (int i = 0; i < ROWS * k; i++) {
        codes[i] = (uint8_t)(i % 120);
    }
    add(&f, "w.weight", "F8_E4M3", shape, codes, (size_t)(ROWS * k));
    if (n_scale > 0) {
        add(&f, "w.weight_scale_inv", "F32", scale_shape, scales, n_scale * sizeof *scales);
    }
    finish(&f);
}

static void codes_get_their_scales(void **state)
{
    (void)state;
    static const float scales[4] = {0.5f, 2.0f, 3.0f, 0.25f};
    static uint8_t blocks[ROWS * 2 * WHIM_FP8_BLOCK_BYTES];
    static float wide[ROWS * 200];
    whim_weight w;
    whim_diag diag = {{0}};
    write_codes(COLS, "130, 256", "2, 2", scales, 4);
    assert_int_equal(bind(ROWS, COLS, &w, blocks, sizeof blocks, &diag), WHIM_ERR_OK);
    assert_int_equal(w.dtype, WHIM_DTYPE_FP8);
    for (int i = 0; i < ROWS * 2; i++) {
        const uint8_t *block = blocks + i * WHIM_FP8_BLOCK_BYTES;
        assert_true(whim_fp8_scale(block) == scales[i / 2 / BLOCK * 2 + i % 2]);
        assert_int_equal(block[WHIM_FP8_CODES_AT + 7], (i * BLOCK + 7) % 120);
    }
    /* A row that ends inside a block is widened. */
    write_codes(200, "130, 200", "2, 2", scales, 4);
    assert_int_equal(bind(ROWS, 200, &w, wide, sizeof wide, &diag), WHIM_ERR_OK);
    assert_int_equal(w.dtype, WHIM_DTYPE_F32);
    for (int i = 0; i < ROWS * 200; i++) {
        float scale = scales[i / 200 / BLOCK * 2 + i % 200 / BLOCK];
        assert_true(wide[i] == whim_e4m3_to_f32((uint8_t)(i % 120)) * scale);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_gives_the_same),
        cmocka_unit_test(experts_that_do_not_fit_are_named),
        cmocka_unit_test(layers_that_draft_are_counted),
        cmocka_unit_test(codes_get_their_scales),
    };
    return cmocka_run_group_tests_name("bind_find", tests, dir_setup, dir_teardown);
}
