/* SPDX-License-Identifier: Apache-2.0 */
/* The dialect of llama.cpp's own server: bodies as generation requests in the server's own terms,
 * answers as objects or server-sent events without a name, and what is said about the server.
 * docs/api-llamacpp.md has every field.
 * Threads: stateless; the forms run on the answer thread. */
#ifndef WHIM_SERVER_LLAMACPP_LLAMACPP_H
#define WHIM_SERVER_LLAMACPP_LLAMACPP_H

#include "server/answer/answer.h"
#include "server/api.h"

#include <stdbool.h>

whim_task_reader whim_llamacpp_read_completion, whim_llamacpp_read_infill;

/* A logit_bias that is a list of pairs becomes, in the body, the object of ids that other routes
 * take. */
bool whim_llamacpp_name_bias(const whim_api *api, const whim_fields *f, whim_task *task);
/* Where ignore_eos is set, the ids that end an answer get the bias that keeps them away. */
bool whim_llamacpp_forbid_ends(const whim_api *api, const whim_fields *f, whim_task *task);
/* `,"logit_bias":[..]`: an object for each token, whose bias is null where it never comes. */
void whim_llamacpp_put_bias(const whimbrel_sampling *p, whim_str *out);

/* The prompts of /completion into task->prompts. */
bool whim_llamacpp_read_prompts(const whim_api *api, const whim_fields *f, whim_task *task);

/* response_fields: read, so that what is wrong is refused; and a whole answer (JSON) with those
 * fields alone, a path such as "generation_settings/n_predict" being its own name. */
bool whim_llamacpp_read_chosen(const whim_fields *f, whim_task *task);
void whim_llamacpp_put_chosen(const whim_task *task, const whim_str *whole, whim_str *out);

/* The prompt of /infill into task->prompts, cut to what the context holds, and the tokens that end
 * what fills a gap. */
bool whim_llamacpp_read_gap(const whim_api *api, const whim_fields *f, whim_task *task);

extern const whim_answer_form whim_llamacpp_completion_form, whim_llamacpp_infill_form;

/* The parameters as an object: those of a task, or (NULL) the server's defaults. */
void whim_llamacpp_put_settings(const whim_api *api, const whim_task *task, whim_str *out);

#endif
