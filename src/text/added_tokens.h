/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens that are matched in the text as a whole before anything else: leftmost, then longest.
 * Invariants: a search takes at most WHIM_ADDED_MAX_BYTES steps for each byte of text.
 * Threads: read-only once built. All memory is in the arena given. */
#ifndef WHIM_TEXT_ADDED_TOKENS_H
#define WHIM_TEXT_ADDED_TOKENS_H

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { WHIM_ADDED_MAX_BYTES = 1024 }; /* of one token */

typedef struct whim_added_token {
    const char *content; /* as it is looked for, normalised if the token wants that */
    int32_t id;
    bool single_word; /* only between characters that are no word characters */
    bool lstrip;      /* swallows the white space before it */
    bool rstrip;      /* and after it */
    bool plain;       /* ordinary text, which is looked for in bytes of any origin */
} whim_added_token;

typedef struct whim_added_node {
    int32_t child, sibling; /* -1: none */
    int32_t token;          /* index of the token that ends here, or -1 */
    uint8_t byte;
} whim_added_node;

typedef struct whim_added_set {
    const whim_added_token *tokens;
    int32_t n_token;
    whim_added_node *nodes; /* a trie; node 0 is the root */
    bool first[256];        /* bytes that a token starts with */
    bool has_plain;         /* one of them is */
} whim_added_set;

/* Build the trie of `n` tokens, which the caller keeps. The first of two equal contents wins. */
WHIM_MUST_CHECK whim_err whim_added_build(whim_added_set *set, whim_arena *arena,
                                          const whim_added_token *tokens, int32_t n);

/* Whether a token is ordinary text: neither special nor spelled as marks are. Letters and runs of
 * spaces are; <think> is not, although many files do not call it special. */
bool whim_added_is_plain(const char *content, bool special);

typedef struct whim_added_match {
    const whim_added_token *token;
    int64_t begin, end; /* with the white space that the token swallows */
} whim_added_match;

/* A walk over the matches of a text of `n` bytes, in order. A match is in bytes that are trusted,
 * or is plain: mask NULL trusts all, or none. */
typedef struct whim_added_iter {
    const whim_added_set *set;
    const char *text;
    const char *mask;
    bool none;
    int64_t n;
    int64_t at;   /* where to look on */
    int64_t done; /* the end of the last match */
} whim_added_iter;

bool whim_added_next(whim_added_iter *iter, whim_added_match *match);

#endif
