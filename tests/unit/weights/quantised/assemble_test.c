/* SPDX-License-Identifier: Apache-2.0 */
/* Quantised checkpoints: rows stand for the weights that tools/golden/make_quantised.py computed,
 * whichever rows are asked for; what does not fit is refused by name; lists of modules go by whole
 * components. */
#include "unit/weights/fixture.h"

#include "base/file.h"
#include "tensor/half.h"
#include "tensor/quant.h"
#include "weights/identity/fingerprint.h"

#include <math.h>

static const char root[] = "tests/data/weights/quantised";

/* The greatest error allowed, as a share of the scale's own size: what F16 does to a product of 4
 * bits and a scale. */
static const struct scheme_case {
    const char *name;
    whim_dtype dtype;
    double share;
} cases[] = {
    {"fp8-tile", WHIM_DTYPE_FP8, 0},
    {"fp8-partial", WHIM_DTYPE_F32, 0},
    {"fp8-channel", WHIM_DTYPE_FP8, 0},
    {"fp8-tensor", WHIM_DTYPE_FP8, 0},
    {"int8-channel", WHIM_DTYPE_INT8, 0},
    {"int8-partial", WHIM_DTYPE_F32, 0},
    {"int4", WHIM_DTYPE_Q4_0, 0},
    {"int4-asym", WHIM_DTYPE_Q4_1, 15 * 0x1p-11},
    {"int4-act", WHIM_DTYPE_F16, 0},
    {"int8-packed", WHIM_DTYPE_Q8_0, 0},
    {"gptq", WHIM_DTYPE_Q4_1, 15 * 0x1p-11},
    {"gptq-sym", WHIM_DTYPE_Q4_0, 0},
    {"gptq-v2", WHIM_DTYPE_Q4_1, 15 * 0x1p-11},
    {"gptq-act", WHIM_DTYPE_F16, 0},
    {"gptq-8bit", WHIM_DTYPE_Q8_0, 0},
    {"awq", WHIM_DTYPE_Q4_1, 15 * 0x1p-11},
};

static const whim_ckpt_tensor *open_case(whim_ckpt *ckpt, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    expect_opens(ckpt, path);
    const whim_ckpt_tensor *t = whim_ckpt_find(ckpt, "layers.0.mlp.up_proj.weight");
    assert_non_null(t);
    return t;
}

static void check_rows(const whim_ckpt *ckpt, const whim_ckpt_tensor *t, const float *want,
                       int64_t row0, int64_t n_row, double share)
{
    int64_t k = t->shape[1], row_bytes = whim_dtype_row_bytes(t->dtype, k);
    char *rows = malloc((size_t)(n_row * row_bytes));
    float *got = malloc((size_t)k * sizeof *got);
    assert_int_equal(whim_ckpt_read_rows(ckpt, t, row0, n_row, rows, NULL), WHIM_ERR_OK);
    for (int64_t i = 0; i < n_row; i++) {
        whim_dequant_row(t->dtype, rows + i * row_bytes, got, k);
        for (int64_t j = 0; j < k; j++) {
            /* scales are at most 0.05 */
            float value = want[(row0 + i) * k + j];
            if (t->dtype == WHIM_DTYPE_F16) { /* as GPTQ's own code rounds it */
                value = whim_f16_to_f32(whim_f32_to_f16(value));
            }
            double error = fabs((double)got[j] - (double)value);
            if (error > share * 0.05) {
                fail_msg("row %lld, column %lld: %g, expected %g", (long long)(row0 + i),
                         (long long)j, (double)got[j], (double)value);
            }
        }
    }
    free(rows);
    free(got);
}

static void rows_are_what_was_quantised(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        whim_ckpt ckpt;
        const whim_ckpt_tensor *t = open_case(&ckpt, cases[i].name);
        print_message("%s: %s [%lld, %lld]\n", cases[i].name, whim_dtype_get(t->dtype)->name,
                      (long long)t->shape[0], (long long)t->shape[1]);
        assert_int_equal(t->dtype, cases[i].dtype);
        assert_int_equal(t->bytes, t->shape[0] * whim_dtype_row_bytes(t->dtype, t->shape[1]));
        char path[256], *want;
        int64_t n;
        snprintf(path, sizeof path, "%s/%s/expected.bin", root, cases[i].name);
        assert_int_equal(whim_file_read_all(path, 1 << 20, &want, &n, NULL), WHIM_ERR_OK);
        assert_int_equal(n, t->shape[0] * t->shape[1] * 4);
        check_rows(&ckpt, t, (const float *)(const void *)want, 0, t->shape[0], cases[i].share);
        for (int64_t row = 0; row + 3 <= t->shape[0]; row += 5) { /* also from within a word */
            check_rows(&ckpt, t, (const float *)(const void *)want, row, 3, cases[i].share);
        }
        for (int64_t k = 0; k < ckpt.n_tensor; k++) { /* nothing else is left over */
            assert_true(&ckpt.tensors[k] == t || ckpt.tensors[k].is_part);
        }
        uint64_t print = 0;
        assert_int_equal(whim_ckpt_fingerprint(&ckpt, &print, NULL), WHIM_ERR_OK);
        assert_true(print != 0);
        whim_free(want);
        whim_ckpt_close(&ckpt);
    }
}

/* --- what is refused -------------------------------------------------------------------------- */

static const char base_config[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_size\": 8,"
    " \"num_attention_heads\": 2, \"num_hidden_layers\": 1, \"vocab_size\": 16,"
    " \"intermediate_size\": 16, \"torch_dtype\": \"float16\", \"quantization_config\": %s}";

static void write_config(const char *quant)
{
    char text[1024];
    dir_clear();
    snprintf(text, sizeof text, base_config, quant);
    write_text("config.json", text);
}

static void write_tensors(const char *header, const void *data, size_t n)
{
    bytes b = {0};
    put_le(&b, strlen(header), 8);
    put(&b, header, strlen(header));
    put(&b, data, n);
    write_file("model.safetensors", b.p, b.n);
    bytes_free(&b);
}

#define FP8_TILED "{\"quant_method\": \"fp8\", \"weight_block_size\": [128, 128]}"
#define WEIGHT \
    "\"model.m.weight\": {\"dtype\": \"F8_E4M3\", \"shape\": [2, 4], \"data_offsets\": [0, 8]}"
#define SCALE(SHAPE, END)                                                   \
    "\"model.m.weight_scale_inv\": {\"dtype\": \"F32\", \"shape\": [" SHAPE \
    "], \"data_offsets\": [8, " END "]}"

static void bad_parts_are_named(void **state)
{
    (void)state;
    uint8_t data[64] = {0};
    float nan = NAN;
    write_config(FP8_TILED);
    write_tensors("{" WEIGHT "}", data, 8);
    expect_refused("parts", test_dir, WHIM_ERR_CORRUPT, "\"model.m.weight_scale_inv\"", "missing");
    write_tensors("{" WEIGHT ", " SCALE("1, 2", "16") "}", data, 16);
    expect_refused("parts", test_dir, WHIM_ERR_CORRUPT, "m.weight_scale_inv",
                   "[1, 2], expected [1, 1]");
    memcpy(data + 8, &nan, 4);
    write_tensors("{" WEIGHT ", " SCALE("1, 1", "12") "}", data, 12);
    expect_refused("parts", test_dir, WHIM_ERR_CORRUPT, "m.weight_scale_inv", "nan");
    memset(data, 0, sizeof data);
    write_tensors("{" WEIGHT ", " SCALE("1, 1", "12") "}", data, 12);
    whim_ckpt ckpt;
    expect_opens(&ckpt, test_dir);
    whim_ckpt_close(&ckpt);
    write_config("{\"quant_method\": \"fp8\", \"weight_block_size\": [128, 128],"
                 " \"modules_to_not_convert\": [\"m\"]}");
    write_tensors("{" WEIGHT ", " SCALE("1, 1", "12") "}", data, 12);
    expect_refused("parts", test_dir, WHIM_ERR_CORRUPT, "model.m.weight", "not quantised");
}

/* Sizes that only a header claims, and more groups than columns. */
static void odd_sizes_are_refused(void **state)
{
    (void)state;
    uint8_t data[512] = {0};
    write_config("{\"quant_method\": \"fp8\"}");
    write_tensors(
        "{\"model.m.weight\": {\"dtype\": \"F8_E4M3\", \"shape\": [4611686018427387904, 0],"
        " \"data_offsets\": [0, 0]}, \"model.m.weight_scale\": {\"dtype\": \"F32\","
        " \"shape\": [1], \"data_offsets\": [0, 4]}}",
        data, 4);
    expect_refused("empty", test_dir, WHIM_ERR_CORRUPT, "model.m.weight", "empty");
    write_config("{\"quant_method\": \"gptq\", \"bits\": 4}");
    write_tensors(
        "{\"m.qweight\": {\"dtype\": \"I32\", \"shape\": [1, 8], \"data_offsets\": [0, 32]},"
        " \"m.g_idx\": {\"dtype\": \"I32\", \"shape\": [8], \"data_offsets\": [32, 64]},"
        " \"m.scales\": {\"dtype\": \"F16\", \"shape\": [9, 8], \"data_offsets\": [64, 208]},"
        " \"m.qzeros\": {\"dtype\": \"I32\", \"shape\": [9, 1], \"data_offsets\": [208, 244]}}",
        data, 244);
    expect_refused("groups", test_dir, WHIM_ERR_CORRUPT, "m.scales", "[9, 8]");
    write_tensors(
        "{\"m.qweight\": {\"dtype\": \"I32\", \"shape\": [1, 8], \"data_offsets\": [0, 32]},"
        " \"m.g_idx\": {\"dtype\": \"I32\", \"shape\": [4611686018427387904, 0],"
        " \"data_offsets\": [32, 32]},"
        " \"m.scales\": {\"dtype\": \"F16\", \"shape\": [1, 8], \"data_offsets\": [32, 48]},"
        " \"m.qzeros\": {\"dtype\": \"I32\", \"shape\": [1, 1], \"data_offsets\": [48, 52]}}",
        data, 52);
    expect_refused("g_idx", test_dir, WHIM_ERR_CORRUPT, "m.g_idx", "list of groups");
}

#define PACKED(SCALE, GROUPS)                                                                   \
    "{\"m.weight_packed\": {\"dtype\": \"I32\", \"shape\": [4, 1], \"data_offsets\": [0, 16]}," \
    " \"m.weight_shape\": {\"dtype\": \"I64\", \"shape\": [2], \"data_offsets\": [16, 32]},"    \
    " \"m.weight_scale\": {\"dtype\": \"F16\", \"shape\": [" SCALE                              \
    "], \"data_offsets\": [32, 48]},"                                                           \
    " \"m.weight_g_idx\": {\"dtype\": \"I32\", \"shape\": [" GROUPS                             \
    "], \"data_offsets\": [48, 80]}}"

/* Four rows of eight columns in two groups; the same bytes in other shapes are not that. */
static void packed_parts_have_their_shapes(void **state)
{
    (void)state;
    uint8_t data[80] = {[16] = 4, [24] = 8};
    write_config("{\"quant_method\": \"compressed-tensors\"}");
    write_tensors(PACKED("4, 2", "8"), data, sizeof data);
    whim_ckpt ckpt;
    expect_opens(&ckpt, test_dir);
    whim_ckpt_close(&ckpt);
    write_tensors(PACKED("4, 2, 1", "8"), data, sizeof data);
    expect_refused("scales", test_dir, WHIM_ERR_CORRUPT, "m.weight_scale", "[4, 2, 1]");
    write_tensors(PACKED("4, 2", "2, 4"), data, sizeof data);
    expect_refused("groups", test_dir, WHIM_ERR_CORRUPT, "m.weight_g_idx", "[2, 4], expected [8]");
}

#define BLOCKS                                                                                   \
    "{\"quant_method\": \"compressed-tensors\", \"config_groups\": {\"group_0\": {\"weights\":"  \
    " {\"type\": \"float\", \"num_bits\": 8, \"strategy\": \"block\", \"block_structure\": [2, " \
    "4]}}}}"

/* Tiles of compressed-tensors: rows 2 and 3 of columns 4 to 7 have the fourth scale. */
static void blocks_share_scales(void **state)
{
    (void)state;
    uint8_t data[48];
    const float scales[4] = {1, 2, 3, 5};
    memset(data, 0x38, sizeof data); /* 1 in e4m3 */
    memcpy(data + 32, scales, sizeof scales);
    write_config(BLOCKS);
    write_tensors("{\"m.weight\": {\"dtype\": \"F8_E4M3\", \"shape\": [4, 8], \"data_offsets\":"
                  " [0, 32]}, \"m.weight_scale\": {\"dtype\": \"F32\", \"shape\": [2, 2],"
                  " \"data_offsets\": [32, 48]}}",
                  data, sizeof data);
    whim_ckpt ckpt;
    expect_opens(&ckpt, test_dir);
    const whim_ckpt_tensor *t = whim_ckpt_find(&ckpt, "m.weight");
    assert_non_null(t);
    assert_int_equal(t->dtype, WHIM_DTYPE_F32);
    float rows[4][8];
    assert_int_equal(whim_ckpt_read_rows(&ckpt, t, 0, 4, rows, NULL), WHIM_ERR_OK);
    for (int i = 0; i < 32; i++) {
        assert_float_equal(rows[i / 8][i % 8], scales[i / 16 * 2 + i % 8 / 4], 0);
    }
    whim_ckpt_close(&ckpt);
    write_tensors("{\"m.weight\": {\"dtype\": \"F8_E4M3\", \"shape\": [4, 8], \"data_offsets\":"
                  " [0, 32]}}",
                  data, 32);
    expect_refused("blocks", test_dir, WHIM_ERR_CORRUPT, "\"m.weight_scale\"", "missing");
}

/* Scales are looked at as they are stored: the row that is told is the first of the tile. */
static void the_last_scale_is_checked_too(void **state)
{
    (void)state;
    static uint8_t data[20000 + 4 * 40];
    const float bad = INFINITY;
    write_config("{\"quant_method\": \"fp8\", \"weight_block_size\": [500, 4]}");
    memcpy(data + sizeof data - 80, &bad, sizeof bad);
    write_tensors("{\"m.weight\": {\"dtype\": \"F8_E4M3\", \"shape\": [20000, 1], \"data_offsets\":"
                  " [0, 20000]}, \"m.weight_scale_inv\": {\"dtype\": \"F32\", \"shape\": [40, 1],"
                  " \"data_offsets\": [20000, 20160]}}",
                  data, sizeof data);
    expect_refused("scale", test_dir, WHIM_ERR_CORRUPT, "m.weight_scale_inv",
                   "row 10000, group 0 is inf");
}

/* --- experts ---------------------------------------------------------------------------------- */

/* Two layers of two experts with two matrices each, GPTQ with 32 columns; `odd` has a zero point of
 * its own. */
static void write_experts(const char *odd)
{
    static char header[8192], part[1024];
    static uint8_t data[8 * (128 + 16 + 4)];
    size_t at = 0;
    strcpy(header, "{");
    for (int i = 0; i < 8; i++) {
        char name[96];
        snprintf(name, sizeof name, "layers.%d.mlp.experts.%d.%s_proj", i / 4, i / 2 % 2,
                 i % 2 == 0 ? "up" : "down");
        memset(data + at, 0x11, 128 + 16);
        memset(data + at + 144, strcmp(name, odd) == 0 ? 0x66 : 0x77, 4);
        snprintf(
            part, sizeof part,
            "%s\"model.%s.qweight\": {\"dtype\": \"I32\", \"shape\": [4, 8], \"data_offsets\": "
            "[%zu, %zu]}, \"model.%s.scales\": {\"dtype\": \"F16\", \"shape\": [1, 8], "
            "\"data_offsets\": [%zu, %zu]}, \"model.%s.qzeros\": {\"dtype\": \"I32\", \"shape\": "
            "[1, 1], \"data_offsets\": [%zu, %zu]}",
            i > 0 ? ", " : "", name, at, at + 128, name, at + 128, at + 144, name, at + 144,
            at + 148);
        strcat(header, part);
        at += 148;
    }
    strcat(header, "}");
    write_tensors(header, data, at);
}

/* Only the stack with the zero point of its own gets a type that holds it. */
static void experts_of_a_stack_have_one_type(void **state)
{
    (void)state;
    write_config("{\"quant_method\": \"gptq\", \"bits\": 4}");
    write_experts("layers.1.mlp.experts.1.up_proj");
    whim_ckpt ckpt;
    expect_opens(&ckpt, test_dir);
    for (int i = 0; i < 8; i++) {
        char name[96];
        bool is_odd = i / 4 == 1 && i % 2 == 0;
        snprintf(name, sizeof name, "layers.%d.mlp.experts.%d.%s_proj.weight", i / 4, i / 2 % 2,
                 i % 2 == 0 ? "up" : "down");
        const whim_ckpt_tensor *t = whim_ckpt_find(&ckpt, name);
        assert_non_null(t);
        assert_int_equal(t->dtype, is_odd ? WHIM_DTYPE_Q4_1 : WHIM_DTYPE_Q4_0);
        assert_int_equal(t->bytes, 8 * whim_dtype_row_bytes(t->dtype, 32));
    }
    whim_ckpt_close(&ckpt);
}

#define GPTQ_PARTS                                                                          \
    "{\"m.qweight\": {\"dtype\": \"I32\", \"shape\": [4, 8], \"data_offsets\": [0, 128]},"  \
    " \"m.scales\": {\"dtype\": \"F16\", \"shape\": [2, 8], \"data_offsets\": [128, 160]}," \
    " \"m.qzeros\": {\"dtype\": \"I32\", \"shape\": [2, 1], \"data_offsets\": [160, 168]}}"

/* 32 columns and scales for two groups of them. */
static void groups_are_those_of_the_config(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        bool good;
    } cases_of[] = {
        {"{\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 16}", true},
        {"{\"quant_method\": \"gptq\", \"bits\": 4}", true},
        {"{\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 8}", false},
        {"{\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": -1}", false},
        {"{\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 8,"
         " \"dynamic\": {\"+:m\": {\"group_size\": 16}, \"-:n\": {}}}",
         true},
    };
    uint8_t data[168] = {0};
    for (size_t i = 0; i < sizeof cases_of / sizeof cases_of[0]; i++) {
        write_config(cases_of[i].config);
        write_tensors(GPTQ_PARTS, data, sizeof data);
        if (cases_of[i].good) {
            whim_ckpt ckpt;
            expect_opens(&ckpt, test_dir);
            whim_ckpt_close(&ckpt);
        } else {
            expect_refused("groups", test_dir, WHIM_ERR_CORRUPT, "m.scales", "group_size");
        }
    }
}

static void unknown_schemes_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *config, *word;
        whim_err err;
    } bad[] = {
        {"{\"quant_method\": \"bitsandbytes\"}", "bitsandbytes", WHIM_ERR_UNSUPPORTED},
        {"{\"quant_method\": \"fp8\", \"fmt\": \"e5m2\"}", "e5m2", WHIM_ERR_UNSUPPORTED},
        {"{\"quant_method\": \"fp8\", \"weight_block_size\": [128]}", "weight_block_size",
         WHIM_ERR_CORRUPT},
        {"{\"quant_method\": \"gptq\", \"bits\": 3}", "bits", WHIM_ERR_UNSUPPORTED},
        {"{\"quant_method\": \"gptq\", \"bits\": 4, \"checkpoint_format\": \"marlin\"}", "marlin",
         WHIM_ERR_UNSUPPORTED},
        {"{\"quant_method\": \"awq\", \"bits\": 4, \"version\": \"gemv\"}", "gemv",
         WHIM_ERR_UNSUPPORTED},
        {"{\"quant_method\": \"compressed-tensors\", \"format\": \"nvfp4-pack-quantized\"}",
         "nvfp4", WHIM_ERR_UNSUPPORTED},
        {"{\"quant_method\": \"compressed-tensors\", \"config_groups\": {\"group_0\": {\"weights\":"
         " {\"type\": \"float\", \"num_bits\": 4}}}}",
         "float of 4 bits", WHIM_ERR_UNSUPPORTED},
        {"{\"quant_method\": \"compressed-tensors\", \"sparsity_config\": {\"format\":"
         " \"sparse-24-bitmask\"}}",
         "sparse-24", WHIM_ERR_UNSUPPORTED},
        {"{\"quant_method\": \"compressed-tensors\", \"config_groups\": {\"group_0\": {\"weights\":"
         " {\"type\": \"int\", \"num_bits\": 4, \"strategy\": \"tensor_group\"}}}}",
         "group_0.weights.strategy\" is \"tensor_group", WHIM_ERR_UNSUPPORTED},
        {"{\"quant_method\": \"compressed-tensors\", \"config_groups\": {\"group_0\": {\"weights\":"
         " {\"type\": \"float\", \"strategy\": \"block\"}}}}",
         "block_structure", WHIM_ERR_CORRUPT},
        {"{\"quant_method\": \"compressed-tensors\", \"config_groups\": {\"a\": {\"weights\":"
         " {\"type\": \"float\", \"strategy\": \"block\", \"block_structure\": [2, 4]}}, \"b\":"
         " {\"weights\": {\"type\": \"float\", \"strategy\": \"block\", \"block_structure\": [4, "
         "4]}}}}",
         "b.weights.block_structure\" differs", WHIM_ERR_UNSUPPORTED},
        {"{\"quant_method\": \"fp8\", \"ignored_layers\": [\"re:[\"]}",
         "\"re:[\", which is not a regular", WHIM_ERR_CORRUPT},
        {"{\"bits\": 4}", "MLX", WHIM_ERR_UNSUPPORTED},
        {"{\"group_size\": 64}", "quant_method", WHIM_ERR_CORRUPT},
        {"{\"quant_method\": \"fp8\", \"ignored_layers\": [1]}", "ignored_layers[0]",
         WHIM_ERR_CORRUPT},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_config(bad[i].config);
        write_tensors("{}", "", 0);
        expect_refused("scheme", test_dir, bad[i].err, "config.json", bad[i].word);
    }
}

static void lists_go_by_whole_components(void **state)
{
    (void)state;
    static const char text[] =
        "{\"quantization_config\": {\"quant_method\": \"fp8\", \"ignored_layers\":"
        " [\"gate\", \"model.layers.3\", \"mlp.shared\", \"re:.*router$\"]}}";
    whim_arena arena;
    whim_scheme s;
    whim_arena_init(&arena);
    assert_int_equal(whim_scheme_parse(&s, &arena, text, sizeof text - 1, "config.json", NULL),
                     WHIM_ERR_OK);
    assert_int_equal(s.n_ignore, 4);
    assert_true(whim_scheme_ignores(&s, "layers.0.mlp.gate"));
    assert_false(whim_scheme_ignores(&s, "layers.0.mlp.gate_proj"));
    assert_false(whim_scheme_ignores(&s, "layers.0.mlp.up_gate"));
    assert_true(whim_scheme_ignores(&s, "layers.3.mlp.up_proj"));
    assert_false(whim_scheme_ignores(&s, "layers.31.mlp.up_proj"));
    assert_true(whim_scheme_ignores(&s, "layers.0.mlp.shared"));
    assert_false(whim_scheme_ignores(&s, "layers.0.mlp.shared_expert"));
    assert_true(whim_scheme_ignores(&s, "layers.0.router"));
    assert_false(whim_scheme_ignores(&s, "layers.0.router.x"));
    whim_arena_reset(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_what_was_quantised),
        cmocka_unit_test(bad_parts_are_named),
        cmocka_unit_test(odd_sizes_are_refused),
        cmocka_unit_test(packed_parts_have_their_shapes),
        cmocka_unit_test(blocks_share_scales),
        cmocka_unit_test(the_last_scale_is_checked_too),
        cmocka_unit_test(experts_of_a_stack_have_one_type),
        cmocka_unit_test(groups_are_those_of_the_config),
        cmocka_unit_test(unknown_schemes_are_named),
        cmocka_unit_test(lists_go_by_whole_components),
    };
    return cmocka_run_group_tests(tests, dir_setup, dir_teardown);
}
