/* SPDX-License-Identifier: Apache-2.0 */
/* What an answer may look like: a grammar over bytes, and which tokens may come next in it.
 *
 * A grammar is built from parts (literal text, character classes, sequence, choice, repetition,
 * JSON schema, regular expression, free text up to a mark), compiled once, off the step loop,
 * within limits of size, depth and time; then it is read-only and shared. A state walks it token by
 * token for one answer.
 *
 * Invariants:
 *  1. A token is in the mask exactly when all its bytes can follow and the answer can still be
 *     finished.
 *  2. An end token is in the mask exactly when the answer may end here.
 *  3. The walk of one token costs a bounded amount of work, whatever the grammar.
 * Threads: a compiled grammar and a vocabulary are read-only and shared; a state belongs to one
 * thread. */
#ifndef WHIM_GRAMMAR_GRAMMAR_H
#define WHIM_GRAMMAR_GRAMMAR_H

#include "base/err.h"
#include "text/tokenizer.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* --- building --------------------------------------------------------------------------------- */

typedef struct whim_grammar whim_grammar;
typedef struct whim_grammar_builder whim_grammar_builder;
/* -1: the builder failed; later calls do nothing, build says why */
typedef int32_t whim_grammar_node;

typedef struct whim_grammar_limits {
    int64_t max_nodes; /* 0: 200,000 */
    int32_t max_depth; /* of a schema or a regular expression; 0: 64 */
    int64_t max_ns;    /* time for building and compiling; 0: 2 s */
    const bool *bytes; /* [256] no answer has others; NULL: all. Borrowed */
} whim_grammar_limits;

WHIM_MUST_CHECK whim_err whim_grammar_builder_create(const whim_grammar_limits *limits,
                                                     whim_grammar_builder **out);
void whim_grammar_builder_destroy(whim_grammar_builder *b);

whim_grammar_node whim_grammar_literal(whim_grammar_builder *b, const char *bytes, int64_t n);
whim_grammar_node whim_grammar_seq(whim_grammar_builder *b, const whim_grammar_node *parts,
                                   int64_t n);
whim_grammar_node whim_grammar_any_of(whim_grammar_builder *b, const whim_grammar_node *parts,
                                      int64_t n);
/* most < 0: no limit. */
whim_grammar_node whim_grammar_repeat(whim_grammar_builder *b, whim_grammar_node part,
                                      int64_t least, int64_t most);
/* Any text (whole UTF-8 characters) that does not hold `mark`, then `mark`. */
whim_grammar_node whim_grammar_until(whim_grammar_builder *b, const char *mark);
/* Any text that holds none of the marks; may be empty. */
whim_grammar_node whim_grammar_text_without(whim_grammar_builder *b, const char *const *marks,
                                            int32_t n);
/* A JSON value that the schema allows, keys in the schema's order. White space is at most one space
 * behind a colon and a comma; numbers without bounds have at most 15 digits before the point. Keys
 * that the schema does not list come only where additionalProperties asks for them or no property
 * is listed. `path` is where the schema stands in the request, for messages: an unsupported keyword
 * fails the builder with its path. The schema may be freed after the call. */
whim_grammar_node whim_grammar_schema(whim_grammar_builder *b, const json_t *schema,
                                      const char *path);
/* The bare text of a string that the schema's pattern, format and lengths allow and that has no
 * '<', which could begin a tag. */
whim_grammar_node whim_grammar_schema_text(whim_grammar_builder *b, const json_t *schema,
                                           const char *path);
/* Any JSON object (json_object). */
whim_grammar_node whim_grammar_json_object(whim_grammar_builder *b);
/* A regular expression over the whole text (anchored): the part of the common syntax without
 * backreferences and look-around, which fail with their position. */
whim_grammar_node whim_grammar_regex(whim_grammar_builder *b, const char *pattern,
                                     const char *path);

/* A grammar as a text, GBNF or the EBNF that is nearly the same: what its rule "root" takes. What
 * is wrong with it fails with line and column. Rules may call each other and themselves, but not
 * before they took a character, other than as the first word of their own alternatives. */
whim_grammar_node whim_grammar_gbnf(whim_grammar_builder *b, const char *text, const char *path);

/* Compile from the root; INVALID (with the reason, for a 400) when a part failed or a limit was
 * met. */
WHIM_MUST_CHECK whim_err whim_grammar_build(whim_grammar_builder *b, whim_grammar_node root,
                                            whim_grammar **out, whim_diag *diag);
whim_grammar *whim_grammar_ref(whim_grammar *g);
void whim_grammar_unref(whim_grammar *g); /* NULL is legal */

/* What it holds of the heap, with the masks that it keeps by now. */
int64_t whim_grammar_bytes(whim_grammar *g);

/* --- walking ---------------------------------------------------------------------------------- */

/* The tokens of a vocabulary, arranged for masks; made once for a model. `ends` are the ids that
 * end an answer. The tokenizer is borrowed. Special tokens never come, but for those whose bytes
 * are part of a literal or mark of the caller (not of a schema): they come where these bytes
 * may. */
typedef struct whim_grammar_vocab whim_grammar_vocab;
WHIM_MUST_CHECK whim_err whim_grammar_vocab_create(const whim_tokenizer *tok, const int32_t *ends,
                                                   int32_t n_end, whim_grammar_vocab **out);
void whim_grammar_vocab_destroy(whim_grammar_vocab *v);

/* [256] The bytes that tokens hold, for the limits of builders; NULL: all. */
const bool *whim_grammar_vocab_bytes(const whim_grammar_vocab *v);

typedef struct whim_grammar_state whim_grammar_state;
WHIM_MUST_CHECK whim_err whim_grammar_state_create(whim_grammar *g, const whim_grammar_vocab *v,
                                                   whim_grammar_state **out);
void whim_grammar_state_destroy(whim_grammar_state *s);

/* Bit i of mask ([n_vocab of the model / 32 + 1] words, ids beyond the tokenizer's are 0) says
 * whether token i may come next. Returns false when every token may (the mask is not written then).
 * At least one bit is set otherwise: where no token of the vocabulary fits, or memory ran out,
 * or the grammar can be read in too many ways, those of the end tokens are, and the state is
 * stuck. */
bool whim_grammar_mask(whim_grammar_state *s, uint32_t *mask, int64_t n_word);

/* Whether the last mask found no token for an answer that may not end there: the vocabulary cannot
 * write it, or the walk was too much. Cannot happen where every byte that the grammar was built for
 * is a token and its rules can be read in few ways. */
bool whim_grammar_is_stuck(const whim_grammar_state *s);

/* Whether memory ran out for the last mask, which is why it is stuck, or for the last token, which
 * therefore was not taken. */
bool whim_grammar_lacks_memory(const whim_grammar_state *s);

/* Take a token; false when it may not come (the state is unchanged). An end token leaves the state
 * as it is. */
bool whim_grammar_accept(whim_grammar_state *s, int32_t id);

/* Remember where the answer stands, and go back there after tokens that came only on trial: cheap,
 * and as often as wanted. False: there is no memory. */
bool whim_grammar_keep(whim_grammar_state *s);
void whim_grammar_go_back(whim_grammar_state *s);

/* Whether the answer may end here, and whether it must (nothing but an end token may follow). */
bool whim_grammar_may_end(const whim_grammar_state *s);
bool whim_grammar_must_end(const whim_grammar_state *s);

#endif
