/* SPDX-License-Identifier: Apache-2.0 */
/* What came of the step that was collected last. */
#include "runner/exec/inner.h"

static int32_t collected(const whim_exec *x)
{
    return x->n_collected > 0 ? (int32_t)((x->n_collected - 1) % whim_exec_flights(&x->cfg)) : 0;
}

/* Where output i lies among those of all groups. */
static int64_t place_of(const whim_exec *x, int64_t i)
{
    return whim_groups_place(&x->flights[collected(x)].groups, i);
}

int64_t whim_exec_n_vocab(const whim_exec *x)
{
    return x->config->n_vocab;
}

whim_step_size whim_exec_size(const whim_exec *x)
{
    return whim_outputs_size(&x->outputs, collected(x));
}

whim_err whim_exec_sampled(const whim_exec *x, int64_t i, whim_sampled *out, whim_diag *diag)
{
    return whim_sampling_take(&x->sampling, collected(x), place_of(x, i), out, diag);
}

const float *whim_exec_logits(const whim_exec *x, int64_t i)
{
    return whim_outputs_logits(&x->outputs, collected(x), place_of(x, i));
}

whim_ranked whim_exec_best(const whim_exec *x, int64_t i)
{
    return whim_outputs_top(&x->outputs, collected(x), place_of(x, i));
}

const float *whim_exec_hidden(const whim_exec *x, int32_t c, int64_t r)
{
    return whim_outputs_hidden(&x->outputs, collected(x), c, r);
}

float *whim_exec_capture(whim_exec *x, int32_t c)
{
    return whim_outputs_capture(&x->outputs, c);
}

float *whim_exec_embeds(whim_exec *x)
{
    return x->embeds;
}
