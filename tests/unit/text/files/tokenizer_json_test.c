/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.json files that are broken or ask for what is not there: refused, with file and
 * field. */
#include "unit/text/text_fixture.h"

/* A good file of three tokens with one text in it replaced. */
static const char good[] =
    "{\"added_tokens\": [{\"id\": 3, \"content\": \"<x>\", \"single_word\": false, \"lstrip\": "
    "false,"
    " \"rstrip\": false, \"normalized\": false, \"special\": true}],"
    " \"normalizer\": {\"type\": \"NFC\"},"
    " \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\","
    " \"pattern\": {\"Regex\": \"[0-9]\"}, \"behavior\": \"Isolated\", \"invert\": false}]},"
    " \"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\":"
    " {\"id\": \"<x>\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}],"
    " \"special_tokens\": {\"<x>\": {\"id\": \"<x>\", \"ids\": [3], \"tokens\": [\"<x>\"]}}},"
    " \"decoder\": {\"type\": \"ByteLevel\"},"
    " \"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, \"byte_fallback\": "
    "false,"
    " \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [[\"a\", \"b\"]]}}";

static const struct {
    const char *from, *to;
    const char *needle;
} bad[] = {
    {"\"a\": 0", "\"a\": 1", "model.vocab"},
    {"\"b\": 1", "\"a\": 1", "the second is not in the vocabulary"},
    {"\"a\": 0", "\"a\": 4194304",
     "\"model.vocab\": the id of \"a\" is 4194304, expected an integer from 0 to 4194303"},
    {"\"a\": 0", "\"a\": 4194303", "ids up to"},
    {"\"a\": 0", "\"a\": 99999999999999999999",
     "the id of \"a\" is 99999999999999999999, expected"},
    {"\"a\": 0", "\"a\": -1", "the id of \"a\" is -1, expected"},
    {"\"a\": 0", "\"a\": 0.5", "the id of \"a\" is 0.5, expected"},
    {"\"a\": 0", "\"a\": null", "the id of \"a\" is null, expected"},
    {"\"a\": 0", "\"a\": \"0\"", "the id of \"a\" is a string, expected"},
    {"\"a\": 0", "\"a\": ?", "not valid JSON at byte"},
    {"\"a\": 0", "\"a\\u0000\": 0", "model.vocab"},
    {"\"a\": 0", "\"a\\ud800\": 0", "model.vocab"},
    {"\"a\": 0", "\"a\xFF\": 0", "model.vocab"},
    {"\"a\": 0, ", "\"a\": 0 ", "model.vocab"},
    {"{\"a\": 0, \"b\": 1, \"ab\": 2}", "[]", "model.vocab"},
    {"\"vocab\"", "\"vocap\"", "model.vocab"},
    {"[[\"a\", \"b\"]]", "{}", "model.merges"},
    {"[[\"a\", \"b\"]]", "7", "model.merges"},
    {"[\"a\", \"b\"]", "[\"a\"]", "model.merges"},
    {"[\"a\", \"b\"]", "[\"a\", \"b\", \"a\"]", "model.merges"},
    {"[\"a\", \"b\"]", "\"ab\"", "model.merges"},
    {"[\"a\", \"b\"]", "\"a b a\"", "model.merges"},
    {"[\"a\", \"b\"]", "7", "model.merges"},
    {"[\"a\", \"b\"]", "[\"a\", \"z\"]", "the second is not in the vocabulary"},
    {"[\"a\", \"b\"]", "[\"b\", \"a\"]", "the result is not in the vocabulary"},
    {"\"BPE\"", "\"Unigram\"", "\"model.type\" is \"Unigram\""},
    {"\"BPE\"", "3", "model.type"},
    {"\"dropout\": null", "\"dropout\": 0.1", "model.dropout"},
    {"\"unk_token\": null", "\"unk_token\": \"z\"", "model.unk_token"},
    {"\"unk_token\": null", "\"continuing_subword_prefix\": \"##\"", "continuing_subword_prefix"},
    {"\"unk_token\": null", "\"end_of_word_suffix\": \"</w>\"", "end_of_word_suffix"},
    {"\"byte_fallback\": false", "\"byte_fallback\": 1", "model.byte_fallback"},
    {"\"id\": 3", "\"id\": 2", "added_tokens"},
    {"\"id\": 3", "\"id\": -1", "added_tokens.id"},
    {"\"id\": 3", "\"id\": 4194304", "added_tokens.id"},
    {"\"id\": 3, ", "", "added_tokens.id"},
    {"\"content\": \"<x>\"", "\"content\": \"\"", "added_tokens.content"},
    {"\"content\": \"<x>\"", "\"content\": 3", "added_tokens.content"},
    {"\"lstrip\": false", "\"lstrip\": \"no\"", "added_tokens.lstrip"},
    {"\"NFC\"", "\"Nmt\"", "\"normalizer.type\" is \"Nmt\""},
    {"{\"type\": \"NFC\"}", "{}", "normalizer.type"},
    {"{\"type\": \"NFC\"}", "3", "normalizer"},
    {"\"type\": \"NFC\"", "\"type\": \"Replace\", \"content\": \"\"", "pattern"},
    {"\"type\": \"NFC\"",
     "\"type\": \"Replace\", \"pattern\": {\"Regex\": \"(\"}, \"content\": \"\"",
     "normalizer.pattern.Regex"},
    {"\"[0-9]\"", "\"[0-9\"", "pre_tokenizer.pattern.Regex"},
    {"\"[0-9]\"", "\"(?<a\"", "pre_tokenizer.pattern.Regex"},
    {"\"[0-9]\"", "\"[a&&b]\"", "pre_tokenizer.pattern.Regex"},
    {"\"[0-9]\"", "7", "pre_tokenizer.pattern"},
    {"{\"Regex\": \"[0-9]\"}", "{}", "pre_tokenizer.pattern"},
    {"\"Isolated\"", "\"Sideways\"", "pre_tokenizer.behavior"},
    {"\"type\": \"Split\"", "\"type\": \"UnicodeScripts\"",
     "\"pre_tokenizer.type\" is \"UnicodeScripts\""},
    {"\"TemplateProcessing\"", "\"RobertaProcessing\"", "\"post_processor.type\" is \"Roberta"},
    {"[3]", "[9]", "post_processor.special_tokens"},
    {"\"special_tokens\"", "\"special_tokenz\"", "post_processor.special_tokens"},
    {"{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}", "3", "post_processor.single"},
    {", {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}", "", "has no sequence"},
    {"\"decoder\": {\"type\": \"ByteLevel\"}", "\"decoder\": {\"type\": \"CTC\"}",
     "\"decoder.type\" is \"CTC\""},
    {"\"model\"", "\"modell\"", "\"model\" is missing"},
    {"\"merges\"", "\"vocab\": {}, \"merges\"", "\"a\" and \"b\", and the first is not in"},
    {"\"merges\"", "\"vocab\": 3, \"merges\"", "\"model.vocab\" is an integer"},
};

static char *replaced(const char *from, const char *to)
{
    const char *at = strstr(good, from);
    assert_non_null(at);
    size_t n = strlen(good) + strlen(to) + 1;
    char *text = malloc(n);
    snprintf(text, n, "%.*s%s%s", (int)(at - good), good, to, at + strlen(from));
    return text;
}

static void good_file_opens(void **state)
{
    (void)state;
    whim_tokenizer *tok;
    whim_diag diag = {{0}};
    if (open_text(good, sizeof good - 1, &tok, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    whim_ids ids =
        encode(tok, "ab<x>b", 6, (whim_encode_opts){.parse_special = true, .add_special = true});
    static const int32_t want[] = {3, 2, 3, 1};
    assert_int_equal(ids.n, 4);
    assert_memory_equal(ids.ids, want, sizeof want);
    whim_ids_deinit(&ids);
    int64_t n;
    assert_string_equal(whim_tokenizer_bytes(tok, 4, &n), "");
    assert_int_equal(n, 0);
    whim_tokenizer_close(tok);
}

/* As Python's json and Rust's serde read files: a byte order mark, and of a key that stands twice
 * the last value. */
static void the_last_of_a_key_counts(void **state)
{
    static const struct {
        const char *from, *to;
    } cases[] = {
        {"{\"added_tokens\"", "\xEF\xBB\xBF{\"added_tokens\""},
        {"\"vocab\"", "\"vocab\": {\"z\": 0}, \"vocab\": 3, \"vocab\""},
        {"{\"a\": 0", "{\"ab\": 1, \"a\": 2, \"\\u0061\": 3, \"a\": 0"}, /* others' ids before */
        {"\"ab\": 2}", "\"ab\": 2, \"ab\": 2}"},
        {"\"merges\"", "\"merges\": [[\"z\", \"z\"]], \"merges\": {}, \"merges\""},
        {"\"model\"",
         "\"model\": {\"vocab\": {\"z\": 0}, \"merges\": []}, \"model\": 7, \"model\""},
        {"\"added_tokens\"", "\"added_tokens\": [3], \"version\": 1e999, \"added_tokens\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *text = replaced(cases[i].from, cases[i].to);
        whim_tokenizer *tok;
        whim_diag diag = {{0}};
        if (open_text(text, (int64_t)strlen(text), &tok, &diag) != WHIM_ERR_OK) {
            fail_msg("%s: %s", cases[i].to, diag.text);
        }
        whim_ids ids = encode(tok, "ab", 2, (whim_encode_opts){0});
        assert_true(ids.n == 1 && ids.ids[0] == 2);
        whim_ids_deinit(&ids);
        whim_tokenizer_close(tok);
        free(text);
    }
}

static void bad_files_are_refused_by_field(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char *text = replaced(bad[i].from, bad[i].to);
        whim_tokenizer *tok;
        whim_diag diag = {{0}};
        whim_err err = open_text(text, (int64_t)strlen(text), &tok, &diag);
        if (err == WHIM_ERR_OK) {
            whim_tokenizer_close(tok);
            fail_msg("accepted with %s", bad[i].to);
        }
        assert_true(err == WHIM_ERR_CORRUPT || err == WHIM_ERR_UNSUPPORTED);
        if (strstr(diag.text, "tokenizer.json: ") != diag.text ||
            strstr(diag.text, bad[i].needle) == NULL) {
            fail_msg("%s: expected \"%s\" in: %s", bad[i].to, bad[i].needle, diag.text);
        }
        free(text);
    }
}

/* Merges that spell a special token do not make it of plain text. */
static void merges_cannot_spell_special_tokens(void **state)
{
    (void)state;
    static const char json[] =
        "{\"added_tokens\": [{\"id\": 2, \"content\": \"ab\", \"special\": true, \"normalized\":"
        " false}, {\"id\": 3, \"content\": \"c\", \"special\": true, \"normalized\": false}],"
        " \"model\": {\"ignore_merges\": true, \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"c\": "
        "3},"
        " \"merges\": [\"a b\"]}}";
    whim_tokenizer *tok;
    whim_diag diag = {{0}};
    assert_int_equal(open_text(json, sizeof json - 1, &tok, &diag), WHIM_ERR_OK);
    static const struct {
        const char *text;
        bool parse;
        int64_t n;
        int32_t ids[3];
    } cases[] = {{"ab", true, 1, {2}}, {"ab", false, 2, {0, 1}}, {"aabc", false, 3, {0, 0, 1}}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        whim_encode_opts opts = {.parse_special = cases[i].parse};
        whim_ids ids = encode(tok, cases[i].text, (int64_t)strlen(cases[i].text), opts);
        assert_int_equal(ids.n, cases[i].n);
        assert_memory_equal(ids.ids, cases[i].ids, (size_t)ids.n * 4);
        whim_ids_deinit(&ids);
    }
    whim_tokenizer_close(tok);
}

/* Every prefix of the file is refused, with the file's name. */
static void truncated_files_are_refused(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof good - 1; n++) {
        char *copy = malloc(n + 1); /* its own memory, so that a sanitizer sees a read past it */
        memcpy(copy, good, n);
        whim_tokenizer *tok;
        whim_diag diag = {{0}};
        assert_int_equal(open_text(copy, (int64_t)n, &tok, &diag), WHIM_ERR_CORRUPT);
        assert_ptr_equal(strstr(diag.text, "tokenizer.json: "), diag.text);
        free(copy);
    }
}

static void config_gives_templates_and_tokens(void **state)
{
    (void)state;
    whim_tokenizer *tok;
    whim_diag diag = {{0}};
    assert_int_equal(open_text(good, sizeof good - 1, &tok, &diag), WHIM_ERR_OK);
    static const char config[] =
        "\xEF\xBB\xBF{\"model_max_length\": 1000000000000000019884624838656, \"max_length\": NaN,"
        "\"bos_token\": 3, \"pad_token\": \"\\u0000\","
        "\"bos_token\": {\"content\": \"<x>\"}, \"eos_token\": \"b\", \"chat_template\":"
        " [{\"name\": \"default\", \"template\": \"one\"}, {\"name\": \"tool_use\", \"template\": "
        "\"two\"}]}";
    assert_int_equal(whim_tokenizer_config_json(tok, config, sizeof config - 1, "c.json", &diag),
                     WHIM_ERR_OK);
    assert_string_equal(whim_tokenizer_bos(tok), "<x>");
    assert_string_equal(whim_tokenizer_eos(tok), "b");
    assert_string_equal(whim_tokenizer_template(tok, NULL), "one");
    assert_string_equal(whim_tokenizer_template(tok, "tool_use"), "two");
    assert_null(whim_tokenizer_template(tok, "rag"));
    static const char *const broken[] = {"{\"chat_template\": 3}", "{\"chat_template\": [3]}",
                                         "{\"chat_template\": [{\"name\": \"x\"}]}",
                                         "{\"eos_token\": []}", "[]"};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        assert_int_equal(
            whim_tokenizer_config_json(tok, broken[i], (int64_t)strlen(broken[i]), "c.json", &diag),
            WHIM_ERR_CORRUPT);
        assert_ptr_equal(strstr(diag.text, "c.json: "), diag.text);
    }
    whim_tokenizer_close(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_file_opens),
        cmocka_unit_test(the_last_of_a_key_counts),
        cmocka_unit_test(bad_files_are_refused_by_field),
        cmocka_unit_test(merges_cannot_spell_special_tokens),
        cmocka_unit_test(truncated_files_are_refused),
        cmocka_unit_test(config_gives_templates_and_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
