/* SPDX-License-Identifier: Apache-2.0 */
/* A conversation: the list of messages that a chat keeps, renders and saves, as the JSON array that
 * templates want: {"role", "content", "reasoning_content"}, the last only where there is reasoning.
 * Threads: a conversation belongs to one thread at a time. */
#ifndef WHIM_CHAT_CONVERSATION_H
#define WHIM_CHAT_CONVERSATION_H

#include "base/err.h"
#include "base/str.h"

#include <jansson.h>
#include <stdint.h>

/* A message; `reasoning` may be NULL. NULL without memory or when a text is not UTF-8. */
json_t *whim_message_make(const char *role, const char *content, const char *reasoning);

/* A text of message i, or NULL. */
const char *whim_message_text(const json_t *conv, int64_t i, const char *key);

/* Append a message; where it cannot be made, NO_MEMORY, and nothing changed. */
WHIM_MUST_CHECK whim_err whim_conversation_push(json_t *conv, const char *role, const char *content,
                                                const char *reasoning);

/* Keep the first n messages. */
void whim_conversation_cut(json_t *conv, int64_t n);

/* Append the text of a file for /save: {"messages": [...]}, indented. */
WHIM_MUST_CHECK whim_err whim_conversation_dump(json_t *conv, whim_str *out, whim_diag *diag);

/* Read such a file (or any object with "messages" in the form of the OpenAI API whose contents are
 * texts) instead of what *conv holds; on error it is as before. `path` is for messages. */
WHIM_MUST_CHECK whim_err whim_conversation_parse(json_t **conv, const char *text, int64_t n,
                                                 const char *path, whim_diag *diag);

#endif
