/* SPDX-License-Identifier: Apache-2.0 */
/* Names of models and of files in repositories. */
#include "hub/ref.h"
#include "support/cmocka.h"

#include <string.h>

static void good_names(void **state)
{
    (void)state;
    static const struct {
        const char *text, *id, *rev, *pick;
    } cases[] = {
        {"org/name", "org/name", "main", ""},
        {"Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B", "main", ""},
        {"a/b@v1.0", "a/b", "v1.0", ""},
        {"a/b@refs/pr/1:Q4_K_M", "a/b", "refs/pr/1", "Q4_K_M"},
        {"a/b:dir/x-00001-of-00002.gguf", "a/b", "main", "dir/x-00001-of-00002.gguf"},
        {"_a/b_@0123456789012345678901234567890123456789", "_a/b_",
         "0123456789012345678901234567890123456789", ""},
        {"https://huggingface.co/a/b", "a/b", "main", ""},
        {"HTTPS://HuggingFace.co/a/b/", "a/b", "main", ""},
        {"http://www.huggingface.co/a/b?library=x#y", "a/b", "main", ""},
        {"huggingface.co/a/b", "a/b", "main", ""},
        {"hf.co/a/b:Q4_K_M", "a/b", "main", "Q4_K_M"},
        {"hf.co/a/b@v1:Q8_0", "a/b", "v1", "Q8_0"},
        {"https://huggingface.co/a/b/tree/main", "a/b", "main", ""},
        {"https://huggingface.co/a/b/tree/refs%2Fpr%2F1", "a/b", "refs/pr/1", ""},
        {"https://huggingface.co/a/b/tree/main/Q4_K_M", "a/b", "main", "Q4_K_M"},
        {"https://huggingface.co/a/b/tree/main?show_file_info=x-Q5_0.gguf&y=1", "a/b", "main",
         "x-Q5_0.gguf"},
        {"https://huggingface.co/a/b?show_file_info=model.safetensors", "a/b", "main", ""},
        {"https://huggingface.co/a/b/blob/v2/x-Q4_0.gguf", "a/b", "v2", "x-Q4_0.gguf"},
        {"https://huggingface.co/a/b/resolve/main/sub/x%20y.gguf?download=true", "a/b", "main",
         "sub/x y.gguf"},
        {"https://huggingface.co/a/b/raw/main/config.json", "a/b", "main", ""},
        {"https://huggingface.co/a/b/blob/main/model-00001-of-00002.safetensors", "a/b", "main",
         ""},
        {"https://huggingface.co/a/b/discussions/12", "a/b", "main", ""},
        {"https://huggingface.co/a/b/blob/main", "a/b", "main", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        whim_hub_ref ref;
        whim_diag diag = {""};
        assert_true(whim_hub_ref_looks(cases[i].text));
        assert_int_equal(whim_hub_ref_parse(&ref, cases[i].text, &diag), WHIM_ERR_OK);
        assert_string_equal(ref.id, cases[i].id);
        assert_string_equal(ref.rev, cases[i].rev);
        assert_string_equal(ref.pick, cases[i].pick);
    }
}

static void bad_names(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "name",
        "a/",
        "/b",
        "a/b/c",
        "./b",
        "../b",
        "a/..",
        "a/.b",
        "a/b-",
        "a--b/c",
        "a/b..c",
        "a b/c",
        "~/b",
        "a/b@",
        "a/b@-x",
        "a/b@x..y",
        "a/b@x y",
        "a/b@/x",
        "a/b@x/",
        "a/b:",
        "a/b:../x",
        "a/b:/x",
        "a/b@x:y:z",
        "a/b:x\n",
        "a/\xc3\xa4",
        "a/b@x^",
        "http://a/b",
        "a/b@x\\y",
        "a\\b/c",
        "a/b?x",
        "a/b#x",
        "a/b%2e",
        "https://huggingface.co/",
        "https://huggingface.co/gpt2",
        "hf.co/a",
        "://",
        "x://y/z",
        "https://huggingface.co/datasets/a/b",
        "https://huggingface.co/spaces/a/b",
        "https://elsewhere.example/a/b",
        "https://huggingface.co.example/a/b",
        "https://huggingface.co/a/b/blob/main/%2e%2e/x.gguf",
        "https://huggingface.co/a/b%00/c",
        "https://huggingface.co/a/b/blob/main//x.gguf",
        "https://huggingface.co/../b",
        "https://huggingface.co/a/b/resolve/main/x%2f%2fy.gguf",
        "ftp://huggingface.co/a/b",
        "https://huggingface.co/a/b/tree/..",
        "https://huggingface.co/a/b:x/tree/main/y",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        whim_hub_ref ref;
        whim_diag diag = {""};
        assert_int_equal(whim_hub_ref_parse(&ref, texts[i], &diag), WHIM_ERR_INVALID);
        assert_true(diag.text[0] != '\0');
    }
    char text[400];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    text[97] = '/'; /* parts have 96 characters at most */
    text[100] = '\0';
    assert_false(whim_hub_ref_looks(text));
    text[97] = 'a';
    text[96] = '/';
    assert_true(whim_hub_ref_looks(text));
    text[100] = '@';
    text[101] = 'r';
    memset(text + 102, 'r', 200);
    text[302] = '\0';
    whim_hub_ref ref;
    whim_diag diag = {""};
    assert_int_equal(whim_hub_ref_parse(&ref, text, &diag), WHIM_ERR_INVALID);
}

static void file_names(void **state)
{
    (void)state;
    static const char *const good[] = {
        "a",   ".gitattributes", "a/b/c.json", "a b",
        "..a", "\xc3\xa4",       "a..b",       "x-00001-of-00002.gguf"};
    static const char *const bad[] = {"",
                                      "/a",
                                      "a/",
                                      "a//b",
                                      ".",
                                      "..",
                                      "./a",
                                      "a/..",
                                      "a/.",
                                      "../a",
                                      "a\\b",
                                      "C:a",
                                      "a\nb",
                                      "\x1b[0m",
                                      "\x7f",
                                      "a/../b",
                                      "\xc2\x9b"
                                      "0m"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(whim_hub_name_is_safe(good[i]));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(whim_hub_name_is_safe(bad[i]));
    }
    char name[WHIM_HUB_NAME_MAX + 8];
    memset(name, 'a', sizeof name);
    name[256] = '\0';
    assert_false(whim_hub_name_is_safe(name));
    name[255] = '\0';
    assert_true(whim_hub_name_is_safe(name));
    for (size_t i = 1; i < sizeof name; i += 2) {
        name[i] = '/';
    }
    name[0] = name[254] = 'a';
    name[sizeof name - 1] = '\0';
    assert_false(whim_hub_name_is_safe(name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_names),
        cmocka_unit_test(bad_names),
        cmocka_unit_test(file_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
