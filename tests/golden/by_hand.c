/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a model without the engine. */
#include "golden/by_hand.h"
#include "models/model.h"

whim_err by_hand_open(by_hand *b, const whim_model_def *def, const by_hand_way *way,
                      const char *path, whim_diag *diag)
{
    *b = (by_hand){.def = def, .way = *way};
    whim_arena_init(&b->arena);
    whim_binder_init(&b->binder);
    WHIM_TRY(whim_ckpt_open(&b->ckpt, whim_model_archs(), path, diag));
    const whim_backend *backend =
        way->backend != NULL ? whim_backend_find(way->backend) : whim_backend_at(0);
    whim_device_cfg cfg = {.n_thread = 1, .isa = way->isa};
    return backend->device_open(0, &cfg, &b->device, diag);
}

whim_err by_hand_bind(by_hand *b, whim_diag *diag)
{
    WHIM_TRY(b->def->bind(b->def, &b->ckpt.config, &b->arena, &b->binder, &b->model, diag));
    return whim_bind_match(&b->binder, &b->ckpt, b->device, diag);
}

whim_err by_hand_load(by_hand *b, whim_diag *diag)
{
    return whim_bind_load(&b->binder, &b->ckpt, b->device, 1, NULL, NULL, diag);
}

whim_err by_hand_start(by_hand *b, whim_diag *diag)
{
    enum { SEQS = 2 };
    whim_exec_cfg cfg = {
        .max_rows = BY_HAND_CTX,
        .max_seqs = SEQS,
        .max_outs = BY_HAND_CTX,
        .max_ctx = BY_HAND_CTX,
        .n_page = SEQS * BY_HAND_CTX / b->device->caps.page_len,
        .page_len = b->device->caps.page_len,
        .n_state = SEQS,
        .kv_type = b->way.kv_type,
        .graphs = b->way.graphs,
    };
    return whim_runner_open(&b->ckpt.config, b->def, b->model, b->device, &cfg, &b->runner, diag);
}

void by_hand_close(by_hand *b)
{
    whim_runner_close(b->runner);
    whim_binder_deinit(&b->binder);
    whim_device_close(b->device);
    whim_arena_reset(&b->arena);
    whim_ckpt_close(&b->ckpt);
}
