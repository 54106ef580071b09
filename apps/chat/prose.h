/* SPDX-License-Identifier: Apache-2.0 */
/* Text that arrives in pieces, as rows of a terminal: flow.c breaks lines between words, prose.c
 * finds what Markdown marks. Neither knows a terminal.
 * Invariants:
 *  1. What the sink gets as text, with the blanks of its breaks, is the input, but for control
 *     characters; marks of Markdown stay where they are.
 *  2. Any cut of the input into pieces gives the same styles and breaks.
 *  3. What is held back is bounded: a word of at most one row, a mark at the beginning of a line.
 * Threads: a prose belongs to its caller. */
#ifndef WHIM_APPS_CHAT_PROSE_H
#define WHIM_APPS_CHAT_PROSE_H

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

/* Styles, which add up. */
enum { CHAT_PLAIN = 0, CHAT_DIM = 1, CHAT_BOLD = 2, CHAT_ITALIC = 4, CHAT_CODE = 8 };

/* Where rows go. */
typedef struct prose_sink {
    void *ctx;
    /* Bytes of the input in one style. */
    void (*text)(void *ctx, uint8_t style, const char *text, int64_t n);
    /* A new row that begins with `indent` blanks, instead of these `n` bytes of blanks; where
     * `indent` is -1, blanks at the end of a line that have no room, and no new row. */
    void (*turn)(void *ctx, int32_t indent, const char *blanks, int64_t n);
} prose_sink;

/* --- flow.c ----------------------------------------------------------------------------------- */

typedef struct flow {
    prose_sink sink;
    int32_t width;   /* columns of a row; 0: rows end where lines do */
    int32_t col;     /* columns of the row that are taken */
    int32_t hang;    /* columns that later rows of the line leave free */
    bool begun;      /* the line has a word */
    bool running;    /* in a word that is longer than a row */
    bool is_verse;   /* lines are not broken here: code */
    bool joins;      /* the last character takes the next one to it */
    whim_str word;   /* that is not complete */
    whim_str styles; /* a byte for each of its bytes */
    whim_str blanks; /* before it */
    whim_str blank_styles;
    int32_t word_cols;
} flow;

/* One character, in valid UTF-8, or a byte that is not part of one. */
void flow_char(flow *f, uint8_t style, const char *text, int32_t n);

/* No more of the line comes for now: what is held back is written. */
void flow_flush(flow *f);
void flow_deinit(flow *f);

/* The terminal has another width now. */
void flow_resize(flow *f, int32_t width);

/* --- prose.c ---------------------------------------------------------------------------------- */

typedef struct prose {
    flow flow;
    bool marks;   /* Markdown is looked for */
    uint8_t base; /* style of all of it */
    char tail[4]; /* bytes of a character that is not complete */
    int32_t n_tail;
    bool at_front;  /* of a line: a mark of a block may come */
    whim_str front; /* which has begun */
    char fence;     /* '`' or '~' in a block of code, else 0 */
    int32_t n_fence;
    bool heading;
    char bold, italic; /* the character that began them, or 0 */
    int32_t n_code;    /* backticks that began a piece of code, or 0 */
    char run;          /* marks in a row, not yet understood, or 0 */
    int64_t n_run;
    bool escaped; /* a backslash was the last character */
    char before;  /* kind of the character before: see prose.c */
} prose;

/* Caller's storage. A width of 0 breaks no lines. */
void prose_init(prose *p, const prose_sink *sink, int32_t width);
void prose_deinit(prose *p);

/* What follows is a text of its own: in this style, with or without Markdown. */
void prose_begin(prose *p, uint8_t base, bool marks);

void prose_put(prose *p, const char *text, int64_t n);

/* The text is over, within a line or not. */
void prose_end(prose *p);

#endif
