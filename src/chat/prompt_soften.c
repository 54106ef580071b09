/* SPDX-License-Identifier: Apache-2.0 */
/* What templates refuse although it is legal: system turns in the middle, results without their
 * call, the same role twice in a row, system turns at all. A prompt is tried as it is first, then
 * with one of these after the other changed. */
#include "chat/prompt_impl.h"

/* System turns from `from` on become the user's, in place. */
static void system_to_user(whim_prompt_turns *turns, int64_t from)
{
    for (int64_t i = from; i < turns->n; i++) {
        if (turns->v[i].role == WHIM_ROLE_SYSTEM) {
            turns->v[i].role = WHIM_ROLE_USER;
        }
    }
}

/* Results before the first call of the conversation have lost theirs. */
static whim_err free_results(whim_prompt_turns *turns, whim_diag *diag)
{
    int64_t to = 0;
    while (to < turns->n && turns->v[to].calls == NULL) {
        to++;
    }
    return whim_prompt_turns_write_results(turns, 0, to, diag);
}

static bool joins(const whim_turn *a, const whim_turn *b)
{
    return a->role == b->role && a->calls == NULL && b->calls == NULL &&
           (a->role == WHIM_ROLE_USER || a->role == WHIM_ROLE_ASSISTANT);
}

static whim_err join_neighbours(whim_prompt_turns *turns, whim_diag *diag)
{
    int64_t kept = turns->n > 0;
    whim_err err = WHIM_ERR_OK;
    for (int64_t i = 1; i < turns->n; i++) {
        whim_turn *a = &turns->v[kept - 1], *b = &turns->v[i];
        if (err != WHIM_ERR_OK || !joins(a, b)) {
            turns->v[kept++] = *b;
            continue;
        }
        err = whim_rendered_append(&a->content, "\n\n", 2, false, diag);
        if (err == WHIM_ERR_OK) {
            err = whim_rendered_join(&a->content, &b->content, diag);
        }
        whim_rendered_deinit(&b->content);
    }
    turns->n = kept;
    return err;
}

whim_err whim_prompt_turns_soften(whim_prompt_turns *turns, int level, whim_diag *diag)
{
    switch (level) {
    case 1:
        system_to_user(turns, 1);
        return free_results(turns, diag);
    case 2:
        return join_neighbours(turns, diag);
    default:
        system_to_user(turns, 0);
        return join_neighbours(turns, diag);
    }
}
