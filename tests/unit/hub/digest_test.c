/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums against values that git and sha256sum give. */
#include "base/file.h"
#include "hub/cache.h"
#include "support/tree.h"

static void known_values(void **state)
{
    (void)state;
    static const struct {
        const char *text, *sum;
    } cases[] = {
        /* printf hello | git hash-object --stdin; printf hello | sha256sum; the same of nothing */
        {"hello", "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0"},
        {"hello", "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"},
        {"", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"},
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[128], hex[WHIM_HUB_ETAG_MAX] = "";
        whim_diag diag = {""};
        int fd;
        int64_t n;
        tree_put("/x", cases[i].text);
        snprintf(path, sizeof path, "%s/x", tree_root);
        assert_int_equal(whim_file_open(path, &fd, &n, &diag), WHIM_ERR_OK);
        whim_err err = whim_hub_digest(fd, n, cases[i].sum, NULL, path, hex, &diag);
        if (err == WHIM_ERR_UNSUPPORTED) {
            whim_file_close(fd);
            skip(); /* a build without OpenSSL */
        }
        assert_int_equal(err, WHIM_ERR_OK);
        assert_string_equal(hex, cases[i].sum);
        assert_int_equal(whim_hub_digest(fd, n + 1, cases[i].sum, NULL, path, hex, &diag),
                         WHIM_ERR_IO);
        atomic_bool stop = true;
        assert_int_equal(whim_hub_digest(fd, n + 1, cases[i].sum, &stop, path, hex, &diag),
                         WHIM_ERR_IO);
        assert_string_equal(diag.text, "stopped");
        whim_file_close(fd);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(known_values, tree_setup, tree_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
