/* SPDX-License-Identifier: Apache-2.0 */
/* The dialect of /v1/messages: its body as a generation request in the server's own terms (messages
 * and tools in the OpenAI form), and its answers. docs/api-anthropic.md has every field.
 * Threads: stateless; the form runs on the answer thread. */
#ifndef WHIM_SERVER_ANTHROPIC_ANTHROPIC_H
#define WHIM_SERVER_ANTHROPIC_ANTHROPIC_H

#include "base/str.h"
#include "server/answer.h"
#include "server/api.h"

#include <stdbool.h>

/* Everything but `max_tokens`, which count_tokens does not have. The types of tools that cannot be
 * offered are appended to `left_out`. False with the fault set. */
bool whim_anthropic_read(const whim_api *api, const whim_fields *f, whim_task *task,
                         whim_str *left_out);

/* Its parts: `system` and `messages` as task->messages; tools, the choice among them, thinking and
 * the answer's form. */
bool whim_anthropic_read_turns(const whim_fields *f, whim_task *task);
bool whim_anthropic_read_tools(const whim_fields *f, whim_task *task, whim_str *left_out);
bool whim_anthropic_read_style(const whim_fields *f, whim_task *task);

/* Of task->tools only those that the conversation has come to: see anthropic_tools.c. After the
 * turns are read. */
bool whim_anthropic_offer(const whim_fields *f, whim_task *task);

extern const whim_answer_form whim_anthropic_form;

#endif
