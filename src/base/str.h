/* SPDX-License-Identifier: Apache-2.0 */
/* A growing text, sizes as people write them, how far names are apart, and hexadecimal digits. A
 * failed growth is remembered: later appends do nothing and take gives NULL, so that a long row of
 * appends needs one look at the end.
 * Threads: a whim_str belongs to one thread at a time. */
#ifndef WHIM_BASE_STR_H
#define WHIM_BASE_STR_H

#include "base/err.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

/* Caller's storage; {0} is an empty text. */
typedef struct whim_str {
    char *text;  /* NUL-terminated once something was appended, else NULL */
    int64_t len; /* without the NUL; the text may hold NULs itself */
    int64_t cap;
    bool failed; /* memory ran out; the text is incomplete */
} whim_str;

void whim_str_deinit(whim_str *str);

void whim_str_append(whim_str *str, const char *text);
void whim_str_append_n(whim_str *str, const char *bytes, int64_t n);
void whim_str_append_char(whim_str *str, char c);
void whim_str_printf(whim_str *str, const char *fmt, ...) WHIM_PRINTF(2, 3);
void whim_str_vprintf(whim_str *str, const char *fmt, va_list ap) WHIM_PRINTF(2, 0);

/* Empty the text but keep its memory; a remembered failure is forgotten. */
void whim_str_clear(whim_str *str);

/* The text as it is, "" when empty; valid until the next change. */
const char *whim_str_text(const whim_str *str);

/* Hand the text over, to be freed with whim_free, and start empty; NULL when an append failed. */
char *whim_str_take(whim_str *str);

/* Bytes for people: "0 B", "1023 B", "1.25 GiB". */
void whim_format_bytes(char *buf, int64_t n, int64_t bytes);

/* The reverse: a number, at most one point, then nothing or B, K, M, G, T (also Ki, KiB: powers of
 * 1024) or KB, MB, GB, TB (powers of 1000), in any case: "512M", "1.5 GiB", "2GB". */
WHIM_MUST_CHECK whim_err whim_parse_bytes(const char *text, int64_t *out, whim_diag *diag);

/* Letters to insert, delete, replace or swap with their neighbour until a is b; a text of more
 * bytes than WHIM_EDIT_FAR is so far from all. */
enum { WHIM_EDIT_FAR = 64 };
int32_t whim_edit_distance(const char *a, const char *b);

/* The place, from 0, of a word of n bytes among words with single spaces between them; -1: it is
 * none of them. */
int32_t whim_word_place(const char *words, const char *word, int64_t n);

/* What a hexadecimal digit stands for, in any case; -1: it is none. */
int whim_hex_value(char c);

#endif
