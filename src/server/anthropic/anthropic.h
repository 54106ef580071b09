/* SPDX-License-Identifier: Apache-2.0 */
/* The dialect of /v1/messages: its body as a generation request in the server's own terms (messages
 * and tools in the OpenAI form), and its answers. docs/api-anthropic.md has every field.
 * Threads: stateless; the form runs on the answer thread. */
#ifndef WHIM_SERVER_ANTHROPIC_ANTHROPIC_H
#define WHIM_SERVER_ANTHROPIC_ANTHROPIC_H

#include "server/answer/answer.h"
#include "server/api.h"

#include <stdbool.h>

/* Everything but `max_tokens`, which count_tokens does not have; and with it. */
whim_task_reader whim_anthropic_read, whim_anthropic_read_whole;

/* `system` and `messages` as task->messages. */
bool whim_anthropic_read_turns(const whim_fields *f, whim_task *task);

/* Of task->tools only those that the conversation has come to: see tools.c. After the
 * turns are read. */
bool whim_anthropic_offer(const whim_fields *f, whim_task *task);

extern const whim_answer_form whim_anthropic_form;

#endif
