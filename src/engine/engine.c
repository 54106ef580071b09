/* SPDX-License-Identifier: Apache-2.0 */
/* From a model's name to a loaded runner. */
#include "engine/engine.h"

#include "base/alloc.h"
#include "base/file.h"
#include "engine/engine_inner.h"

#include <stdio.h>
#include <string.h>

static whim_err prepare(whim_engine *e, whim_diag *diag)
{
    WHIM_TRY(whim_engine_find(e, diag));
    const whim_config *config = &e->ckpt.config;
    WHIM_TRY(whim_model_find(config->arch->name, &e->def, diag));
    if (e->def->configure != NULL) {
        WHIM_TRY(e->def->configure(config, diag));
    }
    WHIM_TRY(whim_engine_choose_device(e, diag));
    WHIM_TRY(whim_engine_choose_limits(e, diag));
    WHIM_TRY(whim_engine_choose_ranks(e, diag));
    WHIM_TRY(whim_engine_choose_dispatch(e, diag));
    whim_engine_blame(e, ""); /* what those looked at is well */
    WHIM_TRY(e->def->bind(e->def, config, &e->arena, &e->binder, &e->model, diag));
    if (e->cfg.draft != NULL) {
        WHIM_TRY(whim_engine_join_draft(e, diag));
    }
    WHIM_TRY(whim_bind_match(&e->binder, &e->ckpt, e->device, diag));
    if (whim_engine_uses_mtp(e)) { /* what was skipped there is in use here */
        e->binder.n_skipped[WHIM_SKIPPED_MTP] = 0;
    }
    return whim_engine_choose_memory(e, diag);
}

static whim_err prepare_here(const whim_engine_cfg *cfg, whim_engine **out, whim_diag *diag)
{
    whim_engine *e = whim_alloc(sizeof *e);
    WHIM_TRY(whim_got(e != NULL, diag, "no memory for an engine"));
    e->cfg = *cfg;
    whim_arena_init(&e->arena);
    whim_binder_init(&e->binder);
    whim_binder_init(&e->draft_binder);
    whim_err err = prepare(e, diag);
    if (err != WHIM_ERR_OK) {
        whim_engine_close(e);
        return err;
    }
    e->cfg.wrong = NULL; /* the caller's */
    *out = e;
    return WHIM_ERR_OK;
}

/* Why a device cannot have the model, behind those of the devices before it. */
static void reason_add(whim_diag *all, const char *name, const whim_diag *why)
{
    size_t n = strlen(all->text);
    snprintf(all->text + n, sizeof all->text - n, "%s%s: %s", n > 0 ? "; " : "", name, why->text);
}

/* On the first of a backend's devices that has room for it. */
static whim_err prepare_on(const whim_engine_cfg *cfg, const whim_backend *backend,
                           whim_engine **out, whim_diag *diag)
{
    whim_engine_cfg there = *cfg;
    whim_device *device = NULL;
    whim_diag why = {""};
    whim_err err = WHIM_ERR_NOT_FOUND;
    int32_t n = backend->device_count();
    char name[64];
    there.backend = name;
    for (int32_t i = 0; i < n; i++) {
        why.text[0] = '\0';
        snprintf(name, sizeof name, "%s:%d", backend->name, i);
        err = prepare_here(&there, out, &why);
        if (err == WHIM_ERR_OK) {
            err = whim_memory_plan_check(&(*out)->plan, &why);
            if (err == WHIM_ERR_OK) {
                (*out)->cfg.backend = NULL; /* the name is ours */
                return WHIM_ERR_OK;
            }
            whim_engine_close(*out);
            *out = NULL;
        }
        reason_add(diag, n > 1 ? name : backend->name, &why);
    }
    if (n > 0) {
        return err;
    }
    whim_device_cfg none = {0};
    err = backend->device_open(0, &none, &device, &why); /* says what is missing */
    whim_device_close(device);
    reason_add(diag, backend->name, &why);
    return err == WHIM_ERR_OK ? WHIM_ERR_NOT_FOUND : err;
}

whim_err whim_engine_prepare(const whim_engine_cfg *cfg, whim_engine **out, whim_diag *diag)
{
    whim_diag passed = {""};
    bool chooses = cfg->best_device && cfg->backend == NULL && cfg->isa == NULL && cfg->n_rank < 2;
    for (int32_t i = 0; i < whim_backend_count() && chooses; i++) {
        const whim_backend *backend = whim_backend_at(i);
        whim_diag why = {""};
        whim_err err = WHIM_ERR_NOT_FOUND;
        if (backend->preferred) {
            err = prepare_on(cfg, backend, out, &why);
        }
        if (err == WHIM_ERR_OK) {
            return WHIM_ERR_OK;
        }
        if (err != WHIM_ERR_NOT_FOUND) { /* else nobody misses it */
            passed = why;
        }
    }
    whim_engine_blame_of(cfg, "");
    WHIM_TRY(prepare_here(cfg, out, diag));
    (*out)->passed = passed;
    return WHIM_ERR_OK;
}

static whim_err record_start(whim_engine *e, whim_diag *diag)
{
    whim_record_head head = whim_record_head_of(&e->ckpt.config, &e->runner_cfg);
    snprintf(head.model, sizeof head.model, "%s", whim_path_base(e->cfg.model));
    snprintf(head.backend, sizeof head.backend, "%s", e->backend->name);
    snprintf(head.isa, sizeof head.isa, "%s", e->device->caps.isa);
    return whim_recording_start(e->cfg.record_steps, &head, whim_runner_exec(e->runner),
                                &e->recording, diag);
}

static whim_err load(whim_engine *e, whim_diag *diag)
{
    WHIM_TRY(whim_bind_load(&e->binder, &e->ckpt, e->device, e->device->caps.n_loader,
                            e->cfg.on_progress, e->cfg.progress_ctx, diag));
    if (e->cfg.draft != NULL) {
        WHIM_TRY(whim_bind_load(&e->draft_binder, &e->draft, e->device, e->device->caps.n_loader,
                                NULL, NULL, diag));
    }
    WHIM_TRY(whim_runner_open(&e->ckpt.config, e->def, e->model, e->device, &e->runner_cfg,
                              &e->runner, diag));
    if (e->cfg.draft != NULL) {
        WHIM_TRY(whim_got(whim_proposer_init(&e->proposer, e->runner, &e->runner_cfg,
                                             &e->draft.config.draft, e->draft_tokens,
                                             &e->arena) == WHIM_ERR_OK,
                          diag, "no memory for the passes of a draft"));
    }
    return e->cfg.record_steps != NULL ? record_start(e, diag) : WHIM_ERR_OK;
}

void whim_engine_set_peers(whim_engine *e, const whim_engine_peers *peers, int64_t bytes)
{
    e->peers = *peers;
    e->plan.available = e->plan.available_here;
    whim_memory_plan_add(&e->plan, WHIM_MEMORY_OTHER, "other ranks", bytes, "processes: %d",
                         whim_engine_n_here(e) - 1);
}

whim_err whim_engine_load(whim_engine *e, whim_diag *diag)
{
    if (e->cfg.sizes == NULL || e->cfg.rank == 0) { /* else rank 0 has looked at the plans of all */
        WHIM_TRY(whim_memory_plan_check(&e->plan, diag));
    }
    if (e->peers.load == NULL) {
        return load(e, diag);
    }
    WHIM_TRY(e->peers.load(e->peers.ctx, diag));
    whim_err err = load(e, diag);
    if (err != WHIM_ERR_OK && !whim_engine_is_apart(e, NULL)) {
        return err;
    }
    return e->peers.loaded(e->peers.ctx, diag); /* who is apart is told who was lost */
}

bool whim_engine_is_apart(const whim_engine *e, whim_diag *why)
{
    return e->peers.is_apart != NULL && e->peers.is_apart(e->peers.ctx, why);
}

whim_err whim_engine_rejoin(whim_engine *e, whim_diag *diag)
{
    whim_err err = e->peers.rejoin(e->peers.ctx, e, diag);
    whim_exec_rejoin(
        whim_runner_exec(e->runner)); /* its comm may be another, also after a failure */
    return err;
}

whim_err whim_engine_check(whim_engine *e, whim_diag *diag)
{
    whim_device *dev = e->device;
    return dev->vt->check != NULL ? dev->vt->check(dev, diag) : WHIM_ERR_OK;
}

int32_t whim_engine_ranks(const whim_engine *e)
{
    return e->peers.look != NULL ? e->cfg.n_rank : 1;
}

void whim_engine_look(const whim_engine *e, int32_t rank, whim_rank_meters *out)
{
    e->peers.look(e->peers.ctx, rank, out);
}

whim_err whim_engine_end_record(whim_engine *e, whim_diag *diag)
{
    whim_recording *recording = e->recording;
    e->recording = NULL;
    if (recording != NULL) {
        whim_exec_set_tap(whim_runner_exec(e->runner), &(whim_exec_tap){0});
    }
    return whim_recording_end(recording, diag);
}

void whim_engine_close(whim_engine *e)
{
    if (e == NULL) {
        return;
    }
    whim_err ignored = whim_engine_end_record(e, NULL); /* who wants to know has asked */
    (void)ignored;
    whim_runner_close(e->runner);
    whim_binder_deinit(&e->binder);
    whim_binder_deinit(&e->draft_binder);
    whim_device_close(e->device);
    whim_arena_reset(&e->arena);
    whim_ckpt_close(&e->ckpt);
    whim_ckpt_close(&e->draft);
    if (e->peers.close != NULL) {
        e->peers.close(e->peers.ctx);
    }
    whim_free(e);
}
