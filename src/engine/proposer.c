/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a draft's passes. */
#include "engine/proposer.h"

#include "base/math/fmath.h"

whim_err whim_proposer_init(whim_proposer *p, whim_runner *runner, const whim_exec_cfg *limits,
                            const whim_draft_config *draft, const int32_t *names, whim_arena *arena)
{
    *p = (whim_proposer){.runner = runner, .draft = draft, .names = names};
    int64_t n = whim_exec_groups(limits);
    p->parts = whim_arena_alloc_array(arena, n * limits->max_seqs, sizeof *p->parts);
    p->tokens = whim_arena_alloc_array(arena, n * limits->max_rows, sizeof *p->tokens);
    p->lens = whim_arena_alloc_array(arena, n * limits->max_seqs, sizeof *p->lens);
    return p->parts != NULL && p->tokens != NULL && p->lens != NULL ? WHIM_ERR_OK
                                                                    : WHIM_ERR_NO_MEMORY;
}

/* The token that output i of the last pass is best, and how sure the draft is of it. */
static int32_t token_at(const whim_proposer *p, int64_t i, float *sure)
{
    whim_ranked best = whim_exec_best(whim_runner_exec(p->runner), i);
    if (sure != NULL) {
        *sure = p->draft->chain.sure ? 1.0f / (1.0f + whim_expf(-best.values[0])) : 1.0f;
    }
    return p->names != NULL && best.ids[0] >= 0 ? p->names[best.ids[0]] : best.ids[0];
}

int64_t whim_propose_rows(const whim_draft_config *draft, int64_t n)
{
    return n + !draft->anchor_first;
}

/* A block in one pass: the last token, and masks. */
static whim_err propose_block(whim_proposer *p, const whim_proposal *wanted, int64_t n,
                              whim_diag *diag)
{
    int32_t *tokens = p->tokens;
    for (int64_t i = 0; i < n; i++) {
        const whim_proposal *w = &wanted[i];
        int64_t n_row = whim_propose_rows(p->draft, w->n);
        p->parts[i] = (whim_step_part){
            .seq = w->seq, .tokens = tokens, .n_tok = n_row, .n_out = w->n, .n_top = 1};
        *tokens++ = w->last;
        for (int64_t k = 1; k < n_row; k++) {
            *tokens++ = p->draft->mask;
        }
    }
    WHIM_TRY(whim_runner_draft(p->runner, p->parts, n, diag));
    int64_t out = 0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < wanted[i].n; k++) {
            float *sure = wanted[i].sure != NULL ? &wanted[i].sure[k] : NULL;
            wanted[i].out[k] = token_at(p, out++, sure);
        }
    }
    return WHIM_ERR_OK;
}

/* Token after token: the k-th of all that want so many. */
static whim_err propose_next(whim_proposer *p, const whim_proposal *wanted, int64_t n, int64_t k,
                             whim_diag *diag)
{
    int64_t n_part = 0, out = 0;
    for (int64_t i = 0; i < n; i++) {
        if (wanted[i].n > k) {
            int32_t *token = &p->tokens[n_part];
            *token = k == 0 ? wanted[i].last : wanted[i].out[k - 1];
            p->parts[n_part++] = (whim_step_part){
                .seq = wanted[i].seq, .tokens = token, .n_tok = 1, .n_out = 1, .n_top = 1};
        }
    }
    WHIM_TRY(whim_runner_draft(p->runner, p->parts, n_part, diag));
    for (int64_t i = 0; i < n; i++) {
        if (wanted[i].n > k) {
            float *sure = wanted[i].sure != NULL ? &wanted[i].sure[k] : NULL;
            wanted[i].out[k] = token_at(p, out++, sure);
        }
    }
    return WHIM_ERR_OK;
}

static whim_err propose_serial(whim_proposer *p, const whim_proposal *wanted, int64_t n,
                               whim_diag *diag)
{
    int64_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        most = wanted[i].n > most ? wanted[i].n : most;
    }
    for (int64_t k = 0; k < most; k++) {
        WHIM_TRY(propose_next(p, wanted, n, k, diag));
    }
    return WHIM_ERR_OK;
}

whim_err whim_propose(whim_proposer *p, const whim_proposal *wanted, int64_t n, whim_diag *diag)
{
    for (int64_t i = 0; i < n; i++) {
        p->lens[i] = wanted[i].seq->len;
    }
    whim_err err = (p->draft->serial ? propose_serial : propose_block)(p, wanted, n, diag);
    for (int64_t i = 0; i < n; i++) {
        whim_sequence_cut(wanted[i].seq, whim_runner_pool_of(p->runner, wanted[i].seq->group),
                          p->lens[i]);
    }
    return err;
}
