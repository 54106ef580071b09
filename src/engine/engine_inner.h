/* SPDX-License-Identifier: Apache-2.0 */
/* The engine itself, which its files share, and the parts of preparing one, in their order. Each
 * takes what those before it have found in the engine, and puts what it finds there.
 * Threads: the engine's. */
#ifndef WHIM_ENGINE_ENGINE_INNER_H
#define WHIM_ENGINE_ENGINE_INNER_H

#include "engine/engine.h"
#include "runner/step_record.h"

#include <string.h>

struct whim_engine {
    whim_engine_cfg cfg;
    whim_ckpt ckpt;
    const whim_model_def *def;
    const whim_backend *backend;
    whim_device *device;
    whim_arena arena; /* the model */
    whim_binder binder;
    whim_model *model;
    whim_exec_cfg runner_cfg;
    whim_exec_plan runner_plan;
    whim_memory_plan plan;
    whim_runner *runner;
    whim_recording *recording;
    /* cfg.draft: */
    whim_ckpt draft;
    whim_binder draft_binder;
    int32_t *draft_tokens; /* [n_token] NULL: all may be proposed */
    whim_proposer proposer;
    whim_engine_peers peers; /* without functions: there are none */
    whim_diag passed;        /* why it is not on a preferred device, or "" */
};

/* A field of the configuration is why the next error comes. */
static inline void whim_engine_blame_of(const whim_engine_cfg *cfg, const char *field)
{
    if (cfg->wrong != NULL) {
        *cfg->wrong = field;
    }
}

static inline void whim_engine_blame(const whim_engine *e, const char *field)
{
    whim_engine_blame_of(&e->cfg, field);
}

static inline int32_t whim_engine_n_rank(const whim_engine *e)
{
    return e->cfg.n_rank > 1 ? e->cfg.n_rank : 1;
}

/* Ranks that have all experts together: of several parts that cut the model and share prompts, one
 * part's. */
static inline int32_t whim_engine_deal_ranks(const whim_engine *e)
{
    int32_t n = whim_engine_n_rank(e), n_part = e->cfg.n_share > 1 ? e->cfg.n_share : 1;
    n_part *= n_part > 1 && e->cfg.n_group > 1 ? e->cfg.n_group : 1;
    return n_part < n ? n / n_part : n;
}

/* Ranks that have this host together, this one among them. */
static inline int32_t whim_engine_n_here(const whim_engine *e)
{
    int32_t n = e->cfg.n_host > 0 ? e->cfg.n_host : e->cfg.n_rank;
    return n > 1 ? n : 1;
}

/* The draft is the layer that is in the model's own files for that. */
static inline bool whim_engine_uses_mtp(const whim_engine *e)
{
    return e->cfg.draft != NULL && strcmp(e->cfg.draft, WHIM_DRAFT_OWN) == 0;
}

/* The files of the model, and what they say of it; of dummy weights there are none (find.c). */
WHIM_MUST_CHECK whim_err whim_engine_find(whim_engine *e, whim_diag *diag);

/* Where it runs, how large a step is, and which part of the model is this rank's (place.c). */
WHIM_MUST_CHECK whim_err whim_engine_choose_device(whim_engine *e, whim_diag *diag);
WHIM_MUST_CHECK whim_err whim_engine_choose_limits(whim_engine *e, whim_diag *diag);
WHIM_MUST_CHECK whim_err whim_engine_choose_ranks(whim_engine *e, whim_diag *diag);
WHIM_MUST_CHECK whim_err whim_engine_choose_dispatch(whim_engine *e, whim_diag *diag);

/* From here on the model is one with its draft (draft.c). */
WHIM_MUST_CHECK whim_err whim_engine_join_draft(whim_engine *e, whim_diag *diag);

/* States, context, pages, and the plan (memory.c). */
WHIM_MUST_CHECK whim_err whim_engine_choose_memory(whim_engine *e, whim_diag *diag);

#endif
