/* SPDX-License-Identifier: Apache-2.0 */
/* Sampling parameters: defaults and ranges. */
#include "sample/sampler.h"

#include <math.h>

void whim_sample_params_init(whim_sample_params *params)
{
    *params = (whim_sample_params){.temperature = 1, .top_p = 1, .repetition_penalty = 1};
}

static whim_err range_check(const char *name, float value, float least, float most, whim_diag *diag)
{
    if (value >= least && value <= most) {
        return WHIM_ERR_OK;
    }
    return whim_fail(diag, WHIM_ERR_INVALID, "%s is %g; expected a number from %g to %g", name,
                     (double)value, (double)least, (double)most);
}

whim_err whim_sample_params_check(const whim_sample_params *p, int32_t n_vocab, whim_diag *diag)
{
    WHIM_TRY(range_check("temperature", p->temperature, 0, 100, diag));
    WHIM_TRY(range_check("top_p", p->top_p, 0, 1, diag));
    WHIM_TRY(range_check("min_p", p->min_p, 0, 1, diag));
    WHIM_TRY(range_check("xtc_probability", p->xtc_probability, 0, 1, diag));
    WHIM_TRY(range_check("xtc_threshold", p->xtc_threshold, 0, 1, diag));
    WHIM_TRY(range_check("repetition_penalty", p->repetition_penalty, 0.01f, 100, diag));
    WHIM_TRY(range_check("presence_penalty", p->presence_penalty, -100, 100, diag));
    WHIM_TRY(range_check("frequency_penalty", p->frequency_penalty, -100, 100, diag));
    if (p->top_k < 0) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "top_k is %d; expected 0 (off) or a number of tokens", p->top_k);
    }
    if (p->n_logprob < 0 || p->n_logprob > WHIM_MAX_LOGPROBS) {
        return whim_fail(
            diag, WHIM_ERR_INVALID,
            "%d alternatives with log-probabilities were asked for; at most %d are given",
            p->n_logprob, WHIM_MAX_LOGPROBS);
    }
    /* Lists have room for the vocabulary; a row that needs more would fail its whole step. */
    if (p->n_bias < 0 || p->n_bias > n_vocab || (p->n_bias > 0 && p->bias == NULL)) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "logit_bias has %d entries%s; expected 0 to %d, one for a token",
                         p->n_bias, p->bias == NULL ? " and no list of them" : "", n_vocab);
    }
    for (int32_t i = 0; i < p->n_bias; i++) {
        if (p->bias[i].id < 0 || p->bias[i].id >= n_vocab) {
            return whim_fail(diag, WHIM_ERR_INVALID,
                             "logit_bias names token %d; the vocabulary goes from 0 to %d",
                             p->bias[i].id, n_vocab - 1);
        }
        WHIM_TRY(range_check("logit_bias", p->bias[i].bias, -100, 100, diag));
    }
    return WHIM_ERR_OK;
}
