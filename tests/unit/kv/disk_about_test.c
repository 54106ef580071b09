/* SPDX-License-Identifier: Apache-2.0 */
/* What a folder of pages says about itself is believed only where pages can be so: a folder whose
 * name is right for what its file says may still be somebody else's work. */
#include "kv/disk_about.h"

#include "base/file.h"
#include "kv/disk_folder.h"
#include "support/cmocka.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether the folder of a space that says this of itself is found. */
static bool is_found(const whim_disk_space *space)
{
    char dir[] = "/tmp/whim_about_XXXXXX", path[96], file[128], text[512];
    char name[WHIM_DISK_SPACE_NAME], sizes[WHIM_DISK_SIZES];
    uint8_t sum[WHIM_SHA256_BYTES];
    whim_disk_space found = {.text = space->text};
    assert_non_null(mkdtemp(dir));
    whim_disk_space_sum(space, sum);
    whim_disk_space_name(sum, name);
    whim_disk_space_sizes(space, sizes);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    snprintf(file, sizeof file, "%s/" WHIM_DISK_ABOUT, path);
    snprintf(text, sizeof text, "a model\n%s%s\n", space->text, sizes);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(whim_file_write_all(file, text, (int64_t)strlen(text), NULL), WHIM_ERR_OK);
    bool is = whim_disk_space_find(dir, &found);
    if (is) {
        assert_int_equal(found.page_len, space->page_len);
        assert_int_equal(found.page_bytes, space->page_bytes);
        assert_int_equal(found.state_bytes, space->state_bytes);
    }
    unlink(file);
    rmdir(path);
    rmdir(dir);
    return is;
}

static void sizes_that_pages_can_have_are_found(void **state)
{
    (void)state;
    const int64_t most = INT64_C(1) << 32;
    const whim_disk_space good[] = {
        {"a name", 32, 4096, 0},
        {"a name", 512, most, most},
        {"a name", 1, 1, 1},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(is_found(&good[i]));
    }
}

static void other_sizes_are_not(void **state)
{
    (void)state;
    const int64_t most = INT64_C(1) << 32;
    const whim_disk_space bad[] = {
        {"a name", 100000, 4096, 0},    {"a name", 513, 4096, 0},
        {"a name", 0, 4096, 0},         {"a name", -32, 4096, 0},
        {"a name", INT_MAX, 4096, 0},   {"a name", 32, -184, 0},
        {"a name", 32, 0, 0},           {"a name", 32, 4096, -184},
        {"a name", 32, most + 1, 0},    {"a name", 32, 4096, most + 1},
        {"a name", 32, INT64_MAX, 0},   {"a name", 32, 4096, INT64_MIN},
        {"a \033[2Jname", 32, 4096, 0},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (is_found(&bad[i])) {
            fail_msg("found: %d tokens, %lld bytes, %lld", bad[i].page_len,
                     (long long)bad[i].page_bytes, (long long)bad[i].state_bytes);
        }
    }
}

static void other_texts_are_not(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "\n",
        "a name\n",
        "pages of 32 tokens, 4096 bytes, states of 0\n",
        "a name\npages of 32 tokens, 4096 bytes, states of 0 or more\n",
        "a name\npages of 0032 tokens, 4096 bytes, states of 0\n",
        "a name\npages of 99999999999999999999 tokens, 4096 bytes, states of 0\n",
        "a name\npages of 32 tokens, 99999999999999999999 bytes, states of 0\n",
        "a name\npages of 32 tokens, 4096 bytes, states of\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char about[128];
        whim_disk_space space;
        snprintf(about, sizeof about, "%s", bad[i]);
        assert_false(whim_disk_about_parse(about, &space));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_that_pages_can_have_are_found),
        cmocka_unit_test(other_sizes_are_not),
        cmocka_unit_test(other_texts_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
