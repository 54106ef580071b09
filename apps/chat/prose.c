/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the marks of Markdown while the text arrives. Emphasis and code go from the mark that
 * begins them to the one that ends them, or to the end of the line. Headings, items, quotes and
 * fences are looked for at the front of a line. A mark is held back until what follows it
 * decides. */
#include "chat/prose.h"

#include "base/utf8.h"
#include "cmd.h"

#include <ctype.h>
#include <string.h>

enum { MAX_FRONT = 128 };

/* Kinds of characters: what may stand beside a mark. */
enum { SPACE, LETTER, OTHER };

void prose_init(prose *p, const prose_sink *sink, int32_t width)
{
    *p = (prose){.flow = {.sink = *sink, .width = width}};
    prose_begin(p, CHAT_PLAIN, false);
}

void prose_deinit(prose *p)
{
    flow_deinit(&p->flow);
    whim_str_deinit(&p->front);
}

/* --- within a line ---------------------------------------------------------------------------- */

static uint8_t style_of(const prose *p)
{
    return (uint8_t)(p->base | (p->heading || p->bold != 0 ? CHAT_BOLD : 0) |
                     (p->italic != 0 ? CHAT_ITALIC : 0) | (p->n_code > 0 ? CHAT_CODE : 0));
}

static char kind_of(const char *text, int32_t n)
{
    return n == 1 && isalnum((unsigned char)text[0])   ? LETTER
           : n == 1 && isspace((unsigned char)text[0]) ? SPACE
                                                       : OTHER;
}

static void write_char(prose *p, uint8_t style, const char *text, int32_t n)
{
    flow_char(&p->flow, style, text, n);
    p->before = kind_of(text, n);
}

static void write_run(prose *p, uint8_t style)
{
    char mark = p->run;
    for (; p->n_run > 0; p->n_run--) {
        flow_char(&p->flow, style, &mark, 1);
    }
    p->run = 0;
    p->before = OTHER;
}

/* Backticks: code is from so many to as many. */
static void end_ticks(prose *p)
{
    if (p->n_code == 0 && p->n_run <= INT32_MAX) {
        p->n_code = (int32_t)p->n_run;
        write_run(p, style_of(p));
    } else {
        bool ends = p->n_run == p->n_code;
        write_run(p, style_of(p));
        p->n_code = ends ? 0 : p->n_code;
    }
}

/* One or two marks toggle one style, three toggle both; anything else stands for itself. `after`
 * is the kind of what follows. */
static void end_run(prose *p, char after)
{
    char mark = p->run, before = p->before;
    bool wants_bold = p->n_run == 2 || p->n_run == 3, wants_italic = p->n_run == 1 || p->n_run == 3;
    if (mark == '`') {
        end_ticks(p);
        return;
    }
    bool is_open = (!wants_bold || p->bold == mark) && (!wants_italic || p->italic == mark);
    bool is_shut = (!wants_bold || p->bold == 0) && (!wants_italic || p->italic == 0);
    bool ends = is_open && before != SPACE && (mark == '*' || after != LETTER);
    bool begins = is_shut && after != SPACE && before != LETTER;
    if ((!wants_bold && !wants_italic) || (!ends && !begins)) {
        write_run(p, style_of(p));
        return;
    }
    write_run(p, (uint8_t)((style_of(p) & ~CHAT_BOLD & ~CHAT_ITALIC) | CHAT_DIM));
    p->bold = !wants_bold ? p->bold : begins ? mark : 0;
    p->italic = !wants_italic ? p->italic : begins ? mark : 0;
    p->before = begins ? SPACE : OTHER; /* what is empty is not emphasised */
}

static void in_line(prose *p, const char *text, int32_t n)
{
    char c = n == 1 ? text[0] : '\0';
    if (p->run != 0 && c != p->run) {
        end_run(p, kind_of(text, n));
    }
    bool is_mark = c == '`' ? !p->escaped || p->n_code > 0
                            : (c == '*' || c == '_') && !p->escaped && p->n_code == 0;
    if (is_mark) {
        p->run = c;
        p->n_run++;
    } else {
        write_char(p, style_of(p), text, n);
    }
    p->escaped = c == '\\' && !p->escaped;
}

/* --- the front of a line ---------------------------------------------------------------------- */

typedef enum front {
    FRONT_OPEN,    /* may become one of the others */
    FRONT_NONE,    /* a line like others */
    FRONT_HEADING, /* "## " */
    FRONT_ITEM,    /* "- ", "12. ", "> " */
    FRONT_FENCE,   /* a whole line */
    FRONT_SHUT,    /* a whole line, which ends a block of code */
} front;

/* "```c": nothing behind backticks may hold one more. */
static front front_of_fence(const char *s, int64_t n, bool whole)
{
    int64_t run = (int64_t)strspn(s, s[0] == '`' ? "`" : "~");
    if (run < 3 && (run < n || whole)) {
        return FRONT_NONE;
    }
    bool broken = n > MAX_FRONT || (s[0] == '`' && strchr(s + run, '`') != NULL);
    return broken ? FRONT_NONE : whole ? FRONT_FENCE : FRONT_OPEN;
}

static front front_of_code(const prose *p, const char *s, int64_t n, bool whole)
{
    const char mark[2] = {p->fence, '\0'};
    int64_t run = (int64_t)strspn(s, mark);
    int64_t end = run + (int64_t)strspn(s + run, " \t");
    if (end < n || n > MAX_FRONT || (whole && run < p->n_fence)) {
        return FRONT_NONE;
    }
    return whole ? FRONT_SHUT : FRONT_OPEN;
}

/* What the first characters of a line, behind its blanks, are; `whole`: the line is no longer. */
static front front_of(const prose *p, const char *s, int64_t n, bool whole)
{
    int64_t run;
    if (p->fence != 0) {
        return front_of_code(p, s, n, whole);
    }
    switch (s[0]) {
    case '`':
    case '~':
        return front_of_fence(s, n, whole);
    case '#':
        run = (int64_t)strspn(s, "#");
        return run > 6                    ? FRONT_NONE
               : run < n && s[run] == ' ' ? FRONT_HEADING
               : run == n && !whole       ? FRONT_OPEN
                                          : FRONT_NONE;
    case '-':
    case '+':
    case '*':
    case '>':
        return n == 2 && s[1] == ' ' ? FRONT_ITEM : n == 1 && !whole ? FRONT_OPEN : FRONT_NONE;
    default:
        run = (int64_t)strspn(s, "0123456789");
        if (run == 0 || run > 9 || n > run + 2 || (n > run && s[run] != '.' && s[run] != ')')) {
            return FRONT_NONE;
        }
        return n == run + 2 && s[run + 1] == ' ' ? FRONT_ITEM
               : n < run + 2 && !whole           ? FRONT_OPEN
                                                 : FRONT_NONE;
    }
}

static void write_front(prose *p, uint8_t style)
{
    const char *s = p->front.text;
    for (int64_t i = 0; i < p->front.len;) {
        int32_t len = whim_utf8_char_length(s + i, p->front.len - i);
        len = len > 0 ? len : 1;
        write_char(p, style, s + i, len);
        i += len;
    }
    whim_str_clear(&p->front);
}

/* The line has no mark at its front: its first characters are text. */
static void replay_front(prose *p)
{
    whim_str kept = p->front;
    p->front = (whim_str){0};
    for (int64_t i = 0; i < kept.len;) {
        int32_t len = whim_utf8_char_length(kept.text + i, kept.len - i);
        len = len > 0 ? len : 1;
        if (p->fence != 0) {
            write_char(p, p->base | CHAT_CODE, kept.text + i, len);
        } else {
            in_line(p, kept.text + i, len);
        }
        i += len;
    }
    whim_str_deinit(&kept);
}

static void take_front(prose *p, front what)
{
    const char *s = whim_str_text(&p->front);
    switch (what) {
    case FRONT_HEADING:
        p->heading = true;
        p->at_front = false;
        write_front(p, style_of(p));
        break;
    case FRONT_ITEM: /* another mark may follow: "- # x" */
        write_front(p, p->base | CHAT_DIM);
        flow_flush(&p->flow);
        p->flow.hang = p->flow.col;
        p->flow.begun = false;
        break;
    case FRONT_FENCE:
        p->fence = s[0];
        p->n_fence = (int32_t)strspn(s, s[0] == '`' ? "`" : "~");
        write_front(p, p->base | CHAT_DIM);
        break;
    case FRONT_SHUT:
        p->fence = 0;
        write_front(p, p->base | CHAT_DIM);
        p->flow.is_verse = false;
        break;
    default:
        p->at_front = false;
        replay_front(p);
        break;
    }
}

static void in_front(prose *p, const char *text, int32_t n)
{
    if (p->front.len == 0 && n == 1 && (text[0] == ' ' || text[0] == '\t')) {
        write_char(p, p->base, text, n);
        return;
    }
    whim_str_append_n(&p->front, text, n);
    front what = front_of(p, whim_str_text(&p->front), p->front.len, false);
    if (what != FRONT_OPEN) {
        take_front(p, what);
    }
}

/* --- all -------------------------------------------------------------------------------------- */

/* The line, or what there is of it, is over. */
static void end_line(prose *p)
{
    if (p->at_front && p->front.len > 0) {
        take_front(p, front_of(p, whim_str_text(&p->front), p->front.len, true));
    }
    if (p->run != 0) {
        end_run(p, SPACE);
    }
    p->at_front = p->marks;
    p->heading = p->escaped = false;
    p->bold = p->italic = 0;
    p->n_code = 0;
    p->before = SPACE;
}

static void put_char(prose *p, const char *text, int32_t n)
{
    if (terminal_control_length(text, n) > 0) {
        return; /* what a model says does not steer a terminal */
    }
    if (n == 1 && text[0] == '\n') {
        end_line(p);
        flow_char(&p->flow, p->base, text, n);
        p->flow.is_verse = p->fence != 0;
    } else if (!p->marks) {
        write_char(p, p->base, text, n);
    } else if (p->at_front) {
        in_front(p, text, n);
    } else if (p->fence != 0) {
        write_char(p, p->base | CHAT_CODE, text, n);
    } else {
        in_line(p, text, n);
    }
}

void prose_begin(prose *p, uint8_t base, bool marks)
{
    prose_end(p);
    p->base = base;
    p->marks = p->at_front = marks;
}

void prose_put(prose *p, const char *text, int64_t n)
{
    int64_t at = 0;
    while (at < n) {
        char bytes[4];
        int32_t have = p->n_tail, len = 1, cp;
        memcpy(bytes, p->tail, sizeof bytes);
        for (; have < (int32_t)sizeof bytes && at + have - p->n_tail < n; have++) {
            bytes[have] = text[at + have - p->n_tail];
        }
        whim_utf8_state state = whim_utf8_next(bytes, have, &len, &cp);
        if (state == WHIM_UTF8_SHORT) {
            memcpy(p->tail, bytes, sizeof bytes);
            at += have - p->n_tail;
            p->n_tail = have;
            continue;
        }
        if (state == WHIM_UTF8_BAD) {
            len = 1;
        }
        put_char(p, bytes, len);
        if (len < p->n_tail) { /* the rest begins anew */
            memmove(p->tail, bytes + len, (size_t)(p->n_tail - len));
            p->n_tail -= len;
        } else {
            at += len - p->n_tail;
            p->n_tail = 0;
        }
    }
}

void prose_end(prose *p)
{
    for (int32_t i = 0; i < p->n_tail; i++) {
        put_char(p, p->tail + i, 1);
    }
    p->n_tail = 0;
    end_line(p);
    flow_flush(&p->flow);
    p->fence = 0;
    p->flow.is_verse = false;
    p->flow.hang = 0;
}
