/* SPDX-License-Identifier: Apache-2.0 */
/* The vocabulary: ids and what they stand for. A token has its text as the file spells it (what the
 * model matches) and its bytes (what it prints).
 *
 * Invariants once indexed:
 *  1. every text of a token is valid UTF-8;
 *  2. `find` gives the lowest id of a text.
 * Threads: built by one thread, then read-only. All memory is in the arena given. */
#ifndef WHIM_TEXT_VOCAB_H
#define WHIM_TEXT_VOCAB_H

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define WHIM_SPACE_MARK "\xE2\x96\x81" /* U+2581, which stands for a space */

enum { WHIM_VOCAB_MAX = 1 << 22 }; /* ids; the largest published vocabularies have 2^18 */

enum {
    WHIM_TOKEN_PRESENT = 1,
    WHIM_TOKEN_SPECIAL = 2, /* hidden from plain output */
    WHIM_TOKEN_ADDED = 4,   /* matched in the text as a whole, never made by merges */
    WHIM_TOKEN_BYTE = 8,    /* <0xXX>: stands for one byte */
    WHIM_TOKEN_UNUSED = 16, /* a padding row: never matched */
};

typedef struct whim_token {
    const char *text; /* NUL-terminated */
    const char *bytes;
    int32_t n_text, n_bytes;
    int32_t flags;
} whim_token;

typedef struct whim_vocab {
    whim_token *tokens; /* by id; those without PRESENT are gaps */
    int32_t count;
    int32_t max_text; /* bytes of the longest text */
    int32_t *index;   /* open addressing by text; -1 is empty */
    uint32_t mask;
} whim_vocab;

/* Room for ids 0 to count - 1. */
WHIM_MUST_CHECK whim_err whim_vocab_init(whim_vocab *vocab, whim_arena *arena, int32_t count);

/* Give an id its text, which the caller keeps (or which is in the arena) and which ends with a NUL;
 * its bytes are the text until they are set otherwise. */
void whim_vocab_set(whim_vocab *vocab, int32_t id, const char *text, int32_t n, int32_t flags);

/* Build the index; call once, when all ids are set. */
WHIM_MUST_CHECK whim_err whim_vocab_index(whim_vocab *vocab, whim_arena *arena);

/* The id of a text, or -1. */
int32_t whim_vocab_find(const whim_vocab *vocab, const char *text, int64_t n);

/* The id of the text <0xXX> for a byte, or -1. */
int32_t whim_vocab_find_byte(const whim_vocab *vocab, uint8_t byte);

/* How the texts become bytes. */
typedef enum whim_decoder {
    WHIM_DECODER_RAW,        /* the text itself */
    WHIM_DECODER_BYTE_LEVEL, /* see byte_level.h */
    WHIM_DECODER_SPACE_MARK, /* U+2581 is a space */
} whim_decoder;

/* Set the bytes of all tokens; `byte_tokens`: <0xXX> is a byte. Added tokens print as spelled. */
WHIM_MUST_CHECK whim_err whim_vocab_decode(whim_vocab *vocab, whim_arena *arena, whim_decoder how,
                                           bool byte_tokens);

#endif
