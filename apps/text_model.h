/* SPDX-License-Identifier: Apache-2.0 */
/* What `run` and `chat` share: a model's text side (tokenizer, chat template, the ids that end an
 * answer) and how it is sampled, from the model's wishes and the command line.
 * Threads: the main thread. */
#ifndef WHIM_APPS_TEXT_MODEL_H
#define WHIM_APPS_TEXT_MODEL_H

#include "chat/prompt.h"
#include "cmd.h"
#include "engine/ends.h"
#include "sample/repetition.h"
#include "sample/sampler.h"
#include "text/tokenizer.h"
#include "weights/generation.h"

enum { MAX_STOP_IDS = 64, MAX_BIAS = WHIM_OPTION_MAX_STRINGS, MAX_PROMPT_BYTES = 64 << 20 };

/* {0} is closed. */
typedef struct text_model {
    const char *path;
    whim_tokenizer *tok;     /* NULL: ids only */
    whim_template *tmpl;     /* NULL: the model has none */
    whim_chat_format format; /* how it writes reasoning and calls */
    json_t *kwargs;          /* --template-kwargs, or NULL */
    int32_t stop_ids[MAX_STOP_IDS];
    int32_t n_stop_id;
    whim_generation wishes;
    whim_sample_params params;
    /* neither the model nor the command line asks for it: not at temperature 0 */
    bool is_penalty_ours;
    whim_logit_bias bias[MAX_BIAS];
} text_model;

/* Read a model's tokenizer and template. What was read before an error is closed by
 * text_model_close, too. */
WHIM_MUST_CHECK whim_err text_model_read(text_model *tm, const whim_options *options,
                                         const whim_ckpt *ckpt, const char *path, whim_diag *diag);

/* The same of an engine's model, and what the command line says of templates; false after a
 * complaint. */
bool text_model_open(text_model *tm, const whim_options *options, const whim_engine *engine,
                     const char *path);

/* The ids that end an answer and the sampling parameters; also without a tokenizer. `greedy`:
 * temperature 0 unless the command line says otherwise. False after a complaint. */
bool text_model_sampling(text_model *tm, const whim_options *options, const whim_engine *engine,
                         bool greedy);
/* --repetition-detection, or what the command does without it. */
bool detects_repetition(const whim_options *options, bool otherwise);
void text_model_close(text_model *tm);

/* Render messages with the template, with tools (may be NULL), and append their ids; `open_think`
 * tells whether the prompt leaves reasoning open. */
WHIM_MUST_CHECK whim_err text_model_encode_chat(const text_model *tm, const json_t *messages,
                                                const json_t *tools, whim_ids *ids,
                                                bool *open_think, whim_diag *diag);

/* Append the ids of plain text, in which nothing is special. */
WHIM_MUST_CHECK whim_err text_model_encode_raw(const text_model *tm, const char *text, int64_t n,
                                               whim_ids *ids, whim_diag *diag);

/* "temperature 0.7, top_p 0.9, seed 5", without what is off; the seed on request. */
void append_params(whim_str *out, const whim_sample_params *params, bool seed);

/* Set one parameter by name ("temperature", "top_k", ... as append_params writes them); false with
 * a message in diag when there is none or the value is bad. */
bool set_param(whim_sample_params *params, int32_t n_vocab, const char *name, const char *value,
               whim_diag *diag);

/* Refuse bytes that are no text before they get lost on the way; `what` is for the message. */
bool check_utf8(const char *text, const char *what);
bool check_stops(const whim_options *options);

/* Standard input to its end, at most MAX_PROMPT_BYTES; `what` is for messages. */
bool read_stdin(whim_str *text, const char *what);

/* The value of --ids: numbers with commas or blanks between them, added to what the caller has
 * (none: 0 of them); to be freed with whim_free, also after a complaint. */
bool parse_ids(const char *text, int64_t n, int64_t **ids, int64_t *n_id);

/* Why a context is shorter than the model's own, in words; NULL where it is not. */
const char *context_reason(const whim_options *options, const whim_engine *engine, int64_t ctx);

/* "context 8192 tokens"; where the model has more also how many, and why they are not all there. */
void append_context(whim_str *out, const whim_options *options, const whim_engine *engine,
                    int64_t ctx);

/* What helps when a context of `ctx` tokens is too short. */
void append_context_hint(whim_str *out, int64_t ctx, const whim_config *config);

#endif
