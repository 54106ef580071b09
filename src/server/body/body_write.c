/* SPDX-License-Identifier: Apache-2.0 */
/* Writing JSON: strings, values, numbers, ids. */
#include "base/check.h"
#include "base/utf8.h"
#include "server/body/body.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

void whim_put_text(whim_str *out, const char *text, int64_t n)
{
    whim_str_append_char(out, '"');
    while (n > 0) {
        int64_t valid = whim_utf8_valid_prefix(text, n);
        whim_json_write_escaped(out, text, valid);
        text += valid;
        n -= valid;
        if (n > 0) {
            int32_t bad = 1, cp;
            if (whim_utf8_next(text, n, &bad, &cp) != WHIM_UTF8_BAD) {
                bad = (int32_t)n; /* a character that the end cut off */
            }
            whim_str_append(out, "\xEF\xBF\xBD");
            text += bad;
            n -= bad;
        }
    }
    whim_str_append_char(out, '"');
}

void whim_put_cstr(whim_str *out, const char *text)
{
    if (text == NULL) {
        whim_str_append(out, "null");
    } else {
        whim_put_text(out, text, (int64_t)strlen(text));
    }
}

void whim_put_json(whim_str *out, const json_t *value)
{
    if (value == NULL) {
        whim_str_append(out, "null");
    } else {
        whim_json_write(out, value);
    }
}

void whim_put_real(whim_str *out, double value)
{
    /* JSON has no infinity; -9999 is what clients of this protocol know for it. */
    if (!isfinite(value)) {
        whim_str_append(out, "-9999.0");
    } else {
        char text[32];
        int n = snprintf(text, sizeof text, "%.9g", value); /* once: answers may hold a million */
        whim_str_append_n(out, text, n);
    }
}

static void put_one(whim_str *out, char what, va_list *ap)
{
    const char *text;
    const whim_str *str;
    switch (what) {
    case 's':
        whim_str_append(out, va_arg(*ap, const char *));
        break;
    case 'q':
        whim_put_cstr(out, va_arg(*ap, const char *));
        break;
    case 'n':
        text = va_arg(*ap, const char *);
        whim_put_text(out, text, va_arg(*ap, int64_t));
        break;
    case 'd':
        whim_str_printf(out, "%d", va_arg(*ap, int32_t));
        break;
    case 'l':
        whim_str_printf(out, "%" PRId64, va_arg(*ap, int64_t));
        break;
    case 'r':
        whim_put_real(out, va_arg(*ap, double));
        break;
    case 't':
        str = va_arg(*ap, const whim_str *);
        whim_put_text(out, whim_str_text(str), str->len);
        out->failed |= str->failed;
        break;
    case 'j':
        whim_put_json(out, va_arg(*ap, const json_t *));
        break;
    default:
        whim_assert(false);
    }
}

void whim_put_form(whim_str *out, const char *form, ...)
{
    va_list ap;
    va_start(ap, form);
    for (const char *at = form; *at != '\0'; at++) {
        size_t plain = strcspn(at, "'%");
        whim_str_append_n(out, at, (int64_t)plain);
        at += plain;
        if (*at == '\'') {
            whim_str_append_char(out, '"');
        } else if (*at == '%') {
            put_one(out, *++at, &ap);
        } else {
            break;
        }
    }
    va_end(ap);
}

void whim_make_id(char *out, const char *prefix)
{
    static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    uint8_t bytes[64] = {0};
    int n = snprintf(out, 24, "%s", prefix);
    int made = 0;
    while (made < 24) {
        if (getrandom(bytes, sizeof bytes, 0) < 0) {
            continue; /* a signal came */
        }
        for (size_t i = 0; i < sizeof bytes && made < 24; i++) {
            if (bytes[i] < 248) { /* 4 * 62: every letter as likely */
                out[n + made++] = letters[bytes[i] % 62];
            }
        }
    }
    out[n + made] = '\0';
}
