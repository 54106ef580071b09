/* SPDX-License-Identifier: Apache-2.0 */
/* Random rows of logits and random wants for the op `sample`: every parameter, ties, infinities and
 * NaN. A row is a function of its key. */
#ifndef SUPPORT_SAMPLE_ROWS_H
#define SUPPORT_SAMPLE_ROWS_H

#include "base/math/rng.h"
#include "ops/ops.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { SAMPLE_ROWS_PAIRS = 40, SAMPLE_ROWS_HISTORY = 60, SAMPLE_ROWS_PROFILES = 11 };

/* Words that the lists of one row take at most. */
static inline int64_t sample_rows_words(int64_t n_vocab)
{
    return 2 * SAMPLE_ROWS_PAIRS + 2 * SAMPLE_ROWS_HISTORY + n_vocab / 32 + 3;
}

typedef struct sample_rows_rng {
    uint64_t key, at;
} sample_rows_rng;

static inline int64_t sample_rows_below(sample_rows_rng *rng, int64_t n)
{
    return (int64_t)(whim_rng_at(rng->key, rng->at++) % (uint64_t)n);
}

#define SAMPLE_ROWS_PICK(rng, list) \
    ((list)[sample_rows_below(rng, (int64_t)(sizeof(list) / sizeof((list)[0])))])

static inline float sample_rows_logit(sample_rows_rng *rng, int64_t profile)
{
    static const float extreme[] = {0,     -0.0f, 1e-40f, -1e-40f, 3.4e38f,   -3.4e38f,
                                    1e37f, 88,    -88,    1e-10f,  -INFINITY, 65504};
    float x = whim_rng_normal_at(rng->key, rng->at++);
    switch (profile) {
    case 0:
    case 6: /* and one odd value */
        return 3 * x;
    case 1:
        return 0.01f * x;
    case 2:
        return roundf(4 * x) / 2;
    case 3:
        return sample_rows_below(rng, 50) == 0 ? x : -INFINITY;
    case 4:
        return 40 * x;
    case 5:
        return SAMPLE_ROWS_PICK(rng, extreme);
    case 7:
        return -INFINITY;
    case 8: /* and one peak */
        return 2 * x - 15;
    case 9:
        return 1.5f;
    default:
        return sample_rows_below(rng, 400) == 0 ? NAN
               : sample_rows_below(rng, 9) == 0 ? -INFINITY
                                                : x;
    }
}

/* Fill a row; profile: 0 .. SAMPLE_ROWS_PROFILES - 1. */
static inline void sample_rows_logits(uint64_t key, int64_t profile, float *x, int64_t n)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, -NAN};
    sample_rows_rng rng = {whim_rng_key(key, 1), 0};
    for (int64_t i = 0; i < n; i++) {
        x[i] = sample_rows_logit(&rng, profile);
    }
    if (profile == 6 && n > 0) {
        x[sample_rows_below(&rng, n)] = SAMPLE_ROWS_PICK(&rng, odd);
    }
    if (profile == 8 && n > 0) {
        x[sample_rows_below(&rng, n)] = 20;
    }
}

static inline whim_sample_list sample_rows_ids(sample_rows_rng *rng, int64_t n_vocab,
                                               int32_t *lists, int64_t *used)
{
    whim_sample_list list = {(int32_t)*used,
                             (int32_t)sample_rows_below(rng, SAMPLE_ROWS_HISTORY + 1)};
    for (int32_t i = 0; i < list.n; i++) { /* some beyond the vocabulary, many twice */
        int64_t most = sample_rows_below(rng, 2) == 0 ? 5 : n_vocab + 2;
        lists[(*used)++] = (int32_t)sample_rows_below(rng, most) - 1;
    }
    return list;
}

static inline whim_sample_list sample_rows_bias(sample_rows_rng *rng, int64_t n_vocab,
                                                int32_t *lists, int64_t *used)
{
    static const float amounts[] = {100, -100, 1.5f, -0.25f, 30};
    whim_sample_list list = {(int32_t)*used, (int32_t)sample_rows_below(rng, SAMPLE_ROWS_PAIRS)};
    for (int32_t i = 0; i < list.n; i++) {
        float amount = SAMPLE_ROWS_PICK(rng, amounts);
        lists[(*used)++] = (int32_t)sample_rows_below(rng, n_vocab + 2) - 1;
        memcpy(&lists[(*used)++], &amount, sizeof amount);
    }
    return list;
}

static inline whim_sample_list sample_rows_mask(sample_rows_rng *rng, int64_t n_vocab,
                                                int32_t *lists, int64_t *used)
{
    int64_t kind = sample_rows_below(rng, 6), n_word = (n_vocab + 31) / 32;
    n_word = kind == 0 ? sample_rows_below(rng, n_word + 1) : n_word + sample_rows_below(rng, 3);
    whim_sample_list list = {(int32_t)*used, (int32_t)n_word};
    for (int64_t i = 0; i < n_word; i++) {
        uint64_t r = whim_rng_at(rng->key, rng->at++);
        bool whole = kind == 5 || (kind == 1 && r >> 60 != 0), rare = kind == 3 && r >> 61 != 0;
        lists[(*used)++] = whole ? -1 : kind == 4 || rare ? 0 : (int32_t)(uint32_t)r;
    }
    return list;
}

static inline void sample_rows_changes(sample_rows_rng *rng, int64_t n_vocab, int32_t *lists,
                                       int64_t *used, whim_sample_want *w)
{
    static const float repetitions[] = {0.01f, 1.3f, 0.8f, 100}, amounts[] = {0.5f, -2, 100, -100};
    if (sample_rows_below(rng, 4) == 0) {
        w->bias = sample_rows_bias(rng, n_vocab, lists, used);
    }
    if (sample_rows_below(rng, 4) == 0) {
        w->repetition_penalty = SAMPLE_ROWS_PICK(rng, repetitions);
    }
    if (sample_rows_below(rng, 6) == 0) {
        w->presence_penalty = SAMPLE_ROWS_PICK(rng, amounts);
    }
    if (sample_rows_below(rng, 6) == 0) {
        w->frequency_penalty = SAMPLE_ROWS_PICK(rng, amounts);
    }
    w->prompt = sample_rows_ids(rng, n_vocab, lists, used);
    w->output = sample_rows_ids(rng, n_vocab, lists, used);
    if (sample_rows_below(rng, 4) == 0) {
        w->mask = sample_rows_mask(rng, n_vocab, lists, used);
    }
}

/* A want for a row of n_vocab logits (at least one); its lists go to lists[*used] on. k_best > 0:
 * one for which that many of the best are enough. */
static inline whim_sample_want sample_rows_want(uint64_t key, int64_t n_vocab, int64_t k_best,
                                                int32_t *lists, int64_t *used)
{
    static const float temperatures[] = {0, 1, 1, 0.7f, 1e-30f, 0.01f, 2.5f, 100};
    static const float top_ps[] = {1, 1, 1, 0.95f, 0.5f, 0, 0.999f};
    static const float min_ps[] = {0, 0, 0, 0.05f, 1};
    static const float xtc_thresholds[] = {0, 0, 0, 0.1f, 0.01f, 1e-6f, 1};
    static const int32_t n_logprobs[] = {0, 0, 1, 5, 100};
    const int32_t top_ks[] = {0, 0, 0, 1, 2, 20, 64, 65, 700, (int32_t)n_vocab, INT32_MAX};
    sample_rows_rng rng = {whim_rng_key(key, 2), 0};
    int64_t kind = sample_rows_below(&rng, 16);
    whim_sample_want w = {
        .seed = whim_rng_at(key, 3),
        .position = sample_rows_below(&rng, 100000),
        .choice = (int32_t)sample_rows_below(&rng, 4),
        .kind = kind == 0  ? WHIM_SAMPLE_NOTHING
                : kind < 3 ? WHIM_SAMPLE_GIVEN
                           : WHIM_SAMPLE_DRAW,
        .given = (int32_t)sample_rows_below(&rng, n_vocab),
        .temperature = SAMPLE_ROWS_PICK(&rng, temperatures),
        .top_k = SAMPLE_ROWS_PICK(&rng, top_ks),
        .top_p = SAMPLE_ROWS_PICK(&rng, top_ps),
        .min_p = SAMPLE_ROWS_PICK(&rng, min_ps),
        .xtc_threshold = SAMPLE_ROWS_PICK(&rng, xtc_thresholds),
        .repetition_penalty = 1,
        .mask = {.at = -1},
    };
    if (k_best > 0) {
        int64_t most = k_best < n_vocab - 1 ? k_best : n_vocab - 1;
        w.top_k = most > 0 ? 1 + (int32_t)sample_rows_below(&rng, most) : 1;
        return w;
    }
    w.has_logprob = sample_rows_below(&rng, 3) == 0;
    w.n_logprob = SAMPLE_ROWS_PICK(&rng, n_logprobs);
    sample_rows_changes(&rng, n_vocab, lists, used, &w);
    return w;
}

#endif
