/* SPDX-License-Identifier: Apache-2.0 */
/* The dialect of /v1/responses: its body as a generation request in the server's own terms
 * (messages and tools in the OpenAI form), and its answers. Of state there are conversations
 * (store.h) alone.
 * docs/api-responses.md has every field.
 * Threads: stateless; the form runs on the answer thread. */
#ifndef WHIM_SERVER_RESPONSES_RESPONSES_H
#define WHIM_SERVER_RESPONSES_RESPONSES_H

#include "server/answer/answer.h"
#include "server/api.h"
#include "server/offer.h"

#include <stdbool.h>

whim_task_reader whim_responses_read;

/* `instructions`, what the response of `previous_response_id` continues from, and `input` as
 * task->messages. */
whim_task_reader whim_responses_read_turns;
extern const whim_offer_form whim_responses_tools;

extern const whim_answer_form whim_responses_form;

typedef enum whim_response_status {
    WHIM_RESPONSE_IN_PROGRESS,
    WHIM_RESPONSE_COMPLETED,
    WHIM_RESPONSE_INCOMPLETE,
    WHIM_RESPONSE_FAILED,
} whim_response_status;
/* "in_progress", ... */
const char *whim_response_status_name(whim_response_status status);

/* A response object: what of it is known. For answer.c. */
typedef struct whim_response {
    const whim_api *api;
    const whim_task *task;
    const char *id;
    int64_t created;
    whim_response_status status;
    const whim_answer_choice *c; /* its parts are the output; NULL: none yet */
    const whim_usage *usage;     /* NULL: null */
    const whim_fault *fault;     /* FAILED */
    bool brief;                  /* without the request's tools and metadata */
} whim_response;
void whim_response_put(const whim_response *r, whim_str *out);

/* One item of the output, which is part `index` of r->c (or an empty message, if there is no such
 * part). `whole`: with its text, else as it begins. */
void whim_response_put_item(const whim_response *r, int32_t index, bool whole, whim_str *out);
void whim_response_put_item_id(const whim_response *r, int32_t index, whim_str *out);

/* Whether a part is a call of a tool that takes plain text; that text, or what there is of the
 * arguments where they are not whole, quoted. */
bool whim_response_is_text_call(const whim_task *task, const whim_answer_part *part);
void whim_response_put_input(const whim_answer_part *part, whim_str *out);

#endif
