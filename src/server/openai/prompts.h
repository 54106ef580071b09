/* SPDX-License-Identifier: Apache-2.0 */
/* Raw prompts: the field `prompt` in all its forms, and `suffix`.
 * Threads: stateless. */
#ifndef WHIM_SERVER_OPENAI_PROMPTS_H
#define WHIM_SERVER_OPENAI_PROMPTS_H

#include "server/api.h"

/* Read prompt (a text, texts, ids, lists of ids), suffix, parse_special and add_special_tokens into
 * task->prompts. */
bool whim_openai_read_prompts(const whim_api *api, const whim_fields *f, whim_task *task);

/* Text to ids: BOS by the tokenizer's rule, never twice. `key` is for messages. */
bool whim_openai_encode(const whim_api *api, const whim_fields *f, const char *key,
                        const json_t *text, bool parse_special, bool add_special, whim_ids *out);

/* A list of ids. */
bool whim_openai_read_ids(const whim_api *api, const whim_fields *f, const char *key,
                          const json_t *list, whim_ids *out);

#endif
