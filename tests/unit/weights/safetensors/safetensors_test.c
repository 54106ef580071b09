/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors directories: one file, shards, and the ways in which they can be wrong. */
#include "unit/weights/fixture.h"

#include <jansson.h>
#include <malloc.h>

static const char tiny_config[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_size\": 8,"
    " \"num_attention_heads\": 2, \"num_hidden_layers\": 1, \"vocab_size\": 16,"
    " \"intermediate_size\": 16, \"torch_dtype\": \"float16\"}";

/* A file of this header and `data` bytes that count upwards. */
static void write_safetensors(const char *name, const char *header, size_t data)
{
    bytes b = {0};
    put_le(&b, strlen(header), 8);
    put(&b, header, strlen(header));
    for (size_t i = 0; i < data; i++) {
        put_le(&b, i, 1);
    }
    write_file(name, b.p, b.n);
    bytes_free(&b);
}

static void start(void)
{
    dir_clear();
    write_text("config.json", tiny_config);
}

static void opens_one_file(void **state)
{
    (void)state;
    static const char *const file_names[] = {"model.safetensors", "other.safetensors"};
    for (int i = 0; i < 2; i++) {
        start();
        write_safetensors(
            file_names[i],
            "{\"__metadata__\": {\"format\": \"pt\"},"
            "\"model.embed_tokens.weight\": {\"dtype\": \"F32\", \"shape\": [2, 3],"
            " \"data_offsets\": [8, 32]},"
            "\"lm_head.weight\": {\"dtype\": \"BF16\", \"shape\": [4], \"data_offsets\": [0, 8]},"
            "\"model.language_model.norm.weight\": {\"dtype\": \"F16\", \"shape\": [],"
            " \"data_offsets\": [40, 42]},"
            "\"language_model.model.a\": {\"dtype\": \"F16\", \"shape\": [0, 7],"
            " \"data_offsets\": [32, 32]},"
            "\"model.ids\": {\"dtype\": \"I64\", \"shape\": [1], \"data_offsets\": [32, 40]},"
            "\"model.new\": {\"dtype\": \"F9_X\", \"shape\": [3], \"data_offsets\": [42, 44]},"
            "\"visual.patch\": {\"dtype\": \"F32\", \"shape\": [1,1,1,1,1],"
            " \"data_offsets\": [44, 48]}}   ",
            48);
        whim_ckpt ckpt;
        expect_opens(&ckpt, test_dir);
        assert_int_equal(ckpt.format, WHIM_CKPT_SAFETENSORS);
        assert_int_equal(ckpt.n_tensor, 7);
        const whim_ckpt_tensor *t = whim_ckpt_find(&ckpt, "embed_tokens.weight");
        assert_non_null(t);
        assert_string_equal(t->file_name, "model.embed_tokens.weight");
        assert_true(t->n_dim == 2 && t->shape[0] == 2 && t->shape[1] == 3 && t->bytes == 24);
        assert_int_equal(t->dtype, WHIM_DTYPE_F32);
        assert_null(t->unsupported);
        uint8_t raw[2];
        assert_int_equal(whim_ckpt_read(&ckpt, t, 22, 2, raw, NULL), WHIM_ERR_OK);
        assert_true(raw[0] == 30 && raw[1] == 31);
        assert_int_equal(whim_ckpt_find(&ckpt, "lm_head.weight")->dtype, WHIM_DTYPE_BF16);
        t = whim_ckpt_find(&ckpt, "norm.weight");
        assert_true(t->n_dim == 1 && t->shape[0] == 1 && t->dtype == WHIM_DTYPE_F16);
        assert_int_equal(whim_ckpt_find(&ckpt, "a")->bytes, 0);
        assert_non_null(strstr(whim_ckpt_find(&ckpt, "ids")->unsupported, "I64"));
        assert_non_null(strstr(whim_ckpt_find(&ckpt, "new")->unsupported, "F9_X"));
        assert_non_null(strstr(whim_ckpt_find(&ckpt, "visual.patch")->unsupported, "four"));
        assert_int_equal(ckpt.config.dtype, WHIM_DTYPE_F16);
        assert_int_equal(ckpt.config.eos[0], 2);
        whim_ckpt_close(&ckpt);
    }
}

static const char shard_a[] =
    "{\"model.a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}}";
static const char shard_b[] =
    "{\"model.b\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}}";

static void write_shards(void)
{
    start();
    write_safetensors("x-1.safetensors", shard_a, 4);
    write_safetensors("x-2.safetensors", shard_b, 4);
    write_text("model.safetensors.index.json",
               "{\"metadata\": {\"total_size\": 8}, \"weight_map\":"
               " {\"model.a\": \"x-1.safetensors\", \"model.b\": \"x-2.safetensors\"}}");
}

static void opens_shards(void **state)
{
    (void)state;
    write_shards();
    write_text("generation_config.json", "{\"eos_token_id\": [2, 7, 9]}");
    whim_ckpt ckpt;
    expect_opens(&ckpt, test_dir);
    assert_int_equal(ckpt.n_file, 2);
    assert_int_equal(whim_ckpt_find(&ckpt, "b")->file, 1);
    assert_int_equal(ckpt.config.n_eos, 3);
    assert_true(ckpt.config.eos[0] == 2 && ckpt.config.eos[1] == 7 && ckpt.config.eos[2] == 9);
    whim_ckpt_close(&ckpt);
    sweep_allocations(test_dir);
}

static void refuses_bad_shards(void **state)
{
    (void)state;
    static const struct {
        const char *label;
        const char *index;
        whim_err err;
        const char *needle;
    } cases[] = {
        {"no map", "{}", WHIM_ERR_CORRUPT, "weight_map"},
        {"map is a list", "{\"weight_map\": []}", WHIM_ERR_CORRUPT, "weight_map"},
        {"number", "{\"weight_map\": {\"model.a\": 7}}", WHIM_ERR_CORRUPT, "model.a"},
        {"parent", "{\"weight_map\": {\"model.a\": \"../x-1.safetensors\"}}", WHIM_ERR_CORRUPT,
         "plain name"},
        {"absolute", "{\"weight_map\": {\"model.a\": \"/x-1.safetensors\"}}", WHIM_ERR_CORRUPT,
         "plain name"},
        {"dots", "{\"weight_map\": {\"model.a\": \"..\"}}", WHIM_ERR_CORRUPT, "plain name"},
        {"empty", "{\"weight_map\": {\"model.a\": \"\"}}", WHIM_ERR_CORRUPT, "plain name"},
        {"missing", "{\"weight_map\": {\"model.a\": \"x-9.safetensors\"}}", WHIM_ERR_NOT_FOUND,
         "x-9.safetensors"},
        {"wrong shard", "{\"weight_map\": {\"model.a\": \"x-2.safetensors\"}}", WHIM_ERR_CORRUPT,
         "model.a"},
        {"crossed",
         "{\"weight_map\": {\"model.a\": \"x-2.safetensors\", \"model.b\": \"x-1.safetensors\"}}",
         WHIM_ERR_CORRUPT, "model.a"},
        {"not JSON", "{\"weight_map\"", WHIM_ERR_CORRUPT, "line 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_shards();
        write_text("model.safetensors.index.json", cases[i].index);
        expect_refused(cases[i].label, test_dir, cases[i].err, test_dir, cases[i].needle);
    }
    write_shards();
    write_safetensors("x-2.safetensors", shard_a, 4);
    expect_refused("twice", test_dir, WHIM_ERR_CORRUPT, "x-2.safetensors", "model.a");
    write_shards();
    unlink(in_dir("model.safetensors.index.json"));
    expect_refused("no index", test_dir, WHIM_ERR_NOT_FOUND, test_dir, "index.json");
}

/* One tensor's entry with this text in place of the values. */
#define ENTRY(dtype, shape, offsets) \
    "{\"t.w\": {\"dtype\": " dtype ", \"shape\": " shape ", \"data_offsets\": " offsets "}}"

static const struct {
    const char *label;
    const char *header;
    const char *needle;
} bad[] = {
    {"empty", "", "JSON"},
    {"not an object", "[]", "object"},
    {"tensor is a list", "{\"t.w\": []}", "t.w"},
    {"no dtype", "{\"t.w\": {\"shape\": [1], \"data_offsets\": [0, 4]}}", "dtype"},
    {"no shape", "{\"t.w\": {\"dtype\": \"F32\", \"data_offsets\": [0, 4]}}", "shape"},
    {"no offsets", "{\"t.w\": {\"dtype\": \"F32\", \"shape\": [1]}}", "data_offsets"},
    {"dtype is a number", ENTRY("3", "[1]", "[0, 4]"), "dtype"},
    {"shape is a number", ENTRY("\"F32\"", "1", "[0, 4]"), "shape"},
    {"shape holds text", ENTRY("\"F32\"", "[\"1\"]", "[0, 4]"), "shape"},
    {"negative shape", ENTRY("\"F32\"", "[-1]", "[0, 4]"), "shape"},
    {"two negatives", ENTRY("\"F32\"", "[-1, -1]", "[0, 4]"), "shape"},
    {"overflow", ENTRY("\"F32\"", "[4294967296, 4294967296]", "[0, 0]"), "shape"},
    {"byte overflow", ENTRY("\"F32\"", "[2147483648, 2147483648]", "[0, 0]"), "data_offsets"},
    {"beyond 64 bits", ENTRY("\"F32\"", "[99999999999999999999]", "[0, 4]"), "integer"},
    {"one offset", ENTRY("\"F32\"", "[1]", "[0]"), "data_offsets"},
    {"negative offset", ENTRY("\"F32\"", "[1]", "[-4, 0]"), "data_offsets"},
    {"falling offsets", ENTRY("\"F32\"", "[1]", "[4, 0]"), "data_offsets"},
    {"outside", ENTRY("\"F32\"", "[1]", "[14, 18]"), "data_offsets"},
    {"too many bytes", ENTRY("\"F32\"", "[1]", "[0, 8]"), "data_offsets"},
    {"too few bytes", ENTRY("\"I64\"", "[1]", "[0, 4]"), "data_offsets"},
    {"overlap",
     "{\"t.w\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]},"
     " \"u.w\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [4, 8]}}",
     "overlap"},
    {"same key",
     "{\"t.w\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]},"
     " \"t.w\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [4, 8]}}",
     "occurs twice"},
    {"same canonical name",
     "{\"t.w\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]},"
     " \"model.t.w\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [4, 8]}}",
     "occurs twice"},
    {"control character",
     "{\"t\\u001b[2J\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}}",
     "control character"},
    {"control character of two bytes",
     "{\"t\\u009b\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}}",
     "control character"},
    {"deep", "{\"a\":[[[[[[[[[[]]]]]]]]]]}", "deeper"},
};

static void refuses_malformed_headers(void **state)
{
    (void)state;
    start();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_safetensors("model.safetensors", bad[i].header, 16);
        expect_refused(bad[i].label, test_dir, WHIM_ERR_CORRUPT, "model.safetensors",
                       bad[i].needle);
    }
    static const uint64_t lengths[] = {UINT64_MAX, INT64_MAX, 1000, 3};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        bytes b = {0};
        put_le(&b, lengths[i], 8);
        put(&b, "{}", 2);
        write_file("model.safetensors", b.p, b.n);
        bytes_free(&b);
        expect_refused("length", test_dir, WHIM_ERR_CORRUPT, "model.safetensors", "header length");
    }
}

static int64_t living, most_living; /* bytes of the JSON library's heap */

static void *counting_malloc(size_t n)
{
    void *p = malloc(n);
    living += p == NULL ? 0 : (int64_t)malloc_usable_size(p);
    most_living = living > most_living ? living : most_living;
    return p;
}

static void counting_free(void *p)
{
    living -= p == NULL ? 0 : (int64_t)malloc_usable_size(p);
    free(p);
}

/* `before`, a million bytes of lists that nobody reads, and `after`. */
static char *padded(const char *before, const char *after)
{
    enum { PAIRS = 250 * 1000 };
    whim_str text = {0};
    whim_str_append(&text, before);
    for (int i = 0; i < PAIRS; i++) {
        whim_str_append(&text, "{},[],"); /* a document of these takes 75 times their size */
    }
    whim_str_append(&text, "0]");
    whim_str_append(&text, after);
    return text.text;
}

/* What stands in a header or an index beside the tensors costs no memory. */
static void keeps_nothing_that_it_does_not_need(void **state)
{
    (void)state;
    const char *entry = "\"t.w\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}";
    char after[200];
    snprintf(after, sizeof after, ", %s}", entry);
    char *header = padded("{\"__metadata__\": [", after);
    char *index = padded("{\"metadata\": [", ", \"weight_map\": {\"t.w\": \"x.safetensors\"}}");
    living = most_living = 0;
    json_set_alloc_funcs(counting_malloc, counting_free);
    for (int sharded = 0; sharded < 2; sharded++) {
        whim_ckpt ckpt;
        start();
        write_safetensors(sharded ? "x.safetensors" : "model.safetensors", header, 4);
        if (sharded) {
            write_text("model.safetensors.index.json", index);
        }
        expect_opens(&ckpt, test_dir);
        assert_int_equal(ckpt.n_tensor, 1);
        whim_ckpt_close(&ckpt);
    }
    assert_true(most_living < 64 * 1024);
    /* Inside a tensor's own entry it is read, within a bound that the message names. */
    char *inside = padded("{\"t.w\": {\"x\": [", "}}");
    start();
    write_safetensors("model.safetensors", inside, 4);
    expect_refused("inside", test_dir, WHIM_ERR_CORRUPT, "model.safetensors",
                   "more than 4096 values");
    json_set_alloc_funcs(malloc, free);
    assert_true(most_living < 1024 * 1024);
    whim_free(header);
    whim_free(index);
    whim_free(inside);
}

static void refuses_every_truncation(void **state)
{
    (void)state;
    start();
    write_safetensors("model.safetensors", ENTRY("\"F32\"", "[4]", "[0, 16]"), 16);
    uint8_t whole[256];
    FILE *f = fopen(in_dir("model.safetensors"), "rb");
    assert_non_null(f);
    size_t n = fread(whole, 1, sizeof whole, f);
    fclose(f);
    whim_ckpt ckpt;
    expect_opens(&ckpt, test_dir);
    whim_ckpt_close(&ckpt);
    for (size_t cut = 0; cut < n; cut++) {
        write_file("model.safetensors", whole, cut);
        expect_refused("cut", test_dir, WHIM_ERR_CORRUPT, "model.safetensors", NULL);
    }
}

static void refuses_wrong_paths(void **state)
{
    (void)state;
    dir_clear();
    expect_refused("empty directory", test_dir, WHIM_ERR_NOT_FOUND, test_dir, "config.json");
    expect_refused("nothing there", in_dir("absent"), WHIM_ERR_NOT_FOUND, "absent", "no such");
    expect_refused("a device", "/dev/null", WHIM_ERR_INVALID, "/dev/null", NULL);
    write_text("config.json", tiny_config);
    expect_refused("no weights", test_dir, WHIM_ERR_NOT_FOUND, test_dir, "safetensors");
    expect_refused("config as model", in_dir("config.json"), WHIM_ERR_INVALID, "config.json",
                   "directory");
    write_safetensors("model.safetensors", "{}", 0);
    expect_refused("weights as model", in_dir("model.safetensors"), WHIM_ERR_INVALID,
                   "model.safetensors", "directory");
    unlink(in_dir("config.json"));
    expect_refused("no config", test_dir, WHIM_ERR_NOT_FOUND, test_dir, "config.json");
    dir_clear();
    write_text("a.gguf", "GGUF");
    write_text("b.gguf", "GGUF");
    expect_refused("two models", test_dir, WHIM_ERR_INVALID, test_dir, "2 .gguf");
}

/* A file that shrinks after it was opened must not give stale or partial data. */
static void notices_a_shrunken_file(void **state)
{
    (void)state;
    start();
    write_safetensors("model.safetensors", ENTRY("\"F32\"", "[4]", "[0, 16]"), 16);
    whim_ckpt ckpt;
    expect_opens(&ckpt, test_dir);
    assert_int_equal(truncate(in_dir("model.safetensors"), 80), 0);
    uint8_t raw[16];
    whim_diag diag = {{0}};
    assert_int_equal(whim_ckpt_read(&ckpt, whim_ckpt_find(&ckpt, "t.w"), 0, 16, raw, &diag),
                     WHIM_ERR_IO);
    expect_text(&diag, "shrunken", "model.safetensors");
    whim_ckpt_close(&ckpt);
}

static void takes_the_type_of_the_weights(void **state)
{
    (void)state;
    dir_clear();
    write_text("config.json", "{\"model_type\": \"llama\"}");
    write_safetensors("model.safetensors", ENTRY("\"F32\"", "[4]", "[0, 16]"), 16);
    whim_ckpt ckpt;
    expect_opens(&ckpt, test_dir);
    assert_int_equal(ckpt.config.dtype, WHIM_DTYPE_F32);
    whim_ckpt_close(&ckpt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_one_file),
        cmocka_unit_test(opens_shards),
        cmocka_unit_test(refuses_bad_shards),
        cmocka_unit_test(refuses_malformed_headers),
        cmocka_unit_test(keeps_nothing_that_it_does_not_need),
        cmocka_unit_test(refuses_every_truncation),
        cmocka_unit_test(refuses_wrong_paths),
        cmocka_unit_test(notices_a_shrunken_file),
        cmocka_unit_test(takes_the_type_of_the_weights),
    };
    return cmocka_run_group_tests(tests, dir_setup, dir_teardown);
}
