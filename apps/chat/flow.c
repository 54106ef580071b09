/* SPDX-License-Identifier: Apache-2.0 */
/* Rows: a word is held back until it is complete, and goes to the next row where it has no room.
 * Between characters of two columns a row may end anywhere. */
#include "base/utf8.h"
#include "chat/prose.h"

#include <string.h>
#include <utf8proc.h>

enum { TAB = 8, MAX_HELD = 4096, ZERO_WIDTH_JOINER = 0x200D, EMOJI_FORM = 0xFE0F };

/* What does not begin a row, and what does not end one. */
static const char opening[] = "「『（【〔〈《“‘";
static const char closing[] =
    "、。，．！？：；）」』】〕〉》”’・ーぁぃぅぇぉっゃゅょァィゥェォッャュョ々";

static int32_t columns(const char *text, int32_t n)
{
    int32_t len, cp;
    if (whim_utf8_next(text, n, &len, &cp) != WHIM_UTF8_WHOLE) {
        return 1;
    }
    /* Many terminals give a character in the form of an emoji a second column; a row that is one
     * too short looks better than one that is too long. */
    return cp == EMOJI_FORM ? 1 : (int32_t)utf8proc_charwidth(cp);
}

static bool is_among(const char *set, const char *text, int32_t n)
{
    char one[5] = "";
    memcpy(one, text, (size_t)n);
    return strstr(set, one) != NULL;
}

/* Whether a row never ends behind this character. */
static bool joins_next(const char *text, int32_t n)
{
    int32_t len, cp;
    return whim_utf8_next(text, n, &len, &cp) == WHIM_UTF8_WHOLE &&
           (cp == ZERO_WIDTH_JOINER || is_among(opening, text, n));
}

static int32_t blank_columns(int32_t col, char c)
{
    return c == '\t' ? TAB - col % TAB : 1;
}

/* The terminal itself breaks what is longer than a row. */
static void advance(flow *f, int32_t n)
{
    f->col = f->width > 0 && f->col + n > f->width ? n : f->col + n;
}

/* Bytes with a style each, in as few calls as there are changes of style. */
static void write_styled(const flow *f, const char *text, const char *styles, int64_t n)
{
    for (int64_t i = 0, from = 0; i < n; i++) {
        if (i + 1 == n || styles[i + 1] != styles[from]) {
            f->sink.text(f->sink.ctx, (uint8_t)styles[from], text + from, i + 1 - from);
            from = i + 1;
        }
    }
}

/* Blanks before a word, or at the end of a line: as many as there is room for. */
static void write_blanks(flow *f)
{
    int64_t fit = 0, n = f->blanks.len;
    for (; fit < n; fit++) {
        int32_t cols = blank_columns(f->col, f->blanks.text[fit]);
        if (f->width > 0 && f->begun && f->col + cols > f->width) {
            break;
        }
        advance(f, cols);
    }
    write_styled(f, f->blanks.text, f->blank_styles.text, fit);
    if (fit < n) {
        f->sink.turn(f->sink.ctx, -1, f->blanks.text + fit, n - fit);
    }
    whim_str_clear(&f->blanks);
    whim_str_clear(&f->blank_styles);
}

static int32_t blanks_end(const flow *f)
{
    int32_t col = f->col;
    for (int64_t i = 0; i < f->blanks.len; i++) {
        col += blank_columns(col, f->blanks.text[i]);
    }
    return col;
}

/* Columns that are left free before a row, which keeps half of its width at least. */
static int32_t indent(const flow *f)
{
    return f->hang < f->width / 2 ? f->hang : 0;
}

static void place_word(flow *f)
{
    if (f->word.len == 0) {
        return;
    }
    if (f->width > 0 && f->begun && blanks_end(f) + f->word_cols > f->width && f->col > indent(f)) {
        f->sink.turn(f->sink.ctx, indent(f), f->blanks.text, f->blanks.len);
        whim_str_clear(&f->blanks);
        whim_str_clear(&f->blank_styles);
        f->col = indent(f);
    }
    write_blanks(f);
    write_styled(f, f->word.text, f->styles.text, f->word.len);
    advance(f, f->word_cols);
    f->begun = true;
    f->word_cols = 0;
    whim_str_clear(&f->word);
    whim_str_clear(&f->styles);
}

static void end_line(flow *f, uint8_t style)
{
    flow_flush(f);
    f->sink.text(f->sink.ctx, style, "\n", 1);
    f->col = f->hang = 0;
    f->begun = f->joins = false;
}

/* Whether a row may end between the word so far and this character. */
static bool may_part(const flow *f, const char *text, int32_t n, int32_t cols)
{
    int32_t first = whim_utf8_char_length(f->word.text, f->word.len);
    bool after_wide = first == f->word.len && columns(f->word.text, first) > 1;
    return (cols > 1 || after_wide) && cols > 0 && !f->joins && !is_among(closing, text, n);
}

static void add_char(flow *f, uint8_t style, const char *text, int32_t n, int32_t cols)
{
    if (f->word.len > 0 && may_part(f, text, n, cols)) {
        place_word(f);
    }
    whim_str_append_n(&f->word, text, n);
    for (int32_t i = 0; i < n; i++) {
        whim_str_append_char(&f->styles, (char)style);
    }
    f->word_cols += cols;
    if (f->word_cols > f->width - indent(f) || f->word.len >= MAX_HELD) {
        place_word(f);
        f->running = true;
    }
}

void flow_char(flow *f, uint8_t style, const char *text, int32_t n)
{
    if (n == 1 && text[0] == '\n') {
        end_line(f, style);
        return;
    }
    if (n == 1 && (text[0] == ' ' || text[0] == '\t') && !f->is_verse && f->width > 0) {
        place_word(f);
        f->running = f->joins = false;
        whim_str_append_char(&f->blanks, text[0]);
        whim_str_append_char(&f->blank_styles, (char)style);
        if (f->blanks.len >= MAX_HELD) {
            write_blanks(f);
        }
        return;
    }
    int32_t cols = n == 1 && text[0] == '\t' ? blank_columns(f->col, '\t') : columns(text, n);
    if (f->is_verse || f->running || f->width == 0) {
        flow_flush(f);
        f->sink.text(f->sink.ctx, style, text, n);
        advance(f, cols);
        f->begun = true;
        f->running = !f->is_verse && f->width > 0;
    } else {
        add_char(f, style, text, n, cols);
    }
    f->joins = joins_next(text, n);
}

void flow_flush(flow *f)
{
    place_word(f);
    if (f->blanks.len > 0) {
        write_blanks(f);
    }
    f->running = false;
}

void flow_deinit(flow *f)
{
    whim_str_deinit(&f->word);
    whim_str_deinit(&f->styles);
    whim_str_deinit(&f->blanks);
    whim_str_deinit(&f->blank_styles);
}

void flow_resize(flow *f, int32_t width)
{
    if (width > 0 && f->width > 0) {
        f->col = f->col > width ? f->col % width : f->col;
        f->width = width;
    }
}
