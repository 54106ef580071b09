/* SPDX-License-Identifier: Apache-2.0 */
#include "local/catalogue.h"

#include "options/options.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { MB = 1000000 };

static const catalogue_row rows[] = {
#define WHIM_MODEL(names, repo, pick, params, disk, memory, active, offered, about) \
    {names,                                                                         \
     repo,                                                                          \
     pick,                                                                          \
     params,                                                                        \
     about,                                                                         \
     (int64_t)(disk)*MB,                                                            \
     (int64_t)(memory)*MB,                                                          \
     (int64_t)(active)*MB,                                                          \
     offered},
#include "local/models.def"
};
enum { N_ROW = sizeof rows / sizeof rows[0] };

const catalogue_row *catalogue_rows(int32_t *n)
{
    *n = N_ROW;
    return rows;
}

static const catalogue_row *row_of(const char *name)
{
    for (int32_t i = 0; i < N_ROW; i++) {
        if (whim_word_place(rows[i].names, name, (int64_t)strlen(name)) >= 0) {
            return &rows[i];
        }
    }
    return NULL;
}

/* Whether a word is the name of a quantisation, such as q4_k_m, bf16 or iq4_xs. */
static bool is_quant(const char *word)
{
    if (strcmp(word, "f16") == 0 || strcmp(word, "bf16") == 0 || strcmp(word, "fp16") == 0) {
        return true;
    }
    word += word[0] == 'i';
    return word[0] == 'q' && isdigit((unsigned char)word[1]) && word[2] == '_';
}

static bool cut_end(char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    if (n <= m || strcmp(name + n - m, end) != 0) {
        return false;
    }
    name[n - m] = '\0';
    return true;
}

const catalogue_row *catalogue_find(const char *name, char canonical[CATALOGUE_TEXT_MAX])
{
    char low[CATALOGUE_TEXT_MAX], quant[CATALOGUE_TEXT_MAX] = "";
    if (strlen(name) >= sizeof low || strpbrk(name, " /@") != NULL) {
        return NULL;
    }
    for (size_t i = 0; i <= strlen(name); i++) {
        low[i] = (char)tolower((unsigned char)name[i]);
    }
    cut_end(low, ":latest");
    const catalogue_row *row = row_of(low);
    char *dash = strrchr(low, '-');
    if (row == NULL && dash != NULL && is_quant(dash + 1)) {
        snprintf(quant, sizeof quant, "%s", strcmp(dash + 1, "fp16") == 0 ? "f16" : dash + 1);
        *dash = '\0';
        row = row_of(low);
    }
    if (row == NULL && cut_end(low, "-instruct")) {
        row = row_of(low);
    }
    if (row != NULL && snprintf(canonical, CATALOGUE_TEXT_MAX, "%s:%s", row->repo,
                                quant[0] != '\0' ? quant : row->pick) >= CATALOGUE_TEXT_MAX) {
        return NULL;
    }
    return row;
}

void catalogue_name(const catalogue_row *row, char buf[CATALOGUE_TEXT_MAX])
{
    snprintf(buf, CATALOGUE_TEXT_MAX, "%.*s", (int)strcspn(row->names, " "), row->names);
}

/* How unlike a row's first name is to what was typed: families first, then spellings. */
static int32_t unlikeness(const char *low, const char *name)
{
    size_t family = strcspn(low, ":"), own = strcspn(name, ":");
    if (family == own && strncmp(low, name, own) == 0) {
        return 0;
    }
    char stem[CATALOGUE_TEXT_MAX], typed[CATALOGUE_TEXT_MAX];
    snprintf(stem, sizeof stem, "%.*s", (int)own, name);
    snprintf(typed, sizeof typed, "%.*s", (int)family, low);
    int32_t whole = whim_name_distance(low, name), part = whim_name_distance(typed, stem);
    return 1 + (whole < part ? whole : part);
}

int32_t catalogue_near(whim_str *out, const char *typed, int32_t most)
{
    char low[CATALOGUE_TEXT_MAX], name[CATALOGUE_TEXT_MAX];
    int32_t n = 0;
    snprintf(low, sizeof low, "%s", typed);
    for (char *at = low; *at != '\0'; at++) {
        *at = (char)tolower((unsigned char)*at);
    }
    for (int32_t distance = 0; distance < WHIM_NAME_FAR && n < most; distance++) {
        for (int32_t i = 0; i < N_ROW && n < most; i++) {
            catalogue_name(&rows[i], name);
            if (low[0] != '\0' && unlikeness(low, name) == distance) {
                whim_str_printf(out, "%s%s", n > 0 ? ", " : "", name);
                n++;
            }
        }
    }
    return n;
}
