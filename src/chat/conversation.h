/* SPDX-License-Identifier: Apache-2.0 */
/* A conversation: the list of messages that a chat keeps, renders and saves. Texts are copied in.
 * Invariant: role and content are never NULL; reasoning is NULL where there was none.
 * Threads: a conversation belongs to one thread at a time. */
#ifndef WHIM_CHAT_CONVERSATION_H
#define WHIM_CHAT_CONVERSATION_H

#include "base/err.h"
#include "base/str.h"

#include <jansson.h>
#include <stdint.h>

typedef struct whim_message {
    char *role; /* "system", "user", "assistant", "tool" */
    char *content;
    char *reasoning; /* NULL: none */
} whim_message;

/* Caller's storage; {0} is empty. */
typedef struct whim_conversation {
    whim_message *messages;
    int64_t n, cap;
} whim_conversation;

/* Append a copy; `reasoning` may be NULL. Only NO_MEMORY can go wrong, and then nothing changed. */
WHIM_MUST_CHECK whim_err whim_conversation_push(whim_conversation *conv, const char *role,
                                                const char *content, const char *reasoning);

/* Drop the last message; does nothing when there is none. */
void whim_conversation_pop(whim_conversation *conv);

/* Drop all messages but keep the list's memory. */
void whim_conversation_clear(whim_conversation *conv);
void whim_conversation_deinit(whim_conversation *conv);

/* The messages as a template wants them: a new array of {"role", "content", "reasoning_content"},
 * the last only where there is reasoning. NULL without memory or when a text is not UTF-8. The
 * caller calls json_decref. */
json_t *whim_conversation_messages(const whim_conversation *conv);

/* Append the text of a file for /save: {"messages": [...]}, indented. */
WHIM_MUST_CHECK whim_err whim_conversation_dump(const whim_conversation *conv, whim_str *out,
                                                whim_diag *diag);

/* Read such a file (or any object with "messages" in the form of the OpenAI API whose contents are
 * texts) in place of what `conv` holds; on error `conv` is as before. `path` is for messages. */
WHIM_MUST_CHECK whim_err whim_conversation_parse(whim_conversation *conv, const char *text,
                                                 int64_t n, const char *path, whim_diag *diag);

#endif
