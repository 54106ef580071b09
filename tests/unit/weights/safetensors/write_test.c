/* SPDX-License-Identifier: Apache-2.0 */
/* What the writer makes is what the reader finds: names, shapes of any number of dimensions, bytes;
 * one file or many. */
#include "unit/weights/fixture.h"

#include "base/file.h"
#include "weights/safetensors/write.h"

static const char config[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_size\": 8,"
    " \"num_attention_heads\": 2, \"num_hidden_layers\": 1, \"vocab_size\": 16,"
    " \"intermediate_size\": 16, \"torch_dtype\": \"float16\"}";

static void entries_make(whim_safetensors_entry e[6])
{
    static const whim_safetensors_entry list[6] = {
        {.name = "a.weight", .as = {"F16", 2, {3, 5}, 30}},
        {.name = "b.codes", .as = {"F8_E4M3", 1, {7}, 7}},
        {.name = "c \"quoted\" \\", .as = {"F32", 3, {2, 1, 2}, 16}},
        {.name = "d.shape", .as = {"I64", 1, {2}, 16}},
        {.name = "e.patch", .as = {"BF16", 5, {2, 1, 1, 2, 2}, 16}},
        {.name = "f.scalar", .as = {"F32", 0, {0}, 4}},
    };
    memcpy(e, list, sizeof list);
}

/* Byte i of tensor t. */
static uint8_t pattern(int64_t t, int64_t i)
{
    return (uint8_t)(t * 37 + i * 11 + 1);
}

static void put_all(whim_safetensors_writer *w, whim_diag *diag)
{
    for (int64_t t = w->n_entry - 1; t >= 0; t--) { /* in any order, in any pieces */
        for (int64_t i = w->entries[t].as.bytes - 1; i >= 0; i--) {
            uint8_t byte = pattern(t, i);
            assert_int_equal(whim_safetensors_put(w, t, i, &byte, 1, diag), WHIM_ERR_OK);
        }
    }
}

static void read_back(const whim_safetensors_entry *e)
{
    whim_ckpt ckpt;
    write_text("config.json", config);
    expect_opens(&ckpt, test_dir);
    assert_int_equal(ckpt.n_tensor, 6);
    for (int64_t t = 0; t < 6; t++) {
        const whim_ckpt_tensor *got = whim_ckpt_find(&ckpt, e[t].name);
        assert_non_null(got);
        assert_string_equal(got->raw.type, e[t].as.type);
        assert_int_equal(got->raw.n_dim, e[t].as.n_dim);
        assert_memory_equal(got->raw.shape, e[t].as.shape,
                            (size_t)e[t].as.n_dim * sizeof got->raw.shape[0]);
        assert_int_equal(got->raw.bytes, e[t].as.bytes);
        int64_t n = 1;
        for (int32_t d = 0; d < e[t].as.n_dim; d++) {
            n *= e[t].as.shape[d];
        }
        assert_int_equal(got->offset % (e[t].as.bytes / n), 0); /* others map it */
        for (int64_t i = 0; i < e[t].as.bytes; i++) {
            uint8_t byte;
            const whim_ckpt_file *file = &ckpt.files[got->file];
            assert_int_equal(
                whim_file_read_at(file->fd, got->offset + i, 1, &byte, file->path, NULL),
                WHIM_ERR_OK);
            assert_int_equal(byte, pattern(t, i));
        }
    }
    whim_ckpt_close(&ckpt);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    static const struct {
        int64_t max;
        int32_t n_file;
    } cases[] = {{1 << 20, 1}, {89, 1}, {88, 2}, {37, 3}, {1, 6}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        whim_safetensors_entry e[6];
        whim_safetensors_writer w;
        whim_diag diag = {""};
        int fds = open_fds();
        dir_clear();
        entries_make(e);
        assert_int_equal(whim_safetensors_begin(&w, test_dir, e, 6, cases[i].max, &diag),
                         WHIM_ERR_OK);
        assert_int_equal(w.n_file, cases[i].n_file);
        assert_int_equal(w.bytes, 89);
        put_all(&w, &diag);
        assert_int_equal(whim_path_get_type(in_dir("model.safetensors.index.json")),
                         WHIM_PATH_NONE);
        assert_int_equal(whim_safetensors_finish(&w, &diag), WHIM_ERR_OK);
        whim_safetensors_close(&w);
        assert_int_equal(open_fds(), fds);
        read_back(e);
    }
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    whim_safetensors_entry e[6];
    whim_safetensors_writer w;
    whim_diag diag = {""};
    int fds = open_fds();
    dir_clear();
    entries_make(e);
    assert_int_equal(whim_safetensors_begin(&w, in_dir("none"), e, 6, 100, &diag), WHIM_ERR_IO);
    expect_text(&diag, "no folder", "model.safetensors cannot be written");
    write_text("model-00002-of-00003.safetensors", "there");
    assert_int_equal(whim_safetensors_begin(&w, test_dir, e, 6, 37, &diag), WHIM_ERR_IO);
    expect_text(&diag, "a file is there", "model-00002-of-00003.safetensors");
    assert_int_equal(open_fds(), fds);
    dir_clear();
    assert_int_equal(whim_safetensors_begin(&w, test_dir, e, 6, 100, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_safetensors_put(&w, 1, 7, "x", 1, &diag), WHIM_ERR_INVALID);
    expect_text(&diag, "beyond its end", "b.codes");
    assert_int_equal(whim_safetensors_put(&w, 1, -1, "x", 1, &diag), WHIM_ERR_INVALID);
    whim_safetensors_close(&w);
    assert_int_equal(open_fds(), fds);
}

/* Whichever allocation fails, the writer says so and leaves no file open. */
static void allocations_may_fail(void **state)
{
    (void)state;
    int fds = open_fds();
    bool done = false;
    for (int64_t n = 0; n < 50 && !done; n++) {
        whim_safetensors_entry e[6];
        whim_safetensors_writer w;
        whim_diag diag = {""};
        dir_clear();
        entries_make(e);
        whim_alloc_fail_after(n);
        whim_err err = whim_safetensors_begin(&w, test_dir, e, 6, 37, &diag);
        if (err == WHIM_ERR_OK) {
            err = whim_safetensors_finish(&w, &diag);
            done = err == WHIM_ERR_OK;
        }
        whim_alloc_fail_after(-1);
        assert_true(done || err == WHIM_ERR_NO_MEMORY);
        whim_safetensors_close(&w);
        assert_int_equal(open_fds(), fds);
    }
    assert_true(done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(allocations_may_fail),
    };
    return cmocka_run_group_tests(tests, dir_setup, dir_teardown);
}
