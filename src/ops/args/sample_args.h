/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of `sample`: from rows of logits to tokens and log-probabilities. What a row wants is a
 * record in device memory; lists of any length (bias, history, mask) lie one after the other in one
 * array of words. All that is random is keyed by (seed, choice, position), so that a token does not
 * depend on what else was in the batch. Order of work: logit bias, penalties, mask, temperature,
 * top-k, top-p, min-p, XTC, draw. */
#ifndef WHIM_OPS_ARGS_SAMPLE_ARGS_H
#define WHIM_OPS_ARGS_SAMPLE_ARGS_H

#include <stdint.h>

enum { WHIM_MAX_LOGPROBS = 100 };

typedef enum whim_sample_kind {
    WHIM_SAMPLE_NOTHING, /* token -1, and the logits are not looked at */
    WHIM_SAMPLE_DRAW,
    WHIM_SAMPLE_GIVEN, /* the token is known; bias, penalties, mask and filters have no say */
} whim_sample_kind;

/* `n` items from word `at` of the lists on; at -1: none, where that is not the same as n = 0. */
typedef struct whim_sample_list {
    int32_t at, n;
} whim_sample_list;

/* What one row wants. The parameters are in the ranges that sample/params.c checks. */
typedef struct whim_sample_want {
    uint64_t seed;
    int64_t position;  /* of the token in its sequence */
    int32_t choice;    /* of several answers to one prompt */
    int32_t kind;      /* whim_sample_kind */
    int32_t given;     /* the token of GIVEN, 0 .. n_col - 1 */
    float temperature; /* 0: greedy, the lowest id of equals */
    int32_t top_k;     /* 0: off */
    float top_p;       /* 1: off */
    float min_p;       /* 0: off */
    /* XTC: of the tokens that have at least this share of what the filters leave, only the least
     * likely stays, so that the obvious ones are out; 0: off */
    float xtc_threshold;
    float repetition_penalty;        /* 1: off; over prompt and output, each token once */
    float presence_penalty;          /* 0: off; over the output */
    float frequency_penalty;         /* 0: off; over the output */
    int32_t n_logprob;               /* likeliest tokens wanted, 0 .. WHIM_MAX_LOGPROBS */
    int32_t has_logprob;             /* not 0: the token's own log-probability is wanted */
    whim_sample_list bias;           /* pairs of words: id, float; one after the other */
    whim_sample_list prompt, output; /* token ids, for the penalties */
    /* bit i of the words: token i may come; ids beyond may not; -1: all may */
    whim_sample_list mask;
} whim_sample_want;

typedef enum whim_sample_state {
    WHIM_SAMPLED,
    WHIM_SAMPLE_BROKEN, /* logit odd_id is odd_value, NaN or +inf, and the first such */
    WHIM_SAMPLE_EMPTY,  /* all logits are -inf */
    WHIM_SAMPLE_BARRED, /* the mask leaves no token */
} whim_sample_state;

/* What came of a row. Log-probabilities are of the logits as they are, before bias, penalties and
 * mask. */
typedef struct whim_sample_told {
    int32_t state; /* whim_sample_state; the token is -1 unless it is SAMPLED */
    int32_t n_top; /* likeliest tokens told; 0 unless SAMPLED */
    float logprob; /* of the token: 0 where not wanted or BARRED, NaN where BROKEN or EMPTY */
    int32_t odd_id;
    float odd_value;
} whim_sample_told;

/* tokens[r] and told[r] from row r of the logits. Without logits (NULL) from its k_best largest (as
 * topk gives them): enough where a row is greedy, has top_k from 1 to k_best and below n_col, or is
 * GIVEN, and has neither bias, penalty, mask nor log-probabilities. The n_top likeliest tokens of
 * row r are told in the first columns of its tops, likeliest first, the lower id first among
 * equals; the other columns stay as they are. */
typedef struct whim_sample_args {
    const float *logits; /* [n_row, n_col], or NULL */
    int64_t logits_stride;
    const float *best_values; /* [n_row, k_best], dense; where there are no logits */
    const int32_t *best_ids;  /* [n_row, k_best] */
    int64_t k_best;
    const whim_sample_want *wants; /* [n_row] */
    const int32_t *lists;          /* [n_word], or NULL where n_word is 0 */
    int64_t n_word;
    int32_t *tokens;        /* [n_row] */
    whim_sample_told *told; /* [n_row] */
    int32_t *top_ids;       /* [n_row, WHIM_MAX_LOGPROBS] */
    float *top_logprobs;    /* [n_row, WHIM_MAX_LOGPROBS] */
    int64_t n_row, n_col;
} whim_sample_args;

/* Workspace for one row: per token a key, two floats, two ints and a byte. */
static inline int64_t whim_sample_slot_bytes(int64_t n_col)
{
    return (n_col * 25 + 63) / 64 * 64;
}

#endif
