/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens in, text out: one sequence's loop of feeding, choosing, turning into text and looking for an end.
 * A generator keeps what it fed last: a prompt that begins like the tokens before costs only what is new.
 *
 * Invariants:
 *  1. What comes out depends on the prompt and the request alone, not on what the generator did before.
 *  2. Text is shown in whole characters, and never a part of a stop string.
 *  3. What does not fit is told (FULL or WHIM_END_CONTEXT), never cut.
 * Threads: one owner, the runner's. */
#ifndef WHIM_ENGINE_GENERATE_H
#define WHIM_ENGINE_GENERATE_H

#include "base/err.h"
#include "runner/runner.h"
#include "sample/sampler.h"
#include "text/tokenizer.h"
#include "weights/config.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct whim_generator whim_generator;

typedef struct whim_generator_cfg {
    whim_runner *runner; /* borrowed, as are the others */
    const whim_config *config;
    const whim_tokenizer *tok; /* NULL: ids only, no text and no stop strings */
    int64_t ctx;               /* longest sequence */
    int64_t max_step_tokens;   /* rows of one step */
    int64_t max_outs;          /* rows of one step that may have logits */
} whim_generator_cfg;

WHIM_MUST_CHECK whim_err whim_generator_create(const whim_generator_cfg *cfg, whim_generator **out);
void whim_generator_destroy(whim_generator *gen);

typedef enum whim_end {
    WHIM_END_EOS,        /* a stop id, which is the last of the ids */
    WHIM_END_STOP,       /* a stop string */
    WHIM_END_LENGTH,     /* max_tokens */
    WHIM_END_CONTEXT,    /* the context is full */
    WHIM_END_KV,         /* the memory for keys and values is full */
    WHIM_END_INTERRUPT,  /* the caller's flag was set */
    WHIM_END_REPETITION, /* it went round in a circle (sample/repetition.h) */
} whim_end;

/* "eos", "stop", "length", "context", "context", "interrupt", "repetition". */
const char *whim_end_name(whim_end end);

/* What a generation reports while it runs; any of them may be NULL. */
typedef struct whim_generate_events {
    void (*on_token)(void *ctx, const whim_sampled *token);
    void (*on_text)(void *ctx, const char *text, int64_t n); /* whole characters, n > 0 */
    /* The logits from which token `i` (1 .. n_prompt - 1) of the prompt would have been predicted, in order. */
    void (*on_prompt_row)(void *ctx, int64_t i, int32_t id, const float *logits);
    void *ctx;
} whim_generate_events;

typedef struct whim_generate_request {
    const int32_t *prompt; /* [n_prompt], at least one */
    int64_t n_prompt;
    const whim_sample_params *params;
    const int32_t *stop_ids;
    int32_t n_stop_id;
    const char *const *stops; /* stop strings */
    int32_t n_stop;
    int64_t max_tokens;                     /* 0: until the context is full */
    int64_t max_repeated;                   /* tokens of one cycle that end it; 0: any */
    bool show_special;                      /* special tokens as text */
    const volatile sig_atomic_t *interrupt; /* looked at between steps; NULL: never */
    whim_generate_events events;
} whim_generate_request;

typedef struct whim_generated {
    whim_end end;
    int32_t stop;       /* index of the stop string, -1 otherwise */
    const int32_t *ids; /* [n_id] the generator's; valid until its next call */
    int64_t n_id;
    int64_t n_reused;  /* tokens of the prompt that were there already */
    int64_t n_context; /* positions that the sequence holds now */
    double prompt_s, gen_s;
} whim_generated;

/* Run a request to its end. FULL when the prompt does not fit the context or the KV memory; then `out` says
 * nothing. An interrupt during the prompt ends without a token. */
WHIM_MUST_CHECK whim_err whim_generate(whim_generator *gen, const whim_generate_request *request,
                                       whim_generated *out, whim_diag *diag);

/* The ids that end an answer: those of the configuration and those of the tokenizer (may be NULL), each once.
 * Returns how many of at most `max` there are. */
int32_t whim_stop_ids(const whim_config *config, const whim_tokenizer *tok, int32_t *out,
                      int32_t max);

#endif
