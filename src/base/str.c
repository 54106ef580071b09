/* SPDX-License-Identifier: Apache-2.0 */
/* Text building and sizes. */
#include "base/str.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Make room for n more bytes and a NUL. */
static bool str_reserve(whim_str *str, int64_t n)
{
    int64_t need;
    str->failed = str->failed || __builtin_add_overflow(str->len, n, &need) || need == INT64_MAX ||
                  !whim_grow(&str->text, need + 1, &str->cap, 1);
    return !str->failed;
}

void whim_str_deinit(whim_str *str)
{
    whim_free(str->text);
    *str = (whim_str){0};
}

void whim_str_append_n(whim_str *str, const char *bytes, int64_t n)
{
    if (n <= 0 || !str_reserve(str, n)) {
        return;
    }
    memcpy(str->text + str->len, bytes, (size_t)n);
    str->len += n;
    str->text[str->len] = '\0';
}

void whim_str_append(whim_str *str, const char *text)
{
    whim_str_append_n(str, text, (int64_t)strlen(text));
}

void whim_str_append_char(whim_str *str, char c)
{
    whim_str_append_n(str, &c, 1);
}

void whim_str_vprintf(whim_str *str, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n < 0) {
        str->failed = true;
    } else if (str_reserve(str, n)) {
        vsnprintf(str->text + str->len, (size_t)n + 1, fmt, again);
        str->len += n;
    }
    va_end(again);
}

void whim_str_printf(whim_str *str, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    whim_str_vprintf(str, fmt, ap);
    va_end(ap);
}

void whim_str_clear(whim_str *str)
{
    str->len = 0;
    str->failed = false;
    if (str->text != NULL) {
        str->text[0] = '\0';
    }
}

const char *whim_str_text(const whim_str *str)
{
    return str->text != NULL ? str->text : "";
}

char *whim_str_take(whim_str *str)
{
    char *text = NULL;
    if (str_reserve(str, 0)) {
        text = str->text;
        str->text = NULL;
    }
    whim_str_deinit(str);
    return text;
}

void whim_format_bytes(char *buf, int64_t n, int64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024 && bytes > -1024) {
        snprintf(buf, (size_t)n, "%lld B", (long long)bytes);
        return;
    }
    double value = (double)bytes / 1024;
    int unit = 0;
    /* 1023.995 would print as 1024.00. */
    while ((value >= 1023.995 || value <= -1023.995) && unit < 5) {
        value /= 1024;
        unit++;
    }
    snprintf(buf, (size_t)n, "%.2f %s", value, units[unit]);
}

/* The factor of a unit, or 0. */
static int64_t unit_factor(const char *unit)
{
    static const char letters[] = "KMGT";
    if (unit[0] == '\0' || strcasecmp(unit, "B") == 0) {
        return 1;
    }
    for (int i = 0; letters[i] != '\0'; i++) {
        char binary[] = {letters[i], 'i', 'B', '\0'};
        char decimal[] = {letters[i], 'B', '\0'};
        bool is_decimal = strcasecmp(unit, decimal) == 0;
        if (is_decimal || (strncasecmp(unit, binary, strlen(unit)) == 0)) {
            int64_t factor = 1;
            for (int j = 0; j <= i; j++) {
                factor *= is_decimal ? 1000 : 1024;
            }
            return factor;
        }
    }
    return 0;
}

whim_err whim_parse_bytes(const char *text, int64_t *out, whim_diag *diag)
{
    const char *at = text + strspn(text, " ");
    const char *digits = at;
    int64_t whole = 0;
    bool too_big = false;
    for (; *at >= '0' && *at <= '9'; at++) {
        too_big |= __builtin_mul_overflow(whole, 10, &whole) ||
                   __builtin_add_overflow(whole, *at - '0', &whole);
    }
    int64_t n_digit = at - digits;
    double fraction = 0;
    if (*at == '.') {
        double place = 1;
        for (at++; *at >= '0' && *at <= '9'; at++) {
            place /= 10;
            fraction += place * (*at - '0');
            n_digit++;
        }
    }
    at += strspn(at, " ");
    int64_t factor = unit_factor(at);
    if (n_digit == 0 || factor == 0) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "\"%s\" is not a size; write a number and a unit, such as 512M or 1.5GiB",
                         text);
    }
    int64_t bytes;
    if (too_big || __builtin_mul_overflow(whole, factor, &bytes) ||
        __builtin_add_overflow(bytes, (int64_t)(fraction * (double)factor), &bytes)) {
        return whim_fail(diag, WHIM_ERR_INVALID, "\"%s\" is more than 2^63 bytes", text);
    }
    *out = bytes;
    return WHIM_ERR_OK;
}

int32_t whim_edit_distance(const char *a, const char *b)
{
    enum { FAR = WHIM_EDIT_FAR };
    uint8_t cost[FAR + 1][FAR + 1];
    int32_t na = (int32_t)strnlen(a, FAR + 1), nb = (int32_t)strnlen(b, FAR + 1);
    if (na > FAR || nb > FAR) {
        return FAR;
    }
    for (int32_t i = 0; i <= na; i++) {
        for (int32_t j = 0; j <= nb; j++) {
            int32_t best = i + j;
            if (i > 0 && j > 0) {
                best = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
                best = cost[i - 1][j] + 1 < best ? cost[i - 1][j] + 1 : best;
                best = cost[i][j - 1] + 1 < best ? cost[i][j - 1] + 1 : best;
            }
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                best = cost[i - 2][j - 2] + 1 < best ? cost[i - 2][j - 2] + 1 : best;
            }
            cost[i][j] = (uint8_t)best;
        }
    }
    return cost[na][nb];
}

int whim_hex_value(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

int32_t whim_word_place(const char *words, const char *word, int64_t n)
{
    for (int32_t place = 0; *words != '\0'; place++) {
        size_t len = strcspn(words, " ");
        if ((int64_t)len == n && memcmp(words, word, len) == 0) {
            return place;
        }
        words += len + (words[len] == ' ');
    }
    return -1;
}
