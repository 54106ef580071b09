/* SPDX-License-Identifier: Apache-2.0 */
/* From messages in the OpenAI form to a prompt: checks and normalises the list (roles, parts, tool
 * calls, system turns), writes tools into the system turn where the template cannot, renders,
 * encodes with special tokens recognised only in what the template wrote.
 * Threads: a chat model is read-only after opening and shared; calls may run on any thread. */
#ifndef WHIM_CHAT_PROMPT_H
#define WHIM_CHAT_PROMPT_H

#include "base/err.h"
#include "chat/format.h"
#include "jinja/template.h"
#include "text/tokenizer.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct whim_chat_model {
    const whim_tokenizer *tok;
    const whim_template *tmpl; /* NULL: the model has none */
    whim_chat_format format;
    const json_t *kwargs; /* the server's --template-kwargs, or NULL */
} whim_chat_model;

typedef struct whim_prompt_request {
    const json_t *messages; /* array, OpenAI form (section 3 of the wire details) */
    const json_t *tools;    /* array, OpenAI form, or NULL */
    const json_t *kwargs;   /* chat_template_kwargs, or NULL; wins over the model's */
    /* -1: as the template does by itself; 0 off, 1 on (where it has the switch) */
    int32_t thinking;
    const char *effort; /* reasoning_effort for the template, or NULL */
    bool new_turn;      /* add_generation_prompt:true even when the last turn is the assistant's */
    bool is_closed; /* add_generation_prompt:false: neither is a turn continued nor one opened */
    int64_t most;   /* tokens that can be of use; 0: any number; see whim_encode_opts */
} whim_prompt_request;

typedef struct whim_prompt {
    whim_ids ids;
    whim_rendered rendered; /* for /apply-template */
    bool open_think;        /* the prompt leaves reasoning open */
    bool open_name;         /* it ends where the name of whom the answer is for begins */
    bool may_reason; /* the answer may open it: the model does so, and was not told to leave it */
} whim_prompt;

/* INVALID, FULL beyond a limit of the template engine, or NO_FIT beyond `most`: diag
 * says what is wrong, and `param` (128 bytes) names the field, such as "messages[2].content". */
WHIM_MUST_CHECK whim_err whim_prompt_make(const whim_chat_model *model,
                                          const whim_prompt_request *request, whim_prompt *out,
                                          char *param, whim_diag *diag);
void whim_prompt_deinit(whim_prompt *prompt);

#endif
