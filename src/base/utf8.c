/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 and white space. */
#include "base/utf8.h"

#include <string.h>

whim_utf8_state whim_utf8_next(const char *text, int64_t len, int32_t *n, int32_t *cp)
{
    const uint8_t *s = (const uint8_t *)text;
    uint8_t low = 0x80, high = 0xBF; /* the bounds of the second byte */
    *n = 1;
    if (s[0] < 0x80) {
        *cp = s[0];
        return WHIM_UTF8_WHOLE;
    }
    if (s[0] < 0xC2 || s[0] > 0xF4) {
        return WHIM_UTF8_BAD;
    }
    int32_t want = s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    low = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : low;
    high = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : high;
    for (int32_t i = 1; i < want; i++) {
        if (i >= len) {
            return WHIM_UTF8_SHORT;
        }
        if (s[i] < low || s[i] > high) {
            *n = i;
            return WHIM_UTF8_BAD;
        }
        low = 0x80;
        high = 0xBF;
    }
    *n = want;
    *cp = whim_utf8_decode(text, want);
    return WHIM_UTF8_WHOLE;
}

int64_t whim_utf8_valid_prefix(const char *text, int64_t len)
{
    int64_t at = 0;
    while (at < len) {
        uint64_t word;
        if (len - at >= 8 && (memcpy(&word, text + at, 8), (word & 0x8080808080808080u) == 0)) {
            at += 8;
            continue;
        }
        int32_t n, cp;
        if (whim_utf8_next(text + at, len - at, &n, &cp) != WHIM_UTF8_WHOLE) {
            return at;
        }
        at += n;
    }
    return len;
}

int32_t whim_utf8_encode(int32_t cp, char *out)
{
    static const uint8_t heads[] = {0, 0, 0xC0, 0xE0, 0xF0};
    int32_t n = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (int32_t i = n - 1; i > 0; i--, cp >>= 6) {
        out[i] = (char)(0x80 | (cp & 0x3F));
    }
    out[0] = (char)(heads[n] | cp);
    return n;
}

bool whim_char_is_space(int32_t cp)
{
    return (cp >= 9 && cp <= 13) || cp == ' ' || cp == 0x85 || cp == 0xA0 || cp == 0x1680 ||
           (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 || cp == 0x202F ||
           cp == 0x205F || cp == 0x3000;
}

int64_t whim_utf8_skip_space(const char *text, int64_t at, int64_t end)
{
    while (at < end) {
        int32_t len = whim_utf8_len(text[at]);
        if (!whim_char_is_space(whim_utf8_decode(text + at, len))) {
            break;
        }
        at += len;
    }
    return at;
}

int64_t whim_utf8_space_before(const char *text, int64_t at, int64_t end)
{
    while (end > at) {
        int64_t last = whim_utf8_before(text, end);
        if (!whim_char_is_space(whim_utf8_decode(text + last, (int32_t)(end - last)))) {
            break;
        }
        end = last;
    }
    return end;
}
