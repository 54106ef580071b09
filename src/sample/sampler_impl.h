/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a sampler, for the files of this folder. */
#ifndef WHIM_SAMPLE_SAMPLER_IMPL_H
#define WHIM_SAMPLE_SAMPLER_IMPL_H

#include "sample/sampler.h"

struct whim_sampler {
    int32_t n_vocab;
    float *logits;  /* [n_vocab] after bias and penalties */
    float *weights; /* [n_vocab] */
    uint64_t *keys; /* [n_vocab] for ranking */
    int32_t *cands; /* [n_vocab] ids whose weight may be more than 0, in order */
    int32_t n_cand;
    int32_t *counts; /* [n_vocab] in the output; all zero between picks */
    uint8_t *seen;   /* [n_vocab] in prompt or output; all zero between picks */
};

bool whim_sample_has_penalty(const whim_sample_params *p);

/* The logits that the choice is made from, after bias, penalties and mask: the row itself when nothing changes it. */
const float *whim_sampler_adjust(whim_sampler *s, const whim_sample_params *p,
                                 const whim_sample_row *row);

#endif
