/* SPDX-License-Identifier: Apache-2.0 */
/* Writing JSON: strings, values, numbers, ids. */
#include "base/utf8.h"
#include "server/body/body.h"

#include <math.h>
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
