/* SPDX-License-Identifier: Apache-2.0 */
/* A quantised copy of a model: every weight near what it was, everything else the same bytes; and
 * whatever goes wrong, nothing is left. The models are golden ones; tests/cli/quantize.sh has those
 * with experts. */
#include "engine/engine.h"

#include "unit/weights/fixture.h"

#include "base/file.h"
#include "base/json.h"
#include "tensor/half.h"
#include "tensor/quant.h"
#include "weights/quantised/quantize_impl.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

static const char model[] = "tests/data/golden/qwen3-bf16";

/* in_dir forgets what it said. */
static const char *out_path(void)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/out", test_dir);
    return path;
}

static whim_engine *prepare(const char *path)
{
    whim_engine *engine = NULL;
    whim_diag diag = {""};
    whim_engine_cfg cfg = {.model = path, .n_thread = 1};
    if (whim_engine_prepare(&cfg, &engine, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    return engine;
}

static whim_err quantize(const whim_engine *engine, const whim_quantize_cfg *cfg,
                         whim_quantize_result *result, whim_diag *diag)
{
    return whim_quantize(whim_engine_ckpt(engine), whim_engine_binder(engine), cfg, result, diag);
}

static void remove_out(const char *path)
{
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        char file[1024];
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        unlink(file);
    }
    closedir(dir);
    assert_int_equal(rmdir(path), 0);
}

static void expect_nothing_left(void)
{
    assert_int_equal(whim_path_get_type(in_dir("out")), WHIM_PATH_NONE);
    assert_int_equal(whim_path_get_type(in_dir("out.part")), WHIM_PATH_NONE);
}

/* --- what becomes of weights ------------------------------------------------------------------ */

static float *values_of(const whim_ckpt *ckpt, const whim_ckpt_tensor *t)
{
    int64_t k = t->shape[t->n_dim - 1], n = t->n_dim == 1 ? 1 : t->shape[0];
    int64_t row_bytes = whim_dtype_row_bytes(t->dtype, k);
    char *raw = malloc((size_t)(n * row_bytes));
    float *values = malloc((size_t)(n * k) * sizeof *values);
    assert_int_equal(whim_ckpt_read_rows(ckpt, t, 0, n, raw, NULL), WHIM_ERR_OK);
    for (int64_t i = 0; i < n; i++) {
        whim_dequant_row(t->dtype, raw + i * row_bytes, values + i * k, k);
    }
    free(raw);
    return values;
}

/* `most`: the largest error in shares of a group's largest weight. */
static void compare(const float *was, const float *is, int64_t n, float most, const char *name)
{
    for (int64_t g = 0; g < n; g += WHIM_GROUP) {
        float absmax = 0;
        for (int i = 0; i < WHIM_GROUP; i++) {
            absmax = fmaxf(absmax, fabsf(was[g + i]));
        }
        for (int i = 0; i < WHIM_GROUP; i++) {
            if (!(fabsf(was[g + i] - is[g + i]) <= most * absmax)) {
                fail_msg("%s, element %lld: %g became %g", name, (long long)(g + i),
                         (double)was[g + i], (double)is[g + i]);
            }
        }
    }
}

static char *bytes_of(const whim_ckpt *ckpt, const whim_ckpt_tensor *t)
{
    char *raw = malloc((size_t)t->raw.bytes + 1);
    const whim_ckpt_file *file = &ckpt->files[t->file];
    assert_int_equal(whim_file_read_at(file->fd, t->offset, t->raw.bytes, raw, file->path, NULL),
                     WHIM_ERR_OK);
    return raw;
}

static void check_same(const whim_ckpt *in, const whim_ckpt_tensor *was, const whim_ckpt *out,
                       const whim_ckpt_tensor *is)
{
    char *before = bytes_of(in, was), *after = bytes_of(out, is);
    assert_memory_equal(&was->raw, &is->raw, sizeof was->raw);
    assert_memory_equal(before, after, (size_t)was->raw.bytes);
    free(before);
    free(after);
}

static void check_model(const whim_ckpt *in, const whim_ckpt *out, whim_dtype type, float most,
                        int64_t n_matrix)
{
    int64_t n = 0;
    for (int64_t i = 0; i < in->n_tensor; i++) {
        const whim_ckpt_tensor *was = &in->tensors[i], *is = whim_ckpt_find(out, was->name);
        assert_non_null(is);
        if (is->recipe == NULL) {
            check_same(in, was, out, is);
            continue;
        }
        float *before = values_of(in, was), *after = values_of(out, is);
        assert_int_equal(is->dtype, type);
        assert_non_null(strstr(was->name, "_proj"));
        compare(before, after, was->shape[0] * was->shape[1], most, was->name);
        free(before);
        free(after);
        n++;
    }
    assert_int_equal(n, n_matrix);
}

static void weights_stay_near(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        whim_quantize_kind kind;
        whim_dtype type;
        /* half a step and what rounding a scale adds; q4 cuts the largest if that pays */
        float most;
    } cases[] = {
        {"tests/data/golden/qwen3-bf16", WHIM_QUANTIZE_Q8, WHIM_DTYPE_Q8_0, 0.505f / 127},
        {"tests/data/golden/qwen3-bf16", WHIM_QUANTIZE_Q4, WHIM_DTYPE_Q4_0, 1.2f / 7},
        {"tests/data/golden/llama-f16", WHIM_QUANTIZE_Q8, WHIM_DTYPE_Q8_0, 0.505f / 127},
        {"tests/data/golden/qwen35-bf16", WHIM_QUANTIZE_Q4, WHIM_DTYPE_Q4_0, 1.2f / 7},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        whim_engine *engine = prepare(cases[i].model);
        whim_quantize_result result;
        whim_diag diag = {""};
        whim_ckpt out;
        whim_quantize_cfg cfg = {.kind = cases[i].kind,
                                 .in = cases[i].model,
                                 .out = out_path(),
                                 .shard_bytes = i % 2 == 0 ? 1 << 30 : 1 << 16,
                                 .n_thread = 2};
        if (quantize(engine, &cfg, &result, &diag) != WHIM_ERR_OK) {
            fail_msg("%s", diag.text);
        }
        expect_opens(&out, in_dir("out"));
        assert_true((out.n_file > 1) == (i % 2 == 1));
        assert_true(result.n_matrix > 0 && result.matrix_out < result.matrix_in);
        check_model(whim_engine_ckpt(engine), &out, cases[i].type, cases[i].most, result.n_matrix);
        whim_ckpt_close(&out);
        whim_engine_close(engine);
        remove_out(in_dir("out"));
        expect_nothing_left();
    }
}

/* --- what goes wrong -------------------------------------------------------------------------- */

static whim_quantize_cfg q8_cfg(const char *in)
{
    return (whim_quantize_cfg){.in = in, .out = out_path(), .shard_bytes = 1 << 16, .n_thread = 1};
}

static void expect_failure(const whim_quantize_cfg *cfg, whim_err err, const char *text)
{
    whim_engine *engine = prepare(cfg->in);
    whim_quantize_result result;
    whim_diag diag = {""};
    int fds = open_fds();
    assert_int_equal(quantize(engine, cfg, &result, &diag), err);
    expect_text(&diag, "refusal", text);
    assert_int_equal(open_fds(), fds);
    expect_nothing_left();
    whim_engine_close(engine);
}

/* The model of the other tests with two bytes changed. */
static void write_damaged(const char *tensor, uint16_t value)
{
    whim_ckpt ckpt;
    char *text;
    int64_t n;
    expect_opens(&ckpt, model);
    const whim_ckpt_tensor *t = whim_ckpt_find(&ckpt, tensor);
    assert_non_null(t);
    assert_int_equal(whim_file_read_all(ckpt.files[0].path, 1 << 24, &text, &n, NULL), WHIM_ERR_OK);
    memcpy(text + t->offset + 2 * (5 * t->shape[1] + 3), &value, sizeof value); /* row 5 */
    dir_clear();
    write_file("model.safetensors", text, (size_t)n);
    whim_free(text);
    whim_ckpt_close(&ckpt);
    assert_int_equal(
        whim_file_read_all("tests/data/golden/qwen3-bf16/config.json", 1 << 20, &text, &n, NULL),
        WHIM_ERR_OK);
    write_file("config.json", text, (size_t)n);
    whim_free(text);
}

static void weights_that_are_no_numbers(void **state)
{
    (void)state;
    static const char name[] = "layers.1.self_attn.v_proj.weight";
    static const struct {
        uint16_t bits;
        const char *text;
    } cases[] = {{0x7fc0, "no number"}, {0xff80, "infinite"}, {0x4780, "too large"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        whim_quantize_cfg cfg = q8_cfg(test_dir);
        write_damaged(name, cases[i].bits);
        expect_failure(&cfg, WHIM_ERR_CORRUPT, cases[i].text);
        expect_failure(&cfg, WHIM_ERR_CORRUPT, "model.layers.1.self_attn.v_proj.weight\", row 5");
    }
    write_damaged("embed_tokens.weight", 0x7fc0); /* copied as it is */
    whim_quantize_cfg cfg = q8_cfg(test_dir);
    whim_engine *engine = prepare(test_dir);
    whim_quantize_result result;
    assert_int_equal(quantize(engine, &cfg, &result, NULL), WHIM_ERR_OK);
    whim_engine_close(engine);
    remove_out(in_dir("out"));
    dir_clear();
}

/* What no document of ours can hold stays in config.json as it was written. */
static void a_config_keeps_its_text(void **state)
{
    static const struct {
        const char *in, *begin;
    } cases[] = {
        {"\xEF\xBB\xBF{\n  \"a\": [NaN, 1e-06],\n  \"b\": 1000000000000000019884624838656\n}\n",
         "\xEF\xBB\xBF{\n  \"a\": [NaN, 1e-06],\n  \"b\": 1000000000000000019884624838656,\n"
         "  \"quantization_config\": {\"quant_method\":"},
        {"{ } \n", "{\n  \"quantization_config\": {\"quant_method\":"},
    };
    const whim_quantize_plan plan = {.format = whim_quantize_format_get(WHIM_QUANTIZE_Q8)};
    static const whim_json_limits limits = {.max_bytes = 1 << 20, .max_depth = 8};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *out = NULL;
        whim_json *json;
        whim_diag diag = {""};
        assert_int_equal(whim_quantize_config(&plan, cases[i].in, (int64_t)strlen(cases[i].in), "c",
                                              &out, &diag),
                         WHIM_ERR_OK);
        assert_ptr_equal(strstr(out, cases[i].begin), out);
        assert_int_equal(whim_json_parse(&json, out, (int64_t)strlen(out), limits, "made", &diag),
                         WHIM_ERR_OK);
        whim_json_free(json);
        whim_free(out);
    }
}

static void refusals(void **state)
{
    (void)state;
    whim_quantize_cfg cfg = q8_cfg("tests/data/golden/minimax-fp8");
    expect_failure(&cfg, WHIM_ERR_UNSUPPORTED, "quantised already");
    cfg.in = "tests/data/golden/llama-mixed-gguf";
    expect_failure(&cfg, WHIM_ERR_UNSUPPORTED, "GGUF");
    cfg.in = model;
    cfg.kind = WHIM_QUANTIZE_FP8;
    expect_failure(&cfg, WHIM_ERR_INVALID, "tiles of 128 x 128");
    cfg.kind = WHIM_QUANTIZE_Q8;
    cfg.out = model;
    expect_failure(&cfg, WHIM_ERR_INVALID, "the same folder");
    cfg.out = "tests/data/golden";
    expect_failure(&cfg, WHIM_ERR_INVALID, "not empty");
    cfg.out = "tests/run-tests";
    expect_failure(&cfg, WHIM_ERR_INVALID, "is not a folder");
    cfg.out = in_dir("none/out");
    expect_failure(&cfg, WHIM_ERR_IO, "none/out.part");
}

static void a_folder_of_another_is_left_alone(void **state)
{
    (void)state;
    whim_engine *engine = prepare(model);
    whim_quantize_cfg cfg = q8_cfg(model);
    whim_quantize_result result;
    whim_diag diag = {""};
    assert_int_equal(mkdir(in_dir("out.part"), 0777), 0);
    assert_int_equal(quantize(engine, &cfg, &result, &diag), WHIM_ERR_BUSY);
    expect_text(&diag, "a part", "out.part exists already");
    assert_int_equal(rmdir(in_dir("out.part")), 0); /* it is there still */
    assert_int_equal(mkdir(in_dir("out"), 0777), 0);
    cfg.out = in_dir("out/"); /* an empty folder is taken, whatever its spelling */
    assert_int_equal(quantize(engine, &cfg, &result, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_path_get_type(in_dir("out/config.json")), WHIM_PATH_FILE);
    remove_out(in_dir("out"));
    whim_engine_close(engine);
}

static void stopping_leaves_nothing(void **state)
{
    (void)state;
    static volatile sig_atomic_t stop = 1;
    whim_quantize_cfg cfg = q8_cfg(model);
    cfg.stop = &stop;
    expect_failure(&cfg, WHIM_ERR_BUSY, "stopped");
}

static void a_full_disk_leaves_nothing(void **state)
{
    (void)state;
    struct rlimit old, low;
    whim_quantize_cfg cfg = q8_cfg(model);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    low = (struct rlimit){.rlim_cur = 20000, .rlim_max = old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    expect_failure(&cfg, WHIM_ERR_IO, "cannot be written");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
}

static void allocations_may_fail(void **state)
{
    (void)state;
    whim_engine *engine = prepare(model);
    whim_quantize_cfg cfg = q8_cfg(model);
    int fds = open_fds();
    bool done = false;
    for (int64_t n = 0; n < 1000 && !done; n++) {
        whim_quantize_result result;
        whim_diag diag = {""};
        whim_alloc_fail_after(n);
        whim_err err = quantize(engine, &cfg, &result, &diag);
        whim_alloc_fail_after(-1);
        done = err == WHIM_ERR_OK;
        assert_true(done || err == WHIM_ERR_NO_MEMORY);
        assert_int_equal(open_fds(), fds);
        if (done) {
            remove_out(in_dir("out"));
        }
        expect_nothing_left();
    }
    assert_true(done);
    whim_engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_stay_near),
        cmocka_unit_test(weights_that_are_no_numbers),
        cmocka_unit_test(refusals),
        cmocka_unit_test(a_folder_of_another_is_left_alone),
        cmocka_unit_test(stopping_leaves_nothing),
        cmocka_unit_test(a_full_disk_leaves_nothing),
        cmocka_unit_test(a_config_keeps_its_text),
        cmocka_unit_test(allocations_may_fail),
    };
    return cmocka_run_group_tests(tests, dir_setup, dir_teardown);
}
