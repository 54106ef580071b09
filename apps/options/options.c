/* SPDX-License-Identifier: Apache-2.0 */
/* The option table and its parser. */
#include "options/options.h"

#include "base/check.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The words of the table's commands column. */
enum {
#define WHIM_COMMAND(name, NAME, operand, summary) NAME = 1 << WHIM_COMMAND_##NAME,
#include "options/options.def"
    ALL = (1 << WHIM_COMMAND_COUNT) - 1,
};

static const whim_command_spec command_table[] = {
#define WHIM_COMMAND(name, NAME, operand, summary) {#name, operand, summary},
#include "options/options.def"
};

static const whim_option_spec option_table[] = {
#define WHIM_OPTION(field, name, letter, type, fallback, least, most, commands, group, metavar, \
                    help)                                                                       \
    {name,                                                                                      \
     letter,                                                                                    \
     WHIM_OPTION_##type,                                                                        \
     fallback,                                                                                  \
     least,                                                                                     \
     most,                                                                                      \
     commands,                                                                                  \
     WHIM_OPTION_GROUP_##group,                                                                 \
     metavar,                                                                                   \
     help,                                                                                      \
     offsetof(whim_options, field)},
#include "options/options.def"
};

enum { N_OPTION = sizeof option_table / sizeof option_table[0], MAX_NAME = WHIM_NAME_FAR };
static_assert(N_OPTION <= 64 * 3, "whim_options.given has a bit for each option");

const whim_option_spec *whim_option_specs(int32_t *n)
{
    *n = N_OPTION;
    return option_table;
}

const whim_command_spec *whim_command_get(whim_command command)
{
    return &command_table[command];
}

int32_t whim_name_distance(const char *typed, const char *name)
{
    size_t n = strlen(typed);
    if (n > 0 && strncmp(typed, name, n) == 0) {
        return 0;
    }
    int32_t distance = whim_edit_distance(typed, name);
    return distance <= 1 + (int32_t)n / 4 ? distance : MAX_NAME;
}

whim_err whim_command_find(const char *name, whim_command *out, whim_diag *diag)
{
    char near[256] = "", all[256] = "";
    for (int32_t i = 0; i < WHIM_COMMAND_COUNT; i++) {
        const char *known = command_table[i].name;
        if (strcmp(name, known) == 0) {
            *out = (whim_command)i;
            return WHIM_ERR_OK;
        }
        size_t at = strlen(all);
        snprintf(all + at, sizeof all - at, "%s%s", i == 0 ? "" : ", ", known);
        if (whim_name_distance(name, known) < MAX_NAME) {
            at = strlen(near);
            snprintf(near + at, sizeof near - at, "%s%s", at == 0 ? "" : " or ", known);
        }
    }
    WHIM_TRY(whim_command_foreign(name, diag));
    if (near[0] != '\0') {
        return whim_fail(diag, WHIM_ERR_INVALID, "there is no command \"%.64s\"; did you mean %s?",
                         name, near);
    }
    return whim_fail(diag, WHIM_ERR_INVALID, "there is no command \"%.64s\"; there are %s", name,
                     all);
}

/* --- values ----------------------------------------------------------------------------------- */

static void *value_at(whim_options *options, const whim_option_spec *spec)
{
    return (char *)options + spec->offset;
}

static whim_err bad_value(const whim_option_spec *spec, const char *text, whim_diag *diag)
{
    static const char *const expected[] = {
        [WHIM_OPTION_INT] = "a whole number ",
        [WHIM_OPTION_BYTES] = "a size such as 512M or 1.5G, ",
        [WHIM_OPTION_FLOAT] = "a number ",
        [WHIM_OPTION_INTS] = "whole numbers with commas between them, at most 16, each ",
    };
    char low[32], high[32];
    if (spec->type == WHIM_OPTION_CHOICE) {
        return whim_fail(diag, WHIM_ERR_INVALID, "--%s: \"%.64s\" is not one of %s", spec->name,
                         text, spec->metavar);
    }
    if (spec->type == WHIM_OPTION_STRINGS) {
        return whim_fail(diag, WHIM_ERR_INVALID, "--%s: \"%.64s\" is one too many; at most %d",
                         spec->name, text, WHIM_OPTION_MAX_STRINGS);
    }
    if (spec->type == WHIM_OPTION_BYTES) {
        whim_format_bytes(low, sizeof low, (int64_t)spec->least);
        whim_format_bytes(high, sizeof high, (int64_t)spec->most);
    } else {
        snprintf(low, sizeof low, "%.10g", spec->least);
        snprintf(high, sizeof high, "%.10g", spec->most);
    }
    return whim_fail(diag, WHIM_ERR_INVALID,
                     "--%s: \"%.64s\" is not valid here; expected %sfrom %s to %s", spec->name,
                     text, expected[spec->type], low, high);
}

static bool in_bounds(const whim_option_spec *spec, double value)
{
    return value >= spec->least && value <= spec->most;
}

/* A whole number that ends at *end; signs are understood so that the bounds can refuse them. */
static bool parse_int(const whim_option_spec *spec, const char *text, const char **end,
                      int64_t *out)
{
    char *stop;
    if (!(*text >= '0' && *text <= '9') && *text != '-') {
        return false;
    }
    errno = 0;
    long long value = strtoll(text, &stop, 10);
    *out = value;
    *end = stop;
    return stop != text && errno == 0 && in_bounds(spec, (double)value);
}

static bool parse_ints(const whim_option_spec *spec, const char *text, whim_int_list *out)
{
    whim_int_list list = {.n = 0};
    const char *at = text;
    do {
        if (list.n == WHIM_OPTION_MAX_INTS || !parse_int(spec, at, &at, &list.v[list.n])) {
            return false;
        }
        list.n++;
    } while (*at++ == ',');
    *out = list;
    return at[-1] == '\0';
}

static bool parse_float(const whim_option_spec *spec, const char *text, double *out)
{
    char *stop;
    /* strtod also takes words such as "inf" and hexadecimal. */
    if (text[0] == '\0' || text[strspn(text, "0123456789.eE+-")] != '\0') {
        return false;
    }
    *out = strtod(text, &stop);
    return *stop == '\0' && in_bounds(spec, *out);
}

static bool is_choice(const char *words, const char *text)
{
    size_t n = strcspn(text, "|");
    if (text[n] != '\0') {
        return false;
    }
    for (const char *at = words; n > 0 && at != NULL; at = strchr(at, '|')) {
        at += *at == '|';
        if (strncmp(at, text, n) == 0 && (at[n] == '|' || at[n] == '\0')) {
            return true;
        }
    }
    return false;
}

static bool add_string(whim_string_list *list, const char *text)
{
    if (list->n == WHIM_OPTION_MAX_STRINGS) {
        return false;
    }
    list->v[list->n++] = text;
    return true;
}

static whim_err set_value(whim_options *options, const whim_option_spec *spec, const char *text,
                          whim_diag *diag)
{
    void *value = value_at(options, spec);
    const char *end = NULL;
    bool good = false;
    switch (spec->type) {
    case WHIM_OPTION_BOOL:
        *(bool *)value = strcmp(text, "on") == 0;
        good = true;
        break;
    case WHIM_OPTION_INT:
        good = parse_int(spec, text, &end, value) && *end == '\0';
        break;
    case WHIM_OPTION_BYTES:
        good = whim_parse_bytes(text, value, NULL) == WHIM_ERR_OK &&
               in_bounds(spec, (double)*(int64_t *)value);
        break;
    case WHIM_OPTION_FLOAT:
        good = parse_float(spec, text, value);
        break;
    case WHIM_OPTION_STRING:
        *(const char **)value = text;
        good = true;
        break;
    case WHIM_OPTION_CHOICE:
        *(const char **)value = text;
        good = is_choice(spec->metavar, text);
        break;
    case WHIM_OPTION_INTS:
        good = parse_ints(spec, text, value);
        break;
    case WHIM_OPTION_STRINGS:
        good = add_string(value, text);
        break;
    }
    return good ? WHIM_ERR_OK : bad_value(spec, text, diag);
}

/* A value from the command line. */
static whim_err give_value(whim_options *options, const whim_option_spec *spec, const char *text,
                           whim_diag *diag)
{
    int64_t i = spec - option_table;
    options->given[i / 64] |= UINT64_C(1) << i % 64;
    return set_value(options, spec, text, diag);
}

bool whim_options_gave(const whim_options *options, const void *field)
{
    for (int32_t i = 0; i < N_OPTION; i++) {
        if ((const char *)options + option_table[i].offset == (const char *)field) {
            return (options->given[i / 64] >> i % 64 & 1) != 0;
        }
    }
    return false;
}

static void set_defaults(whim_options *options)
{
    *options = (whim_options){0};
    for (int32_t i = 0; i < N_OPTION; i++) {
        const whim_option_spec *spec = &option_table[i];
        if (spec->fallback != NULL) {
            whim_check(set_value(options, spec, spec->fallback, NULL) == WHIM_ERR_OK);
        }
    }
}

/* --- words ------------------------------------------------------------------------------------ */

/* What is left to read. */
typedef struct cursor {
    whim_command command;
    int argc, at;
    const char *const *argv;
    whim_diag *diag;
} cursor;

/* Other names that work: one of before, and one that every other program has. */
static const char *const other_names[][2] = {{"kv-type", "kv-dtype"}, {"temperature", "temp"}};

/* By its name of n bytes, or where that is NULL by its letter. */
static const whim_option_spec *find(whim_command command, const char *name, size_t n, char letter)
{
    for (size_t i = 0; name != NULL && i < sizeof other_names / sizeof other_names[0]; i++) {
        if (strlen(other_names[i][0]) == n && memcmp(other_names[i][0], name, n) == 0) {
            name = other_names[i][1];
            n = strlen(name);
        }
    }
    for (int32_t i = 0; i < N_OPTION; i++) {
        const whim_option_spec *spec = &option_table[i];
        bool fits = name == NULL ? spec->letter == letter
                                 : strlen(spec->name) == n && memcmp(spec->name, name, n) == 0;
        if (fits && (spec->commands >> command & 1) != 0) {
            return spec;
        }
    }
    return NULL;
}

/* The option is unknown: is it another command's, or nearly one of this command's? */
static whim_err unknown_option(const cursor *c, const char *word, const char *name, size_t n)
{
    const char *command = command_table[c->command].name;
    char typed[MAX_NAME + 1];
    WHIM_TRY(whim_options_foreign(c->command, word, c->diag));
    snprintf(typed, sizeof typed, "%.*s", (int)(n < MAX_NAME ? n : MAX_NAME), name);
    const char *nearest = NULL;
    int32_t best = MAX_NAME;
    for (int32_t i = 0; i < N_OPTION && n > 0; i++) {
        const whim_option_spec *spec = &option_table[i];
        if ((spec->commands >> c->command & 1) == 0) {
            if (strcmp(spec->name, typed) == 0) {
                const char *owner = command_table[__builtin_ctz(spec->commands)].name;
                return whim_fail(c->diag, WHIM_ERR_INVALID,
                                 "--%s is an option of \"%s\", not of \"%s\"", typed, owner,
                                 command);
            }
            continue;
        }
        int32_t distance = whim_name_distance(typed, spec->name);
        if (distance < best && spec->help != NULL) {
            best = distance;
            nearest = spec->name;
        }
    }
    for (size_t i = 0; nearest == NULL && i < sizeof other_names / sizeof other_names[0]; i++) {
        const whim_option_spec *spec =
            find(c->command, other_names[i][1], strlen(other_names[i][1]), '\0');
        if (spec != NULL && whim_name_distance(typed, other_names[i][0]) < MAX_NAME) {
            nearest = spec->name;
        }
    }
    if (nearest != NULL) {
        return whim_fail(c->diag, WHIM_ERR_INVALID,
                         "\"%s\" has no option \"%.64s\"; did you mean --%s?", command, word,
                         nearest);
    }
    return whim_fail(c->diag, WHIM_ERR_INVALID,
                     "\"%s\" has no option \"%.64s\"; \"whimbrel %s --help\" lists them", command,
                     word, command);
}

/* The value in the same word, or the next word. */
static whim_err take_value(cursor *c, const whim_option_spec *spec, const char *attached,
                           const char **out)
{
    if (attached == NULL && (c->at == c->argc || strncmp(c->argv[c->at], "--", 2) == 0)) {
        return whim_fail(c->diag, WHIM_ERR_INVALID, "--%s needs a value: %s", spec->name,
                         spec->metavar);
    }
    *out = attached != NULL ? attached : c->argv[c->at++];
    return WHIM_ERR_OK;
}

static whim_err parse_long(cursor *c, whim_options *options, const char *word)
{
    const char *name = word + 2;
    const char *equals = strchr(name, '=');
    size_t n = equals != NULL ? (size_t)(equals - name) : strlen(name);
    const whim_option_spec *spec = find(c->command, name, n, 0);
    const char *text = "on";
    if (spec == NULL && n > 3 && strncmp(name, "no-", 3) == 0) {
        spec = find(c->command, name + 3, n - 3, 0);
        spec = spec != NULL && whim_option_has_no(spec) ? spec : NULL;
        if (spec != NULL && spec->type != WHIM_OPTION_BOOL && equals == NULL) {
            return give_value(options, spec, "", c->diag);
        }
        text = "off";
    }
    if (spec == NULL) {
        return unknown_option(c, word, name, n);
    }
    if (spec->type != WHIM_OPTION_BOOL) {
        WHIM_TRY(take_value(c, spec, equals != NULL ? equals + 1 : NULL, &text));
    } else if (equals != NULL) {
        return whim_fail(c->diag, WHIM_ERR_INVALID, "--%s takes no value, but \"%.64s\" has one",
                         spec->name, word);
    }
    return give_value(options, spec, text, c->diag);
}

static whim_err parse_short(cursor *c, whim_options *options, const char *word)
{
    const whim_option_spec *spec = find(c->command, NULL, 0, word[1]);
    const char *rest = word[2] != '\0' ? word + 2 : NULL;
    const char *text = "on";
    if (rest != NULL) { /* "-ngl" is no "-n gl" */
        WHIM_TRY(whim_options_foreign(c->command, word, c->diag));
    }
    if (spec == NULL || (spec->type == WHIM_OPTION_BOOL && rest != NULL)) {
        return unknown_option(c, word, word + 1, strlen(word + 1));
    }
    if (spec->type != WHIM_OPTION_BOOL) {
        WHIM_TRY(take_value(c, spec, rest, &text));
    }
    return give_value(options, spec, text, c->diag);
}

static whim_err parse_operand(const cursor *c, whim_options *options, const char *word)
{
    const whim_command_spec *command = &command_table[c->command];
    if (command->operand == NULL) {
        return whim_fail(c->diag, WHIM_ERR_INVALID, "\"%s\" takes options only, not \"%.256s\"",
                         command->name, word);
    }
    const char *second = strchr(command->operand, ' ');
    const char *third = second != NULL ? strchr(second + 1, ' ') : NULL;
    if (second != NULL && options->model != NULL && options->output == NULL) {
        options->output = word;
        return WHIM_ERR_OK;
    }
    if (third != NULL && options->output != NULL && options->third == NULL) {
        options->third = word;
        return WHIM_ERR_OK;
    }
    if (second != NULL && options->model != NULL) {
        return whim_fail(c->diag, WHIM_ERR_INVALID, "\"%s\" takes %s, but got \"%.256s\" as well%s",
                         command->name, command->operand, word,
                         c->command == WHIM_COMMAND_RUN ? "; put a prompt in quotes" : "");
    }
    if (options->model != NULL) {
        return whim_fail(c->diag, WHIM_ERR_INVALID,
                         "\"%s\" takes one model, but got \"%.256s\" and \"%.256s\"", command->name,
                         options->model, word);
    }
    options->model = word;
    return WHIM_ERR_OK;
}

whim_err whim_options_parse(whim_options *options, whim_command command, int argc,
                            const char *const *argv, whim_diag *diag)
{
    cursor c = {.command = command, .argc = argc, .argv = argv, .diag = diag};
    bool ended = false;
    set_defaults(options);
    while (c.at < argc && !options->help) {
        const char *word = argv[c.at++];
        if (ended || word[0] != '-' || word[1] == '\0') {
            WHIM_TRY(parse_operand(&c, options, word));
        } else if (strcmp(word, "--") == 0) {
            ended = true;
        } else if (word[1] == '-') {
            WHIM_TRY(parse_long(&c, options, word));
        } else {
            WHIM_TRY(parse_short(&c, options, word));
        }
    }
    return WHIM_ERR_OK;
}
