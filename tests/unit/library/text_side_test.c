/* SPDX-License-Identifier: Apache-2.0 */
/* A model's text side: what is read, what is left alone, and which part an error is about. */
#include "library/text_side.h"

#include "unit/library/library_fixture.h"

static whim_ckpt ckpt; /* its configuration is all that a folder's text side looks at */

static int setup(void **state)
{
    (void)state;
    folder_make("llama-bf16");
    ckpt.config.n_eos = 1;
    ckpt.config.eos[0] = 80;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    folder_remove();
    return 0;
}

static whim_text_files files(void)
{
    return (whim_text_files){.model = folder, .ckpt = &ckpt};
}

static void all_of_it(void **state)
{
    (void)state;
    whim_diag diag = {""};
    whim_text_side side;
    const char *field = NULL;
    whim_text_files f = files();
    f.template_args = "{\"more\":1}";
    assert_int_equal(whim_text_side_read(&side, &f, &field, &diag), WHIM_ERR_OK);
    assert_true(side.tok != NULL && side.tmpl != NULL && json_object_size(side.kwargs) == 1);
    assert_true(side.format.native_tools && side.format.reasons);
    assert_int_equal(side.n_stop_id, 1); /* both name it */
    assert_int_equal(side.stop_ids[0], 80);
    assert_int_equal(side.wishes.source, WHIM_GENERATION_OURS);
    whim_chat_model chat = whim_text_side_chat(&side);
    assert_true(chat.tok == side.tok && chat.tmpl == side.tmpl && chat.kwargs == side.kwargs);
    whim_text_side_close(&side);
    assert_null(side.tok);
    f.ids_only = true;
    f.template_args = NULL;
    assert_int_equal(whim_text_side_read(&side, &f, &field, &diag), WHIM_ERR_OK);
    assert_true(side.tok == NULL && side.tmpl == NULL && side.n_stop_id == 1);
    whim_text_side_close(&side);
}

/* Special tokens around reasoning are text in every answer, those of calls where tools are. */
static void words_that_are_special_tokens(void **state)
{
    (void)state;
    static const char *const words[] = {"[/THINK]", "[TOOL_CALLS]", "[THINK]", "[ARGS]", "[INST]"};
    char path[96];
    const char *field = NULL;
    whim_diag diag = {""};
    whim_text_side side;
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    json_t *file = json_load_file(path, 0, NULL), *kept = json_deep_copy(file);
    json_t *added = json_object_get(file, "added_tokens");
    const size_t n_first = 200;
    for (size_t i = 0; i < 5; i++) {
        json_array_append_new(added, json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id",
                                               (int)(n_first + i), "content", words[i], "special",
                                               1, "normalized", 0, "single_word", 0, "lstrip", 0,
                                               "rstrip", 0));
    }
    assert_int_equal(json_dump_file(file, path, 0), 0);
    whim_text_files f = files();
    f.chat_template = "tests/data/chat/templates/mistral_args.jinja";
    if (whim_text_side_read(&side, &f, &field, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    assert_int_equal(side.n_think_id, 2);
    assert_int_equal(side.n_word_id, 4);
    for (size_t i = 0; i < 4; i++) {
        static const size_t order[] = {0, 2, 1, 3};
        assert_int_equal(side.word_ids[i], n_first + order[i]);
    }
    whim_text_side_close(&side);
    assert_int_equal(json_dump_file(kept, path, 0), 0);
    json_decref(file);
    json_decref(kept);
}

static void errors_name_their_part(void **state)
{
    (void)state;
    whim_text_side side;
    whim_text_files f = files();
    char broken[96];
    const char *field = NULL;
    whim_diag diag = {""};
    file_write("broken.jinja", "{% if %}");
    snprintf(broken, sizeof broken, "%s/broken.jinja", folder);
    f.chat_template = broken;
    assert_int_not_equal(whim_text_side_read(&side, &f, &field, &diag), WHIM_ERR_OK);
    assert_string_equal(field, "chat_template");
    assert_non_null(strstr(diag.text, "broken.jinja"));
    assert_null(side.tok);
    f = files();
    static const char *const args[] = {"", "[]", "{", "{\"n\":18446744073709551616}"};
    for (int i = 0; i < 4; i++) {
        f.template_args = args[i];
        assert_int_equal(whim_text_side_read(&side, &f, &field, &diag), WHIM_ERR_INVALID);
        assert_string_equal(field, "template_args");
        assert_null(side.tok);
    }
    f = files();
    f.model = "tests/data/golden/llama-bf16";
    assert_int_not_equal(whim_text_side_read(&side, &f, &field, &diag), WHIM_ERR_OK);
    assert_string_equal(field, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_it),
        cmocka_unit_test(words_that_are_special_tokens),
        cmocka_unit_test(errors_name_their_part),
    };
    return cmocka_run_group_tests_name("text side", tests, setup, teardown);
}
