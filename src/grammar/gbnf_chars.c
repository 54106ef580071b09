/* SPDX-License-Identifier: Apache-2.0 */
/* Texts and classes of grammars, with their escapes. */
#include "grammar/gbnf.h"

#include "base/alloc.h"
#include "base/str.h"
#include "base/utf8.h"

#include <string.h>

static int32_t hex_char(gbnf *p, int32_t n_digit)
{
    int64_t begin = p->at - 2;
    int64_t cp = 0;
    for (int32_t i = 0; i < n_digit; i++, p->at++) {
        const char *digits = "0123456789abcdef", *found;
        char c = p->text[p->at];
        found = c == '\0' ? NULL : strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c);
        if (found == NULL) {
            return whim_gbnf_fail(p, begin, "%d hexadecimal digits are expected behind \\%c",
                                  n_digit, p->text[begin + 1]);
        }
        cp = cp * 16 + (found - digits);
    }
    if (cp > GC_MAX || (cp >= 0xD800 && cp <= 0xDFFF)) {
        return whim_gbnf_fail(p, begin, "there is no such character of Unicode");
    }
    return (int32_t)cp;
}

static int32_t escaped_char(gbnf *p)
{
    static const char letters[] = "ntrbfav0e", stand_for[] = "\n\t\r\b\f\a\v\0\x1b";
    char c = p->text[p->at + 1];
    p->at += 2;
    if (c == 'x' || c == 'u' || c == 'U') {
        return hex_char(p, c == 'x' ? 2 : c == 'u' ? 4 : 8);
    }
    const char *letter = c == '\0' ? NULL : strchr(letters, c);
    if (letter != NULL) {
        return stand_for[letter - letters];
    }
    if (c > ' ' && c < 0x7F && !whim_gbnf_is_letter(c)) {
        return c;
    }
    p->at -= 2;
    return whim_gbnf_fail(p, p->at,
                          "this escape is not known; known are \\n \\t \\r \\\\ \\\" \\[ \\] "
                          "\\xHH \\uHHHH \\UHHHHHHHH");
}

/* One character of a literal or a class; -1: failed. */
static int32_t next_char(gbnf *p, int64_t begin, const char *what)
{
    int32_t n, cp;
    if (p->at >= p->n || p->text[p->at] == '\n') {
        return whim_gbnf_fail(p, begin, "%s is not closed on its line", what);
    }
    if (p->text[p->at] == '\\') {
        return escaped_char(p);
    }
    whim_utf8_next(p->text + p->at, p->n - p->at, &n, &cp); /* the text is valid */
    p->at += n;
    return cp;
}

int32_t whim_gbnf_literal(gbnf *p)
{
    int64_t begin = p->at++;
    whim_str text = {0};
    int32_t cp = 0;
    while (cp >= 0 && p->text[p->at] != '"') {
        char bytes[4];
        cp = next_char(p, begin, "this text");
        whim_str_append_n(&text, bytes, cp < 0 ? 0 : whim_utf8_encode(cp, bytes));
    }
    p->at += cp >= 0;
    int32_t node = cp < 0        ? -1
                   : text.failed ? whim_gb_no_memory(p->b)
                                 : whim_gb_bytes(p->b, whim_str_text(&text), text.len);
    whim_str_deinit(&text);
    return node;
}

static bool class_range(gbnf *p, int64_t begin, grange *out)
{
    int64_t at = p->at;
    out->lo = out->hi = next_char(p, begin, "this class");
    if (out->lo >= 0 && p->text[p->at] == '-' && p->text[p->at + 1] != ']') {
        p->at++;
        out->hi = next_char(p, begin, "this class");
        if (out->hi >= 0 && out->hi < out->lo) {
            whim_gbnf_fail(p, at, "this range ends before it begins");
        }
    }
    return !whim_gb_failed(p->b);
}

int32_t whim_gbnf_class(gbnf *p)
{
    int64_t begin = p->at++;
    bool is_negated = p->text[p->at] == '^';
    grange *ranges = NULL, *others = NULL, range;
    int64_t n = 0, cap = 0, cap_other = 0;
    p->at += is_negated;
    while (p->text[p->at] != ']' && class_range(p, begin, &range)) {
        (void)whim_gb_append(p->b, &ranges, &n, &cap, &range, 1, sizeof range);
    }
    p->at += !whim_gb_failed(p->b);
    int32_t node = -1;
    if (!whim_gb_failed(p->b) && !is_negated) {
        node = whim_gb_chars(p->b, ranges, (int32_t)n);
    } else if (!whim_gb_failed(p->b) && whim_gb_grow(p->b, &ranges, n + 1, &cap, sizeof *ranges) &&
               whim_gb_grow(p->b, &others, n + 3, &cap_other, sizeof *others)) {
        int32_t kept = whim_ranges_clean(ranges, (int32_t)n);
        node = whim_gb_chars(p->b, others, whim_ranges_invert(ranges, kept, others));
    }
    whim_free(ranges);
    whim_free(others);
    return node;
}
