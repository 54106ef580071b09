/* SPDX-License-Identifier: Apache-2.0 */
/* Where the rows of an edited line are after the terminal has changed its width. */
#include "chat/chat.h"

#include <string.h>
#include <wchar.h>

/* Where the walk over what is on the screen has come to. */
typedef struct place {
    int32_t width, col;         /* as it was drawn; every row is a line of its own */
    int32_t new_width, new_col; /* as the terminal shows it now */
    int32_t row;
} place;

static void new_row(place *at)
{
    at->row++;
    at->col = at->new_col = 0;
}

/* Make room for a character of n columns: it is never cut in two. */
static void make_room(place *at, int32_t n)
{
    if (at->col + n > at->width) {
        new_row(at);
    } else if (at->new_col + n > at->new_width) {
        at->row++;
        at->new_col = 0;
    }
}

/* Columns that libedit draws for a character. */
static int32_t columns(const place *at, wchar_t c)
{
    int32_t n = (int32_t)wcwidth(c);
    if (c == L'\t') {
        return 8 - at->col % 8;
    }
    return n >= 0 ? n : c < 0x20 || c == 0x7F ? 2 : c > 0xFFFF ? 8 : 7;
}

static int32_t next_wide(const char *text, const char *end, wchar_t *c)
{
    mbstate_t state = {0};
    size_t n = mbrtowc(c, text, (size_t)(end - text), &state);
    if (n == 0 || n > (size_t)(end - text)) {
        *c = (unsigned char)*text;
        return 1;
    }
    return (int32_t)n;
}

static void walk(place *at, const char *text, const char *end)
{
    wchar_t c;
    while (text < end) {
        text += next_wide(text, end, &c);
        if (c == L'\n') {
            new_row(at);
            continue;
        }
        int32_t n = columns(at, c);
        int32_t step =
            c == L'\t' || wcwidth(c) < 0 ? 1 : n; /* several characters, or a whole one */
        for (int32_t i = 0; i < n; i += step) {
            make_room(at, step);
            at->col += step;
            at->new_col += step;
        }
    }
}

int32_t edited_rows_above(const edited *e, int32_t width, int32_t new_width)
{
    place at = {.width = width, .new_width = new_width};
    walk(&at, e->prompt, e->prompt + strlen(e->prompt));
    walk(&at, e->text, e->cursor);
    if (at.col >= at.width) {
        new_row(&at);
    }
    if (e->cursor < e->end && *e->cursor != '\n') {
        wchar_t c;
        next_wide(e->cursor, e->end, &c);
        make_room(&at, c == L'\t' || wcwidth(c) < 0 ? 1 : (int32_t)wcwidth(c));
    }
    return at.row;
}
