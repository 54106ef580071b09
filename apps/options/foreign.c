/* SPDX-License-Identifier: Apache-2.0 */
/* What is said to who types an option or a command of another program. */
#include "options/options.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct foreign_option {
    const char *word, *program, *ours, *text;
} foreign_option;

static const foreign_option table[] = {
#define WHIM_FOREIGN(word, program, ours, text) {word, program, ours, text},
#include "options/foreign.def"
};
enum { N_FOREIGN = sizeof table / sizeof table[0] };

static const struct {
    const char *word, *program, *text;
} commands[] = {
#define WHIM_FOREIGN_COMMAND(word, program, text) {word, program, text},
#include "options/foreign.def"
};

/* Which commands have an option of ours. */
static uint32_t owners(const char *name)
{
    int32_t n;
    const whim_option_spec *specs = whim_option_specs(&n);
    uint32_t its = 0;
    for (int32_t i = 0; i < n; i++) {
        its |= strcmp(specs[i].name, name) == 0 ? specs[i].commands : 0;
    }
    return its;
}

static whim_err refuse(const foreign_option *f, whim_command command, whim_diag *diag)
{
    char elsewhere[96] = "";
    if (f->ours == NULL) {
        const char *text = f->text, *mark = strchr(text, '$');
        int before = (int)(mark != NULL ? mark - text : (ptrdiff_t)strlen(text));
        return whim_fail(diag, WHIM_ERR_INVALID, "%s is an option of %s; %.*s%s%s", f->word,
                         f->program, before, text,
                         mark != NULL ? whim_command_get(command)->name : "",
                         mark != NULL ? mark + 1 : "");
    }
    uint32_t its = owners(f->ours);
    if ((its >> command & 1) == 0 && its != 0) {
        snprintf(elsewhere, sizeof elsewhere, ", an option of \"%s\" and not of \"%s\"",
                 whim_command_get((whim_command)__builtin_ctz(its))->name,
                 whim_command_get(command)->name);
    }
    return whim_fail(diag, WHIM_ERR_INVALID, "%s is an option of %s; whimbrel calls it --%s%s%s%s",
                     f->word, f->program, f->ours, elsewhere, f->text != NULL ? ": " : "",
                     f->text != NULL ? f->text : "");
}

/* Whether the word of n bytes is this one; vLLM and SGLang also take _ for -. */
static bool is_word(const char *typed, size_t n, const char *word)
{
    size_t i = 0;
    while (i < n && word[i] != '\0' &&
           (typed[i] == word[i] || (typed[i] == '_' && word[i] == '-'))) {
        i++;
    }
    return i == n && word[n] == '\0';
}

whim_err whim_options_foreign(whim_command command, const char *word, whim_diag *diag)
{
    size_t n = strcspn(word, "=");
    for (int32_t i = 0; i < N_FOREIGN; i++) {
        if (is_word(word, n, table[i].word)) {
            return refuse(&table[i], command, diag);
        }
    }
    return WHIM_ERR_OK;
}

const char *whim_options_foreign_at(int32_t i, const char **ours)
{
    *ours = i < N_FOREIGN ? table[i].ours : NULL;
    return i < N_FOREIGN ? table[i].word : NULL;
}

whim_err whim_command_foreign(const char *word, whim_diag *diag)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(commands[i].word, word) == 0) {
            return whim_fail(diag, WHIM_ERR_INVALID, "\"%s\" is a command of %s; %s", word,
                             commands[i].program, commands[i].text);
        }
    }
    return WHIM_ERR_OK;
}
