/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `whimbrel quantize` share: cmd_quantize.c (flow and output) and quality.c (both
 * models on one text). Threads: the main thread. */
#ifndef WHIM_APPS_QUALITY_H
#define WHIM_APPS_QUALITY_H

#include "ask.h"
#include "sample/divergence.h"
#include "texts.h"

/* {0} is empty. */
typedef struct quality {
    const whim_options *options;
    int32_t *ids; /* the text, [n] */
    int64_t n;
    int32_t n_vocab;
    float *logits; /* of the first model, [n][n_vocab] */
    whim_divergence got;
    char skipped[512]; /* why there is no report, or "" */
} quality;

/* Read the text as the model's tokens, before anything is written; a model that has no tokenizer or
 * would not fit in memory is a reason to do without, said in `skipped`. False after a complaint. */
bool quality_prepare(quality *q, const whim_options *options, const char *in,
                     const whim_engine *engine);

/* Run one model after the other and compare. False after a complaint. */
bool quality_measure(quality *q, const char *in, const char *out);
void quality_free(quality *q);

#endif
