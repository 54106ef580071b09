/* SPDX-License-Identifier: Apache-2.0 */
/* The dialect of Ollama's /api: bodies as generation requests in the server's own terms, answers as
 * lines of JSON, and what is said about the model. docs/api-ollama.md has every field.
 * Threads: stateless; the forms run on the answer thread. */
#ifndef WHIM_SERVER_OLLAMA_OLLAMA_H
#define WHIM_SERVER_OLLAMA_OLLAMA_H

#include "server/answer/answer.h"
#include "server/api.h"

#include <stdbool.h>

whim_task_reader whim_ollama_read_chat, whim_ollama_read_generate;

extern const whim_answer_form whim_ollama_chat_form, whim_ollama_generate_form;

/* `{"model":..,"created_at":..` with the time of now. */
void whim_ollama_put_head(const whim_api *api, whim_str *out);

#endif
