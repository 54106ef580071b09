/* SPDX-License-Identifier: Apache-2.0 */
/* The words of calls that are known here: the models' own, and those that many templates share.
 * Threads: plain data. */
#ifndef WHIM_CHAT_TOOLS_WORDS_H
#define WHIM_CHAT_TOOLS_WORDS_H

#include "models/tool_words.h"

#include <stdint.h>

/* The words of answers that are messages with headers. */
#define WHIM_HARMONY_START "<|start|>"
#define WHIM_HARMONY_CHANNEL "<|channel|>"
#define WHIM_HARMONY_MESSAGE "<|message|>"
#define WHIM_HARMONY_END "<|end|>"

/* Those of no model of its own (words_shared.c). */
extern const whim_tool_words whim_tool_words_shared[];
extern const int32_t whim_tool_words_n_shared;

/* For models whose templates print no tools. */
const whim_tool_words *whim_tool_words_usual(void);

/* The words that a printed call of the function `name` is written in; NULL: none of those known. */
const whim_tool_words *whim_tool_words_of(const char *call, const char *name);

/* All words that are known, those that many share first; at: NULL for a model that has none. */
int32_t whim_tool_words_count(void);
const whim_tool_words *whim_tool_words_at(int32_t i);

/* The words that are called so, or NULL. */
const whim_tool_words *whim_tool_words_named(const char *name);

/* Whether a token's text is part of what the parser looks for. */
bool whim_tool_words_have(const whim_tool_words *words, const char *token, int64_t n);

#endif
