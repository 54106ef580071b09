/* SPDX-License-Identifier: Apache-2.0 */
/* The name of a space is a list with commas; the first four parts have their places, what follows
 * is known by its first word (engine/kv_space.c). */
#include "kv/kv.h"

#include <stdio.h>
#include <string.h>

enum { N_PLACE = 4, DEVICE_PLACE = 2, PART_MAX = 96 };

typedef struct cause {
    const char *word, *what, *help;
} cause;

static const cause places[N_PLACE] = {
    {"numerics", "the version of whimbrel", "use the same one on both machines"},
    {"weights", "the weights",
     "both machines need the same files, to the byte, and the same config.json"},
    {"", "the instruction level",
     "--isa of the lower one, for both servers and for both commands, makes it the same"},
    {"kv ", "the type of keys and values", "give both the same --kv-dtype"},
};

/* What differs where a backend and its level stand, and --isa makes nothing the same. */
static const cause backend = {"", "the backend", "give both the same --backend"};
static const cause family = {"", "the family of the CPU",
                             "pages can be used only by CPUs of the same family"};
static const cause gpu = {"", "the level of the GPU",
                          "pages can be used only by GPUs of the same level; --backend cpu on "
                          "both machines makes pages of the CPU"};

static const cause others[] = {
    {"draft ", "the draft", "give both the same --draft and --draft-type, or both --no-draft"},
    {"rows ", "the form in which rows are sent to experts", "give both the same --ep-dispatch"},
    {"experts ", "how many experts each process has", "give both the same --ep-experts"},
    {"", "the ranks", "give both the same --tp, --cp, --dp and --ep"},
};

/* The i-th part of a name; "" where it has no so many. */
static void part_of(const char *name, int32_t i, char out[PART_MAX])
{
    const char *at = name;
    for (; i > 0 && at != NULL; i--) {
        at = strstr(at, ", ");
        at = at != NULL ? at + 2 : NULL;
    }
    const char *end = at != NULL ? strstr(at, ", ") : NULL;
    int n = at == NULL ? 0 : end != NULL ? (int)(end - at) : (int)strlen(at);
    snprintf(out, PART_MAX, "%.*s", n, at != NULL ? at : "");
}

static bool has_part(const char *name, const char *part)
{
    char own[PART_MAX];
    for (int32_t i = N_PLACE; part_of(name, i, own), own[0] != '\0'; i++) {
        if (strcmp(own, part) == 0) {
            return true;
        }
    }
    return false;
}

static void tell(whim_str *out, const cause *c, const char *theirs, const char *ours)
{
    whim_str_printf(out, "%s%s: \"%s\" in the file, \"%s\" here (%s)", out->len > 0 ? "; " : "",
                    c->what, theirs[0] != '\0' ? theirs : "none", ours[0] != '\0' ? ours : "none",
                    c->help);
}

/* Parts of a that b lacks. */
static void tell_missing(whim_str *out, const char *a, const char *b, bool is_file)
{
    char part[PART_MAX];
    for (int32_t i = N_PLACE; part_of(a, i, part), part[0] != '\0'; i++) {
        if (!has_part(b, part)) {
            const cause *c = &others[0];
            while (strncmp(part, c->word, strlen(c->word)) != 0) {
                c++;
            }
            tell(out, c, is_file ? part : "", is_file ? "" : part);
        }
    }
}

/* Of the levels of a CPU (backends/cpu/levels.c), those of the one family. */
static bool is_arm(const char *level)
{
    static const char *const levels[] = {"neon", "dotprod", "i8mm", "bf16"};
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        if (strcmp(level, levels[i]) == 0) {
            return true;
        }
    }
    return false;
}

static const cause *device_cause(const char *a, const char *b)
{
    size_t n = strcspn(a, " ");
    if (n != strcspn(b, " ") || strncmp(a, b, n) != 0) {
        return &backend;
    }
    if (strncmp(a, "cpu ", 4) != 0) {
        return &gpu;
    }
    return is_arm(a + 4) != is_arm(b + 4) ? &family : &places[DEVICE_PLACE];
}

void kv_difference(const char *theirs, const char *ours, whim_str *out)
{
    char a[PART_MAX], b[PART_MAX];
    for (int32_t i = 0; i < N_PLACE; i++) {
        part_of(theirs, i, a);
        part_of(ours, i, b);
        if (strcmp(a, b) != 0) {
            tell(out, i == DEVICE_PLACE ? device_cause(a, b) : &places[i], a, b);
        }
    }
    tell_missing(out, theirs, ours, true);
    tell_missing(out, ours, theirs, false);
}
