/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences and their comparison, bit by bit. */
#include "invariance/invariance.h"

#include "base/math/rng.h"

#include <stdlib.h>
#include <string.h>

bool set_init(sequence_set *set, int32_t n, int32_t n_probe, const int64_t *lengths,
              const int64_t *outs, const int64_t *tails, int64_t n_vocab)
{
    *set = (sequence_set){.n = n, .n_probe = n_probe, .n_vocab = n_vocab};
    int64_t n_token = 0;
    for (int32_t i = 0; i < n; i++) {
        n_token += lengths[i];
        set->n_value += outs[i] * n_vocab;
    }
    set->tokens = calloc((size_t)n_token, sizeof *set->tokens);
    set->logits = calloc((size_t)set->n_value, sizeof *set->logits);
    set->expected = calloc((size_t)set->n_value, sizeof *set->expected);
    if (set->tokens == NULL || set->logits == NULL || set->expected == NULL) {
        set_free(set);
        return false;
    }
    for (int64_t i = 0; i < n_token; i++) {
        set->tokens[i] = (int32_t)(whim_rng_at(2024, (uint64_t)i) % (uint64_t)n_vocab);
    }
    int32_t *tokens = set->tokens;
    float *logits = set->logits;
    for (int32_t i = 0; i < n; i++) {
        set->jobs[i] = (drive_job){
            .tokens = tokens,
            .n_tok = lengths[i],
            .n_prompt = lengths[i] - (tails != NULL ? tails[i] : 0),
            .n_out = outs[i],
            .logits = logits,
        };
        tokens += lengths[i];
        logits += outs[i] * n_vocab;
    }
    return true;
}

void set_free(sequence_set *set)
{
    free(set->tokens);
    free(set->logits);
    free(set->expected);
    *set = (sequence_set){0};
}

/* Bits, not values: a NaN or a negative zero is not to hide behind ==. */
static bool same_bits(const sequence_set *set, const char *plan, whim_diag *diag)
{
    for (int32_t i = 0; i < set->n_probe; i++) {
        const drive_job *job = &set->jobs[i];
        const float *expected = set->expected + (job->logits - set->logits);
        for (int64_t v = 0; v < job->n_out * set->n_vocab; v++) {
            if (memcmp(&job->logits[v], &expected[v], sizeof(float)) != 0) {
                int64_t row = job->n_tok - job->n_out + v / set->n_vocab;
                whim_fail(diag, WHIM_ERR_INVALID,
                          "%s: sequence %d, position %lld, logit %lld is %a in place of %a", plan,
                          i, (long long)row, (long long)(v % set->n_vocab), (double)job->logits[v],
                          (double)expected[v]);
                return false;
            }
        }
    }
    return true;
}

bool set_check(sequence_set *set, whim_runner *runner, const named_plan *plan, bool first,
               whim_diag *diag)
{
    size_t bytes = (size_t)set->n_value * sizeof(float);
    memset(set->logits, 0xa5, bytes);
    /* Alone in the batch: those that only share it are left out. */
    int32_t n_job = plan->plan.n_at_once == 1 ? set->n_probe : set->n;
    if (drive_run(runner, set->n_vocab, set->jobs, n_job, &plan->plan, diag) != WHIM_ERR_OK) {
        whim_diag_prefix(diag, "%s: ", plan->name);
        return false;
    }
    if (first) {
        memcpy(set->expected, set->logits, bytes);
        return true;
    }
    return same_bits(set, plan->name, diag);
}
