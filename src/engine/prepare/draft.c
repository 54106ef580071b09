/* SPDX-License-Identifier: Apache-2.0 */
/* A draft joins its model. */
#include "draft/draft.h"
#include "draft/mtp.h"
#include "engine/engine_inner.h"

/* A draft changes no text, so it may be as coarse as pays. */
static whim_err draft_type_choose(whim_engine *e, whim_diag *diag)
{
    whim_dtype type = WHIM_DTYPE_F32;
    const char *name = e->cfg.draft_type;
    bool known = name == NULL || whim_dtype_from_name(name, &type);
    if (name != NULL && (!known || (type != WHIM_DTYPE_Q8_0 && type != WHIM_DTYPE_Q4_0))) {
        whim_engine_blame(e, "draft_type");
        return whim_fail(diag, WHIM_ERR_INVALID, "'%s' is not one of q8_0, q4_0 and file", name);
    }
    e->draft_binder.narrow = type;
    return WHIM_ERR_OK;
}

whim_err whim_engine_join_draft(whim_engine *e, whim_diag *diag)
{
    const whim_config *c = &e->draft.config;
    WHIM_TRY(draft_type_choose(e, diag));
    whim_engine_blame(e, "draft");
    if (whim_engine_uses_mtp(e)) {
        WHIM_TRY(whim_mtp_open(&e->draft, &e->ckpt, e->cfg.model, diag));
    } else {
        WHIM_TRY(whim_draft_open(&e->draft, e->cfg.draft, diag));
    }
    const whim_draft_kind *kind = whim_draft_kind_of(c);
    WHIM_TRY(kind->check(c, &e->ckpt.config, e->cfg.draft, diag));
    if (e->cfg.n_capture + c->draft.n_feature > WHIM_MAX_CAPTURE) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "a draft reads %d layers and %d are asked for: there is room for %d",
                         c->draft.n_feature, e->cfg.n_capture, WHIM_MAX_CAPTURE);
    }
    WHIM_TRY(whim_draft_tokens_read(&e->draft, e->cfg.draft, &e->arena, &e->draft_tokens, diag));
    whim_draft_parts parts = {
        .draft = c,
        .target = &e->ckpt.config,
        .tokens = e->draft_tokens,
        .binder = &e->draft_binder,
        .target_binder = &e->binder,
        .arena = &e->arena,
    };
    WHIM_TRY(kind->bind(&parts, &e->def, &e->model, diag));
    WHIM_TRY(whim_draft_find(&e->draft_binder, &e->draft, e->device, e->cfg.draft, diag));
    e->runner_cfg.drafts = true;
    e->runner_cfg.befores = c->draft.serial;
    whim_engine_blame(e, "");
    return WHIM_ERR_OK;
}
