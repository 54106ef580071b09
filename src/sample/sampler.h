/* SPDX-License-Identifier: Apache-2.0 */
/* From a row of logits to a token. All that is random comes from a counter-based generator keyed by
 * (seed, choice, position), so that a token does not depend on what else was in the batch. Order of work:
 * mask, logit bias, penalties, temperature, top-k, top-p, min-p, draw. Temperature 0 is greedy (lowest id of equals).
 * Threads: params are plain data; a sampler belongs to one thread. */
#ifndef WHIM_SAMPLE_SAMPLER_H
#define WHIM_SAMPLE_SAMPLER_H

#include "base/err.h"
#include "tensor/rank_key.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct whim_logit_bias {
    int32_t id;
    float bias;
} whim_logit_bias;

typedef struct whim_sample_params {
    float temperature;        /* 0: greedy */
    int32_t top_k;            /* 0: off */
    float top_p;              /* 1: off */
    float min_p;              /* 0: off */
    float repetition_penalty; /* 1: off; over prompt and output, as in transformers */
    float presence_penalty;   /* 0: off; over the output only, as in the OpenAI API */
    float frequency_penalty;  /* 0: off; over the output only */
    const whim_logit_bias *bias;
    int32_t n_bias;
    uint64_t seed;
    int32_t n_logprob; /* alternatives wanted, 0: none but the token's own */
    bool want_logprob; /* the token's own log-probability */
} whim_sample_params;

/* Defaults: greedy off, temperature 1, nothing else. */
void whim_sample_params_init(whim_sample_params *params);

/* INVALID with the field, its value and its range. */
WHIM_MUST_CHECK whim_err whim_sample_params_check(const whim_sample_params *params, int32_t n_vocab,
                                                  whim_diag *diag);

enum { WHIM_MAX_LOGPROBS = 100 };

typedef struct whim_sampled {
    int32_t id;
    float logprob; /* of the raw distribution: log-softmax of the logits as the model gave them */
    int32_t n_top;
    int32_t top_id[WHIM_MAX_LOGPROBS]; /* best first, lower id first among equals */
    float top_logprob[WHIM_MAX_LOGPROBS];
} whim_sampled;

typedef struct whim_sampler whim_sampler;

/* Work space for one vocabulary size; nothing is allocated later. */
WHIM_MUST_CHECK whim_err whim_sampler_create(int32_t n_vocab, whim_sampler **out);
void whim_sampler_destroy(whim_sampler *sampler);

/* How many of the best logits of a row decide the token by themselves: 1 when it is the best one, top_k when
 * that is the first thing to look at the others (and at most WHIM_TOPK_MAX); 0 when all logits are needed: for
 * a bias, a penalty, log-probabilities, or a draw among all. The token is the same either way. A row with a mask
 * needs all logits whatever this says: the best of all need not be allowed. */
int32_t whim_sample_best_needed(const whim_sample_params *params, int32_t n_vocab);

/* What a row is drawn from: its logits and its own history. */
typedef struct whim_sample_row {
    const float *logits;   /* [n_vocab], or NULL: only the best are known */
    whim_ranked best;      /* without logits: at least whim_sample_best_needed of them */
    const int32_t *prompt; /* [n_prompt] */
    int64_t n_prompt;
    const int32_t *output; /* [n_output] tokens generated so far */
    int64_t n_output;
    int32_t choice; /* index of the choice (n > 1), 0 otherwise */
    /* Bit i: token i may come; ids beyond n_mask_word words may not. NULL: all may. Tokens that may not are out
     * before anything else looks at the logits; log-probabilities stay those of the logits as they came. */
    const uint32_t *mask;
    int64_t n_mask_word;
} whim_sample_row;

/* CORRUPT when a logit is NaN or +inf, or all are -inf; INVALID when the mask leaves no token. The parameters have
 * been checked. */
WHIM_MUST_CHECK whim_err whim_sampler_pick(whim_sampler *sampler, const whim_sample_params *params,
                                           const whim_sample_row *row, whim_sampled *out,
                                           whim_diag *diag);

/* Log-softmax of the logits at `n` ids: for prompt log-probabilities. The sum is taken in fixed tiles of
 * 1024, so that it has one order. */
void whim_logprobs_at(const float *logits, int32_t n_vocab, const int32_t *ids, int32_t n,
                      float *out);

/* The `k` likeliest tokens of a row (fewer when the vocabulary is smaller), best first, lower id first among
 * equals, with their log-probabilities; returns how many. */
int32_t whim_logprobs_top(const float *logits, int32_t n_vocab, int32_t k, int32_t *ids,
                          float *logprobs);

#endif
