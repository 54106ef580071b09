/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a group. */
#include "engine/service/group.h"

#include "engine/service/disk.h"
#include "engine/service/step.h"

static bool copy_state(void *ctx, int32_t from, int32_t to)
{
    const whim_group *g = ctx;
    const whim_service *s = g->service;
    whim_err err = whim_exec_state_copy(whim_runner_exec(s->runner), g->index, from, to);
    if (err != WHIM_ERR_OK) {
        whim_log_error(s->cfg.log, "state", whim_log_text("error", whim_err_text(err)));
    }
    return err == WHIM_ERR_OK;
}

static void *take(whim_service *s, int64_t n, int64_t size, bool *ok)
{
    void *array = whim_arena_alloc_array(&s->arena, n, size);
    *ok = *ok && array != NULL;
    return array;
}

static whim_err arrays_make(whim_group *g, whim_diag *diag)
{
    whim_service *s = g->service;
    int64_t n = s->cfg.max_seqs;
    bool ok = true;
    for (int32_t i = 0; i < WHIM_EXEC_FLIGHT; i++) {
        whim_flight *f = &g->flights[i];
        f->parts = take(s, n, sizeof *f->parts, &ok);
        f->choices = take(s, n, sizeof *f->choices, &ok);
        f->token = take(s, n, sizeof *f->token, &ok);
        f->len = take(s, n, sizeof *f->len, &ok);
    }
    g->asks = take(s, s->cfg.max_outs, sizeof *g->asks, &ok);
    g->masks = take(s, s->cfg.max_outs, s->n_mask_word * (int64_t)sizeof *g->masks, &ok);
    g->token = take(s, s->cfg.max_outs + 1, sizeof *g->token, &ok);
    g->made = take(s, n, sizeof *g->made, &ok);
    g->over = take(s, n, sizeof *g->over, &ok);
    g->taken = take(s, n, sizeof *g->taken, &ok);
    return ok ? WHIM_ERR_OK : whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for the service");
}

whim_err whim_group_open(whim_group *g, whim_service *s, int32_t index, whim_diag *diag)
{
    g->service = s;
    g->index = index;
    WHIM_TRY(arrays_make(g, diag));
    whim_page_pool *pool = whim_runner_pool_of(s->runner, index);
    whim_page_pool *states = whim_runner_states_of(s->runner, index);
    WHIM_TRY(
        whim_prefix_tree_create(pool, s->has_disk ? whim_service_keep_page : NULL, g, &g->tree));
    if (s->has_states) {
        WHIM_TRY(whim_prefix_tree_set_states(g->tree, states));
    }
    whim_sched_cfg sched = {
        .max_seqs = s->cfg.max_seqs,
        .max_step_tokens = s->cfg.max_step_tokens,
        .max_outs = s->cfg.max_outs,
        .max_ctx = s->ctx,
        .pool = pool,
        .tree = g->tree,
        .store = whim_service_store(g),
        .states = s->has_states ? states : NULL,
        .max_kept = whim_engine_limits(s->cfg.engine)->max_kept,
        .copy_state = copy_state,
        .copy_ctx = g,
        .group = index,
    };
    WHIM_TRY(whim_sched_create(&sched, &g->sched));
    whim_sched_set_budget(g->sched, 2 * WHIM_SERVICE_LEAST_ROWS);
    whim_sched_set_age(g->sched, WHIM_SERVICE_FIRST_AGE);
    return WHIM_ERR_OK;
}

void whim_group_end(whim_group *g)
{
    whim_sched_destroy(g->sched);
    g->sched = NULL;
}

void whim_group_close(whim_group *g)
{
    whim_prefix_tree_destroy(g->tree);
}
