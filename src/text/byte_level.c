/* SPDX-License-Identifier: Apache-2.0 */
/* The alphabet of byte-level vocabularies. */
#include "text/byte_level.h"

#include "base/utf8.h"

/* The three runs of bytes that are not printable: 00-20, 7F-A0, AD. */
int32_t whim_byte_level_char(uint8_t byte)
{
    if (byte <= 0x20) {
        return 0x100 + byte;
    }
    if (byte >= 0x7F && byte <= 0xA0) {
        return 0x121 + (byte - 0x7F);
    }
    return byte == 0xAD ? 0x143 : byte;
}

/* The byte that a character stands for, or -1. */
static int32_t byte_of(int32_t cp)
{
    if (cp >= 0x100 && cp < WHIM_BYTE_LEVEL_END) {
        return cp <= 0x120 ? cp - 0x100 : cp == 0x143 ? 0xAD : cp - 0x121 + 0x7F;
    }
    return cp > 0x20 && cp < 0x100 && whim_byte_level_char((uint8_t)cp) == cp ? cp : -1;
}

void whim_byte_level_write(whim_str *out, const char *bytes, int64_t n)
{
    char buf[512];
    int32_t used = 0;
    for (int64_t i = 0; i < n; i++) {
        used += whim_utf8_encode(whim_byte_level_char((uint8_t)bytes[i]), buf + used);
        if (used > (int32_t)sizeof buf - 4) {
            whim_str_append_n(out, buf, used);
            used = 0;
        }
    }
    whim_str_append_n(out, buf, used);
}

int64_t whim_byte_level_read(const char *text, int64_t n, char *out)
{
    int64_t used = 0;
    for (int64_t i = 0; i < n;) {
        int32_t len = whim_utf8_len(text[i]);
        int32_t byte = byte_of(whim_utf8_decode(text + i, len));
        if (byte < 0) {
            return -1;
        }
        out[used++] = (char)byte;
        i += len;
    }
    return used;
}
