/* SPDX-License-Identifier: Apache-2.0 */
/* Filters on running text: lines of a width, markup, addresses. */
#include "jinja/eval.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* --- wordwrap, as Python's textwrap does it --------------------------------------------------- */

typedef struct wrapper {
    const int32_t *c;   /* the characters of a line, */
    const int64_t *off; /* where each begins, and the end of the last */
    int64_t n, width;
    bool cut_words, at_hyphens;
} wrapper;

static bool is_blank(int32_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static int32_t char_at(const wrapper *w, int64_t i)
{
    return i >= 0 && i < w->n ? w->c[i] : 0;
}

static bool letter_at(const wrapper *w, int64_t i)
{
    int32_t c = char_at(w, i);
    return whim_jchar_is_word(c) && utf8proc_category(c) != UTF8PROC_CATEGORY_ND;
}

/* A character that a dash can follow. */
static bool ends_word(const wrapper *w, int64_t i)
{
    int32_t c = char_at(w, i);
    return c > 0 && (whim_jchar_is_word(c) || (c < 128 && strchr("!\"'&.,?", c) != NULL));
}

/* Behind the dashes that begin at i and join two words; i if there are none. */
static int64_t skip_dash(const wrapper *w, int64_t i)
{
    int64_t end = i;
    if (char_at(w, i) != '-' || !ends_word(w, i - 1)) {
        return i; /* first, so that a run of dashes is walked once */
    }
    while (char_at(w, end) == '-') {
        end++;
    }
    return end - i >= 2 && whim_jchar_is_word(char_at(w, end)) ? end : i;
}

/* Whether a line may end behind the hyphen at i. */
static bool breaks_at_hyphen(const wrapper *w, int64_t i)
{
    bool before = (letter_at(w, i - 2) && letter_at(w, i - 1)) ||
                  (letter_at(w, i - 3) && char_at(w, i - 2) == '-' && ends_word(w, i - 1));
    int64_t next = i + 2 + (char_at(w, i + 2) == '-');
    return char_at(w, i) == '-' && before && letter_at(w, i + 1) && letter_at(w, next);
}

/* Where the piece that begins at i ends: white space, a dash, or as much of a word as stays
 * together. */
static int64_t piece_end(const wrapper *w, int64_t i)
{
    int64_t end = i;
    if (is_blank(w->c[i])) {
        while (end < w->n && is_blank(w->c[end])) {
            end++;
        }
        return end;
    }
    if (w->at_hyphens && skip_dash(w, i) > i) {
        return skip_dash(w, i);
    }
    for (end = i + 1; end < w->n && !is_blank(w->c[end]); end++) {
        if (w->at_hyphens && breaks_at_hyphen(w, end)) {
            return end + 1;
        }
        if (w->at_hyphens && skip_dash(w, end) > end) {
            return end;
        }
    }
    return end;
}

static bool all_space(const wrapper *w, int64_t from, int64_t to)
{
    while (from < to && whim_jchar_is_space(w->c[from])) {
        from++;
    }
    return from == to;
}

/* How much of a word that is longer than a line goes into the `room` that is left. */
static int64_t cut_word(const wrapper *w, int64_t from, int64_t room)
{
    bool other = false; /* than hyphens, before the last one */
    int64_t end = from + room;
    for (int64_t i = from; w->at_hyphens && i < from + room; i++) {
        end = w->c[i] == '-' && other ? i + 1 : end;
        other = other || w->c[i] != '-';
    }
    return end;
}

/* Put the lines of one line into `out`. */
static void wrap_line(whim_jinja *j, const wrapper *w, const whim_jstr *str, whim_jlist *out)
{
    int64_t at = 0, piece = 0, n_before = out->n;
    while (at < w->n) {
        piece = piece > at ? piece : piece_end(w, at);
        if (out->n > n_before && all_space(w, at, piece)) { /* then it is behind us */
            at = piece;
        }
        int64_t from = at, last = at; /* `last` is where the line's last piece begins */
        while (at < w->n) {
            piece = piece > at ? piece : piece_end(w, at);
            if (piece - from > w->width) {
                break;
            }
            last = at;
            at = piece;
        }
        if (at < w->n && piece - at > w->width && (w->cut_words || at == from)) {
            last = at;
            at = w->cut_words ? cut_word(w, at, w->width - (at - from)) : piece;
        }
        int64_t to = at > from && all_space(w, last, at) ? last : at;
        whim_jinja_pay(j, 1);
        if (to > from) {
            whim_jlist_push(j, out, whim_jval_slice(j, str, w->off[from], w->off[to]));
        }
    }
}

static void wrap(whim_jinja *j, wrapper *w, const whim_jstr *str, whim_jlist *out)
{
    int64_t n_char = whim_jstr_chars(j, str), at = 0;
    int32_t *c = whim_jinja_alloc_array(j, n_char + 1, sizeof *c);
    int64_t *off = whim_jinja_alloc_array(j, n_char + 1, sizeof *off);
    whim_jinja_pay(j, str->n / 4);
    for (w->n = 0; at < str->n && w->n < n_char; w->n++) {
        off[w->n] = at;
        c[w->n] = whim_jutf8_next(str->s, str->n, &at);
    }
    off[w->n] = str->n;
    w->c = c;
    w->off = off;
    wrap_line(j, w, str, out);
}

static whim_jval filter_wordwrap(whim_jinja *j, const whim_jcall *c)
{
    const whim_jstr *str = whim_jarg_str(j, c->self, "what wordwrap works on");
    whim_jval sep = whim_jarg_given(c->a[2]) ? c->a[2] : whim_jval_str(j, "\n", 1, true);
    wrapper w = {.width = whim_jarg_int(j, c->a[0], 79, "the width"),
                 .cut_words = c->a[1].kind == WHIM_J_MISSING || whim_jval_truth(c->a[1]),
                 .at_hyphens = c->a[3].kind == WHIM_J_MISSING || whim_jval_truth(c->a[3])};
    const whim_jstr *between = whim_jarg_str(j, sep, "the text between lines");
    const whim_jlist *lines = whim_jlib_splitlines(j, str, false).list;
    whim_jval paragraphs = whim_jval_list(j, WHIM_JL_LIST);
    for (int64_t i = 0; i < lines->n; i++) {
        whim_jval wrapped = whim_jval_list(j, WHIM_JL_LIST);
        whim_jinja_pay(j, 1);
        if (w.width <= 0) {
            whim_jinja_fail(j, "wordwrap wants a width above 0");
        }
        wrap(j, &w, lines->v[i].str, wrapped.list);
        whim_jlist_push(j, paragraphs.list, whim_jlib_join(j, between, wrapped.list));
    }
    return whim_jlib_join(j, between, paragraphs.list);
}

/* --- markup and addresses --------------------------------------------------------------------- */

/* Behind the comment or tag that begins at `at`; -1 if it has no end. */
static int64_t tag_end(whim_jinja *j, const whim_jstr *str, int64_t at)
{
    static const whim_jstr angle = {.s = ">", .n = 1}, arrow = {.s = "-->", .n = 3};
    bool comment = str->n - at >= 4 && memcmp(str->s + at, "<!--", 4) == 0;
    int64_t end =
        comment ? whim_jstr_find(j, str, &arrow, at + 4) : whim_jstr_find(j, str, &angle, at);
    return end < 0 ? -1 : end + (comment ? arrow.n : 1);
}

/* The character that "&...;" at `at` means, and where it ends; 0: none. Names are those of XML and
 * the space that does not break. */
static int32_t entity(const whim_jstr *str, int64_t at, int64_t *end)
{
    static const struct {
        const char *name;
        int32_t c;
    } names[] = {{"&amp", '&'},  {"&lt", '<'},     {"&gt", '>'},
                 {"&quot", '"'}, {"&apos;", '\''}, {"&nbsp", 0xa0}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int64_t n = (int64_t)strlen(names[i].name);
        if (str->n - at >= n && memcmp(str->s + at, names[i].name, (size_t)n) == 0) {
            *end = at + n + (at + n < str->n && str->s[at + n] == ';');
            return names[i].c;
        }
    }
    char digits[12] = {0};
    bool hex = str->n - at > 2 && str->s[at + 1] == '#' && (str->s[at + 2] | 32) == 'x';
    int64_t from = at + 2 + hex, to = from;
    const char *allowed = hex ? "0123456789abcdefABCDEF" : "0123456789";
    while (to < str->n && str->s[to] != '\0' && strchr(allowed, str->s[to]) != NULL) {
        to++;
    }
    if (str->n - at < 3 || str->s[at + 1] != '#' || to == from || to - from > 8) {
        return 0;
    }
    memcpy(digits, str->s + from, (size_t)(to - from));
    long c = strtol(digits, NULL, hex ? 16 : 10);
    *end = to + (to < str->n && str->s[to] == ';');
    return c == 0 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0xfffd : (int32_t)c;
}

static whim_jval unescape(whim_jinja *j, const whim_jstr *str)
{
    whim_jbuf buf = {0};
    whim_jinja_pay(j, str->n / 4);
    for (int64_t at = 0; at < str->n;) {
        int64_t end = at + 1;
        int32_t c = str->s[at] == '&' ? entity(str, at, &end) : 0;
        if (c != 0) {
            whim_jbuf_add_char(j, &buf, c, whim_jstr_trust(str, at, end));
        } else {
            whim_jbuf_add(j, &buf, str->s + at, 1, whim_jstr_trust(str, at, at + 1));
        }
        at = end;
    }
    return whim_jbuf_take(j, &buf);
}

static whim_jval filter_striptags(whim_jinja *j, const whim_jcall *c)
{
    static const whim_jstr angle = {.s = "<", .n = 1}, space = {.s = " ", .n = 1, .trusted = true};
    const whim_jstr *str = whim_jval_to_str(j, c->self);
    int64_t at = 0, start, end;
    whim_jbuf buf = {0};
    while ((start = whim_jstr_find(j, str, &angle, at)) >= 0 &&
           (end = tag_end(j, str, start)) >= 0) {
        whim_jinja_pay(j, 1);
        whim_jbuf_add_str(j, &buf, whim_jval_slice(j, str, at, start).str);
        at = end;
    }
    whim_jbuf_add_str(j, &buf, whim_jval_slice(j, str, at, str->n).str);
    const whim_jlist *words = whim_jlib_split(j, whim_jbuf_take(j, &buf).str, NULL, -1, false).list;
    return unescape(j, whim_jlib_join(j, &space, words).str);
}

/* As in a path, where '/' stays; or as in a query, where a space is '+'. */
static void quote(whim_jinja *j, whim_jbuf *buf, const whim_jstr *str, bool query)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-~";
    whim_jinja_pay(j, str->n / 2);
    for (int64_t i = 0; i < str->n; i++) {
        char c = str->s[i], out[4] = {c, '\0', '\0', '\0'};
        bool stays = c != '\0' && (strchr(plain, c) != NULL || (c == '/' && !query));
        if (c == ' ' && query) {
            out[0] = '+';
        } else if (!stays) {
            snprintf(out, sizeof out, "%%%02X", (unsigned)(uint8_t)c);
        }
        whim_jbuf_add(j, buf, out, (int64_t)strlen(out), whim_jstr_trust(str, i, i + 1));
    }
}

static whim_jval filter_urlencode(whim_jinja *j, const whim_jcall *c)
{
    whim_jbuf buf = {0};
    if (c->self.kind == WHIM_J_STR || !whim_jval_is_iterable(c->self)) {
        quote(j, &buf, whim_jval_to_str(j, c->self), false);
        return whim_jbuf_take(j, &buf);
    }
    const whim_jlist *pairs = c->self.kind == WHIM_J_DICT
                                  ? whim_jdict_list(j, c->self.dict, WHIM_JL_ITEMS).list
                                  : whim_jval_iterate(j, c->self);
    whim_jinja_pay(j, pairs->n);
    for (int64_t i = 0; i < pairs->n; i++) {
        const whim_jlist *pair = whim_jval_iterate(j, pairs->v[i]);
        if (pair->n != 2) {
            whim_jinja_fail(j, "urlencode wants a text, a dict or a list of pairs");
        }
        whim_jbuf_add(j, &buf, "&", i > 0, true);
        quote(j, &buf, whim_jval_to_str(j, pair->v[0]), true);
        whim_jbuf_add(j, &buf, "=", 1, true);
        quote(j, &buf, whim_jval_to_str(j, pair->v[1]), true);
    }
    return whim_jbuf_take(j, &buf);
}

const whim_jentry whim_jfilters_prose[] = {
    {"striptags", "", 0, filter_striptags, 0},
    {"urlencode", "", 0, filter_urlencode, 0},
    {"wordwrap", "width break_long_words wrapstring break_on_hyphens", 0, filter_wordwrap, 0},
    {NULL, NULL, 0, NULL, 0},
};
