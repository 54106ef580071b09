/* SPDX-License-Identifier: Apache-2.0 */
/* Short names of models: models.def, and what may be typed for its rows.
 * Threads: stateless. */
#ifndef WHIM_APPS_LOCAL_CATALOGUE_H
#define WHIM_APPS_LOCAL_CATALOGUE_H

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CATALOGUE_TEXT_MAX = 256 };

typedef struct catalogue_row {
    const char *names; /* with blanks between them */
    const char *repo, *pick;
    const char *params, *about;
    int64_t disk, memory, active; /* bytes */
    bool offered;
} catalogue_row;

const catalogue_row *catalogue_rows(int32_t *n);

/* The row of a name, in any case; also of NAME:latest, NAME-instruct and NAME-QUANT, as
 * "llama3.2:3b-instruct-q8_0". `canonical` becomes ORG/NAME:QUANT. NULL: there is none. */
const catalogue_row *catalogue_find(const char *name, char canonical[CATALOGUE_TEXT_MAX]);

/* The first name of a row. */
void catalogue_name(const catalogue_row *row, char buf[CATALOGUE_TEXT_MAX]);

/* Append names that resemble the one that was typed, with commas between them; how many. Those of
 * its family come first. */
int32_t catalogue_near(whim_str *out, const char *typed, int32_t most);

#endif
