/* SPDX-License-Identifier: Apache-2.0 */
/* How much of a disk pages may take by default. */
#include "kv/disk_folder.h"

#include "support/cmocka.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define GB (INT64_C(1000) * 1000 * 1000)

static void a_tenth_and_at_most_20_gb(void **state)
{
    (void)state;
    assert_int_equal(whim_disk_folder_share(50 * GB, 0), 5 * GB);
    assert_int_equal(whim_disk_folder_share(200 * GB - 10, 0), 20 * GB - 1);
    assert_int_equal(whim_disk_folder_share(200 * GB, 0), 20 * GB);
    assert_int_equal(whim_disk_folder_share(201 * GB, 0), 20 * GB);
    assert_int_equal(whim_disk_folder_share(INT64_MAX / 2, GB), 20 * GB);
    assert_int_equal(whim_disk_folder_share(0, 0), 0);
    assert_int_equal(whim_disk_folder_share(9, 0), 0);
}

/* Else the limit would fall while pages are written, without anybody else at the disk. */
static void what_pages_take_changes_nothing(void **state)
{
    (void)state;
    for (int64_t used = 0; used <= 50 * GB; used += 5 * GB) {
        assert_int_equal(whim_disk_folder_share(50 * GB - used, used), 5 * GB);
    }
}

static void an_open_folder_has_its_disk(void **state)
{
    (void)state;
    struct statvfs st;
    int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0 && fstatvfs(fd, &st) == 0);
    assert_int_equal(whim_disk_folder_default(fd, 300 * GB), 20 * GB);
    assert_true(whim_disk_folder_default(fd, 0) <= 20 * GB);
    close(fd);
    assert_int_equal(whim_disk_folder_default(-1, 300 * GB), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tenth_and_at_most_20_gb),
        cmocka_unit_test(what_pages_take_changes_nothing),
        cmocka_unit_test(an_open_folder_has_its_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
