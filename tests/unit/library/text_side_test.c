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
        cmocka_unit_test(errors_name_their_part),
    };
    return cmocka_run_group_tests_name("text side", tests, setup, teardown);
}
