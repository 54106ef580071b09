/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of texts in columns that are as wide as their widest text, for `list` and `ps`.
 * Threads: a table belongs to its caller. */
#ifndef WHIM_APPS_LOCAL_TABLE_H
#define WHIM_APPS_LOCAL_TABLE_H

#include "base/arena.h"
#include "base/str.h"

#include <stddef.h>
#include <stdint.h>

enum { TABLE_COLUMNS = 8, TABLE_ROWS = 4096 };

typedef struct text_table {
    whim_arena arena;
    int32_t n_column, n_row, cap_row;
    const char **cells; /* [n_row][n_column], the titles first */
    bool failed;
} text_table;

/* `titles` ends with NULL. Deinit in any case. */
void text_table_init(text_table *table, const char *const *titles);
void text_table_deinit(text_table *table);

/* One text for each column; copied. Rows past TABLE_ROWS are left out. */
void text_table_add(text_table *table, const char *const *cells);

void text_table_write(const text_table *table, whim_str *out);

/* How long ago something was, in one unit: "5 minutes", "3 days". */
void format_age(char *buf, size_t n, int64_t seconds);

#endif
