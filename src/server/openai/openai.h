/* SPDX-License-Identifier: Apache-2.0 */
/* What the OpenAI routes share: fields of requests, pieces of answers.
 * Threads: stateless. */
#ifndef WHIM_SERVER_OPENAI_OPENAI_H
#define WHIM_SERVER_OPENAI_OPENAI_H

#include "server/answer/answer.h"
#include "server/api.h"

/* n, stop, stream_options, return_progress, response_format. */
bool whim_openai_read_shared(const whim_fields *f, whim_task *task);
bool whim_openai_read_format(const whim_fields *f, whim_task *task);

/* A whole chat request, all but the prompt: also what /tokenize and /apply-template take. */
whim_task_reader whim_openai_read_chat;

/* A whole request of /v1/completions, prompts as ids included. */
whim_task_reader whim_openai_read_completion;

/* prompt (a text, texts, ids, lists of ids), suffix, parse_special and add_special_tokens. */
bool whim_openai_read_prompts(const whim_api *api, const whim_fields *f, whim_task *task);

/* Text to ids: BOS by the tokenizer's rule, never twice. `key` is for messages. */
bool whim_openai_encode(const whim_api *api, const whim_fields *f, const char *key,
                        const json_t *text, const whim_encode_opts *opts, whim_ids *out);

/* A list of ids. */
bool whim_openai_read_ids(const whim_api *api, const whim_fields *f, const char *key,
                          const json_t *list, whim_ids *out);

/* `"id":..,"object":..,"created":..,"model":..,"system_fingerprint":..` */
void whim_openai_put_head(const whim_answer *a, const char *object, whim_str *out);
/* After the choices of a chunk: `"usage":..` where asked for, the braces, and send it. */
void whim_openai_send_chunk(whim_answer *a);
/* The same with how much of prompt `p` is read. */
void whim_openai_send_progress(whim_answer *a, int32_t p);
/* The end of a choice or of a piece of it: `,"finish_reason":..` (null unless it `finishes`), a
 * stop_reason of an answer that went in circles, and where asked for the ids of the pending
 * tokens. */
void whim_openai_put_end(whim_answer *a, const whim_answer_choice *c, bool finishes);
void whim_openai_put_ids(whim_str *out, const int32_t *ids, int64_t n);
/* `,"prompt_token_ids":[..]` of prompt p, where asked for. */
void whim_openai_put_prompt_ids(whim_answer *a, int32_t p);
/* A token with its log-probability: `"token":..,"logprob":..,"bytes":[..]` */
void whim_openai_put_entry(const whim_answer *a, int32_t id, float logprob, whim_str *out);
/* logprobs of a chat choice: the pending tokens, or null. */
void whim_openai_put_chat_logprobs(whim_answer *a, const whim_answer_choice *c);

/* Forms' functions that both routes use. */
/* The end of a stream whose chunks begin with `head`: the chunk with the usage, where asked for,
 * and [DONE]. Else the whole answer. */
void whim_openai_finish(whim_answer *a, const whim_str *head, const char *object,
                        void (*put_choice)(whim_answer *a, whim_answer_choice *c));
void whim_openai_fail(whim_answer *a, const whim_fault *fault);
void whim_openai_keep_alive(whim_answer *a);

/* A token's name in log-probabilities, quoted: its text, or bytes:\xNN.. where that is not whole
 * characters, so that no two of them have the same. */
void whim_openai_put_token(const whim_answer *a, int32_t id, whim_str *out);

#endif
