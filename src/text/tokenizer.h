/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes to tokens. One tokenizer for every published form: tokenizer.json (byte-level BPE and BPE
 * with byte fallback) and GGUF vocabularies (kinds gpt2 and llama).
 *
 * Invariants:
 *  1. Encoding is linear in the text (times a logarithm): no input makes it quadratic.
 *  2. Special tokens, and others that are spelled as marks, are recognised only inside spans that
 *     the caller trusts; added tokens that are ordinary text are anywhere.
 *  3. Detokenising token by token gives the bytes of detokenising at once.
 * Threads: a tokenizer is read-only after opening and shared by any number of threads. */
#ifndef WHIM_TEXT_TOKENIZER_H
#define WHIM_TEXT_TOKENIZER_H

#include "base/err.h"
#include "weights/ckpt.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct whim_tokenizer whim_tokenizer;

/* A growing list of token ids; {0} is empty. */
typedef struct whim_ids {
    int32_t *ids;
    int64_t n, cap;
} whim_ids;

WHIM_MUST_CHECK whim_err whim_ids_append(whim_ids *list, int32_t id);
void whim_ids_deinit(whim_ids *list);

/* Open the tokenizer of a model: the vocabulary of `ckpt` when that is a GGUF checkpoint, else the
 * files tokenizer.json, tokenizer_config.json and chat_template.jinja in its directory (ckpt may be
 * NULL then). diag names file and field. */
WHIM_MUST_CHECK whim_err whim_tokenizer_open(const char *model_path, const whim_ckpt *ckpt,
                                             whim_tokenizer **out, whim_diag *diag);
void whim_tokenizer_close(whim_tokenizer *tok);

/* A part of a text, [begin, end) in bytes. In a trusted part special tokens are recognised. */
typedef struct whim_text_span {
    int64_t begin, end;
    bool trusted;
} whim_text_span;

typedef struct whim_encode_opts {
    const whim_text_span *spans; /* in order, covering the text; NULL: see parse_special */
    int64_t n_span;
    bool parse_special; /* recognise special tokens (used when spans is NULL) */
    bool add_special;   /* what the post-processor adds: BOS, EOS */
    int64_t most; /* ids that can be of use; 0: any number. NO_FIT, before any work, where the text
                     becomes more whatever it says; fewer than that may still be more than these */
} whim_encode_opts;

/* Append the ids of `n` bytes of text, all or none. Invalid UTF-8 is refused with its position. */
WHIM_MUST_CHECK whim_err whim_tokenizer_encode(const whim_tokenizer *tok, const char *text,
                                               int64_t n, const whim_encode_opts *opts,
                                               whim_ids *out, whim_diag *diag);

/* A text becomes at least as many ids; 0: nothing is known, because what the tokenizer does before
 * it merges can make a text shorter. One quick look at its bytes. */
int64_t whim_tokenizer_least_ids(const whim_tokenizer *tok, const char *text, int64_t n);

/* Whether its patterns run as machine code; true when it has none. Without, encoding is slower, the
 * ids are the same. */
bool whim_tokenizer_has_jit(const whim_tokenizer *tok);

int32_t whim_tokenizer_count(const whim_tokenizer *tok); /* ids go from 0 to count - 1 */

/* The bytes that a token stands for (not always whole characters); n = 0 for unknown ids. */
const char *whim_tokenizer_bytes(const whim_tokenizer *tok, int32_t id, int64_t *n);

/* Its text as the vocabulary spells it, which is not always what it stands for; "" for unknown
 * ids. */
const char *whim_tokenizer_spelling(const whim_tokenizer *tok, int32_t id);

/* Whether a token is special: hidden from plain output. */
bool whim_tokenizer_is_special(const whim_tokenizer *tok, int32_t id);

/* The id of a token by its exact text as the vocabulary or the added tokens spell it, or -1. */
int32_t whim_tokenizer_find(const whim_tokenizer *tok, const char *text);

/* Facts beside the vocabulary: the chat template (variant NULL or "default", or a name such as
 * "tool_use"; NULL when there is none) and the texts of bos and eos ("" when absent). */
const char *whim_tokenizer_template(const whim_tokenizer *tok, const char *variant);
const char *whim_tokenizer_bos(const whim_tokenizer *tok);
const char *whim_tokenizer_eos(const whim_tokenizer *tok);

/* Ids that end generation according to the tokenizer (eos, eot, and by the texts that published
 * chat models use for them); joined with those of the configuration by the caller. Returns how
 * many. */
int32_t whim_tokenizer_stop_ids(const whim_tokenizer *tok, int32_t *out, int32_t max);

#endif
