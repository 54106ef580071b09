/* SPDX-License-Identifier: Apache-2.0 */
/* The sets of characters of regular expressions: classes, escapes and the dot. \d and \w are those
 * of ASCII. No set holds U+0000. */
#include "grammar/regex.h"

#include "base/alloc.h"
#include "base/str.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

bool whim_rtree_range(rtree *t, int32_t lo, int32_t hi)
{
    if (t->n_range >= t->b->limits.max_nodes) {
        whim_rtree_fail(t, "the expression is too long");
        return false;
    }
    return whim_gb_append(t->b, &t->ranges, &t->n_range, &t->cap_range, &(grange){lo, hi}, 1,
                          sizeof *t->ranges) >= 0;
}

/* The ranges from `begin` on as a set, cleaned, and inverted where asked. */
static int32_t set_from(rtree *t, int64_t begin, bool invert)
{
    int64_t n = t->n_range - begin;
    grange *work = whim_alloc_array(2 * n + 4, sizeof *work);
    if (work == NULL) {
        return whim_gb_no_memory(t->b);
    }
    memcpy(work, t->ranges + begin, (size_t)n * sizeof *work);
    int32_t kept = whim_ranges_clean(work, (int32_t)n);
    grange *set = work;
    if (invert) {
        set = work + n + 1;
        kept = whim_ranges_invert(work, kept, set);
    }
    t->n_range = begin;
    for (int32_t i = 0; i < kept; i++) {
        if (set[i].hi > 0) {
            whim_rtree_range(t, set[i].lo > 0 ? set[i].lo : 1, set[i].hi);
        }
    }
    whim_free(work);
    return whim_rtree_node(
        t, (rnode){.kind = RN_SET, .a = (int32_t)begin, .b = (int32_t)(t->n_range - begin)});
}

int32_t whim_regex_dot(rtree *t)
{
    int64_t begin = t->n_range;
    whim_rtree_range(t, '\n', '\n');
    whim_rtree_range(t, '\r', '\r');
    whim_rtree_range(t, 0x2028, 0x2029);
    return set_from(t, begin, true);
}

/* The ranges of \d, \w or \s (lower case), or of their opposites. */
static void add_shorthand(rtree *t, char c)
{
    static const grange digit[] = {{'0', '9'}};
    static const grange word[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    static const grange space[] = {
        {9, 13},          {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
        {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    char kind = (char)(c | 0x20);
    const grange *set = kind == 'd' ? digit : kind == 'w' ? word : space;
    int32_t n = kind == 'd' ? 1 : kind == 'w' ? 4 : 10;
    grange inverse[12];
    if (c < 'a') {
        n = whim_ranges_invert(set, n, inverse);
        set = inverse;
    }
    for (int32_t i = 0; i < n; i++) {
        whim_rtree_range(t, set[i].lo, set[i].hi);
    }
}

static int32_t hex_value(rtree *t, int32_t digits)
{
    int32_t value = 0;
    for (int32_t i = 0; i < digits; i++) {
        int d = whim_hex_value(t->pattern[t->at]);
        if (d < 0) {
            return whim_rtree_fail(t, "hexadecimal digits are missing here");
        }
        value = value * 16 + d;
        t->at++;
    }
    return value;
}

static int32_t unicode_value(rtree *t)
{
    if (t->pattern[t->at] != '{') {
        int32_t high = hex_value(t, 4);
        if (high >= 0xD800 && high < 0xDC00 && strncmp(t->pattern + t->at, "\\u", 2) == 0) {
            t->at += 2;
            int32_t low = hex_value(t, 4);
            return low < 0 ? -1 : 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
        }
        return high;
    }
    const char *close = strchr(t->pattern + t->at, '}');
    int64_t n = close == NULL ? 0 : close - (t->pattern + t->at) - 1;
    if (n < 1 || n > 6) {
        return whim_rtree_fail(t, "\\u{...} must hold 1 to 6 hexadecimal digits");
    }
    t->at++;
    int32_t value = hex_value(t, (int32_t)n);
    t->at += value >= 0;
    return value;
}

/* The character of an escape, t->at behind the backslash; -1: failed. */
static int32_t escaped_char(rtree *t)
{
    static const char plain[] = "n\nt\tr\rf\fv\v";
    char c = t->pattern[t->at];
    for (const char *p = plain; *p != '\0'; p += 2) {
        if (*p == c) {
            t->at++;
            return p[1];
        }
    }
    if (c == 'x' || c == 'u') {
        t->at++;
        int32_t cp = c == 'x' ? hex_value(t, 2) : unicode_value(t);
        return cp <= GC_MAX ? cp : whim_rtree_fail(t, "there is no such character");
    }
    if (c == '\0') {
        return whim_rtree_fail(t, "a backslash ends the expression");
    }
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
        return whim_rtree_fail(t, "this escape is not supported");
    }
    return whim_regex_char(t);
}

static bool is_shorthand(char c)
{
    return c != '\0' && strchr("dDwWsS", c) != NULL;
}

int32_t whim_regex_escape(rtree *t)
{
    int64_t begin = t->n_range;
    char c = t->pattern[t->at];
    if (c == 'A' || c == 'z' || c == 'Z') {
        t->at++;
        return whim_rtree_node(t, (rnode){.kind = c == 'A' ? RN_BEGIN : RN_END});
    }
    if (is_shorthand(c)) {
        t->at++;
        add_shorthand(t, c);
    } else {
        int32_t cp = escaped_char(t);
        if (cp < 0) {
            return -1;
        }
        whim_rtree_range(t, cp, cp);
    }
    return set_from(t, begin, false);
}

/* One end of a range inside a class; -1: failed, -2: it was a shorthand, which is added. */
static int32_t class_char(rtree *t)
{
    if (t->pattern[t->at] != '\\') {
        return whim_regex_char(t);
    }
    t->at++;
    char c = t->pattern[t->at];
    if (is_shorthand(c)) {
        t->at++;
        add_shorthand(t, c);
        return -2;
    }
    if (c == 'b') {
        t->at++;
        return '\b';
    }
    return escaped_char(t);
}

int32_t whim_regex_class(rtree *t)
{
    int64_t begin = t->n_range;
    bool invert = t->pattern[t->at] == '^';
    t->at += invert;
    for (bool first = true; first || t->pattern[t->at] != ']'; first = false) {
        if (t->pattern[t->at] == '\0') {
            return whim_rtree_fail(t, "a class is not closed: ] is missing");
        }
        int32_t lo = class_char(t), hi = lo;
        if (lo == -1) {
            return -1;
        }
        if (lo == -2) {
            continue;
        }
        if (t->pattern[t->at] == '-' && t->pattern[t->at + 1] != ']' &&
            t->pattern[t->at + 1] != '\0') {
            t->at++;
            hi = class_char(t);
            if (hi == -1) {
                return -1;
            }
            if (hi == -2) { /* [a-\d]: the dash is a character */
                whim_rtree_range(t, '-', '-');
                hi = lo;
            }
            if (hi < lo) {
                return whim_rtree_fail(t, "a range of a class ends before it begins");
            }
        }
        if (!whim_rtree_range(t, lo, hi)) {
            return -1;
        }
    }
    t->at++;
    return set_from(t, begin, invert);
}
