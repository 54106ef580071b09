/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are half there. */
#include "base/alloc.h"
#include "base/file.h"
#include "hub/partial.h"
#include "support/tree.h"

#include <fcntl.h>
#include <sys/file.h>

static whim_hub_partial p;
static whim_diag diag;
static char path[128], done_path[128];

static int setup(void **state)
{
    int failed = tree_setup(state);
    snprintf(path, sizeof path, "%s/x.incomplete", tree_root);
    snprintf(done_path, sizeof done_path, "%s/x", tree_root);
    return failed;
}

static void open_it(int64_t bytes, int64_t piece)
{
    assert_int_equal(whim_hub_partial_open(&p, path, bytes, piece, &diag), WHIM_ERR_OK);
}

static int64_t put(int64_t offset, const char *text)
{
    int64_t fresh = -1;
    assert_int_equal(whim_hub_partial_write(&p, offset, text, (int64_t)strlen(text), &fresh, &diag),
                     WHIM_ERR_OK);
    return fresh;
}

static void remembers(void **state)
{
    (void)state;
    open_it(10, 4);
    assert_int_equal(p.n_piece, 3);
    assert_int_equal(whim_hub_partial_end(&p, 2), 10);
    assert_int_equal(put(4, "ef"), 2);
    assert_int_equal(put(8, "i"), 1);
    assert_int_equal(put(3, "d"), 0); /* not at the piece's beginning: it cannot be counted */
    assert_int_equal(put(4, "efg"), 1);
    whim_hub_partial_close(&p);
    open_it(10, 4);
    assert_int_equal(whim_hub_partial_good(&p, 0), 0);
    assert_int_equal(whim_hub_partial_good(&p, 1), 3);
    assert_int_equal(whim_hub_partial_good(&p, 2), 1);
    assert_int_equal(whim_hub_partial_total(&p), 4);
    assert_int_equal(put(0, "abcdefghij"), 6); /* over all pieces at once */
    assert_int_equal(whim_hub_partial_total(&p), 10);
    whim_hub_partial_seal(&p);
    assert_int_equal(put(0, "XX"), 0);
    assert_int_equal(whim_hub_partial_publish(&p, done_path, &diag), WHIM_ERR_OK);
    assert_int_equal(put(0, "XX"), 0);
    whim_hub_partial_close(&p);
    char *text;
    int64_t n;
    assert_int_equal(whim_file_read_all(done_path, 100, &text, &n, &diag), WHIM_ERR_OK);
    assert_int_equal(n, 10);
    assert_memory_equal(text, "abcdefghij", 10);
    whim_free(text);
    assert_int_equal(whim_path_get_type(path), WHIM_PATH_NONE);
}

static void forgets_what_does_not_fit(void **state)
{
    (void)state;
    open_it(10, 4);
    put(0, "abcd");
    whim_hub_partial_close(&p);
    open_it(10, 5);
    assert_int_equal(whim_hub_partial_total(&p), 0);
    put(0, "abcd");
    whim_hub_partial_close(&p);
    open_it(11, 5);
    assert_int_equal(whim_hub_partial_total(&p), 0);
    put(0, "abcde");
    assert_int_equal(whim_hub_partial_reset(&p, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_hub_partial_total(&p), 0);
    whim_hub_partial_close(&p);
    /* A table that claims more than a piece holds. */
    int fd = open(path, O_RDWR);
    int64_t lie = 6;
    assert_int_equal(pwrite(fd, &lie, sizeof lie, 11 + 24), sizeof lie);
    close(fd);
    open_it(11, 5);
    assert_int_equal(whim_hub_partial_good(&p, 0), 0);
    whim_hub_partial_seal(&p);
    whim_hub_partial_discard(&p);
    whim_hub_partial_close(&p);
    whim_hub_partial_close(&p);
    assert_int_equal(whim_path_get_type(path), WHIM_PATH_NONE);
}

static void empty_files(void **state)
{
    (void)state;
    open_it(0, 4);
    assert_int_equal(p.n_piece, 0);
    whim_hub_partial_seal(&p);
    assert_int_equal(whim_hub_partial_publish(&p, done_path, &diag), WHIM_ERR_OK);
    whim_hub_partial_close(&p);
    assert_int_equal(whim_path_get_type(done_path), WHIM_PATH_FILE);
    snprintf(path, sizeof path, "%s/none/x", tree_root);
    assert_int_equal(whim_hub_partial_open(&p, path, 1, 1, &diag), WHIM_ERR_IO);
}

static void count(void *ctx)
{
    ++*(int *)ctx;
}

static void locks(void **state)
{
    (void)state;
    int fd, told = 0;
    atomic_bool stop = true;
    assert_int_equal(whim_hub_lock(path, &fd, NULL, count, &told, &diag), WHIM_ERR_OK);
    int other;
    assert_int_equal(whim_hub_lock(path, &other, &stop, count, &told, &diag), WHIM_ERR_IO);
    assert_int_equal(told, 0);
    close(fd);
    assert_int_equal(whim_hub_lock(path, &fd, &stop, count, &told, &diag), WHIM_ERR_OK);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(remembers, setup, tree_teardown),
        cmocka_unit_test_setup_teardown(forgets_what_does_not_fit, setup, tree_teardown),
        cmocka_unit_test_setup_teardown(empty_files, setup, tree_teardown),
        cmocka_unit_test_setup_teardown(locks, setup, tree_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
