/* SPDX-License-Identifier: Apache-2.0 */
/* Files of pages: what was written comes back; every damaged byte is noticed; torn ends are left
 * out. */
#include "kv/disk_segment.h"
#include "support/cmocka.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = 257, PAGE_LEN = 32 };

static const whim_disk_form form = {
    .space = {77}, .kind = WHIM_DISK_PAGE, .page_len = PAGE_LEN, .item_bytes = PAGE};

static char folder[] = "/tmp/whim_segment_XXXXXX";
static int dir_fd;

static int make_folder(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    dir_fd = open(folder, O_RDONLY | O_DIRECTORY);
    return dir_fd < 0;
}

static int remove_folder(void **state)
{
    (void)state;
    char name[32];
    for (int32_t i = 0; i < 5; i++) {
        whim_disk_segment_name(WHIM_DISK_PAGE, i, name, sizeof name);
        unlinkat(dir_fd, name, 0);
    }
    close(dir_fd);
    return rmdir(folder);
}

static void fill(int32_t i, whim_prefix_key *key, int32_t *tokens, char *page)
{
    *key = (whim_prefix_key){{(uint8_t)(i * 3), [8] = (uint8_t)i}};
    for (int32_t k = 0; k < PAGE_LEN; k++) {
        tokens[k] = i * 100 + k;
    }
    memset(page, i + 1, PAGE);
}

static void write_three(int32_t number)
{
    whim_disk_segment s;
    whim_diag diag = {""};
    whim_prefix_key key;
    int32_t tokens[PAGE_LEN];
    char page[PAGE];
    assert_int_equal(whim_disk_segment_create(&s, dir_fd, number, &form, &diag), WHIM_ERR_OK);
    for (int32_t i = 0; i < 3; i++) {
        fill(i, &key, tokens, page);
        assert_int_equal(whim_disk_segment_add(&s, &key, tokens, page), WHIM_ERR_OK);
    }
    whim_disk_segment_close(&s);
    assert_int_equal(whim_disk_segment_create(&s, dir_fd, number, &form, &diag), WHIM_ERR_IO);
}

/* How many of three records come back whole, or -1 when the file is refused. */
static int32_t good_records(int32_t number, bool *torn)
{
    whim_disk_segment s;
    whim_diag diag = {""};
    int32_t n = 0;
    *torn = false;
    if (whim_disk_segment_open(&s, dir_fd, number, &form, true, torn, &diag) != WHIM_ERR_OK) {
        return -1;
    }
    for (int32_t i = 0; i < 3; i++) {
        whim_prefix_key key, found;
        int32_t tokens[PAGE_LEN];
        char page[PAGE], got[PAGE];
        fill(i, &key, tokens, page);
        bool whole = whim_disk_segment_key(&s, i, &found) &&
                     memcmp(&found, &key, sizeof key) == 0 &&
                     whim_disk_segment_read(&s, i, &key, tokens, got);
        assert_true(!whole || memcmp(page, got, PAGE) == 0);
        n += whole;
        tokens[5]++;
        assert_false(whim_disk_segment_read(&s, i, &key, tokens, got));
    }
    whim_disk_segment_close(&s);
    return n;
}

static void what_was_written_comes_back(void **state)
{
    (void)state;
    bool torn;
    whim_disk_segment s;
    whim_diag diag = {""};
    write_three(0);
    assert_int_equal(good_records(0, &torn), 3);
    assert_false(torn);
    for (int what = 0; what < 4; what++) {
        whim_disk_form other = form;
        other.space[31] += what == 0;
        other.item_bytes += what == 1;
        other.page_len += what == 2;
        other.kind = what == 3 ? WHIM_DISK_STATE : WHIM_DISK_PAGE;
        assert_int_equal(whim_disk_segment_open(&s, dir_fd, 0, &other, true, &torn, &diag),
                         what == 3 ? WHIM_ERR_IO : WHIM_ERR_CORRUPT);
    }
    assert_int_equal(whim_disk_segment_open(&s, dir_fd, 3, &form, true, &torn, &diag), WHIM_ERR_IO);
}

/* A file goes on where it ended, over what is torn. */
static void a_file_goes_on(void **state)
{
    (void)state;
    enum { NUMBER = 4 };
    char name[32], page[PAGE];
    bool torn;
    whim_disk_segment s;
    whim_diag diag = {""};
    whim_prefix_key key;
    int32_t tokens[PAGE_LEN];
    int64_t each = whim_disk_record_bytes(PAGE, PAGE_LEN);
    write_three(NUMBER);
    whim_disk_segment_name(WHIM_DISK_PAGE, NUMBER, name, sizeof name);
    int fd = openat(dir_fd, name, O_RDWR);
    assert_int_equal(ftruncate(fd, 64 + 3 * each - 7), 0);
    assert_int_equal(whim_disk_segment_open(&s, dir_fd, NUMBER, &form, false, &torn, &diag),
                     WHIM_ERR_OK);
    assert_true(torn && s.n_record == 2);
    fill(2, &key, tokens, page);
    assert_int_equal(whim_disk_segment_add(&s, &key, tokens, page), WHIM_ERR_OK);
    whim_disk_segment_close(&s);
    assert_int_equal(good_records(NUMBER, &torn), 3);
    assert_false(torn);
    /* the page of a last one is there, and its head is not: a crash between the two */
    static const char zeros[56];
    assert_int_equal(pwrite(fd, zeros, sizeof zeros, 64 + 2 * each), sizeof zeros);
    assert_int_equal(whim_disk_segment_open(&s, dir_fd, NUMBER, &form, true, &torn, &diag),
                     WHIM_ERR_OK);
    assert_true(torn && s.n_record == 2);
    whim_disk_segment_close(&s);
    close(fd);
}

static void every_byte_counts(void **state)
{
    (void)state;
    char name[32], byte, old;
    bool torn;
    struct stat st;
    write_three(1);
    whim_disk_segment_name(WHIM_DISK_PAGE, 1, name, sizeof name);
    int fd = openat(dir_fd, name, O_RDWR);
    assert_int_equal(fstat(fd, &st), 0);
    for (int64_t at = 0; at < st.st_size; at++) {
        assert_int_equal(pread(fd, &old, 1, at), 1);
        byte = (char)(old ^ 0x10);
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        int32_t good = good_records(1, &torn);
        assert_int_equal(good, at < 64 ? -1 : 2);
        assert_int_equal(pwrite(fd, &old, 1, at), 1);
    }
    close(fd);
}

static void torn_ends_are_left_out(void **state)
{
    (void)state;
    char name[32];
    bool torn;
    write_three(2);
    whim_disk_segment_name(WHIM_DISK_PAGE, 2, name, sizeof name);
    int fd = openat(dir_fd, name, O_RDWR);
    int64_t each = whim_disk_record_bytes(PAGE, PAGE_LEN);
    for (int64_t size = 64 + 3 * each - 1; size >= 0; size--) {
        assert_int_equal(ftruncate(fd, size), 0);
        assert_int_equal(good_records(2, &torn), size < 64 ? 0 : (size - 64) / each);
        assert_int_equal(torn, size < 64 || (size - 64) % each != 0);
    }
    close(fd);
}

static void names(void **state)
{
    (void)state;
    whim_disk_kind kind = WHIM_DISK_KINDS;
    assert_int_equal(whim_disk_segment_number("states-00000013.kv", &kind), 13);
    assert_int_equal(kind, WHIM_DISK_STATE);
    assert_int_equal(whim_disk_segment_number("pages-00000012.kv", &kind), 12);
    assert_int_equal(kind, WHIM_DISK_PAGE);
    assert_int_equal(whim_disk_segment_number("state-00000013.kv", &kind), -1);
    assert_int_equal(whim_disk_segment_number("pages-0000012.kv", &kind), -1);
    assert_int_equal(whim_disk_segment_number("pages-0000001x.kv", &kind), -1);
    assert_int_equal(whim_disk_segment_number("pages--0000001.kv", &kind), -1);
    assert_int_equal(whim_disk_segment_number("lock", &kind), -1);
}

/* A file knows how many tokens its pages have by the size of its records: other lengths are other
 * records. */
static void longer_pages(void **state)
{
    (void)state;
    enum { LEN = 128 };
    whim_disk_segment s;
    whim_prefix_key key = {{1, 2}};
    whim_disk_form longer = form;
    int32_t tokens[LEN] = {3, 4};
    char page[PAGE] = {5}, got[PAGE];
    bool torn = true;
    tokens[LEN - 1] = 6;
    longer.page_len = LEN;
    assert_int_equal(whim_disk_segment_create(&s, dir_fd, 3, &longer, NULL), WHIM_ERR_OK);
    assert_int_equal(whim_disk_segment_add(&s, &key, tokens, page), WHIM_ERR_OK);
    assert_int_equal(whim_disk_segment_add(&s, &key, tokens, page), WHIM_ERR_OK);
    assert_int_equal(whim_disk_segment_bytes(&s), 64 + 2 * (56 + 4 * LEN + PAGE));
    whim_disk_segment_close(&s);
    assert_int_equal(whim_disk_segment_open(&s, dir_fd, 3, &longer, true, &torn, NULL),
                     WHIM_ERR_OK);
    assert_true(!torn && s.n_record == 2);
    assert_true(whim_disk_segment_read(&s, 1, &key, tokens, got));
    assert_memory_equal(got, page, PAGE);
    tokens[LEN - 1]++; /* the last of them is looked at, too */
    assert_false(whim_disk_segment_read(&s, 1, &key, tokens, got));
    whim_disk_segment_close(&s);
    char name[32];
    whim_disk_segment_name(WHIM_DISK_PAGE, 3, name, sizeof name);
    assert_int_equal(unlinkat(dir_fd, name, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(longer_pages),           cmocka_unit_test(what_was_written_comes_back),
        cmocka_unit_test(a_file_goes_on),         cmocka_unit_test(every_byte_counts),
        cmocka_unit_test(torn_ends_are_left_out), cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
