/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions of tokenizer files, run by PCRE2. The files are written for another engine
 * (Oniguruma), so a pattern is first rewritten where the two read the same text differently: the
 * classes \s \w \h, property names, line anchors, and a plus after an interval. What cannot be
 * rewritten is refused.
 *
 * Invariants: a match never runs past a fixed number of backtracks; past it the search is an error.
 * Threads: a compiled pattern is shared; a matcher belongs to one thread. */
#ifndef WHIM_TEXT_REGEX_H
#define WHIM_TEXT_REGEX_H

#include "base/err.h"
#include "base/str.h"

typedef struct pcre2_real_code_8 whim_regex; /* a pcre2_code */
typedef struct whim_matcher whim_matcher;

/* Rewrite a pattern for PCRE2. The diag says what is not supported, without file or field. */
WHIM_MUST_CHECK whim_err whim_regex_translate(const char *pattern, whim_str *out, whim_diag *diag);

/* Rewrite and compile. The diag says what is wrong with the pattern, without file or field. */
WHIM_MUST_CHECK whim_err whim_regex_compile(const char *pattern, whim_regex **out, whim_diag *diag);
void whim_regex_free(whim_regex *regex);

/* Whether it was compiled to machine code. Where memory may not be executed it is interpreted:
 * slower, same matches. */
bool whim_regex_has_jit(const whim_regex *regex);

/* The working memory of searches. */
WHIM_MUST_CHECK whim_err whim_matcher_create(whim_matcher **out);
void whim_matcher_free(whim_matcher *matcher);

typedef struct whim_match {
    int64_t begin, end;
} whim_match;

/* The first match at or after `from` in `n` bytes of valid UTF-8; *found tells. */
WHIM_MUST_CHECK whim_err whim_regex_find(const whim_regex *regex, whim_matcher *matcher,
                                         const char *text, int64_t n, int64_t from, bool *found,
                                         whim_match *match, whim_diag *diag);

/* The same for a pattern that is a regular expression or, where that is NULL, a literal text. */
WHIM_MUST_CHECK whim_err whim_pattern_find(const whim_regex *regex, const char *literal,
                                           whim_matcher *matcher, const char *text, int64_t n,
                                           int64_t from, bool *found, whim_match *match,
                                           whim_diag *diag);

#endif
