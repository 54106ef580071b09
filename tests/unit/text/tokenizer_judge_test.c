/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizers that others wrote: their ids for any text.
 *
 * Without arguments it tests itself. With any argument it judges what comes on its standard input,
 * line by line, for tests/world/models.py:
 *   T<folder>   "ok <number of ids>" or "error <why not>": opens the tokenizer of a model's folder
 *   E<text>     the text, as a string of JSON: its ids, apart by spaces, without those that a
 *               tokenizer adds; or "error <why not>" */
#include "unit/text/text_fixture.h"

#include <jansson.h>
#include <sys/stat.h>

static whim_tokenizer *judged;

static void answer_open(const char *folder, whim_str *answer)
{
    whim_diag diag = {{0}};
    whim_tokenizer_close(judged);
    judged = NULL;
    if (whim_tokenizer_open(folder, NULL, &judged, &diag) != WHIM_ERR_OK) {
        whim_str_printf(answer, "error %s", diag.text);
        return;
    }
    whim_str_printf(answer, "ok %d", whim_tokenizer_count(judged));
}

static void answer_ids(const char *string, whim_str *answer)
{
    whim_diag diag = {{0}};
    whim_ids ids = {0};
    json_t *text = json_loads(string, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    whim_encode_opts opts = {.parse_special = true};
    if (judged == NULL || !json_is_string(text)) {
        whim_str_printf(answer, "error %s", judged == NULL ? "no tokenizer" : "no string");
    } else if (whim_tokenizer_encode(judged, json_string_value(text),
                                     (int64_t)json_string_length(text), &opts, &ids,
                                     &diag) != WHIM_ERR_OK) {
        whim_str_printf(answer, "error %s", diag.text);
    }
    for (int64_t i = 0; i < ids.n; i++) {
        whim_str_printf(answer, "%s%d", i > 0 ? " " : "", ids.ids[i]);
    }
    whim_ids_deinit(&ids);
    json_decref(text);
}

static void answer_line(const char *line, whim_str *answer)
{
    answer->len = 0;
    if (line[0] == 'T') {
        answer_open(line + 1, answer);
    } else {
        answer_ids(line[0] == '\0' ? line : line + 1, answer);
    }
}

static int judge(void)
{
    char *line = NULL;
    size_t cap = 0;
    whim_str answer = {0};
    for (ssize_t n; (n = getline(&line, &cap, stdin)) > 0; fflush(stdout)) {
        line[n - 1] = line[n - 1] == '\n' ? '\0' : line[n - 1];
        answer_line(line, &answer);
        puts(answer.len > 0 ? answer.text : "");
    }
    free(line);
    whim_str_deinit(&answer);
    whim_tokenizer_close(judged);
    return 0;
}

static void lines_are_answered(void **state)
{
    (void)state;
    static const char json[] =
        "{\"added_tokens\": [{\"id\": 2, \"content\": \"<x>\", \"special\": "
        "true}], \"pre_tokenizer\": null, \"model\": {\"type\": \"BPE\", "
        "\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 3}, \"merges\": [\"a b\"]}}";
    static const char *const rows[][2] = {
        {"E\"ab\"", "error no tokenizer"}, {"T", "ok 4"}, {"E\"ab<x>b\"", "3 2 1"}, {"E\"\"", ""},
        {"Eab", "error no string"},
    };
    char folder[] = "/tmp/whimbrel-judge-XXXXXX", path[64], line[80];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(json, file);
    fclose(file);
    whim_str answer = {0};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool open = strcmp(rows[i][0], "T") == 0;
        snprintf(line, sizeof line, "%s%s", rows[i][0], open ? folder : "");
        answer_line(line, &answer);
        assert_string_equal(answer.len > 0 ? answer.text : "", rows[i][1]);
    }
    remove(path);
    answer_line((snprintf(line, sizeof line, "T%s", folder), line), &answer);
    assert_non_null(strstr(answer.text, "error "));
    remove(folder);
    whim_str_deinit(&answer);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines_are_answered)};
    (void)argv;
    return argc > 1 ? judge() : cmocka_run_group_tests(tests, NULL, NULL);
}
