/* SPDX-License-Identifier: Apache-2.0 */
/* Asks become records and lists for the op; what it tells becomes tokens and messages. */
#include "sample/sampler.h"

#include "base/math/rng.h"
#include "ops/args/row_args.h"

#include <string.h>

static const uint64_t XTC_KEY = 0x787463;

static bool penalises(const whim_sample_params *p)
{
    return p->repetition_penalty != 1.0f || p->presence_penalty != 0.0f ||
           p->frequency_penalty != 0.0f;
}

bool whim_sample_params_look_back(const whim_sample_params *p)
{
    return penalises(p) || p->history != NULL;
}

int32_t whim_sample_best_needed(const whim_sample_ask *ask, int32_t n_vocab)
{
    const whim_sample_params *p = ask->params;
    if (ask->brings_logits) {
        return 0;
    }
    if (p != NULL && (p->want_logprob || p->n_logprob > 0)) {
        return 0;
    }
    if (p == NULL || ask->is_given) {
        return 1;
    }
    if (p->n_bias > 0 || whim_sample_params_look_back(p) || ask->mask != NULL) {
        return 0;
    }
    if (p->temperature == 0.0f || p->top_k == 1) {
        return 1;
    }
    /* A top_k of the whole vocabulary adds weights in another order. */
    return p->top_k <= WHIM_TOPK_MAX && p->top_k < n_vocab ? p->top_k : 0;
}

/* Whether XTC acts on the token: keyed as its draw is, apart from it. */
static float xtc_threshold_at(const whim_sample_ask *ask)
{
    const whim_sample_params *p = ask->params;
    uint64_t key = whim_rng_key(whim_rng_key(p->seed, (uint64_t)ask->choice), XTC_KEY);
    double u = whim_rng_uniform53_at(key, (uint64_t)(ask->n_prompt + ask->n_output));
    return u < (double)p->xtc_probability ? p->xtc_threshold : 0;
}

/* The prompt counts for one penalty only. */
static int64_t prompt_words(const whim_sample_ask *ask)
{
    return ask->params->repetition_penalty != 1.0f ? ask->n_prompt : 0;
}

static int64_t output_words(const whim_sample_ask *ask)
{
    return penalises(ask->params) ? ask->n_output : 0;
}

/* How many pairs come of the history is not known before they are made. */
static int64_t history_words(const whim_sample_ask *ask)
{
    return ask->params->history != NULL ? 2 * WHIM_HISTORY_PAIRS : 0;
}

int64_t whim_sample_words(const whim_sample_ask *ask)
{
    if (ask->params == NULL || ask->is_given) {
        return 0;
    }
    return 2 * (int64_t)ask->params->n_bias + history_words(ask) + prompt_words(ask) +
           output_words(ask) + (ask->mask != NULL ? ask->n_mask_word : 0);
}

whim_err whim_sample_words_check(const whim_sample_ask *ask, int64_t most, whim_diag *diag)
{
    int64_t words = whim_sample_words(ask);
    if (words <= most) {
        return WHIM_ERR_OK;
    }
    return whim_fail(diag, WHIM_ERR_INVALID,
                     "the bias, history and mask of a row take %lld words; %lld are the most that "
                     "can be",
                     (long long)words, (long long)most);
}

static whim_sample_list list_put(int32_t *lists, int64_t *used, const void *from, int64_t n,
                                 int64_t words_each)
{
    whim_sample_list list = {(int32_t)*used, (int32_t)n};
    if (n > 0) {
        memcpy(lists + *used, from, (size_t)(n * words_each) * sizeof *lists);
    }
    *used += n * words_each;
    return list;
}

/* Behind the pairs of the bias. */
static int32_t history_put(const whim_sample_ask *ask, int32_t *lists, int64_t *used)
{
    whim_logit_bias pairs[WHIM_HISTORY_PAIRS];
    const whim_history_rules *rules = ask->params->history;
    if (rules == NULL) {
        return 0;
    }
    int32_t n =
        whim_history_bias(rules, ask->prompt, ask->n_prompt, ask->output, ask->n_output, pairs);
    return list_put(lists, used, pairs, n, 2).n;
}

void whim_sample_pack(const whim_sample_ask *ask, int32_t *lists, int64_t *used,
                      whim_sample_want *want)
{
    const whim_sample_params *p = ask->params;
    *want = (whim_sample_want){
        .seed = p->seed,
        .position = ask->n_prompt + ask->n_output,
        .choice = ask->choice,
        .kind = ask->is_given ? WHIM_SAMPLE_GIVEN : WHIM_SAMPLE_DRAW,
        .given = ask->given,
        .temperature = p->temperature,
        .top_k = p->top_k,
        .top_p = p->top_p,
        .min_p = p->min_p,
        .xtc_threshold = xtc_threshold_at(ask),
        .repetition_penalty = p->repetition_penalty,
        .presence_penalty = p->presence_penalty,
        .frequency_penalty = p->frequency_penalty,
        .n_logprob = p->n_logprob,
        .has_logprob = p->want_logprob,
        .mask = {.at = -1},
    };
    if (ask->is_given) {
        return;
    }
    _Static_assert(sizeof(whim_logit_bias) == 2 * sizeof(int32_t), "pairs of words");
    want->bias = list_put(lists, used, p->bias, p->n_bias, 2);
    want->bias.n += history_put(ask, lists, used);
    want->prompt = list_put(lists, used, ask->prompt, prompt_words(ask), 1);
    want->output = list_put(lists, used, ask->output, output_words(ask), 1);
    if (ask->mask != NULL) {
        want->mask = list_put(lists, used, ask->mask, ask->n_mask_word, 1);
    }
}

whim_err whim_sampled_take(whim_sampled *out, int32_t token, const whim_sample_told *told,
                           const int32_t *top_ids, const float *top_logprobs, whim_diag *diag)
{
    out->id = token;
    out->logprob = told->logprob;
    out->n_top = told->n_top;
    memcpy(out->top_id, top_ids, (size_t)told->n_top * sizeof *top_ids);
    memcpy(out->top_logprob, top_logprobs, (size_t)told->n_top * sizeof *top_logprobs);
    switch (told->state) {
    case WHIM_SAMPLE_BROKEN:
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "logit %d is not a number (%f): the weights must be broken", told->odd_id,
                         (double)told->odd_value);
    case WHIM_SAMPLE_EMPTY:
        return whim_fail(diag, WHIM_ERR_CORRUPT, "all logits are -inf: the weights must be broken");
    case WHIM_SAMPLE_BARRED:
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "no token is left with which the answer may continue");
    default:
        return WHIM_ERR_OK;
    }
}
