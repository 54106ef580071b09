/* SPDX-License-Identifier: Apache-2.0 */
/* What a model has beside its weights: tokenizer, chat template and how it writes reasoning and
 * calls, the ids that end an answer, how its makers want it sampled.
 * Threads: read-only after reading, and shared. */
#ifndef WHIM_LIBRARY_TEXT_SIDE_H
#define WHIM_LIBRARY_TEXT_SIDE_H

#include "chat/prompt.h"
#include "weights/generation.h"

enum { WHIM_MAX_STOP_IDS = 64, WHIM_MAX_WORD_IDS = 20 };

/* {0} is closed. */
typedef struct whim_text_side {
    whim_tokenizer *tok;     /* NULL: ids only */
    whim_template *tmpl;     /* NULL: the model has none */
    whim_chat_format format; /* how it writes reasoning and calls */
    json_t *kwargs;          /* what every prompt tells the template, or NULL */
    int32_t stop_ids[WHIM_MAX_STOP_IDS];
    int32_t n_stop_id;
    /* special tokens that its reasoning is written with, then those of its calls */
    int32_t word_ids[WHIM_MAX_WORD_IDS];
    int32_t n_think_id, n_word_id;
    whim_generation wishes;
} whim_text_side;

typedef struct whim_text_files {
    const char *model;         /* its path */
    const whim_ckpt *ckpt;     /* opened from there */
    const char *chat_template; /* a file instead of the model's own, or NULL */
    const char *template_args; /* a JSON object, or NULL */
    bool ids_only;             /* neither tokenizer nor template are read */
} whim_text_files;

/* After an error nothing is open, and *field is "chat_template" or "template_args" where that was
 * the reason, else "". */
WHIM_MUST_CHECK whim_err whim_text_side_read(whim_text_side *side, const whim_text_files *files,
                                             const char **field, whim_diag *diag);
void whim_text_side_close(whim_text_side *side);

/* What prompts are made with. */
whim_chat_model whim_text_side_chat(const whim_text_side *side);

/* An object of arguments for templates. INVALID with a message without a subject. */
WHIM_MUST_CHECK whim_err whim_template_args_read(json_t **out, const char *text, whim_diag *diag);

#endif
