/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, names and strings in the source of a template. */
#include "base/str.h"
#include "jinja/ast.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits of a base with single underscores between them; returns where they end. */
static int64_t digits_end(const char *s, int64_t n, int64_t at, const char *digits)
{
    while (at < n) {
        int64_t next = at + (s[at] == '_');
        if (next >= n || s[next] == '\0' || strchr(digits, s[next]) == NULL) {
            break;
        }
        at = next + 1;
    }
    return at;
}

/* Where a float that starts at `at` ends, or -1. */
static int64_t float_end(const char *s, int64_t n, int64_t at)
{
    static const char dec[] = "0123456789";
    if (at > 0 && s[at - 1] == '.') {
        return -1;
    }
    int64_t end = digits_end(s, n, at, dec);
    bool is_float = false;
    if (end + 1 < n && s[end] == '.' && is_digit(s[end + 1])) {
        end = digits_end(s, n, end + 1, dec);
        is_float = true;
    }
    if (end < n && (s[end] == 'e' || s[end] == 'E')) {
        int64_t exp = end + 1;
        exp += exp < n && (s[exp] == '+' || s[exp] == '-');
        if (exp < n && is_digit(s[exp])) {
            end = digits_end(s, n, exp, dec);
            is_float = true;
        }
    }
    return is_float ? end : -1;
}

static int64_t int_end(const char *s, int64_t n, int64_t at, int *base)
{
    char kind = at + 1 < n ? (char)(s[at + 1] | 0x20) : '\0';
    *base = s[at] != '0' ? 10 : kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
    if (*base != 10) {
        static const char hex[] = "0123456789abcdefABCDEF";
        char digits[sizeof hex];
        memcpy(digits, hex, sizeof hex);
        digits[*base == 16 ? 22 : *base] = '\0';
        int64_t end = digits_end(s, n, at + 2, digits);
        if (end > at + 2) {
            return end;
        }
        *base = 10;
    }
    return s[at] == '0' ? digits_end(s, n, at, "0") : digits_end(s, n, at, "0123456789");
}

bool whim_jlex_number(whim_jinja *j, const char *s, int64_t n, int64_t *at, whim_jval *v)
{
    if (!is_digit(s[*at])) {
        return false;
    }
    int base = 0;
    int64_t end = float_end(s, n, *at), from = *at;
    bool is_float = end >= 0;
    if (!is_float) {
        end = int_end(s, n, from, &base);
    }
    if (end - from > 400) {
        whim_jinja_fail(j, "a number of more than 400 characters");
    }
    char text[404];
    int len = 0;
    for (int64_t i = from + (base != 10 && !is_float ? 2 : 0); i < end; i++) {
        if (s[i] != '_') {
            text[len++] = s[i];
        }
    }
    text[len] = '\0';
    *at = end;
    if (is_float) {
        *v = whim_jval_float(strtod(text, NULL), true);
        return true;
    }
    int64_t value = 0;
    for (int i = 0; i < len; i++) {
        if (__builtin_mul_overflow(value, base, &value) ||
            __builtin_add_overflow(value, whim_hex_value(text[i]), &value)) {
            whim_jinja_fail(j, "the number %s does not fit into 64 bits", text);
        }
    }
    *v = whim_jval_int(value, true);
    return true;
}

static bool is_name_char(int32_t c, bool first)
{
    if (c < 128) {
        return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               (!first && c >= '0' && c <= '9');
    }
    utf8proc_category_t cat = utf8proc_category(c);
    return (cat >= UTF8PROC_CATEGORY_LU && cat <= UTF8PROC_CATEGORY_LO) ||
           (!first && (cat == UTF8PROC_CATEGORY_MN || cat == UTF8PROC_CATEGORY_MC ||
                       cat == UTF8PROC_CATEGORY_ND));
}

bool whim_jlex_name(whim_jinja *j, const char *s, int64_t n, int64_t *at, whim_jval *v)
{
    int64_t end = *at;
    while (end < n) {
        int64_t next = end;
        if (!is_name_char(whim_jutf8_next(s, n, &next), end == *at)) {
            break;
        }
        end = next;
    }
    if (end == *at) {
        return false;
    }
    *v = whim_jval_str(j, s + *at, end - *at, true);
    *at = end;
    return true;
}

/* `count` hexadecimal digits at `at`. */
static int64_t hex(whim_jinja *j, const char *s, int64_t n, int64_t at, int count)
{
    int64_t value = 0;
    for (int i = 0; i < count; i++) {
        int digit = at + i < n ? whim_hex_value(s[at + i]) : -1;
        if (digit < 0) {
            whim_jinja_fail(j, "an escape in a string lacks digits: expected %d hexadecimal ones",
                            count);
        }
        value = value * 16 + digit;
    }
    return value;
}

static int64_t unescape_hex(whim_jinja *j, const char *s, int64_t n, int64_t at, whim_jbuf *buf)
{
    int count = s[at] == 'x' ? 2 : s[at] == 'u' ? 4 : 8;
    int64_t c = hex(j, s, n, at + 1, count);
    at += 1 + count;
    if (c >= 0xd800 && c < 0xdc00 && at + 5 < n && s[at] == '\\' && s[at + 1] == 'u') {
        int64_t low = hex(j, s, n, at + 2, 4);
        if (low >= 0xdc00 && low < 0xe000) {
            c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
            at += 6;
        }
    }
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) {
        whim_jinja_fail(j, "an escape in a string is not a character");
    }
    whim_jbuf_add_char(j, buf, (int32_t)c, true);
    return at;
}

/* The escape whose letter is at `at`; returns where it ends. */
static int64_t unescape(whim_jinja *j, const char *s, int64_t n, int64_t at, whim_jbuf *buf)
{
    static const char letters[] = "nrtabfv\\'\"", values[] = "\n\r\t\a\b\f\v\\'\"";
    char c = s[at];
    const char *known = c == '\0' ? NULL : strchr(letters, c);
    if (known != NULL) {
        whim_jbuf_add(j, buf, &values[known - letters], 1, true);
        return at + 1;
    }
    if (c == 'x' || c == 'u' || c == 'U') {
        return unescape_hex(j, s, n, at, buf);
    }
    if (c == '\n') {
        return at + 1;
    }
    if (c >= '0' && c <= '7') {
        int32_t value = 0, count = 0;
        for (; count < 3 && at < n && s[at] >= '0' && s[at] <= '7'; count++) {
            value = value * 8 + (s[at++] - '0');
        }
        whim_jbuf_add_char(j, buf, value, true);
        return at;
    }
    if (c == 'N') {
        whim_jinja_fail(j, "names of characters (\\N) are not supported in strings");
    }
    whim_jbuf_add(j, buf, "\\", 1, true);
    return at;
}

bool whim_jlex_string(whim_jinja *j, const char *s, int64_t n, int64_t *at, whim_jval *v)
{
    char quote = s[*at];
    if (quote != '\'' && quote != '"') {
        return false;
    }
    int64_t end = *at + 1;
    while (end < n && s[end] != quote) {
        end += s[end] == '\\' ? 2 : 1;
    }
    if (end >= n) {
        whim_jinja_fail(j, "the string that begins here has no end: expected %c", quote);
    }
    whim_jbuf buf = {0};
    for (int64_t i = *at + 1; i < end;) {
        const char *escape = memchr(s + i, '\\', (size_t)(end - i));
        int64_t plain = escape == NULL ? end : escape - s;
        whim_jbuf_add(j, &buf, s + i, plain - i, true);
        i = escape == NULL ? end : unescape(j, s, end, plain + 1, &buf);
    }
    *v = whim_jbuf_take(j, &buf);
    *at = end + 1;
    return true;
}
