/* SPDX-License-Identifier: Apache-2.0 */
/* Completion for shells, made from the option table. */
#include "help/help.h"

#include <stdio.h>
#include <string.h>

static bool takes(const whim_option_spec *spec, int32_t command)
{
    return (spec->commands >> command & 1) != 0 && spec->help != NULL;
}

static bool is_file(const whim_option_spec *spec)
{
    return spec->metavar != NULL &&
           (strcmp(spec->metavar, "FILE") == 0 || strcmp(spec->metavar, "PROGRAM") == 0);
}

static bool is_folder(const whim_option_spec *spec)
{
    return spec->metavar != NULL && strcmp(spec->metavar, "FOLDER") == 0;
}

/* The words of a choice with blanks between them. */
static void append_words(whim_str *out, const char *metavar)
{
    for (const char *c = metavar; *c != '\0'; c++) {
        whim_str_append_char(out, *c == '|' ? ' ' : *c);
    }
}

/* What an option does in a few words: up to its first pause. Quotes, brackets, colons and dollars
 * mean something to shells and are left out. */
static void append_brief(whim_str *out, const char *help)
{
    for (const char *c = help; *c != '\0' && *c != ';' && *c != '(' && *c != ':'; c++) {
        if (c[0] == ',' && c - help > 40) {
            break;
        }
        if (strchr("'\"[]`$\\{}", *c) == NULL) {
            whim_str_append_char(out, *c);
        }
    }
}

/* --- bash ------------------------------------------------------------------------------------- */

static void bash_options(whim_str *out, int32_t command)
{
    int32_t n;
    const whim_option_spec *specs = whim_option_specs(&n);
    whim_str_printf(out, "        %s)\n            options=\"",
                    whim_command_get((whim_command)command)->name);
    const char *blank = "";
    for (int32_t i = 0; i < n; i++) {
        if (takes(&specs[i], command)) {
            whim_str_printf(out, "%s--%s", blank, specs[i].name);
            blank = " ";
        }
    }
    whim_str_append(out, "\"\n            case $before in\n");
    for (int32_t i = 0; i < n; i++) {
        const whim_option_spec *spec = &specs[i];
        if (!takes(spec, command) || spec->type == WHIM_OPTION_BOOL) {
            continue;
        }
        whim_str_printf(out, "                --%s", spec->name);
        if (spec->letter != 0) {
            whim_str_printf(out, " | -%c", spec->letter);
        }
        whim_str_append(out, ") ");
        if (spec->type == WHIM_OPTION_CHOICE) {
            whim_str_append(out, "kind=words words=\"");
            append_words(out, spec->metavar);
            whim_str_append(out, "\" ;;\n");
        } else {
            whim_str_printf(out, "kind=%s ;;\n",
                            is_file(spec)     ? "file"
                            : is_folder(spec) ? "folder"
                                              : "none");
        }
    }
    whim_str_append(out, "            esac\n            ;;\n");
}

void help_bash(whim_str *out)
{
    whim_str_append(
        out, "# Completion of whimbrel for bash, made by `whimbrel help --bash`.\n"
             "_whimbrel()\n{\n"
             "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
             "    local kind=option options=\"\" words=\"\" commands=\"");
    for (int32_t i = 0; i < WHIM_COMMAND_COUNT; i++) {
        whim_str_printf(out, "%s%s", i == 0 ? "" : " ", whim_command_get((whim_command)i)->name);
    }
    whim_str_append(
        out, " help\"\n"
             "    COMPREPLY=()\n"
             "    if ((COMP_CWORD == 1)); then\n"
             "        COMPREPLY=($(compgen -W \"$commands --help --version\" -- \"$word\"))\n"
             "        return\n"
             "    fi\n"
             "    case ${COMP_WORDS[1]} in\n");
    for (int32_t i = 0; i < WHIM_COMMAND_COUNT; i++) {
        bash_options(out, i);
    }
    whim_str_append(out, "        help)\n"
                         "            options=\"--man --markdown --bash --zsh --fish\"\n"
                         "            [[ $word != -* ]] && kind=words words=$commands\n"
                         "            ;;\n"
                         "    esac\n"
                         "    [[ $kind == option && $word != -* ]] && kind=file\n"
                         "    case $kind in\n"
                         "        option) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
                         "        words) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
                         "        file | folder)\n"
                         "            compopt -o filenames 2>/dev/null\n"
                         "            mapfile -t COMPREPLY < <(compgen \"$([[ $kind == file ]] && "
                         "echo -f || echo -d)\" "
                         "-- \"$word\")\n"
                         "            ;;\n"
                         "    esac\n"
                         "}\n"
                         "complete -F _whimbrel whimbrel\n");
}

/* --- zsh -------------------------------------------------------------------------------------- */

static void zsh_option(whim_str *out, const whim_option_spec *spec)
{
    bool has_value = spec->type != WHIM_OPTION_BOOL;
    const char *many = spec->type == WHIM_OPTION_STRINGS ? "\\*" : "";
    if (spec->letter != 0) {
        whim_str_printf(out, "                %s{-%c%s,--%s%s}'[", many, spec->letter,
                        has_value ? "+" : "", spec->name, has_value ? "=" : "");
    } else {
        whim_str_printf(out, "                %s'--%s%s[", many, spec->name, has_value ? "=" : "");
    }
    append_brief(out, spec->help);
    whim_str_append_char(out, ']');
    if (spec->type == WHIM_OPTION_CHOICE) {
        whim_str_append(out, ":word:(");
        append_words(out, spec->metavar);
        whim_str_append_char(out, ')');
    } else if (spec->type != WHIM_OPTION_BOOL) {
        whim_str_printf(out, ":%s:%s", spec->metavar,
                        is_file(spec)     ? "_files"
                        : is_folder(spec) ? "_files -/"
                                          : "");
    }
    whim_str_append(out, "' \\\n");
}

void help_zsh(whim_str *out)
{
    int32_t n;
    const whim_option_spec *specs = whim_option_specs(&n);
    whim_str_append(out, "#compdef whimbrel\n"
                         "# Completion of whimbrel for zsh, made by `whimbrel help --zsh`.\n"
                         "_whimbrel()\n{\n"
                         "    local -a commands\n"
                         "    commands=(\n");
    for (int32_t i = 0; i < WHIM_COMMAND_COUNT; i++) {
        const whim_command_spec *spec = whim_command_get((whim_command)i);
        whim_str_printf(out, "        '%s:", spec->name);
        append_brief(out, spec->summary);
        whim_str_append(out, "'\n");
    }
    whim_str_append(out, "        'help:list commands and options'\n"
                         "    )\n"
                         "    if ((CURRENT == 2)); then\n"
                         "        _describe command commands\n"
                         "        return\n"
                         "    fi\n"
                         "    local command=$words[2]\n"
                         "    words=(\"${(@)words[2,-1]}\")\n"
                         "    ((CURRENT--))\n"
                         "    case $command in\n");
    for (int32_t i = 0; i < WHIM_COMMAND_COUNT; i++) {
        const whim_command_spec *spec = whim_command_get((whim_command)i);
        whim_str_printf(out, "        %s)\n            _arguments \\\n", spec->name);
        for (int32_t k = 0; k < n; k++) {
            if (takes(&specs[k], i)) {
                zsh_option(out, &specs[k]);
            }
        }
        whim_str_printf(out, "                %s\n            ;;\n",
                        spec->operand == NULL        ? ""
                        : i == WHIM_COMMAND_QUANTIZE ? "':model:_files' ':output:_files -/'"
                        : i == WHIM_COMMAND_KV
                            ? "':what:(export import)' ':file:_files' ':model:_files'"
                        : i == WHIM_COMMAND_WARM ? "':file:_files' ':model:_files'"
                        : i == WHIM_COMMAND_RUN  ? "':model:_files' ':prompt:'"
                                                 : "':model:_files'");
    }
    whim_str_append(out, "        help)\n"
                         "            _arguments --man --markdown --bash --zsh --fish "
                         "\"1:command:(${(j: :)commands%%:*})\"\n"
                         "            ;;\n"
                         "    esac\n"
                         "}\n"
                         "_whimbrel \"$@\"\n");
}

/* --- fish ------------------------------------------------------------------------------------- */

static void fish_option(whim_str *out, const whim_option_spec *spec)
{
    whim_str_append(out, "complete -c whimbrel -n '__fish_seen_subcommand_from");
    for (int32_t i = 0; i < WHIM_COMMAND_COUNT; i++) {
        if (takes(spec, i)) {
            whim_str_printf(out, " %s", whim_command_get((whim_command)i)->name);
        }
    }
    whim_str_printf(out, "' -l %s", spec->name);
    if (spec->letter != 0) {
        whim_str_printf(out, " -s %c", spec->letter);
    }
    if (spec->type == WHIM_OPTION_CHOICE) {
        whim_str_append(out, " -x -a '");
        append_words(out, spec->metavar);
        whim_str_append(out, "'");
    } else if (is_folder(spec)) {
        whim_str_append(out, " -x -a '(__fish_complete_directories)'");
    } else if (spec->type != WHIM_OPTION_BOOL) {
        whim_str_append(out, is_file(spec) ? " -r" : " -x");
    }
    whim_str_append(out, " -d '");
    append_brief(out, spec->help);
    whim_str_append(out, "'\n");
}

void help_fish(whim_str *out)
{
    int32_t n;
    const whim_option_spec *specs = whim_option_specs(&n);
    whim_str_append(out, "# Completion of whimbrel for fish, made by `whimbrel help --fish`.\n");
    for (int32_t i = 0; i < WHIM_COMMAND_COUNT; i++) {
        const whim_command_spec *spec = whim_command_get((whim_command)i);
        whim_str_printf(out, "complete -c whimbrel -n __fish_use_subcommand -f -a %s -d '",
                        spec->name);
        append_brief(out, spec->summary);
        whim_str_append(out, "'\n");
    }
    for (int32_t i = 0; i < n; i++) {
        if (specs[i].help != NULL) {
            fish_option(out, &specs[i]);
        }
    }
}
