/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 and character classes. */
#include "text/utf8.h"

#include <string.h>
#include <utf8proc.h>

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
    switch (s[0]) {
    case 0xE0:
        low = 0xA0;
        break;
    case 0xED:
        high = 0x9F;
        break;
    case 0xF0:
        low = 0x90;
        break;
    case 0xF4:
        high = 0x8F;
        break;
    default:
        break;
    }
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
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xC0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xE0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3F));
        out[2] = (char)(0x80 | (cp & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3F));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3F));
    out[3] = (char)(0x80 | (cp & 0x3F));
    return 4;
}

bool whim_char_is_space(int32_t cp)
{
    return (cp >= 9 && cp <= 13) || cp == ' ' || cp == 0x85 || cp == 0xA0 || cp == 0x1680 ||
           (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 || cp == 0x202F ||
           cp == 0x205F || cp == 0x3000;
}

bool whim_char_is_word(int32_t cp)
{
    switch (utf8proc_category(cp)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        /* The joiners, and the letters in circles and squares, which are symbols by category. */
        return cp == 0x200C || cp == 0x200D || (cp >= 0x24B6 && cp <= 0x24E9) ||
               (cp >= 0x1F130 && cp <= 0x1F149) || (cp >= 0x1F150 && cp <= 0x1F169) ||
               (cp >= 0x1F170 && cp <= 0x1F189);
    }
}
