/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the tokenizer of a model's directory: its three files, and what is missing or broken. */
#include "unit/text/text_fixture.h"
#include "unit/weights/fixture.h"

static const char json[] =
    "{\"added_tokens\": [{\"id\": 1, \"content\": \"<|im_end|>\", \"special\": true, "
    "\"normalized\": false},"
    " {\"id\": 2, \"content\": \"<|eot_id|>\", \"special\": true, \"normalized\": false}],"
    " \"model\": {\"vocab\": {\"a\": 0, \"</s>\": 3}, \"merges\": []}}";

static whim_err open_dir(whim_tokenizer **tok, whim_diag *diag)
{
    *diag = (whim_diag){{0}};
    return whim_tokenizer_open(test_dir, NULL, tok, diag);
}

static void a_directory_opens(void **state)
{
    (void)state;
    whim_tokenizer *tok;
    whim_diag diag;
    write_text("tokenizer.json", json);
    assert_int_equal(open_dir(&tok, &diag), WHIM_ERR_OK);
    assert_string_equal(whim_tokenizer_eos(tok), "");
    assert_null(whim_tokenizer_template(tok, NULL));
    whim_tokenizer_close(tok);

    write_text("tokenizer_config.json",
               "{\"eos_token\": \"<|eot_id|>\", \"chat_template\": \"old\"}");
    assert_int_equal(open_dir(&tok, &diag), WHIM_ERR_OK);
    assert_string_equal(whim_tokenizer_template(tok, NULL), "old");
    /* The one that the configuration names comes first; text that is no added token does not
     * count. */
    int32_t stop[4];
    assert_int_equal(whim_tokenizer_stop_ids(tok, stop, 4), 2);
    assert_int_equal(stop[0], 2);
    assert_int_equal(stop[1], 1);
    assert_int_equal(whim_tokenizer_stop_ids(tok, stop, 1), 1);
    whim_tokenizer_close(tok);

    write_text("chat_template.jinja", "new");
    assert_int_equal(open_dir(&tok, &diag), WHIM_ERR_OK);
    assert_string_equal(whim_tokenizer_template(tok, "default"), "new");
    whim_tokenizer_close(tok);
    dir_clear();
}

static void missing_and_broken_files_are_named(void **state)
{
    (void)state;
    whim_tokenizer *tok;
    whim_diag diag;
    assert_int_equal(open_dir(&tok, &diag), WHIM_ERR_NOT_FOUND);
    assert_non_null(strstr(diag.text, "tokenizer.json"));
    assert_null(tok);
    write_text("tokenizer.json", "{}");
    assert_int_equal(open_dir(&tok, &diag), WHIM_ERR_CORRUPT);
    assert_non_null(strstr(diag.text, "tokenizer.json: \"model\" is missing"));
    write_text("tokenizer.json", json);
    write_text("tokenizer_config.json", "{");
    assert_int_equal(open_dir(&tok, &diag), WHIM_ERR_CORRUPT);
    assert_non_null(strstr(diag.text, "tokenizer_config.json"));
    dir_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_directory_opens),
        cmocka_unit_test(missing_and_broken_files_are_named),
    };
    return cmocka_run_group_tests(tests, dir_setup, dir_teardown);
}
