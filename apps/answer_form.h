/* SPDX-License-Identifier: Apache-2.0 */
/* What the answers of `run` and `chat` are held to, and what they may call: --json-schema,
 * --grammar-regex and --tools, which mean what response_format, regex and tools mean to a server.
 * Reasoning before an answer stays free.
 * Threads: the main thread. */
#ifndef WHIM_APPS_ANSWER_FORM_H
#define WHIM_APPS_ANSWER_FORM_H

#include "text_model.h"

/* {0} holds answers to nothing. */
typedef struct answer_form {
    const char *regex;
    json_t *schema;
    json_t *tools; /* OpenAI form, NULL: none */
    bool must_call;
    whim_chat_format format;
    bool may_reason;
    whim_grammar_vocab *vocab; /* NULL: any text */
    whim_grammar *grammars[2]; /* [reasoning is open], each made when it is first needed */
} answer_form;

/* What the options say, before a model is opened. False after a complaint about them. */
bool answer_form_read(answer_form *form, const whim_options *options);

/* Whether answers are for programs, which may repeat themselves for longer. */
bool answer_form_is_for_program(const answer_form *form);

/* After text_model_sampling, which finds the ids that end an answer. `has_turns`: prompts go
 * through the chat template; `open_think`: the first one leaves reasoning open. What no grammar can
 * be made of is refused here. False after a complaint. */
bool answer_form_open(answer_form *form, const text_model *tm, bool has_turns, bool open_think);
void answer_form_close(answer_form *form);

/* The form's own, or NULL for any text. INVALID with a message for the user. */
WHIM_MUST_CHECK whim_err answer_form_grammar(answer_form *form, bool open_think, whim_grammar **out,
                                             whim_diag *diag);

/* The whole calls of an answer: {"name":"f","arguments":{..}} with commas between them. */
WHIM_MUST_CHECK whim_err answer_form_calls(const answer_form *form, bool open_think,
                                           const whim_str *answer, whim_str *out);

#endif
