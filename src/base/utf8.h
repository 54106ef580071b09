/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8, one character at a time. Decoding follows the standard: no surrogates, no overlong forms,
 * nothing above U+10FFFF. */
#ifndef WHIM_BASE_UTF8_H
#define WHIM_BASE_UTF8_H

#include <stdbool.h>
#include <stdint.h>

/* What the first bytes of a text are. */
typedef enum whim_utf8_state {
    WHIM_UTF8_WHOLE, /* a character of *n bytes */
    WHIM_UTF8_SHORT, /* all bytes there could begin a character that is not complete */
    WHIM_UTF8_BAD,   /* *n bytes that can never become a character: one U+FFFD for them */
} whim_utf8_state;

/* Look at the `len` > 0 bytes at `text`; *cp is set for a whole character only. */
whim_utf8_state whim_utf8_next(const char *text, int64_t len, int32_t *n, int32_t *cp);

/* Bytes of the character at `text`, of which `left` bytes are there; 0 when it is none, or not
 * whole. */
static inline int32_t whim_utf8_char_length(const char *text, int64_t left)
{
    int32_t n, cp;
    return left > 0 && whim_utf8_next(text, left, &n, &cp) == WHIM_UTF8_WHOLE ? n : 0;
}

/* The first byte that is not part of valid UTF-8, or `len` when all of it is. */
int64_t whim_utf8_valid_prefix(const char *text, int64_t len);

/* Bytes of the character whose first byte is `first`, in text known to be valid. */
static inline int32_t whim_utf8_len(char first)
{
    uint8_t c = (uint8_t)first;
    return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

/* Decode one character of valid text. */
static inline int32_t whim_utf8_decode(const char *text, int32_t n)
{
    const uint8_t *s = (const uint8_t *)text;
    switch (n) {
    case 1:
        return s[0];
    case 2:
        return (s[0] & 0x1F) << 6 | (s[1] & 0x3F);
    case 3:
        return (s[0] & 0x0F) << 12 | (s[1] & 0x3F) << 6 | (s[2] & 0x3F);
    default:
        return (s[0] & 0x07) << 18 | (s[1] & 0x3F) << 12 | (s[2] & 0x3F) << 6 | (s[3] & 0x3F);
    }
}

/* Write the character to out[4]; returns its bytes. */
int32_t whim_utf8_encode(int32_t cp, char *out);

/* The start of the character that ends at `end` > 0, in valid text. */
static inline int64_t whim_utf8_before(const char *text, int64_t end)
{
    do {
        end--;
    } while (end > 0 && ((uint8_t)text[end] & 0xC0) == 0x80);
    return end;
}

bool whim_char_is_space(int32_t cp); /* Unicode White_Space */

/* Where the white space at `at` ends, before `end`; and where that which ends at `end` begins, not
 * before `at`. In valid text. */
int64_t whim_utf8_skip_space(const char *text, int64_t at, int64_t end);
int64_t whim_utf8_space_before(const char *text, int64_t at, int64_t end);

/* Blanks of JSON. */
static inline bool whim_is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

#endif
