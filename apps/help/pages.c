/* SPDX-License-Identifier: Apache-2.0 */
/* The manual as a man page and as Markdown: one walk over the tables, two forms. */
#include "help/help.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

typedef struct page_form {
    void (*heading)(whim_str *out, int level, const char *text);
    void (*paragraph)(whim_str *out, const char *text);
    /* `name` as it is typed, then its value's name (NULL: none), then what it does. */
    void (*item)(whim_str *out, const char *name, const char *value, const char *text);
} page_form;

/* --- the page for man ------------------------------------------------------------------------- */

static void man_text(whim_str *out, const char *text)
{
    if (text[0] == '.' || text[0] == '\'') {
        whim_str_append(out, "\\&"); /* no request */
    }
    for (; *text != '\0'; text++) {
        if (*text == '\\') {
            whim_str_append(out, "\\e");
        } else if (*text == '-') {
            whim_str_append(out, "\\-");
        } else {
            whim_str_append_char(out, *text);
        }
    }
}

static void man_heading(whim_str *out, int level, const char *text)
{
    whim_str_append(out, level == 1 ? ".SH \"" : ".SS \"");
    for (; *text != '\0'; text++) {
        whim_str_append_char(out, level == 1 ? (char)toupper((unsigned char)*text) : *text);
    }
    whim_str_append(out, "\"\n");
}

static void man_paragraph(whim_str *out, const char *text)
{
    whim_str_append(out, ".PP\n");
    man_text(out, text);
    whim_str_append(out, "\n");
}

static void man_item(whim_str *out, const char *name, const char *value, const char *text)
{
    whim_str_append(out, ".TP\n\\fB");
    man_text(out, name);
    whim_str_append(out, "\\fR");
    if (value != NULL) {
        whim_str_append(out, " \\fI");
        man_text(out, value);
        whim_str_append(out, "\\fR");
    }
    whim_str_append(out, "\n");
    man_text(out, text);
    whim_str_append(out, "\n");
}

static const page_form man_form = {man_heading, man_paragraph, man_item};

/* --- the page in docs/ ------------------------------------------------------------------------ */

static void md_heading(whim_str *out, int level, const char *text)
{
    const char *blank = out->len > 1 && out->text[out->len - 2] != '\n' ? "\n" : "";
    whim_str_printf(out, "%s%s %s\n\n", blank, level == 1 ? "##" : "###", text);
}

/* Plain text: what Markdown would take for emphasis, HTML or a cell's end is escaped. */
static void md_text(whim_str *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (strchr("*_<>|[]`\\", *text) != NULL) {
            whim_str_append_char(out, '\\');
        }
        whim_str_append_char(out, *text);
    }
}

static void md_paragraph(whim_str *out, const char *text)
{
    if (out->len > 2 && out->text[out->len - 2] != '\n') {
        whim_str_append(out, "\n"); /* after a list */
    }
    md_text(out, text);
    whim_str_append(out, "\n\n");
}

static void md_item(whim_str *out, const char *name, const char *value, const char *text)
{
    whim_str_printf(out, "- `%s%s%s`: ", name, value != NULL ? " " : "",
                    value != NULL ? value : "");
    md_text(out, text);
    whim_str_append(out, "\n");
}

static const page_form md_form = {md_heading, md_paragraph, md_item};

/* --- what both say ---------------------------------------------------------------------------- */

static void put_commands(whim_str *out, const page_form *form)
{
    form->heading(out, 1, "Commands");
    for (int32_t i = 0; i < WHIM_COMMAND_COUNT; i++) {
        const whim_command_spec *spec = whim_command_get((whim_command)i);
        char name[64];
        snprintf(name, sizeof name, "whimbrel %s", spec->name);
        form->item(out, name, spec->operand, spec->summary);
    }
    form->item(
        out, "whimbrel help", "[COMMAND]",
        "list the commands, or the options of one; help --man, --markdown, --bash, --zsh and "
        "--fish print this manual and completion for a shell");
    form->item(out, "whimbrel --version", NULL, "print the version");
}

/* The commands that take an option, "serve, run": "" when all do. */
static void command_names(const whim_option_spec *spec, char *buf, size_t n)
{
    buf[0] = '\0';
    if (spec->commands == (1u << WHIM_COMMAND_COUNT) - 1) {
        return;
    }
    for (int32_t i = 0; i < WHIM_COMMAND_COUNT; i++) {
        if ((spec->commands >> i & 1) != 0) {
            size_t at = strlen(buf);
            snprintf(buf + at, n - at, "%s%s", at == 0 ? "" : ", ",
                     whim_command_get((whim_command)i)->name);
        }
    }
}

static void put_option(whim_str *out, const page_form *form, const whim_option_spec *spec)
{
    char name[96], commands[128], letter[8] = "";
    whim_str text = {0};
    bool on = spec->type == WHIM_OPTION_BOOL ? spec->fallback != NULL : whim_option_has_no(spec);
    if (spec->letter != 0) {
        snprintf(letter, sizeof letter, "-%c, ", spec->letter);
    }
    snprintf(name, sizeof name, "%s--%s%s", letter, on ? "[no-]" : "", spec->name);
    whim_str_append(&text, spec->help);
    if (spec->fallback != NULL) {
        whim_str_printf(&text, " (default: %s)", spec->fallback);
    }
    command_names(spec, commands, sizeof commands);
    if (commands[0] != '\0') {
        whim_str_printf(&text, " [%s]", commands);
    }
    form->item(out, name, spec->metavar, whim_str_text(&text));
    whim_str_deinit(&text);
}

static void put_options(whim_str *out, const page_form *form)
{
    int32_t n;
    const whim_option_spec *specs = whim_option_specs(&n);
    form->heading(out, 1, "Options");
    form->paragraph(out,
                    "Words in brackets name the commands that take an option; without them all "
                    "do. A switch also has its opposite, --no-NAME; the last one counts.");
    for (int32_t group = 0; group < WHIM_OPTION_GROUP_COUNT; group++) {
        form->heading(out, 2, whim_option_group_title((whim_option_group)group));
        for (int32_t i = 0; i < n; i++) {
            if ((int32_t)specs[i].group == group && specs[i].help != NULL) {
                put_option(out, form, &specs[i]);
            }
        }
    }
}

static void put_sections(whim_str *out, const page_form *form)
{
#define SECTION(title) form->heading(out, 1, title);
#define ITEM(name, text) form->item(out, name, NULL, text);
#include "help/sections.def"
}

static void put_page(whim_str *out, const page_form *form)
{
    put_commands(out, form);
    form->paragraph(out, whim_options_operand_text(WHIM_COMMAND_SERVE));
    form->paragraph(out, whim_options_operand_text(WHIM_COMMAND_PULL));
    form->paragraph(out, whim_options_operand_text(WHIM_COMMAND_QUANTIZE));
    form->paragraph(out, whim_options_operand_text(WHIM_COMMAND_WARM));
    form->paragraph(out, whim_options_operand_text(WHIM_COMMAND_KV));
    put_options(out, form);
    put_sections(out, form);
}

void help_man(whim_str *out)
{
    whim_str_append(out, ".TH WHIMBREL 1 \"\" \"whimbrel " WHIM_VERSION "\" \"User Commands\"\n");
    whim_str_append(out, ".SH NAME\nwhimbrel \\- run and serve open\\-weight language models\n");
    whim_str_append(out,
                    ".SH SYNOPSIS\n\\fBwhimbrel\\fR \\fICOMMAND\\fR [\\fIMODEL\\fR] [options]\n");
    put_page(out, &man_form);
}

void help_markdown(whim_str *out)
{
    whim_str_append(out,
                    "# Commands and options\n\n"
                    "Made by `whimbrel help --markdown` from the program's own table "
                    "(`apps/options/options.def`);\n`make options` writes it anew. `man whimbrel` "
                    "says the same.\n");
    put_page(out, &md_form);
}
