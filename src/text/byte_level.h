/* SPDX-License-Identifier: Apache-2.0 */
/* The alphabet of byte-level vocabularies: each of the 256 bytes is written as one printable
 * character. Printable bytes of Latin-1 stand for themselves, the others for U+0100 and on, in
 * order.
 * Threads: stateless. */
#ifndef WHIM_TEXT_BYTE_LEVEL_H
#define WHIM_TEXT_BYTE_LEVEL_H

#include "base/str.h"

enum { WHIM_BYTE_LEVEL_END = 0x144 }; /* no character of the alphabet is this or above */

/* The character that stands for a byte. */
int32_t whim_byte_level_char(uint8_t byte);

/* Append `n` bytes in the alphabet. */
void whim_byte_level_write(whim_str *out, const char *bytes, int64_t n);

/* Turn valid UTF-8 in the alphabet back to bytes at `out` (room for n); -1 if a character is not of
 * the alphabet, else how many bytes. */
int64_t whim_byte_level_read(const char *text, int64_t n, char *out);

#endif
