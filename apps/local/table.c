/* SPDX-License-Identifier: Apache-2.0 */
#include "local/table.h"

#include "base/alloc.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

enum { GAP = 2 };

void text_table_init(text_table *table, const char *const *titles)
{
    *table = (text_table){.n_row = 0};
    whim_arena_init(&table->arena);
    while (titles[table->n_column] != NULL) {
        table->n_column++;
    }
    text_table_add(table, titles);
}

void text_table_deinit(text_table *table)
{
    whim_free(table->cells);
    whim_arena_reset(&table->arena);
    *table = (text_table){.n_row = 0};
}

void text_table_add(text_table *table, const char *const *cells)
{
    int64_t n = (int64_t)table->n_row * table->n_column, cap = table->cap_row;
    if (table->n_row == TABLE_ROWS ||
        !whim_grow(&table->cells, n + table->n_column, &cap, sizeof *table->cells)) {
        table->failed = true;
        return;
    }
    table->cap_row = (int32_t)cap;
    for (int32_t i = 0; i < table->n_column; i++) {
        table->cells[n + i] =
            whim_arena_strndup(&table->arena, cells[i], (int64_t)strlen(cells[i]));
        if (table->cells[n + i] == NULL) {
            table->failed = true;
            return;
        }
    }
    table->n_row++;
}

/* Characters, which are columns for all that names are made of. */
static int32_t width(const char *text)
{
    int32_t n = 0;
    for (; *text != '\0'; text++) {
        n += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return n;
}

void text_table_write(const text_table *table, whim_str *out)
{
    int32_t widths[TABLE_COLUMNS] = {0};
    for (int32_t i = 0; i < table->n_row * table->n_column; i++) {
        int32_t n = width(table->cells[i]), *most = &widths[i % table->n_column];
        *most = n > *most ? n : *most;
    }
    for (int32_t i = 0; i < table->n_row * table->n_column; i++) {
        int32_t column = i % table->n_column;
        bool last = column + 1 == table->n_column;
        int32_t blanks = last ? 0 : widths[column] - width(table->cells[i]) + GAP;
        whim_str_printf(out, "%s%*s%s", table->cells[i], blanks, "", last ? "\n" : "");
    }
}

void format_age(char *buf, size_t n, int64_t seconds)
{
    static const struct {
        int64_t seconds;
        const char *name;
    } units[] = {{86400, "day"}, {3600, "hour"}, {60, "minute"}, {1, "second"}};
    size_t i = 0;
    seconds = seconds < 0 ? 0 : seconds;
    while (i < 3 && seconds < units[i].seconds) {
        i++;
    }
    int64_t count = seconds / units[i].seconds;
    snprintf(buf, n, "%lld %s%s", (long long)count, units[i].name, count == 1 ? "" : "s");
}
