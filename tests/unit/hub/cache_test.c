/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of the cache, and models in it. */
#include "base/file.h"
#include "hub/cache.h"
#include "support/tree.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"
#define OTHER "fedcba9876543210fedcba9876543210fedcba98"
#define ETAG "89abcdef0123456789abcdef0123456789abcdef"
#define SNAP "/models--org--name/snapshots/" COMMIT

static whim_hub_ref ref;
static whim_hub_repo repo;
static whim_diag diag;
static char path[WHIM_HUB_PATH_MAX];

static void name(const char *text)
{
    assert_int_equal(whim_hub_ref_parse(&ref, text, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_hub_repo_init(&repo, tree_root, &ref, &diag), WHIM_ERR_OK);
}

static void commits(void **state)
{
    (void)state;
    char commit[41];
    name("org/name@refs/pr/1");
    assert_int_equal(whim_hub_commit_read(&repo, commit, &diag), WHIM_ERR_NOT_FOUND);
    assert_int_equal(whim_hub_commit_write(&repo, COMMIT, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_hub_commit_read(&repo, commit, &diag), WHIM_ERR_OK);
    assert_string_equal(commit, COMMIT);
    assert_int_equal(whim_hub_commit_write(&repo, OTHER, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_hub_commit_read(&repo, commit, &diag), WHIM_ERR_OK);
    assert_string_equal(commit, OTHER);
    tree_put("/models--org--name/refs/refs/pr/1", COMMIT "\n"); /* as a hand might write it */
    assert_int_equal(whim_hub_commit_read(&repo, commit, &diag), WHIM_ERR_OK);
    assert_string_equal(commit, COMMIT);
    tree_put("/models--org--name/refs/refs/pr/1", "../../x");
    assert_int_equal(whim_hub_commit_read(&repo, commit, &diag), WHIM_ERR_CORRUPT);
    name("org/name@" OTHER);
    assert_int_equal(whim_hub_commit_read(&repo, commit, &diag), WHIM_ERR_OK);
    assert_string_equal(commit, OTHER);
}

static void links(void **state)
{
    (void)state;
    whim_hub_file file = {.name = "a/b.gguf", .bytes = 2, .etag = ETAG};
    char target[256] = "";
    name("org/name");
    tree_put("/models--org--name/blobs/" ETAG, "hi");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(whim_hub_link(&repo, COMMIT, &file, &diag), WHIM_ERR_OK);
        assert_int_equal(whim_hub_snapshot_path(&repo, COMMIT, file.name, path, &diag),
                         WHIM_ERR_OK);
        assert_true(readlink(path, target, sizeof target - 1) > 0);
        assert_string_equal(target, "../../../blobs/" ETAG);
        assert_true(whim_hub_is_file(path, 2));
    }
    /* A link that leads elsewhere, or a file in its place, gives way. */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("elsewhere", path), 0);
    assert_int_equal(whim_hub_link(&repo, COMMIT, &file, &diag), WHIM_ERR_OK);
    assert_true(whim_hub_is_file(path, 2));
    assert_false(whim_hub_is_file(path, 3));
}

static whim_err cached(const char *text, bool whole)
{
    name(text);
    return whim_hub_cached(tree_root, &ref, whole, path, &diag);
}

static void models(void **state)
{
    (void)state;
    char want[256];
    assert_int_equal(cached("org/name", true), WHIM_ERR_NOT_FOUND);
    tree_put("/models--org--name/refs/main", COMMIT);
    assert_int_equal(cached("org/name", true), WHIM_ERR_NOT_FOUND);
    tree_put(SNAP "/config.json", "{}");
    assert_int_equal(cached("org/name", true), WHIM_ERR_NOT_FOUND);
    tree_put(
        SNAP "/model.safetensors.index.json",
        "{\"weight_map\":{\"x\":\"model-00001-of-00002.safetensors\",\"y\":\"odd.safetensors\"}}");
    tree_put(SNAP "/model-00001-of-00002.safetensors", "1");
    assert_int_equal(cached("org/name", true), WHIM_ERR_NOT_FOUND);
    assert_non_null(strstr(diag.text, "odd.safetensors is missing"));
    tree_put(SNAP "/odd.safetensors", "2");
    assert_int_equal(cached("org/name", true), WHIM_ERR_NOT_FOUND);
    assert_non_null(strstr(diag.text, "tokenizer.json"));
    assert_int_equal(cached("org/name", false), WHIM_ERR_OK);
    tree_put(SNAP "/tokenizer.json", "{}");
    assert_int_equal(cached("org/name", true), WHIM_ERR_OK);
    snprintf(want, sizeof want, "%s%s", tree_root, SNAP);
    assert_string_equal(path, want);
    assert_int_equal(cached("org/name@" COMMIT, true), WHIM_ERR_OK);
    assert_int_equal(cached("org/name@" OTHER, true), WHIM_ERR_NOT_FOUND);
    assert_int_equal(cached("org/name:Q4_0", true), WHIM_ERR_NOT_FOUND);
    tree_put(SNAP "/q/a-Q4_0.gguf", "x");
    assert_int_equal(cached("org/name:Q4_0", true), WHIM_ERR_OK);
    snprintf(want, sizeof want, "%s%s/q/a-Q4_0.gguf", tree_root, SNAP);
    assert_string_equal(path, want);
    /* A broken index is said, whatever else is there. */
    tree_put(SNAP "/model.safetensors.index.json", "{\"weight_map\":{\"x\":\"../../secret\"}}");
    assert_int_equal(cached("org/name", true), WHIM_ERR_CORRUPT);
    tree_put(SNAP "/model.safetensors", "1"); /* goes before the index, as in the loader */
    assert_int_equal(cached("org/name", true), WHIM_ERR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(commits, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(links, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(models, tree_setup, tree_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
