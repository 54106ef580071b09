/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the law of `sample` share. */
#ifndef WHIM_OPS_REF_SAMPLE_REF_H
#define WHIM_OPS_REF_SAMPLE_REF_H

#include "ops/args/sample_args.h"

#include <stdbool.h>

/* A slot of the op's workspace, [n_vocab] each. */
typedef struct whim_sample_slot {
    int32_t n_vocab;
    uint64_t *keys; /* for ranking */
    float *logits;  /* after bias, penalties and mask */
    float *weights;
    int32_t *cands;  /* ids whose weight may be more than 0, in order */
    int32_t *counts; /* in the output */
    uint8_t *seen;   /* in prompt or output */
    int32_t n_cand;
} whim_sample_slot;

bool whim_sample_has_penalty(const whim_sample_want *want);

/* The logits that the choice is made from, after bias, penalties and mask: the row itself when
 * nothing changes it. */
const float *whim_sample_adjust(whim_sample_slot *s, const whim_sample_want *want,
                                const int32_t *lists, const float *logits);

/* Log-softmax of the logits at `n` ids. The sum is taken in fixed tiles of 1024, so that it has one
 * order. */
void whim_sample_logprobs_at(const float *logits, int32_t n_vocab, const int32_t *ids, int32_t n,
                             float *out);

/* The `k` likeliest tokens of a row (fewer when the vocabulary is smaller), best first, lower id
 * first among equals, with their log-probabilities; returns how many. */
int32_t whim_sample_logprobs_top(const float *logits, int32_t n_vocab, int32_t k, int32_t *ids,
                                 float *logprobs);

#endif
