/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the command line, all of them from options.def: their values, their parser, their
 * help. Invariants:
 *  1. After a successful parse every value is inside its bounds.
 *  2. Texts are borrowed from argv or from the table; nothing is allocated.
 * Threads: stateless. */
#ifndef WHIM_APPS_OPTIONS_OPTIONS_H
#define WHIM_APPS_OPTIONS_OPTIONS_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum whim_command {
#define WHIM_COMMAND(name, NAME, operand, summary) WHIM_COMMAND_##NAME,
#include "options/options.def"
    WHIM_COMMAND_COUNT
} whim_command;

typedef struct whim_command_spec {
    const char *name;
    const char *operand; /* "[MODEL]", or NULL when it takes none */
    const char *summary;
} whim_command_spec;

const whim_command_spec *whim_command_get(whim_command command);

/* INVALID with the nearest names, or all, when there is no such command. */
WHIM_MUST_CHECK whim_err whim_command_find(const char *name, whim_command *out, whim_diag *diag);

typedef enum whim_option_type {
    WHIM_OPTION_BOOL,
    WHIM_OPTION_INT,
    WHIM_OPTION_BYTES,
    WHIM_OPTION_FLOAT,
    WHIM_OPTION_STRING,
    WHIM_OPTION_CHOICE,
    WHIM_OPTION_INTS,
    WHIM_OPTION_STRINGS,
} whim_option_type;

typedef enum whim_option_group {
#define WHIM_OPTION_GROUP(NAME, title) WHIM_OPTION_GROUP_##NAME,
#include "options/options.def"
    WHIM_OPTION_GROUP_COUNT
} whim_option_group;

/* One line of the table. */
typedef struct whim_option_spec {
    const char *name;
    char letter; /* 0: none */
    whim_option_type type;
    const char *fallback; /* default as text, or NULL */
    double least, most; /* INT, BYTES, FLOAT and each number of INTS; STRING: whim_option_has_no */
    uint32_t commands;  /* bit 1 << whim_command */
    whim_option_group group;
    const char *metavar;
    const char *help;
    int64_t offset; /* of its value in whim_options */
} whim_option_spec;

/* Whether there is a --no-NAME. */
static inline bool whim_option_has_no(const whim_option_spec *spec)
{
    return spec->type == WHIM_OPTION_BOOL || (spec->type == WHIM_OPTION_STRING && spec->least > 0);
}

/* The table; *n is its length. */
const whim_option_spec *whim_option_specs(int32_t *n);

enum { WHIM_OPTION_MAX_INTS = 16 };

typedef struct whim_int_list {
    int64_t v[WHIM_OPTION_MAX_INTS];
    int32_t n;
} whim_int_list;

enum { WHIM_OPTION_MAX_STRINGS = 32 };

/* A repeatable option: every use adds one. */
typedef struct whim_string_list {
    const char *v[WHIM_OPTION_MAX_STRINGS];
    int32_t n;
} whim_string_list;

/* C types of the values. */
#define WHIM_OPTION_CTYPE_BOOL bool
#define WHIM_OPTION_CTYPE_INT int64_t
#define WHIM_OPTION_CTYPE_BYTES int64_t
#define WHIM_OPTION_CTYPE_FLOAT double
#define WHIM_OPTION_CTYPE_STRING const char *
#define WHIM_OPTION_CTYPE_CHOICE const char *
#define WHIM_OPTION_CTYPE_INTS whim_int_list
#define WHIM_OPTION_CTYPE_STRINGS whim_string_list

typedef struct whim_options {
    const char *model;  /* the operand, or NULL */
    const char *output; /* the second, of commands that take two (of run the prompt), or NULL */
    const char *third;  /* of commands that take three, or NULL */
    uint64_t given[3];  /* bit i: the i-th option of the table was on the command line */
#define WHIM_OPTION(field, name, letter, type, fallback, least, most, commands, group, metavar, \
                    help)                                                                       \
    WHIM_OPTION_CTYPE_##type field;
#include "options/options.def"
} whim_options;

/* Parse what follows the command's name. Forms: --name value, --name=value, -x value, -xvalue,
 * --no-name for BOOL; "--" ends the options. The last of several wins, but for STRINGS, which
 * collect. A word that is no option of this command, a bad value and a second operand are INVALID,
 * with a message. Parsing stops at --help, so that it helps whatever else is there. */
WHIM_MUST_CHECK whim_err whim_options_parse(whim_options *options, whim_command command, int argc,
                                            const char *const *argv, whim_diag *diag);

/* Whether the option of this value, a field of `options`, was on the command line. */
bool whim_options_gave(const whim_options *options, const void *field);

/* How unlike a known name is to what was typed: 0 when it begins so, then the letters to change;
 * WHIM_NAME_FAR when it is not worth a mention. */
enum { WHIM_NAME_FAR = WHIM_EDIT_FAR };
int32_t whim_name_distance(const char *typed, const char *name);

/* INVALID, with what it is called here, when a word that is no option of the command is one of
 * another program (foreign.def). */
WHIM_MUST_CHECK whim_err whim_options_foreign(whim_command command, const char *word,
                                              whim_diag *diag);

/* INVALID, with what does the same here, when a word is a command of another program. */
WHIM_MUST_CHECK whim_err whim_command_foreign(const char *word, whim_diag *diag);

/* The i-th word of the table of options, and what it is here or NULL; NULL: there are no more. */
const char *whim_options_foreign_at(int32_t i, const char **ours);

const char *whim_option_group_title(whim_option_group group);

/* What a MODEL is. */
const char *whim_options_operand_text(whim_command command);

/* The help of one command, wrapped to `width` columns, and the list of commands. */
void whim_options_help(whim_str *out, whim_command command, int32_t width);
void whim_commands_help(whim_str *out, int32_t width);

#endif
