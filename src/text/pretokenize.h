/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting a text into the pieces that the model sees one by one. A pre-tokeniser is a list of
 * steps; each looks at every piece of the step before it as if that were the whole text.
 * Threads: read-only once built; a piece list belongs to one thread. */
#ifndef WHIM_TEXT_PRETOKENIZE_H
#define WHIM_TEXT_PRETOKENIZE_H

#include "base/err.h"
#include "base/str.h"
#include "text/regex.h"

typedef enum whim_split_behavior {
    WHIM_SPLIT_ISOLATED,
    WHIM_SPLIT_REMOVED,
    WHIM_SPLIT_WITH_PREVIOUS,
    WHIM_SPLIT_WITH_NEXT,
    WHIM_SPLIT_CONTIGUOUS,
} whim_split_behavior;

typedef enum whim_pre_kind {
    WHIM_PRE_SPLIT,      /* cut at the matches of a pattern */
    WHIM_PRE_PREFIX,     /* put `content` in front of a piece that does not start with it */
    WHIM_PRE_BYTE_LEVEL, /* write the bytes in the byte-level alphabet */
    WHIM_PRE_REPLACE,    /* spaces become `content` */
} whim_pre_kind;

typedef struct whim_pre_step {
    whim_pre_kind kind;
    whim_regex *regex; /* SPLIT; NULL: `content` is the literal to look for */
    const char *content;
    whim_split_behavior behavior;
    bool invert;     /* SPLIT: what lies between the matches is the match */
    bool first_only; /* PREFIX: only the piece at the very start of the input */
} whim_pre_step;

enum { WHIM_PRE_STEPS = 32 };

typedef struct whim_pretokenizer {
    whim_pre_step steps[WHIM_PRE_STEPS];
    int32_t n_step;
} whim_pretokenizer;

void whim_pretokenizer_deinit(whim_pretokenizer *pre);

/* The pieces of a text: ranges in `text`. {0} is empty. */
typedef struct whim_pieces {
    whim_str text;
    whim_match *ranges;
    int64_t n, cap;
} whim_pieces;

void whim_pieces_deinit(whim_pieces *pieces);

/* Cut `n` > 0 bytes of valid UTF-8. A text that would become too long (WHIM_NORMAL_TIMES) is
 * INVALID. `at_start`: they are the start of the input. `pieces` may hold
 * the result of an earlier call, whose memory is used again. */
WHIM_MUST_CHECK whim_err whim_pretokenize(const whim_pretokenizer *pre, const char *text, int64_t n,
                                          bool at_start, whim_matcher *matcher, whim_pieces *pieces,
                                          whim_diag *diag);

#endif
