/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine tells of itself. */
#include "engine/engine_inner.h"

/* One conversation leaves more of the machine to others than a server must. */
#define DEFAULT_CTX_SHARE 0.25

const whim_ckpt *whim_engine_ckpt(const whim_engine *e)
{
    return &e->ckpt;
}

const whim_config *whim_engine_config(const whim_engine *e)
{
    return &e->ckpt.config;
}

whim_engine_sizes whim_engine_sizes_of(const whim_engine *e)
{
    const whim_exec_cfg *r = &e->runner_cfg;
    return (whim_engine_sizes){r->max_seqs, r->n_state, r->max_ctx, r->n_page};
}

const whim_layer_table *whim_engine_layers(const whim_engine *e)
{
    return e->def->layers(e->model);
}

const whim_memory_plan *whim_engine_plan(const whim_engine *e)
{
    return &e->plan;
}

const whim_device_caps *whim_engine_caps(const whim_engine *e)
{
    return &e->device->caps;
}

const char *whim_engine_backend(const whim_engine *e)
{
    return e->backend->name;
}

const char *whim_engine_passed(const whim_engine *e)
{
    return e->passed.text[0] != '\0' ? e->passed.text : NULL;
}

const whim_binder *whim_engine_binder(const whim_engine *e)
{
    return &e->binder;
}

whim_kv_type whim_engine_kv_type(const whim_engine *e)
{
    return e->runner_cfg.kv_type;
}

int64_t whim_engine_ctx(const whim_engine *e)
{
    return e->runner_cfg.max_ctx;
}

double whim_engine_ctx_share(const whim_engine *e)
{
    return e->cfg.ctx_share > 0 ? e->cfg.ctx_share : DEFAULT_CTX_SHARE;
}

const whim_exec_cfg *whim_engine_limits(const whim_engine *e)
{
    return &e->runner_cfg;
}

const whim_exec_plan *whim_engine_runner_plan(const whim_engine *e)
{
    return &e->runner_plan;
}

const whim_ckpt *whim_engine_draft_ckpt(const whim_engine *e)
{
    return whim_engine_uses_mtp(e) ? &e->ckpt : &e->draft;
}

const whim_binder *whim_engine_draft_binder(const whim_engine *e)
{
    return &e->draft_binder;
}

const whim_draft_config *whim_engine_draft(const whim_engine *e)
{
    return e->cfg.draft != NULL ? &e->draft.config.draft : NULL;
}

const char *whim_engine_draft_kind(const whim_engine *e)
{
    return e->cfg.draft != NULL ? e->draft.config.arch->name : NULL;
}

const char *whim_engine_draft_type(const whim_engine *e)
{
    return e->cfg.draft_type != NULL ? whim_dtype_get(e->draft_binder.narrow)->name : "file";
}

whim_proposer *whim_engine_proposer(whim_engine *e)
{
    return e->cfg.draft != NULL ? &e->proposer : NULL;
}

whim_runner *whim_engine_runner(whim_engine *e)
{
    return e->runner;
}

/* A gather reads one row of the embedding, a product all of it: it counts only as the head. */
static bool param_is_read(const whim_engine *e, const whim_param *param)
{
    return param->weight != NULL && param->pick == NULL &&
           (e->ckpt.config.tied_head || strcmp(param->name, "embed_tokens.weight") != 0);
}

int64_t whim_engine_weight_bytes(const whim_engine *e, int64_t n_row)
{
    const whim_moe_config *moe = &e->ckpt.config.moe;
    double bytes = 0.0, unused = 1.0; /* the chance that no row chose an expert */
    for (int64_t r = 0; r < n_row && moe->n_expert > 0; r++) {
        unused *= 1.0 - (double)moe->top_k / moe->n_expert;
    }
    for (int64_t i = 0; i < e->binder.n_param; i++) {
        const whim_param *param = &e->binder.params[i];
        double share = param->n_expert > 0 ? 1.0 - unused : 1.0;
        bytes += param_is_read(e, param) ? share * (double)param->bytes : 0.0;
    }
    return (int64_t)bytes;
}

int64_t whim_engine_token_macs(const whim_engine *e)
{
    int64_t macs = 0;
    for (int64_t i = 0; i < e->binder.n_param; i++) {
        const whim_param *param = &e->binder.params[i];
        int64_t each = param->n_here * param->k_here;
        if (param->n_expert > 0) { /* this rank has some of them, which are chosen as often */
            each = e->ckpt.config.moe.top_k * whim_param_experts(param) * each / param->n_expert;
        }
        macs += param_is_read(e, param) ? each : 0;
    }
    return macs;
}

whim_err whim_engine_step_comm(const whim_engine *e, int64_t n_row, bool is_prompt, int64_t *bytes)
{
    return whim_exec_step_comm(&e->ckpt.config, e->def, e->model, e->device, &e->runner_cfg, n_row,
                               is_prompt, bytes);
}

int64_t whim_engine_parameters(const whim_engine *e)
{
    int64_t n = 0;
    for (int64_t i = 0; i < e->binder.n_param; i++) {
        const whim_param *param = &e->binder.params[i];
        int64_t parts = param->n_expert > 0 ? param->n_expert : param->n_part; /* of all ranks */
        n += param->constant == NULL ? parts * param->n * param->k : 0;
    }
    return n;
}
