/* SPDX-License-Identifier: Apache-2.0 */
/* Listings from the hub's JSON and from folders. */
#include "hub/listing.h"
#include "support/tree.h"

#include "base/alloc.h"

#include <string.h>

#define COMMIT "0123456789abcdef0123456789abcdef01234567"
#define OID "89abcdef0123456789abcdef0123456789abcdef"
#define SHA OID "0123456789abcdef01234567"

static whim_hub_listing listing;
static whim_diag diag;

static whim_err parse(const char *text)
{
    diag.text[0] = '\0';
    return whim_hub_listing_parse(&listing, text, (int64_t)strlen(text), "answer", &diag);
}

static void takes_what_is_told(void **state)
{
    (void)state;
    assert_int_equal(parse("{\"sha\":\"" COMMIT "\",\"x\":[1],\"siblings\":["
                           "{\"rfilename\":\"z/b.gguf\",\"size\":134,\"blobId\":\"" OID
                           "\",\"lfs\":{\"sha256\":\"" SHA
                           "\",\"size\":5000000000,\"pointerSize\":134}},"
                           "{\"rfilename\":\"a.json\",\"size\":7,\"blobId\":\"" OID "\"},"
                           "{\"rfilename\":\"a.json\"},"
                           "{\"rfilename\":\"../x\"},{\"rfilename\":\"plain\"},"
                           "{\"rfilename\":\"odd\",\"blobId\":\"../../x\"}]}"),
                     WHIM_ERR_OK);
    assert_string_equal(listing.commit, COMMIT);
    assert_int_equal(listing.n_file, 4);
    assert_int_equal(listing.n_unsafe, 2);
    const whim_hub_file *file = whim_hub_listing_find(&listing, "z/b.gguf");
    assert_non_null(file);
    assert_int_equal(file->bytes, 5000000000);
    assert_string_equal(file->etag, SHA);
    file = whim_hub_listing_find(&listing, "a.json");
    assert_non_null(file);
    file = whim_hub_listing_find(&listing, "plain");
    assert_int_equal(file->bytes, -1);
    assert_string_equal(file->etag, "");
    assert_string_equal(whim_hub_listing_find(&listing, "odd")->etag, "");
    assert_null(whim_hub_listing_find(&listing, "../x"));
    whim_hub_listing_deinit(&listing);
}

static void refuses_the_rest(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "{}",
        "[]",
        "{\"sha\":\"main\",\"siblings\":[]}",
        "{\"sha\":\"../../../../../../../../../../../../../x\",\"siblings\":[]}",
        "{\"sha\":\"" COMMIT "\"}",
        "{\"sha\":\"" COMMIT "\",\"siblings\":{}}",
        "{\"sha\":\"" COMMIT "\",\"siblings\":[7]}",
        "{\"sha\":\"" COMMIT "\",\"siblings\":[{}]}",
        "{\"sha\":\"" COMMIT "\",\"siblings\":[{\"rfilename\":\"a\",\"size\":-1}]}",
        "{\"sha\":\"" COMMIT
        "\",\"siblings\":[{\"rfilename\":\"a\",\"size\":9223372036854775807}]}",
        "{\"sha\":\"" COMMIT
        "\",\"siblings\":[{\"rfilename\":\"a\",\"size\":35184372088833}]}", /* 2^45 + 1 */
        "{\"sha\":\"" COMMIT "\",\"siblings\":[{\"rfilename\":\"a\",\"lfs\":7}]}",
        "{\"sha\":\"" COMMIT "\",\"siblings\":[",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_int_equal(parse(texts[i]), WHIM_ERR_CORRUPT);
        assert_non_null(strstr(diag.text, "answer"));
        whim_hub_listing_deinit(&listing);
    }
}

static void survives_no_memory(void **state)
{
    (void)state;
    for (int64_t n = 0;; n++) {
        whim_alloc_fail_after(n);
        whim_err err = parse("{\"sha\":\"" COMMIT
                             "\",\"siblings\":[{\"rfilename\":\"a\"},{\"rfilename\":\"b\"}]}");
        whim_alloc_fail_after(-1);
        whim_hub_listing_deinit(&listing);
        if (err == WHIM_ERR_OK) {
            break;
        }
        assert_int_equal(err, WHIM_ERR_NO_MEMORY);
        assert_true(n < 100);
    }
}

static void reads_folders(void **state)
{
    (void)state;
    char path[128];
    tree_put("/config.json", "{}");
    tree_put("/b/c/x.gguf", "12345");
    tree_put("/model.safetensors", "1");
    snprintf(path, sizeof path, "%s/gone", tree_root);
    assert_int_equal(symlink("nowhere", path), 0);
    snprintf(path, sizeof path, "%s/linked", tree_root);
    assert_int_equal(symlink("b/c/x.gguf", path), 0);
    assert_int_equal(whim_hub_listing_read(&listing, tree_root, &diag), WHIM_ERR_OK);
    assert_int_equal(listing.n_file, 4);
    assert_int_equal(whim_hub_listing_find(&listing, "b/c/x.gguf")->bytes, 5);
    assert_int_equal(whim_hub_listing_find(&listing, "linked")->bytes, 5);
    assert_null(whim_hub_listing_find(&listing, "gone"));
    whim_hub_listing_deinit(&listing);
    snprintf(path, sizeof path, "%s/none", tree_root);
    assert_int_equal(whim_hub_listing_read(&listing, path, &diag), WHIM_ERR_NOT_FOUND);
    whim_hub_listing_deinit(&listing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_what_is_told),
        cmocka_unit_test(refuses_the_rest),
        cmocka_unit_test(survives_no_memory),
        cmocka_unit_test_setup_teardown(reads_folders, tree_setup, tree_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
