/* SPDX-License-Identifier: Apache-2.0 */
/* Which files of a repository are chosen. */
#include "hub/choose.h"
#include "support/cmocka.h"

#include <stdlib.h>
#include <string.h>

static whim_hub_listing listing;
static whim_hub_choice choice;
static whim_diag diag;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const whim_hub_file *)a)->name, ((const whim_hub_file *)b)->name);
}

/* Choose among names with blanks between them; what was chosen comes back the same way. */
static const char *chosen(const char *names, const char *pick)
{
    static char text[4096], result[4096];
    static whim_hub_file files[64];
    listing.files = NULL; /* it has only borrowed them */
    whim_hub_listing_deinit(&listing);
    whim_arena_init(&listing.arena);
    strcpy(text, names);
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " ")) {
        files[listing.n_file++] = (whim_hub_file){.name = word, .bytes = 1};
    }
    qsort(files, (size_t)listing.n_file, sizeof *files, by_name);
    listing.files = files;
    result[0] = diag.text[0] = '\0';
    if (whim_hub_choose(&choice, &listing, "org/name", pick, &diag) != WHIM_ERR_OK) {
        return "refused";
    }
    for (int64_t i = 0; i < choice.n_file; i++) {
        strcat(strcat(result, i > 0 ? " " : ""), choice.files[i]->name);
    }
    return result;
}

static void folders(void **state)
{
    (void)state;
    assert_string_equal(chosen("README.md config.json model.safetensors pytorch_model.bin "
                               "tokenizer.json x.gguf",
                               ""),
                        "config.json model.safetensors tokenizer.json");
    assert_null(choice.entry);
    assert_true(choice.has_tokenizer);
    /* The loader takes model.safetensors first, so nothing else is of use. */
    assert_string_equal(chosen("config.json model.safetensors model-00001-of-00002.safetensors "
                               "sub/model.safetensors sub/config.json",
                               ""),
                        "config.json model.safetensors");
    assert_false(choice.has_tokenizer);
    assert_string_equal(chosen("config.json model.safetensors.index.json extra.safetensors "
                               "model-00001-of-00002.safetensors model-00002-of-00002.safetensors "
                               "consolidated-00001-of-00001.safetensors",
                               ""),
                        "config.json model-00001-of-00002.safetensors "
                        "model-00002-of-00002.safetensors model.safetensors.index.json");
    assert_string_equal(chosen("config.json weights.safetensors adapter_model.safetensors", ""),
                        "config.json weights.safetensors");
    assert_string_equal(chosen("model.safetensors README.md", ""), "refused");
    assert_string_equal(chosen("config.json pytorch_model.bin", ""), "refused");
    assert_non_null(strstr(diag.text, "pytorch_model.bin"));
    assert_string_equal(chosen("", ""), "refused");
}

static void ggufs(void **state)
{
    (void)state;
    assert_string_equal(chosen("config.json a-Q8_0.gguf README.md", ""), "a-Q8_0.gguf");
    assert_string_equal(choice.entry, "a-Q8_0.gguf");
    assert_string_equal(chosen("a-Q2_K.gguf a-Q4_K_M.gguf a-Q8_0.gguf mmproj-a-Q8_0.gguf", ""),
                        "a-Q4_K_M.gguf");
    assert_string_equal(chosen("a-Q2_K.gguf a-Q3_K_S.gguf", ""), "refused");
    assert_non_null(strstr(diag.text, "a-Q2_K.gguf, a-Q3_K_S.gguf"));
    assert_string_equal(chosen("q/a-Q6_K-00002-of-00002.gguf q/a-Q6_K-00001-of-00002.gguf", ""),
                        "q/a-Q6_K-00001-of-00002.gguf q/a-Q6_K-00002-of-00002.gguf");
    assert_string_equal(choice.entry, "q/a-Q6_K-00001-of-00002.gguf");
    assert_string_equal(chosen("a-00001-of-00003.gguf a-00003-of-00003.gguf", ""), "refused");
    assert_non_null(strstr(diag.text, "a-00002-of-00003.gguf is missing"));
    assert_string_equal(chosen("a.imatrix.gguf a-Q4_0.gguf", ""), "a-Q4_0.gguf");
}

static void picks(void **state)
{
    (void)state;
    static const char names[] =
        "config.json model.safetensors a-Q4_K.gguf a-Q4_K_M.gguf a-IQ4_XS.gguf "
        "Q8_0/a-00001-of-00001.gguf b_F16.gguf old.pt notes.txt";
    assert_string_equal(chosen(names, "Q4_K_M"), "a-Q4_K_M.gguf");
    assert_string_equal(chosen(names, "q4_k"), "a-Q4_K.gguf");
    assert_string_equal(chosen(names, "Q4_XS"), "refused");
    assert_string_equal(chosen(names, "IQ4_XS"), "a-IQ4_XS.gguf");
    assert_string_equal(chosen(names, "Q8_0"), "Q8_0/a-00001-of-00001.gguf");
    assert_string_equal(chosen(names, "f16"), "b_F16.gguf");
    assert_string_equal(chosen(names, "a-Q4_K.gguf"), "a-Q4_K.gguf");
    assert_string_equal(chosen(names, "notes.txt"), "notes.txt");
    assert_string_equal(choice.entry, "notes.txt");
    assert_string_equal(chosen(names, "old.pt"), "refused");
    assert_string_equal(chosen(names, "a"), "refused"); /* several files say "a" */
    assert_non_null(strstr(diag.text, "a-IQ4_XS.gguf"));
    assert_string_equal(chosen("config.json model.safetensors", "Q4_0"), "refused");
    assert_non_null(strstr(diag.text, "no GGUF file at all"));
}

static void tells_what_is_left_out(void **state)
{
    (void)state;
    whim_str text = {0};
    chosen("config.json model.safetensors", "");
    whim_hub_choice_left_out(&choice, &listing, &text);
    assert_string_equal(whim_str_text(&text), "");
    chosen("a.bin config.json model.safetensors z.md", "");
    listing.n_unsafe = 1;
    whim_hub_choice_left_out(&choice, &listing, &text);
    assert_string_equal(
        whim_str_text(&text),
        "left out 2 files (2 B): a.bin, z.md; pickles are never fetched, they can run "
        "code; 1 name refused as unsafe");
    whim_str_deinit(&text);
    assert_int_equal(whim_hub_choice_add(&choice, &listing, "z.md"), WHIM_ERR_OK);
    assert_int_equal(whim_hub_choice_add(&choice, &listing, "z.md"), WHIM_ERR_OK);
    assert_int_equal(choice.n_file, 3);
    assert_int_equal(whim_hub_choice_add(&choice, &listing, "y"), WHIM_ERR_NOT_FOUND);
    listing.files = NULL; /* it has only borrowed them */
    whim_hub_listing_deinit(&listing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders),
        cmocka_unit_test(ggufs),
        cmocka_unit_test(picks),
        cmocka_unit_test(tells_what_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
