/* SPDX-License-Identifier: Apache-2.0 */
/* The option table, its parser and its help. */
#include "options/options.h"
#include "support/cmocka.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static whim_options options;
static whim_diag diag;

/* Parse up to 8 words, the first NULL ends them. */
static whim_err parse(whim_command command, const char *const *words)
{
    int n = 0;
    while (words[n] != NULL) {
        n++;
    }
    diag.text[0] = '\0';
    return whim_options_parse(&options, command, n, words, &diag);
}

#define PARSE(command, ...) \
    parse(WHIM_COMMAND_##command, (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static void refused(whim_err err, const char *part1, const char *part2)
{
    assert_int_equal(err, WHIM_ERR_INVALID);
    if (strstr(diag.text, part1) == NULL || strstr(diag.text, part2) == NULL) {
        fail_msg("\"%s\" lacks \"%s\" or \"%s\"", diag.text, part1, part2);
    }
}

static void defaults_are_those_of_the_table(void **state)
{
    (void)state;
    assert_int_equal(PARSE(BENCH), WHIM_ERR_OK);
    assert_null(options.model);
    assert_int_equal(options.prompt_tokens, 512);
    assert_int_equal(options.tokens, 128);
    assert_int_equal(options.batch.n, 1);
    assert_int_equal(options.batch.v[0], 1);
    assert_int_equal(options.kv_mem, 0);
    assert_false(options.json);
    assert_string_equal(options.load_format, "auto");
    assert_null(options.kv_type);
    assert_true(options.seconds == 0.5);
}

static void every_form_of_a_value_is_read(void **state)
{
    (void)state;
    assert_int_equal(PARSE(RUN, "--threads", "3", "m.gguf", "--kv-mem=1.5G", "-n", "7", "-c9"),
                     WHIM_ERR_OK);
    assert_string_equal(options.model, "m.gguf");
    assert_int_equal(options.threads, 3);
    assert_int_equal(options.kv_mem, INT64_C(3) << 29);
    assert_int_equal(options.max_tokens, 7);
    assert_int_equal(options.ctx, 9);
    assert_int_equal(PARSE(BENCH, "-b", "1,8,64", "--seconds", "0.25", "-p", "16"), WHIM_ERR_OK);
    assert_int_equal(options.batch.n, 3);
    assert_int_equal(options.batch.v[2], 64);
    assert_true(options.seconds == 0.25);
    assert_int_equal(options.prompt_tokens, 16);
}

static void the_same_letter_means_what_its_command_says(void **state)
{
    (void)state;
    assert_int_equal(PARSE(RUN, "-p", "hello"), WHIM_ERR_OK);
    assert_string_equal(options.prompt, "hello");
    refused(PARSE(BENCH, "-p", "hello"), "--prompt-tokens", "hello");
}

static void switches_go_on_and_off(void **state)
{
    (void)state;
    assert_int_equal(PARSE(RUN, "--ignore-eos", "--no-ignore-eos", "--json", "-q"), WHIM_ERR_OK);
    assert_false(options.ignore_eos);
    assert_true(options.json);
    assert_true(options.quiet);
    assert_int_equal(PARSE(RUN, "--json", "--no-json"), WHIM_ERR_OK);
    assert_false(options.json);
    refused(PARSE(RUN, "--json=yes"), "--json", "no value");
    refused(PARSE(RUN, "--no-threads"), "--no-threads", "no option");
    refused(PARSE(RUN, "-qx"), "-qx", "no option");
}

static void two_dashes_end_the_options(void **state)
{
    (void)state;
    assert_int_equal(PARSE(RUN, "--json", "--", "--strange-name"), WHIM_ERR_OK);
    assert_string_equal(options.model, "--strange-name");
    assert_true(options.json);
    assert_int_equal(PARSE(RUN, "--ids", "-"), WHIM_ERR_OK);
    assert_string_equal(options.ids, "-");
    assert_int_equal(PARSE(RUN, "--ids=--"), WHIM_ERR_OK);
    assert_string_equal(options.ids, "--");
}

static void some_commands_take_two(void **state)
{
    (void)state;
    assert_int_equal(PARSE(QUANTIZE, "in", "--to", "q4", "out"), WHIM_ERR_OK);
    assert_string_equal(options.model, "in");
    assert_string_equal(options.output, "out");
    assert_true(options.report && options.shard_size == INT64_C(4) << 30);
    assert_int_equal(PARSE(QUANTIZE, "in", "--no-report"), WHIM_ERR_OK);
    assert_null(options.output);
    assert_false(options.report);
    refused(PARSE(QUANTIZE, "a", "b", "c"), "IN OUT", "\"c\"");
    refused(PARSE(QUANTIZE, "--to", "q5"), "\"q5\"", "q8|q4|fp8");
    refused(PARSE(INSPECT, "a", "b"), "one model", "\"b\"");
    assert_int_equal(PARSE(RUN, "m", "a question", "--temperature=0.5"), WHIM_ERR_OK);
    assert_string_equal(options.output, "a question");
    assert_true(options.temp == 0.5);
    refused(PARSE(RUN, "m", "a", "b"), "[PROMPT]", "\"b\"");
}

static void other_programs_options_are_known(void **state)
{
    (void)state;
    refused(PARSE(SERVE, "m", "-ngl", "99"), "-ngl is an option of llama.cpp", "not needed");
    refused(PARSE(RUN, "-fa"), "-fa", "not needed");
    refused(PARSE(SERVE, "-m", "x.gguf"), "-m", "serve MODEL");
    refused(PARSE(CHAT, "-m", "x.gguf"), "-m", "chat MODEL");
    refused(PARSE(SERVE, "--max-model-len=4096"), "vLLM", "calls it --ctx");
    refused(PARSE(RUN, "--max-num-seqs", "4"), "--max-seqs", "an option of \"serve\"");
    refused(PARSE(BENCH, "-ctk", "q8_0"), "--kv-dtype", "together");
    assert_int_equal(PARSE(BENCH, "-b", "8"), WHIM_ERR_OK); /* its own letter goes first */
    assert_int_equal(PARSE(RUN, "-n7", "-t", "1", "-c4096"), WHIM_ERR_OK);
    /* What a row sends people to is there, and no row is in the way of an option of ours. */
    const char *ours, *word;
    int32_t n;
    const whim_option_spec *specs = whim_option_specs(&n);
    for (int32_t i = 0; (word = whim_options_foreign_at(i, &ours)) != NULL; i++) {
        bool found = ours == NULL;
        for (int32_t k = 0; k < n; k++) {
            found |= ours != NULL && strcmp(specs[k].name, ours) == 0;
            bool is_serve = (specs[k].commands >> WHIM_COMMAND_SERVE & 1) != 0;
            assert_false(is_serve && strcmp(word + 2, specs[k].name) == 0);
        }
        if (!found) {
            fail_msg("%s leads to --%s, which is not there", word, ours);
        }
    }
}

static void the_last_one_wins(void **state)
{
    (void)state;
    assert_int_equal(PARSE(BENCH, "-b", "1,2,3", "-b", "4", "-n", "5", "-n6"), WHIM_ERR_OK);
    assert_int_equal(options.batch.n, 1);
    assert_int_equal(options.batch.v[0], 4);
    assert_int_equal(options.tokens, 6);
}

static void repeatable_options_collect(void **state)
{
    (void)state;
    assert_int_equal(PARSE(RUN, "--stop", "a", "--stop=b", "--temp", "0"), WHIM_ERR_OK);
    assert_int_equal(options.stop.n, 2);
    assert_string_equal(options.stop.v[0], "a");
    assert_string_equal(options.stop.v[1], "b");
    const char *many[2 * WHIM_OPTION_MAX_STRINGS + 3];
    for (int i = 0; i <= WHIM_OPTION_MAX_STRINGS; i++) {
        many[2 * i] = "--stop";
        many[2 * i + 1] = "x";
    }
    many[2 * WHIM_OPTION_MAX_STRINGS + 2] = NULL;
    refused(parse(WHIM_COMMAND_RUN, many), "--stop", "at most 32");
}

static void what_was_given_is_known(void **state)
{
    (void)state;
    assert_int_equal(PARSE(RUN, "--temp", "0", "-n", "5"), WHIM_ERR_OK);
    assert_true(whim_options_gave(&options, &options.temp));
    assert_true(whim_options_gave(&options, &options.max_tokens));
    assert_false(whim_options_gave(&options, &options.top_p));
    assert_false(whim_options_gave(&options, &options.model));
}

static void bad_numbers_are_refused(void **state)
{
    (void)state;
    refused(PARSE(RUN, "--threads", "two"), "--threads", "\"two\"");
    refused(PARSE(RUN, "--threads", "2x"), "\"2x\"", "whole number from 1 to 4096");
    refused(PARSE(RUN, "--threads", "0"), "--threads", "from 1");
    refused(PARSE(RUN, "--threads", "-1"), "--threads", "\"-1\"");
    refused(PARSE(RUN, "--threads", ""), "--threads", "\"\"");
    refused(PARSE(RUN, "--threads", " 3"), "--threads", "\" 3\"");
    refused(PARSE(RUN, "--threads", "+3"), "--threads", "\"+3\"");
    refused(PARSE(RUN, "--ctx", "99999999999999999999"), "--ctx", "from 1 to 1073741824");
    refused(PARSE(RUN, "--kv-mem", "lots"), "--kv-mem", "such as 512M");
    refused(PARSE(RUN, "--kv-mem", "0"), "--kv-mem", "from 1 B");
    refused(PARSE(BENCH, "--seconds", "nan"), "--seconds", "from 0.01 to 60");
    refused(PARSE(BENCH, "--seconds", "0x1"), "--seconds", "0x1");
    refused(PARSE(BENCH, "--seconds", "61"), "--seconds", "61");
    refused(PARSE(BENCH, "--seconds", "1e"), "--seconds", "1e");
}

static void bad_lists_and_words_are_refused(void **state)
{
    (void)state;
    refused(PARSE(BENCH, "-b", "1,"), "--batch", "\"1,\"");
    refused(PARSE(BENCH, "-b", ",1"), "--batch", "\",1\"");
    refused(PARSE(BENCH, "-b", "1 2"), "--batch", "commas");
    refused(PARSE(BENCH, "-b", "1,0"), "--batch", "from 1");
    refused(PARSE(BENCH, "-b", "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"), "--batch", "at most 16");
    refused(PARSE(RUN, "--load-format", "dumm"), "--load-format", "auto|dummy");
    refused(PARSE(RUN, "--load-format", ""), "--load-format", "auto|dummy");
    refused(PARSE(RUN, "--load-format", "auto|dummy"), "--load-format", "not one of");
    assert_int_equal(PARSE(RUN, "--load-format", "dummy", "--kv-type=f16"), WHIM_ERR_OK);
    assert_string_equal(options.load_format, "dummy");
    assert_string_equal(options.kv_type, "f16");
    assert_int_equal(PARSE(RUN, "--kv-dtype", "q8", "--kv-type", "f32"), WHIM_ERR_OK);
    assert_string_equal(options.kv_type, "f32"); /* one option by two names: the last counts */
}

static void missing_values_and_strange_words_are_refused(void **state)
{
    (void)state;
    refused(PARSE(RUN, "--threads"), "--threads", "needs a value");
    refused(PARSE(RUN, "--ids", "--json"), "--ids", "needs a value");
    refused(PARSE(RUN, "--thread", "2"), "\"--thread\"", "--threads?");
    refused(PARSE(RUN, "--max-step-token=4"), "--max-step-token", "--max-step-tokens?");
    refused(PARSE(RUN, "--frobnicate"), "--frobnicate", "run --help");
    refused(PARSE(RUN, "--tensors"), "--tensors", "\"inspect\"");
    refused(PARSE(RUN, "-z"), "\"-z\"", "no option");
    refused(PARSE(INSPECT, "a", "b"), "\"a\"", "\"b\"");
    refused(PARSE(DOCTOR, "model.gguf"), "doctor", "model.gguf");
}

static void help_helps_whatever_comes_after(void **state)
{
    (void)state;
    assert_int_equal(PARSE(RUN, "--help", "--nonsense"), WHIM_ERR_OK);
    assert_true(options.help);
    assert_int_equal(PARSE(DOCTOR, "-h"), WHIM_ERR_OK);
    assert_true(options.help);
}

static void commands_are_found_or_guessed(void **state)
{
    (void)state;
    whim_command command;
    assert_int_equal(whim_command_find("inspect", &command, &diag), WHIM_ERR_OK);
    assert_int_equal(command, WHIM_COMMAND_INSPECT);
    refused(whim_command_find("dcotor", &command, &diag), "dcotor", "did you mean doctor?");
    refused(whim_command_find("rnu", &command, &diag), "rnu", "did you mean run?");
    refused(whim_command_find("in", &command, &diag), "\"in\"", "inspect");
    refused(whim_command_find("xyzzyplugh", &command, &diag), "run, inspect", "bench");
    char longest[4096];
    memset(longest, 'r', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    refused(whim_command_find(longest, &command, &diag), "no command", "run, inspect");
}

/* Whether a line of the help begins with this option, perhaps after its letter. */
static bool is_listed(const char *help, const char *name)
{
    size_t n = strlen(name);
    for (const char *line = help; line != NULL; line = strchr(line, '\n')) {
        line += strspn(line, "\n ");
        if (line[0] == '-' && line[1] != '-' && line[1] != '\0') {
            line += strlen("-x, ");
        }
        if (strncmp(line, name, n) == 0 && strchr(" \n", line[n]) != NULL) {
            return true;
        }
    }
    return false;
}

/* A text in one line, as help is before it is wrapped. */
static void unwrap(whim_str *out, const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        bool blank = *at == ' ' || *at == '\n';
        if (!blank) {
            whim_str_append_char(out, *at);
        } else if (at[1] != ' ' && at[1] != '\n') {
            whim_str_append_char(out, ' ');
        }
    }
}

/* Every option that is told says all that it has to say. */
static void check_whole(const char *help, whim_command command)
{
    int32_t n;
    const whim_option_spec *specs = whim_option_specs(&n);
    whim_str text = {0}, whole = {0};
    unwrap(&text, help);
    for (int32_t i = 0; i < n; i++) {
        if (specs[i].help == NULL || (specs[i].commands >> command & 1) == 0) {
            continue;
        }
        const char *fallback = specs[i].fallback;
        whim_str_clear(&whole);
        whim_str_printf(&whole, "%s%s%s%s", specs[i].help, fallback != NULL ? " (default: " : "",
                        fallback != NULL ? fallback : "", fallback != NULL ? ")" : "");
        if (strstr(whim_str_text(&text), whim_str_text(&whole)) == NULL) {
            fail_msg("%s: what is said of --%s is not whole", whim_command_get(command)->name,
                     specs[i].name);
        }
    }
    whim_str_deinit(&text);
    whim_str_deinit(&whole);
}

/* Several options may share a name, each for commands of its own. */
static bool is_wanted(const char *name, whim_command command)
{
    int32_t n;
    const whim_option_spec *specs = whim_option_specs(&n);
    for (int32_t i = 0; i < n; i++) {
        if (strcmp(specs[i].name, name) == 0 && (specs[i].commands >> command & 1) != 0 &&
            specs[i].help != NULL) {
            return true;
        }
    }
    return false;
}

/* Whether the help has all words of a text in a row, however its lines are broken. */
static bool has_words(const char *help, const char *words)
{
    for (const char *from = help; *from != '\0'; from++) {
        const char *at = from, *want = words;
        while (*want != '\0' && *at != '\0') {
            size_t word = strcspn(want, " ");
            if (strncmp(at, want, word) != 0) {
                break;
            }
            at += word;
            at += strspn(at, " \n");
            want += word;
            want += strspn(want, " ");
        }
        if (*want == '\0') {
            return true;
        }
    }
    return false;
}

static void check_help(whim_command command, int32_t width)
{
    int32_t n;
    const whim_option_spec *specs = whim_option_specs(&n);
    whim_str text = {0};
    whim_options_help(&text, command, width);
    check_whole(whim_str_text(&text), command);
    for (int32_t i = 0; i < n; i++) {
        char name[80];
        bool is_switch = specs[i].type == WHIM_OPTION_BOOL;
        bool has_no = is_switch ? specs[i].fallback != NULL : whim_option_has_no(&specs[i]);
        snprintf(name, sizeof name, has_no ? "--[no-]%s" : "--%s", specs[i].name);
        bool wanted = is_wanted(specs[i].name, command);
        if (wanted && (specs[i].commands >> command & 1) == 0) {
            continue; /* another of that name is wanted */
        }
        if (wanted != is_listed(whim_str_text(&text), name)) {
            fail_msg("%s: %s is %s in the help", whim_command_get(command)->name, name,
                     wanted ? "not" : "wrongly");
        }
        if (wanted && !has_words(whim_str_text(&text), specs[i].help)) {
            fail_msg("%s: the help of %s is not whole", whim_command_get(command)->name, name);
        }
    }
    for (const char *at = whim_str_text(&text); *at != '\0';) {
        size_t len = strcspn(at, "\n");
        /* The left column alone may be wider than a very narrow terminal. */
        assert_true(len <= (size_t)width || len < 48);
        assert_true(len == 0 || at[len - 1] != ' ');
        at += len + 1;
    }
    whim_str_deinit(&text);
}

/* What a command's help says of an option that others have too holds there. */
static void help_tells_of_its_own_command(void **state)
{
    static const struct {
        whim_command command;
        const char *other;
    } rows[] = {{WHIM_COMMAND_RUN, "serve cuts"},
                {WHIM_COMMAND_CHAT, "serve cuts"},
                {WHIM_COMMAND_CHAT, "of ids"},
                {WHIM_COMMAND_CHAT, "ignore_eos"},
                {WHIM_COMMAND_SERVE, "of ids"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        whim_str text = {0};
        whim_options_help(&text, rows[i].command, 132);
        if (strstr(whim_str_text(&text), rows[i].other) != NULL) {
            fail_msg("%s: \"%s\"", whim_command_get(rows[i].command)->name, rows[i].other);
        }
        whim_str_deinit(&text);
    }
}

static void help_lists_the_options_of_its_command(void **state)
{
    (void)state;
    for (int32_t command = 0; command < WHIM_COMMAND_COUNT; command++) {
        check_help((whim_command)command, 80);
        check_help((whim_command)command, 60);
        check_help((whim_command)command, 132);
    }
    whim_str text = {0};
    whim_commands_help(&text, 80);
    for (int32_t command = 0; command < WHIM_COMMAND_COUNT; command++) {
        assert_non_null(
            strstr(whim_str_text(&text), whim_command_get((whim_command)command)->name));
    }
    whim_str_deinit(&text);
}

static void the_table_is_sound(void **state)
{
    (void)state;
    int32_t n;
    const whim_option_spec *specs = whim_option_specs(&n);
    for (int32_t i = 0; i < n; i++) {
        assert_true(strlen(specs[i].name) <= 24);
        assert_true(specs[i].commands != 0);
        assert_true(specs[i].type == WHIM_OPTION_BOOL || specs[i].metavar != NULL);
        for (int32_t j = 0; j < i; j++) {
            bool meet = (specs[i].commands & specs[j].commands) != 0;
            assert_false(meet && strcmp(specs[i].name, specs[j].name) == 0);
            assert_false(meet && specs[i].letter != 0 && specs[i].letter == specs[j].letter);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_table),
        cmocka_unit_test(every_form_of_a_value_is_read),
        cmocka_unit_test(the_same_letter_means_what_its_command_says),
        cmocka_unit_test(switches_go_on_and_off),
        cmocka_unit_test(two_dashes_end_the_options),
        cmocka_unit_test(some_commands_take_two),
        cmocka_unit_test(other_programs_options_are_known),
        cmocka_unit_test(the_last_one_wins),
        cmocka_unit_test(repeatable_options_collect),
        cmocka_unit_test(what_was_given_is_known),
        cmocka_unit_test(bad_numbers_are_refused),
        cmocka_unit_test(bad_lists_and_words_are_refused),
        cmocka_unit_test(missing_values_and_strange_words_are_refused),
        cmocka_unit_test(help_helps_whatever_comes_after),
        cmocka_unit_test(commands_are_found_or_guessed),
        cmocka_unit_test(help_lists_the_options_of_its_command),
        cmocka_unit_test(help_tells_of_its_own_command),
        cmocka_unit_test(the_table_is_sound),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
