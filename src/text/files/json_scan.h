/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the two large parts of a tokenizer.json, vocabulary and merges, without building a
 * document of them: that would take most of the time of opening a tokenizer. The rest of the file
 * goes through the ordinary JSON reader.
 * Invariants: strings that come out are valid UTF-8 without NUL; every position is inside the text.
 * Threads: a scan belongs to one thread. */
#ifndef WHIM_TEXT_FILES_JSON_SCAN_H
#define WHIM_TEXT_FILES_JSON_SCAN_H

#include "base/err.h"
#include "base/str.h"

typedef struct whim_json_scan {
    const char *text;
    int64_t at, end;
    const char *path;
    const char *field; /* for messages; NULL: the whole file */
    whim_diag *diag;
} whim_json_scan;

/* The file with "model.vocab" and "model.merges" cut out (an empty object and array in their
 * place), and where those are. A field that is not there has end 0. */
typedef struct whim_json_cut {
    whim_str rest;
    int64_t vocab, vocab_end;
    int64_t merges, merges_end;
} whim_json_cut;

WHIM_MUST_CHECK whim_err whim_json_cut_model(const char *text, int64_t n, const char *path,
                                             whim_json_cut *cut, whim_diag *diag);

/* The next byte that is not white space, or 0 at the end. */
char whim_json_peek(whim_json_scan *scan);

/* Take the byte if it comes next. */
bool whim_json_take(whim_json_scan *scan, char c);

/* Fail at the current position: "expected ...". */
whim_err whim_json_unexpected(const whim_json_scan *scan, const char *expected);

/* A string, its escapes resolved, into `out`, which has room for as many bytes as are left of the
 * text; a NUL is put after it. */
WHIM_MUST_CHECK whim_err whim_json_scan_string(whim_json_scan *scan, char *out, int64_t *n);

/* A number or another word such as null, as it is written, or the first bytes of a long one: how
 * many they are. */
int32_t whim_json_scan_word(whim_json_scan *scan, const char **word);

#endif
