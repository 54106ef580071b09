/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files, exact reads, paths and listings. */
#include <stdint.h>

#include "base/alloc.h"
#include "base/file.h"
#include "support/cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];
static whim_arena arena;

static int setup(void **state)
{
    (void)state;
    whim_arena_init(&arena);
    snprintf(dir, sizeof dir, "/tmp/whim-file-XXXXXX");
    return mkdtemp(dir) == NULL;
}

static int teardown(void **state)
{
    (void)state;
    static const char *const names[] = {"b", "a", "c.txt", "pipe"};
    for (int i = 0; i < 4; i++) {
        unlink(whim_path_join(&arena, dir, names[i]));
    }
    whim_arena_reset(&arena);
    return rmdir(dir);
}

static const char *make(const char *name, const char *text)
{
    const char *path = whim_path_join(&arena, dir, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    return path;
}

static void reads_files(void **state)
{
    (void)state;
    const char *path = make("a", "0123456789");
    char *text;
    int64_t n;
    whim_diag diag = {{0}};
    assert_int_equal(whim_file_read_all(path, 10, &text, &n, &diag), WHIM_ERR_OK);
    assert_int_equal(n, 10);
    assert_string_equal(text, "0123456789");
    whim_free(text);
    assert_int_equal(whim_file_read_all(path, 9, &text, &n, &diag), WHIM_ERR_CORRUPT);
    assert_non_null(strstr(diag.text, path));
    assert_null(text);
    whim_alloc_fail_after(0);
    assert_int_equal(whim_file_read_all(path, 10, &text, &n, &diag), WHIM_ERR_NO_MEMORY);
    whim_alloc_fail_after(-1);

    int fd;
    char part[4] = "";
    assert_int_equal(whim_file_open(path, &fd, &n, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_file_read_at(fd, 7, 3, part, path, &diag), WHIM_ERR_OK);
    assert_string_equal(part, "789");
    assert_int_equal(whim_file_read_at(fd, 8, 3, part, path, &diag), WHIM_ERR_IO);
    assert_non_null(strstr(diag.text, "ends at byte 10"));
    whim_file_close(fd);
}

static void refuses_what_is_not_a_file(void **state)
{
    (void)state;
    int fd;
    int64_t n;
    whim_diag diag = {{0}};
    assert_int_equal(whim_file_open(dir, &fd, &n, &diag), WHIM_ERR_INVALID);
    assert_int_equal(fd, -1);
    const char *absent = whim_path_join(&arena, dir, "absent");
    assert_int_equal(whim_file_open(absent, &fd, &n, &diag), WHIM_ERR_NOT_FOUND);
    assert_non_null(strstr(diag.text, absent));
    /* A pipe without a writer must not block. */
    const char *pipe_path = whim_path_join(&arena, dir, "pipe");
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_int_equal(whim_file_open(pipe_path, &fd, &n, &diag), WHIM_ERR_INVALID);
    assert_int_equal(whim_path_get_type(pipe_path), WHIM_PATH_OTHER);
    assert_int_equal(whim_path_get_type(dir), WHIM_PATH_DIR);
    assert_int_equal(whim_path_get_type(absent), WHIM_PATH_NONE);
    unlink(pipe_path);
}

static void lists_directories(void **state)
{
    (void)state;
    make("b", "");
    make("c.txt", "");
    make("a", "");
    char **names;
    int64_t n;
    whim_diag diag = {{0}};
    assert_int_equal(whim_dir_list(&arena, dir, &names, &n, &diag), WHIM_ERR_OK);
    assert_int_equal(n, 3);
    assert_string_equal(names[0], "a");
    assert_string_equal(names[1], "b");
    assert_string_equal(names[2], "c.txt");
    assert_int_equal(whim_dir_list(&arena, "/nonexistent", &names, &n, &diag), WHIM_ERR_NOT_FOUND);
    assert_non_null(strstr(diag.text, "/nonexistent"));
}

static void handles_paths(void **state)
{
    (void)state;
    assert_string_equal(whim_path_join(&arena, "a", "b"), "a/b");
    assert_string_equal(whim_path_join(&arena, "a//", "b"), "a/b");
    assert_string_equal(whim_path_join(&arena, "/", "b"), "/b");
    assert_string_equal(whim_path_join(&arena, "", "b"), "b");
    assert_string_equal(whim_path_base("/x/y.z"), "y.z");
    assert_string_equal(whim_path_base("y.z"), "y.z");
    assert_true(whim_path_is_plain_name("model-00001.safetensors"));
    assert_true(whim_path_is_plain_name("..."));
    static const char *const bad[] = {"", ".", "..", "a/b", "/a", "a\\b", "a\nb", "a\xc2\x9b"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(whim_path_is_plain_name(bad[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_files),
        cmocka_unit_test(refuses_what_is_not_a_file),
        cmocka_unit_test(lists_directories),
        cmocka_unit_test(handles_paths),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
