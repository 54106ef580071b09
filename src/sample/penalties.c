/* SPDX-License-Identifier: Apache-2.0 */
/* Logit bias, penalties and masks: what changes a row's logits before the choice. */
#include "sample/sampler_impl.h"

#include <math.h>
#include <string.h>

bool whim_sample_has_penalty(const whim_sample_params *p)
{
    return p->repetition_penalty != 1.0f || p->presence_penalty != 0.0f ||
           p->frequency_penalty != 0.0f;
}

static void repetition_apply(whim_sampler *s, float penalty, const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int32_t id = ids[i];
        if (id < 0 || id >= s->n_vocab || s->seen[id]) {
            continue;
        }
        s->seen[id] = 1;
        s->logits[id] = s->logits[id] > 0 ? s->logits[id] / penalty : s->logits[id] * penalty;
    }
}

static void seen_clear(whim_sampler *s, const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] >= 0 && ids[i] < s->n_vocab) {
            s->seen[ids[i]] = 0;
            s->counts[ids[i]] = 0;
        }
    }
}

static void penalties_apply(whim_sampler *s, const whim_sample_params *p,
                            const whim_sample_row *row)
{
    if (p->repetition_penalty != 1.0f) {
        repetition_apply(s, p->repetition_penalty, row->prompt, row->n_prompt);
        repetition_apply(s, p->repetition_penalty, row->output, row->n_output);
    }
    for (int64_t i = 0; i < row->n_output; i++) {
        if (row->output[i] >= 0 && row->output[i] < s->n_vocab) {
            s->counts[row->output[i]]++;
        }
    }
    for (int64_t i = 0; i < row->n_output; i++) {
        int32_t id = row->output[i];
        if (id >= 0 && id < s->n_vocab && s->counts[id] > 0) {
            s->logits[id] -= p->presence_penalty + p->frequency_penalty * (float)s->counts[id];
            s->counts[id] = 0; /* once for each token */
        }
    }
    seen_clear(s, row->prompt, row->n_prompt);
    seen_clear(s, row->output, row->n_output);
}

/* Last: no bias brings a masked token back. */
static void mask_apply(whim_sampler *s, const whim_sample_row *row)
{
    for (int32_t i = 0; i < s->n_vocab; i++) {
        bool in = i >> 5 < row->n_mask_word && (row->mask[i >> 5] >> (i & 31) & 1) != 0;
        s->logits[i] = in ? s->logits[i] : -INFINITY;
    }
}

const float *whim_sampler_adjust(whim_sampler *s, const whim_sample_params *p,
                                 const whim_sample_row *row)
{
    if (p->n_bias == 0 && !whim_sample_has_penalty(p) && row->mask == NULL) {
        return row->logits;
    }
    memcpy(s->logits, row->logits, (size_t)s->n_vocab * sizeof *s->logits);
    for (int32_t i = 0; i < p->n_bias; i++) {
        if (p->bias[i].id >= 0 && p->bias[i].id < s->n_vocab) {
            s->logits[p->bias[i].id] += p->bias[i].bias;
        }
    }
    if (whim_sample_has_penalty(p)) {
        penalties_apply(s, p, row);
    }
    if (row->mask != NULL) {
        mask_apply(s, row);
    }
    return s->logits;
}
