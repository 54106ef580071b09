/* SPDX-License-Identifier: Apache-2.0 */
/* One row through the law of `sample`: packed as a step packs it, chosen by ops/ref/, taken as a
 * step takes it. */
#ifndef SUPPORT_LAW_SAMPLER_H
#define SUPPORT_LAW_SAMPLER_H

#include "base/check.h"
#include "ops/ops.h"
#include "sample/sampler.h"

#include <stdlib.h>

typedef struct law_row {
    const float *logits; /* [n_vocab], or NULL: only the best are known */
    const float *values; /* [n_best] */
    const int32_t *ids;  /* [n_best] */
    int32_t n_best;
    whim_sample_ask ask; /* but for its parameters */
} law_row;

typedef struct law_sampler {
    int32_t n_vocab;
    void *space;    /* of the op, for one row */
    int32_t *lists; /* [n_word] */
    int64_t n_word;
} law_sampler;

static inline law_sampler law_sampler_open(int32_t n_vocab)
{
    law_sampler s = {.n_vocab = n_vocab, .n_word = 4 * (int64_t)n_vocab + 4096};
    s.space = malloc((size_t)whim_sample_slot_bytes(n_vocab));
    s.lists = malloc((size_t)s.n_word * sizeof *s.lists);
    whim_check(s.space != NULL && s.lists != NULL);
    return s;
}

static inline void law_sampler_close(law_sampler *s)
{
    free(s->space);
    free(s->lists);
}

static inline whim_err law_pick(const law_sampler *s, const whim_sample_params *params,
                                const law_row *row, whim_sampled *out, whim_diag *diag)
{
    whim_stream law;
    whim_sample_want want;
    whim_sample_told told;
    int32_t token, top_ids[WHIM_MAX_LOGPROBS];
    float top_logprobs[WHIM_MAX_LOGPROBS];
    int64_t used = 0;
    whim_sample_ask ask = row->ask;
    ask.params = params;
    whim_check(whim_sample_words(&ask) <= s->n_word);
    whim_check(row->logits != NULL || (whim_sample_best_needed(&ask, s->n_vocab) > 0 &&
                                       whim_sample_best_needed(&ask, s->n_vocab) <= row->n_best));
    whim_sample_pack(&ask, s->lists, &used, &want);
    whim_check(used <= whim_sample_words(&ask));
    whim_law_stream_init(&law);
    law.workspace = (whim_workspace){s->space, whim_sample_slot_bytes(s->n_vocab), 0, 0};
    whim_sample_args args = {
        .logits = row->logits,
        .logits_stride = s->n_vocab,
        .best_values = row->values,
        .best_ids = row->ids,
        .k_best = row->n_best,
        .wants = &want,
        .lists = s->lists,
        .n_word = used,
        .tokens = &token,
        .told = &told,
        .top_ids = top_ids,
        .top_logprobs = top_logprobs,
        .n_row = 1,
        .n_col = s->n_vocab,
    };
    whim_check(whim_op_sample(&law, &args) == WHIM_ERR_OK);
    return whim_sampled_take(out, token, &told, top_ids, top_logprobs, diag);
}

#endif
