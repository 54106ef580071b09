/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a draft's passes. */
#include "engine/proposer.h"

whim_err whim_proposer_init(whim_proposer *p, whim_runner *runner, const whim_exec_cfg *limits,
                            const whim_draft_config *draft, const int32_t *names, whim_arena *arena)
{
    *p = (whim_proposer){.runner = runner, .draft = draft, .names = names};
    p->parts = whim_arena_alloc_array(arena, limits->max_seqs, sizeof *p->parts);
    p->tokens = whim_arena_alloc_array(arena, limits->max_rows, sizeof *p->tokens);
    return p->parts != NULL && p->tokens != NULL ? WHIM_ERR_OK : WHIM_ERR_NO_MEMORY;
}

/* The token that output i of the last pass is best. */
static int32_t token_at(const whim_proposer *p, int64_t i)
{
    int32_t best = whim_exec_best(whim_runner_exec(p->runner), i).ids[0];
    return p->names != NULL ? p->names[best] : best;
}

/* A block in one pass: the last token, and masks. */
whim_err whim_propose(whim_proposer *p, const whim_proposal *wanted, int64_t n, whim_diag *diag)
{
    int32_t *tokens = p->tokens;
    for (int64_t i = 0; i < n; i++) {
        const whim_proposal *w = &wanted[i];
        p->parts[i] = (whim_step_part){
            .seq = w->seq, .tokens = tokens, .n_tok = w->n + 1, .n_out = w->n, .n_top = 1};
        *tokens++ = w->last;
        for (int64_t k = 0; k < w->n; k++) {
            *tokens++ = p->draft->mask;
        }
    }
    WHIM_TRY(whim_runner_draft(p->runner, p->parts, n, diag));
    int64_t out = 0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < wanted[i].n; k++) {
            wanted[i].out[k] = token_at(p, out++);
        }
    }
    return WHIM_ERR_OK;
}
