/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisers of tokenizer files: Unicode forms, replacing, prepending, lower case, stripping.
 *
 * A text may carry a mask, one byte for each byte of text, 1 where it came from a trusted span;
 * what becomes of a byte that was not trusted is not trusted, nor is anything it was joined with.
 * Invariants: linear time times a logarithm, also for long runs of combining marks.
 * Threads: a normaliser is read-only once built; a text belongs to one thread. */
#ifndef WHIM_TEXT_NORMALIZE_H
#define WHIM_TEXT_NORMALIZE_H

#include "base/err.h"
#include "base/str.h"
#include "text/regex.h"

typedef struct whim_masked_text {
    whim_str text;
    whim_str mask; /* as long as the text, or unused */
    bool has_mask;
    bool over;   /* something was left out because it would be longer than `max` */
    int64_t max; /* bytes; 0: any number */
} whim_masked_text;

void whim_masked_text_deinit(whim_masked_text *text);

typedef enum whim_normal_kind {
    WHIM_NORMAL_NFC,
    WHIM_NORMAL_NFD,
    WHIM_NORMAL_NFKC,
    WHIM_NORMAL_NFKD,
    WHIM_NORMAL_PREPEND,
    WHIM_NORMAL_REPLACE,
    WHIM_NORMAL_LOWERCASE,
    WHIM_NORMAL_STRIP,
} whim_normal_kind;

typedef struct whim_normal_step {
    whim_normal_kind kind;
    whim_regex *regex;   /* REPLACE: the pattern, or NULL for a literal one */
    const char *pattern; /* REPLACE: the literal */
    const char *content; /* PREPEND, REPLACE */
    bool left, right;    /* STRIP */
} whim_normal_step;

enum { WHIM_NORMAL_STEPS = 16 };

/* How long a text may become: so many times its length and some more. The forms of Unicode make
 * some characters 11 times as long; what replaces them comes out of a file. */
enum { WHIM_NORMAL_TIMES = 16, WHIM_NORMAL_MORE = 4096 };

typedef struct whim_normalizer {
    whim_normal_step steps[WHIM_NORMAL_STEPS];
    int32_t n_step;
} whim_normalizer;

void whim_normalizer_deinit(whim_normalizer *normalizer);

/* Normalise valid UTF-8 in place; `matcher` for regular expressions. A text that would become too
 * long is INVALID. */
WHIM_MUST_CHECK whim_err whim_normalize(const whim_normalizer *normalizer, whim_masked_text *text,
                                        whim_matcher *matcher, whim_diag *diag);

/* One Unicode form, appended to `out` (see unicode_form.c). */
WHIM_MUST_CHECK whim_err whim_unicode_form(whim_normal_kind kind, const whim_masked_text *in,
                                           whim_masked_text *out);

/* Append a part of a text with its trust. */
void whim_masked_copy(const whim_masked_text *in, int64_t begin, int64_t end,
                      whim_masked_text *out);

/* Append bytes that all have one trust. */
void whim_masked_append(whim_masked_text *to, const char *bytes, int64_t n, char trusted);

#endif
