/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side of the op `sample` (ops/args/sample_args.h): parameters, what a row asks for,
 * what it was told.
 * Threads: plain data. */
#ifndef WHIM_SAMPLE_SAMPLER_H
#define WHIM_SAMPLE_SAMPLER_H

#include "base/err.h"
#include "ops/args/sample_args.h"
#include "sample/history.h"
#include "tensor/rank_key.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct whim_sample_params {
    float temperature;     /* 0: greedy */
    int32_t top_k;         /* 0: off */
    float top_p;           /* 1: off */
    float min_p;           /* 0: off */
    float xtc_probability; /* of XTC at a token (ops/args/sample_args.h); 0: off */
    float xtc_threshold;
    float repetition_penalty; /* 1: off; over prompt and output, as in transformers */
    float presence_penalty;   /* 0: off; over the output only, as in the OpenAI API */
    float frequency_penalty;  /* 0: off; over the output only */
    const whim_logit_bias *bias;
    int32_t n_bias;
    const whim_history_rules *history; /* NULL: none */
    uint64_t seed;
    int32_t n_logprob; /* alternatives wanted, 0: none but the token's own */
    bool want_logprob; /* the token's own log-probability */
} whim_sample_params;

/* Defaults: greedy off, temperature 1, nothing else. */
void whim_sample_params_init(whim_sample_params *params);

/* INVALID with the field, its value and its range. */
WHIM_MUST_CHECK whim_err whim_sample_params_check(const whim_sample_params *params, int32_t n_vocab,
                                                  whim_diag *diag);

/* Whether a choice depends on the tokens before it. */
bool whim_sample_params_look_back(const whim_sample_params *params);

typedef struct whim_sampled {
    int32_t id;
    float logprob; /* of the raw distribution: log-softmax of the logits as the model gave them */
    int32_t n_top;
    int32_t top_id[WHIM_MAX_LOGPROBS]; /* best first, lower id first among equals */
    float top_logprob[WHIM_MAX_LOGPROBS];
} whim_sampled;

/* What one row of logits is for: its parameters and its own history. */
typedef struct whim_sample_ask {
    const whim_sample_params *params; /* checked; NULL: nothing is wanted of this row */
    const int32_t *prompt;            /* [n_prompt] */
    int64_t n_prompt;
    const int32_t *output; /* [n_output] tokens generated so far */
    int64_t n_output;
    int32_t choice; /* index of the choice (n > 1), 0 otherwise */
    /* nothing is chosen: the token is `given`, and its log-probability may be wanted */
    bool is_given;
    int32_t given;
    bool brings_logits; /* the row itself goes to the host, too */
    /* Bit i: token i may come; ids beyond n_mask_word words may not. NULL: all may. Tokens that may
     * not are out before anything else looks at the logits; log-probabilities stay those of the
     * logits as they came. */
    const uint32_t *mask;
    int64_t n_mask_word;
} whim_sample_ask;

/* How many of the best logits of a row decide the token by themselves: 1 when it is the best one or
 * given, top_k when that is the first thing to look at the others (and at most WHIM_TOPK_MAX); 0
 * when all logits are needed: for a bias, a penalty, a mask, log-probabilities, or a draw among
 * all. The token is the same either way. */
int32_t whim_sample_best_needed(const whim_sample_ask *ask, int32_t n_vocab);

/* Words that the lists of a row take at most; INVALID when they are more than `most`; write them
 * from lists[*used] on, and the record that the op takes. */
int64_t whim_sample_words(const whim_sample_ask *ask);
WHIM_MUST_CHECK whim_err whim_sample_words_check(const whim_sample_ask *ask, int64_t most,
                                                 whim_diag *diag);
void whim_sample_pack(const whim_sample_ask *ask, int32_t *lists, int64_t *used,
                      whim_sample_want *want);

/* What the op gave for a row, as a token. CORRUPT when a logit is NaN or +inf, or all are -inf;
 * INVALID when the mask leaves no token. */
WHIM_MUST_CHECK whim_err whim_sampled_take(whim_sampled *out, int32_t token,
                                           const whim_sample_told *told, const int32_t *top_ids,
                                           const float *top_logprobs, whim_diag *diag);

#endif
