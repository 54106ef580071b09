/* SPDX-License-Identifier: Apache-2.0 */
/* Names of checkpoints by all their bytes, and what is remembered of files that were read. */
#include "weights/identity/identity.h"

#include "base/file.h"
#include "models/model.h"
#include "weights/identity/fingerprint.h"
#include "weights/identity/sum_memory.h"

#include "support/cmocka.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char golden[] = "tests/data/golden/qwen3-f32";
static char folder[] = "/tmp/whimbrel-identity-XXXXXX";

typedef struct names {
    char identity[WHIM_IDENTITY_TEXT];
    uint64_t print; /* of samples */
} names;

static names names_of(const char *path, const char *memory, int32_t n_thread)
{
    names n = {""};
    whim_ckpt ckpt = {0};
    whim_diag diag = {""};
    const whim_identity_cfg cfg = {.memory = memory, .n_thread = n_thread};
    assert_int_equal(whim_ckpt_open(&ckpt, whim_model_archs(), path, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_ckpt_identity(&ckpt, &cfg, n.identity, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_ckpt_fingerprint(&ckpt, &n.print, &diag), WHIM_ERR_OK);
    whim_ckpt_close(&ckpt);
    return n;
}

/* A copy of a file of the golden model in the folder. */
static void copy_file(const char *name)
{
    char from[256], to[256], *bytes;
    int64_t n;
    snprintf(from, sizeof from, "%s/%s", golden, name);
    snprintf(to, sizeof to, "%s/%s", folder, name);
    assert_int_equal(whim_file_read_all(from, 1 << 24, &bytes, &n, NULL), WHIM_ERR_OK);
    unlink(to);
    assert_int_equal(whim_file_write_all(to, bytes, n, NULL), WHIM_ERR_OK);
    free(bytes);
}

static void copy_model(void)
{
    copy_file("config.json");
    copy_file("model.safetensors");
}

static void put_byte(const char *name, int64_t at, char byte)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

/* A byte of the first large tensor that no sample reads. */
static int64_t place_between_samples(void)
{
    whim_ckpt ckpt = {0};
    int64_t at = -1;
    assert_int_equal(whim_ckpt_open(&ckpt, whim_model_archs(), golden, NULL), WHIM_ERR_OK);
    for (int64_t i = 0; i < ckpt.n_tensor && at < 0; i++) {
        const whim_ckpt_tensor *t = &ckpt.tensors[i];
        at = t->bytes > 4096 ? t->offset + t->bytes / 4 : -1;
    }
    whim_ckpt_close(&ckpt);
    assert_true(at > 0);
    return at;
}

static void equal_files_are_equal(void **state)
{
    (void)state;
    copy_model();
    names own = names_of(golden, NULL, 1), other = names_of(folder, NULL, 3);
    assert_int_equal(strlen(own.identity), WHIM_IDENTITY_TEXT - 1);
    assert_string_equal(own.identity, other.identity);
}

static void an_edit_in_place_is_another(void **state)
{
    (void)state;
    copy_model();
    names before = names_of(folder, NULL, 2);
    put_byte("model.safetensors", place_between_samples(), 0x55);
    names after = names_of(folder, NULL, 2);
    assert_true(before.print == after.print); /* which is why samples are not enough */
    assert_string_not_equal(before.identity, after.identity);
}

/* Keys depend on the base of rotations and on other numbers there. */
static void another_config_is_another(void **state)
{
    (void)state;
    char path[256], *text;
    int64_t n;
    copy_model();
    names before = names_of(folder, NULL, 1);
    snprintf(path, sizeof path, "%s/config.json", folder);
    assert_int_equal(whim_file_read_all(path, 1 << 20, &text, &n, NULL), WHIM_ERR_OK);
    char *eps = strstr(text, "\"rms_norm_eps\": 0.00");
    assert_non_null(eps);
    put_byte("config.json", eps - text + (int64_t)strlen("\"rms_norm_eps\": 0.00"), '4');
    free(text);
    assert_string_not_equal(before.identity, names_of(folder, NULL, 1).identity);
}

static whim_sum_memory read_memory(const char *path)
{
    whim_sum_memory memory = {0};
    whim_sum_memory_read(&memory, path);
    return memory;
}

static void a_file_is_read_once(void **state)
{
    (void)state;
    char path[256];
    snprintf(path, sizeof path, "%s/sums", folder);
    names first = names_of(golden, path, 2);
    whim_sum_memory memory = read_memory(path);
    assert_int_equal(memory.n, 1);
    assert_string_equal(names_of(golden, path, 2).identity, first.identity);
    /* what is remembered is believed, so nothing was read */
    memory.files[0].sum[7] ^= 1;
    memory.changed = true;
    whim_sum_memory_write(&memory, path);
    assert_string_not_equal(names_of(golden, path, 2).identity, first.identity);
    /* but not of a file with other times, size or place */
    for (int i = 0; i < 5; i++) {
        whim_sum_of_file *f = &memory.files[0];
        f->device += i == 0;
        f->inode += i == 1;
        f->bytes += i == 2;
        f->written_ns += i == 3;
        f->changed_ns += i == 4;
        whim_sum_memory_write(&memory, path);
        assert_string_equal(names_of(golden, path, 2).identity, first.identity);
    }
    whim_sum_memory_deinit(&memory);
    unlink(path);
}

/* Another change could leave it the same times. */
static void a_file_that_just_changed_is_not_remembered(void **state)
{
    (void)state;
    char path[256];
    snprintf(path, sizeof path, "%s/sums", folder);
    copy_model();
    (void)names_of(folder, path, 1);
    assert_int_equal(whim_path_get_type(path), WHIM_PATH_NONE);
}

static void who_stops_gets_none(void **state)
{
    (void)state;
    whim_ckpt ckpt = {0};
    atomic_bool stop = true;
    char out[WHIM_IDENTITY_TEXT];
    const whim_identity_cfg cfg = {.n_thread = 2, .stop = &stop};
    assert_int_equal(whim_ckpt_open(&ckpt, whim_model_archs(), golden, NULL), WHIM_ERR_OK);
    assert_int_equal(whim_ckpt_identity(&ckpt, &cfg, out, NULL), WHIM_ERR_BUSY);
    whim_ckpt_close(&ckpt);
}

static void lines_that_are_none_are_left_out(void **state)
{
    (void)state;
    char text[4096], good[256];
    int n = snprintf(good, sizeof good, "1 2 3 4 5 %064x\n", 10);
    assert_int_equal(n, 75);
    snprintf(text, sizeof text,
             "%s\n\nno sum\n1 2 3\n1 9 3 4 5 %063x\n1 9 3 4 5 %065x\n%0500d\n%s%s", good, 1, 1, 0,
             "7 7 7 7 7 ", good + 10);
    whim_sum_memory memory = {0};
    whim_sum_memory_parse(&memory, text);
    assert_int_equal(memory.n, 2);
    assert_false(memory.changed);
    whim_sum_of_file file = {.device = 1, .inode = 2, .bytes = 3, .written_ns = 4, .changed_ns = 5};
    assert_true(whim_sum_memory_find(&memory, &file));
    assert_int_equal(file.sum[WHIM_SHA256_BYTES - 1], 10);
    file.bytes = 4;
    assert_false(whim_sum_memory_find(&memory, &file));
    for (uint64_t i = 0; i < WHIM_SUM_MEMORY_LINES + 5; i++) { /* the oldest go */
        file.inode = 100 + i;
        whim_sum_memory_add(&memory, &file);
    }
    assert_int_equal(memory.n, WHIM_SUM_MEMORY_LINES);
    file.inode = 100;
    assert_false(whim_sum_memory_find(&memory, &file));
    file.inode = 100 + WHIM_SUM_MEMORY_LINES + 4;
    assert_true(whim_sum_memory_find(&memory, &file));
    whim_sum_memory_deinit(&memory);
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    static const char *const files[] = {"config.json", "model.safetensors", "sums"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        unlink(path);
    }
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_files_are_equal),
        cmocka_unit_test(an_edit_in_place_is_another),
        cmocka_unit_test(another_config_is_another),
        cmocka_unit_test(a_file_is_read_once),
        cmocka_unit_test(a_file_that_just_changed_is_not_remembered),
        cmocka_unit_test(who_stops_gets_none),
        cmocka_unit_test(lines_that_are_none_are_left_out),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
