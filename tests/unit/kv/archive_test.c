/* SPDX-License-Identifier: Apache-2.0 */
/* Files of pages: what goes in comes out, and no byte can change unseen. */
#include "kv/archive.h"

#include "base/file.h"
#include "support/cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE_LEN = 4, PAGE = 48, STATE = 20, N_PAGE = 3, N_STATE = 2 };

static char folder[] = "/tmp/whim_archive_XXXXXX";
static char path[96];

static void fill(whim_archive_item *item, int32_t *tokens, char *bytes, int32_t i)
{
    memset(item->key.byte, i + 1, sizeof item->key.byte);
    for (int32_t k = 0; k < PAGE_LEN; k++) {
        tokens[k] = 100 * i + k;
    }
    memset(bytes, 'a' + i, PAGE);
    item->tokens = tokens;
    item->item = bytes;
}

/* Two ranks' parts, of which the second has no states. */
static void write_one(void)
{
    whim_archive a;
    whim_diag diag = {""};
    whim_archive_part parts[2] = {
        {.space = "first", .page_len = PAGE_LEN, .item_bytes = {PAGE, STATE}},
        {.space = "second", .page_len = PAGE_LEN, .item_bytes = {PAGE, 0}},
    };
    int32_t tokens[PAGE_LEN];
    char bytes[PAGE];
    unlink(path);
    assert_int_equal(whim_archive_create(&a, path, parts, 2, &diag), WHIM_ERR_OK);
    for (int32_t part = 0; part < 2; part++) {
        for (int32_t i = 0; i < (part == 0 ? N_PAGE + N_STATE : 1); i++) {
            whim_archive_item item = {.part = part,
                                      .kind = i < N_PAGE ? WHIM_DISK_PAGE : WHIM_DISK_STATE};
            fill(&item, tokens, bytes, 7 * part + i);
            assert_int_equal(whim_archive_add(&a, &item, &diag), WHIM_ERR_OK);
        }
    }
    assert_int_equal(whim_archive_finish(&a, &diag), WHIM_ERR_OK);
    assert_int_equal(parts[0].n[WHIM_DISK_STATE], N_STATE);
}

/* How reading it ends, and how many records were right before. */
static whim_err read_one(int64_t *n, whim_diag *diag)
{
    whim_archive a;
    bool more = true;
    *n = 0;
    WHIM_TRY(whim_archive_open(&a, path, diag));
    whim_err err = WHIM_ERR_OK;
    while (err == WHIM_ERR_OK && more) {
        whim_archive_item item, right;
        int32_t tokens[PAGE_LEN];
        char bytes[PAGE];
        err = whim_archive_next(&a, &item, &more, diag);
        if (err == WHIM_ERR_OK && more) {
            fill(&right, tokens, bytes, item.part * 7 + (int32_t)(*n % (N_PAGE + N_STATE)));
            assert_memory_equal(&item.key, &right.key, sizeof item.key);
            assert_memory_equal(item.tokens, tokens, sizeof tokens);
            assert_memory_equal(item.item, bytes, item.kind == WHIM_DISK_PAGE ? PAGE : STATE);
            ++*n;
        }
    }
    whim_archive_close(&a);
    return err;
}

static void what_goes_in_comes_out(void **state)
{
    (void)state;
    whim_diag diag = {""};
    struct stat st;
    int64_t n;
    write_one();
    assert_int_equal(read_one(&n, &diag), WHIM_ERR_OK);
    assert_int_equal(n, N_PAGE + N_STATE + 1);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

/* Each byte of the file in turn; each length. */
static void no_change_goes_unseen(void **state)
{
    (void)state;
    char *bytes;
    int64_t n_byte, n;
    write_one();
    assert_int_equal(whim_file_read_all(path, 1 << 20, &bytes, &n_byte, NULL), WHIM_ERR_OK);
    for (int64_t i = 0; i < 2 * n_byte; i++) {
        whim_diag diag = {""};
        bytes[i % n_byte] ^= 0x10;
        unlink(path);
        assert_int_equal(whim_file_write_all(path, bytes, i < n_byte ? n_byte : i - n_byte, NULL),
                         WHIM_ERR_OK);
        bytes[i % n_byte] ^= 0x10;
        assert_int_equal(read_one(&n, &diag), WHIM_ERR_CORRUPT);
        assert_non_null(strstr(diag.text, path));
        i += i >= n_byte ? 12 : 0; /* not every length, that takes long */
    }
    free(bytes);
}

static void a_file_that_is_there_stays(void **state)
{
    (void)state;
    whim_archive a;
    whim_diag diag = {""};
    int64_t n;
    whim_archive_part part = {.space = "x", .page_len = PAGE_LEN, .item_bytes = {PAGE, 0}};
    write_one();
    assert_int_equal(whim_archive_create(&a, path, &part, 1, &diag), WHIM_ERR_IO);
    assert_non_null(strstr(diag.text, "File exists"));
    assert_int_equal(read_one(&n, &diag), WHIM_ERR_OK);
}

/* Until it is finished it has another name, which a second one does not take; one that is broken
 * off leaves nothing; and one that another got ahead of replaces nothing. */
static void it_has_its_name_when_it_is_whole(void **state)
{
    (void)state;
    whim_archive a, b;
    whim_diag diag = {""};
    struct stat of_file;
    char partial[112];
    int64_t n;
    whim_archive_part part = {.space = "x", .page_len = PAGE_LEN, .item_bytes = {PAGE, 0}};
    snprintf(partial, sizeof partial, "%s.part", path);
    unlink(path);
    assert_int_equal(whim_archive_create(&a, path, &part, 1, &diag), WHIM_ERR_OK);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(access(partial, F_OK), 0);
    assert_int_equal(stat(partial, &of_file), 0);
    assert_int_equal(of_file.st_mode & 0777, 0600); /* it tells what was asked, word for word */
    assert_int_equal(whim_archive_create(&b, path, &part, 1, &diag), WHIM_ERR_BUSY);
    assert_non_null(strstr(diag.text, "remove that file"));
    whim_archive_close(&a);
    assert_int_equal(access(partial, F_OK), -1);
    assert_int_equal(whim_archive_create(&a, path, &part, 1, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_file_write_all(path, "theirs", 6, NULL), WHIM_ERR_OK);
    assert_int_equal(whim_archive_finish(&a, &diag), WHIM_ERR_IO);
    assert_non_null(strstr(diag.text, "File exists"));
    assert_int_equal(access(partial, F_OK), -1);
    assert_int_equal(read_one(&n, &diag), WHIM_ERR_CORRUPT); /* it is still theirs */
    write_one();
    assert_int_equal(access(partial, F_OK), -1);
}

static int set_up(void **state)
{
    (void)state;
    bool ok = mkdtemp(folder) != NULL;
    snprintf(path, sizeof path, "%s/pages", folder);
    return ok ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_goes_in_comes_out),
        cmocka_unit_test(no_change_goes_unseen),
        cmocka_unit_test(a_file_that_is_there_stays),
        cmocka_unit_test(it_has_its_name_when_it_is_whole),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
