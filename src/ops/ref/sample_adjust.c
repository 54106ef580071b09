/* SPDX-License-Identifier: Apache-2.0 */
/* Logit bias, penalties and masks: what changes a row's logits before the choice. Ids outside the
 * vocabulary change nothing. */
#include "ops/ref/sample_ref.h"

#include <math.h>
#include <string.h>

bool whim_sample_has_penalty(const whim_sample_want *p)
{
    return p->repetition_penalty != 1.0f || p->presence_penalty != 0.0f ||
           p->frequency_penalty != 0.0f;
}

static void bias_apply(whim_sample_slot *s, const int32_t *pairs, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        int32_t id = pairs[2 * i];
        float bias;
        memcpy(&bias, &pairs[2 * i + 1], sizeof bias);
        if (id >= 0 && id < s->n_vocab) {
            s->logits[id] += bias;
        }
    }
}

static void repetition_apply(whim_sample_slot *s, float penalty, const int32_t *ids, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        int32_t id = ids[i];
        if (id < 0 || id >= s->n_vocab || s->seen[id]) {
            continue;
        }
        s->seen[id] = 1;
        s->logits[id] = s->logits[id] > 0 ? s->logits[id] / penalty : s->logits[id] * penalty;
    }
}

static void seen_clear(whim_sample_slot *s, const int32_t *ids, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        if (ids[i] >= 0 && ids[i] < s->n_vocab) {
            s->seen[ids[i]] = 0;
            s->counts[ids[i]] = 0;
        }
    }
}

static void penalties_apply(whim_sample_slot *s, const whim_sample_want *p, const int32_t *lists)
{
    const int32_t *prompt = lists + p->prompt.at, *output = lists + p->output.at;
    int32_t n_prompt = p->prompt.n, n_output = p->output.n;
    seen_clear(s, prompt, n_prompt);
    seen_clear(s, output, n_output);
    if (p->repetition_penalty != 1.0f) {
        repetition_apply(s, p->repetition_penalty, prompt, n_prompt);
        repetition_apply(s, p->repetition_penalty, output, n_output);
    }
    for (int32_t i = 0; i < n_output; i++) {
        if (output[i] >= 0 && output[i] < s->n_vocab) {
            s->counts[output[i]]++;
        }
    }
    for (int32_t i = 0; i < n_output; i++) {
        int32_t id = output[i];
        if (id >= 0 && id < s->n_vocab && s->counts[id] > 0) {
            s->logits[id] -= p->presence_penalty + p->frequency_penalty * (float)s->counts[id];
            s->counts[id] = 0; /* once for each token */
        }
    }
}

/* Last: no bias brings a masked token back. */
static void mask_apply(whim_sample_slot *s, const int32_t *words, int32_t n_word)
{
    for (int32_t i = 0; i < s->n_vocab; i++) {
        bool in = i >> 5 < n_word && ((uint32_t)words[i >> 5] >> (i & 31) & 1) != 0;
        s->logits[i] = in ? s->logits[i] : -INFINITY;
    }
}

const float *whim_sample_adjust(whim_sample_slot *s, const whim_sample_want *p,
                                const int32_t *lists, const float *logits)
{
    if (p->bias.n == 0 && !whim_sample_has_penalty(p) && p->mask.at < 0) {
        return logits;
    }
    memcpy(s->logits, logits, (size_t)s->n_vocab * sizeof *s->logits);
    bias_apply(s, lists + p->bias.at, p->bias.n);
    if (whim_sample_has_penalty(p)) {
        penalties_apply(s, p, lists);
    }
    if (p->mask.at >= 0) {
        mask_apply(s, lists + p->mask.at, p->mask.n);
    }
    return s->logits;
}
