/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens to text, one at a time, never half a character: bytes of an unfinished character are held
 * back until it is whole; bytes that can never become one come out as U+FFFD.
 * Threads: one owner. */
#ifndef WHIM_TEXT_DETOKENIZER_H
#define WHIM_TEXT_DETOKENIZER_H

#include "base/str.h"
#include "text/tokenizer.h"

typedef struct whim_detokenizer {
    const whim_tokenizer *tok;
    bool show_special;
    const int32_t *shown; /* [n_shown] special tokens that are text all the same */
    int32_t n_shown;
    bool started; /* the first token's leading space (kind llama) is dropped */
    char held[4]; /* bytes of an unfinished character */
    int32_t n_held;
} whim_detokenizer;

void whim_detokenizer_init(whim_detokenizer *d, const whim_tokenizer *tok, bool show_special);

/* Append the text that this token completes. */
void whim_detokenizer_push(whim_detokenizer *d, int32_t id, whim_str *out);

/* Append what is still held back. */
void whim_detokenizer_flush(whim_detokenizer *d, whim_str *out);

#endif
