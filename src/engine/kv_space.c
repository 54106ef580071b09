/* SPDX-License-Identifier: Apache-2.0 */
/* Weights, backend, level, type, ranks; the draft, whose keys and values lie in the same pages. */
#include "engine/kv_space.h"

#include "weights/identity/fingerprint.h"

#include <stdio.h>
#include <string.h>

/* Counts up whenever a change of the code moves the bits of keys and values. */
#define NUMERICS_VERSION "3"
/* The same for several ranks only. */
#define RANKS_VERSION "2"

/* Of how experts are dealt unevenly. */
static uint64_t counts_hash(const whim_binder *binder)
{
    uint64_t hash = 0;
    for (int32_t r = 0; r < binder->n_deal && binder->deal_counts != NULL; r++) {
        hash = (hash ^ (uint64_t)binder->deal_counts[r]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static uint64_t text_hash(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++) {
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* --- weights ---------------------------------------------------------------------------------- */

static void weights_find(void *ctx)
{
    whim_kv_weights *w = ctx;
    w->err = whim_ckpt_identity(whim_engine_ckpt(w->engine), &w->cfg, w->model, &w->diag);
    if (w->err == WHIM_ERR_OK && whim_engine_draft(w->engine) != NULL) {
        w->err = whim_ckpt_identity(whim_engine_draft_ckpt(w->engine), &w->cfg, w->draft, &w->diag);
    }
}

static uint64_t written(const whim_engine *engine)
{
    uint64_t own = whim_ckpt_written(whim_engine_ckpt(engine));
    return whim_engine_draft(engine) != NULL
               ? own + whim_ckpt_written(whim_engine_draft_ckpt(engine))
               : own;
}

void whim_kv_weights_begin(whim_kv_weights *w, const whim_engine *engine, const char *memory,
                           int32_t n_thread)
{
    *w = (whim_kv_weights){.engine = engine, .written = written(engine)};
    w->cfg = (whim_identity_cfg){.memory = memory, .n_thread = n_thread, .stop = &w->stop};
    w->running =
        whim_thread_create(&w->thread, "identity", weights_find, w, &w->diag) == WHIM_ERR_OK;
    if (!w->running) {
        weights_find(w);
    }
}

whim_err whim_kv_weights_end(whim_kv_weights *w, whim_diag *diag)
{
    if (w->running) {
        whim_thread_join(&w->thread);
        w->running = false;
    }
    if (w->err == WHIM_ERR_OK && w->engine != NULL && written(w->engine) != w->written) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "a file of the model was written to while it was loaded: start again when "
                         "whatever writes it is done");
    }
    return w->err == WHIM_ERR_OK ? w->err : whim_fail(diag, w->err, "%s", w->diag.text);
}

void whim_kv_weights_cancel(whim_kv_weights *w)
{
    whim_err ended;
    atomic_store(&w->stop, true);
    ended = whim_kv_weights_end(w, NULL);
    (void)ended;
}

/* Of the model, or of its draft. */
static whim_err weights_name(const whim_ckpt *ckpt, const char *known, char out[WHIM_IDENTITY_TEXT],
                             whim_diag *diag)
{
    uint64_t print;
    if (known[0] != '\0') {
        snprintf(out, WHIM_IDENTITY_TEXT, "%s", known);
        return WHIM_ERR_OK;
    }
    WHIM_TRY(whim_ckpt_fingerprint(ckpt, &print, diag));
    snprintf(out, WHIM_IDENTITY_TEXT, "%016llx", (unsigned long long)print);
    return WHIM_ERR_OK;
}

/* --- the name --------------------------------------------------------------------------------- */

whim_err whim_kv_space_make(const whim_engine *engine, const whim_kv_weights *weights,
                            whim_kv_space *out, whim_diag *diag)
{
    uint64_t hash;
    char why[256], files[WHIM_IDENTITY_TEXT];
    WHIM_TRY(whim_ckpt_fingerprint(whim_engine_ckpt(engine), &hash, diag));
    WHIM_TRY(weights_name(whim_engine_ckpt(engine), weights->model, files, diag));
    int used =
        snprintf(out->name, sizeof out->name, "numerics %s, weights %s, %s %s, kv %s",
                 NUMERICS_VERSION, files, whim_engine_backend(engine),
                 whim_engine_caps(engine)->isa, whim_kv_type_name(whim_engine_kv_type(engine)));
    size_t own = strcspn(out->name, ",") + strlen(", weights ") + strlen(files);
    const whim_binder *binder = whim_engine_binder(engine);
    if (binder->n_rank > 1 && !binder->whole_sums) { /* sums of their parts are rounded otherwise */
        used += snprintf(out->name + used, sizeof out->name - (size_t)used,
                         ", ranks %d by " RANKS_VERSION, binder->n_rank);
    }
    if (binder->n_wide > 1) { /* as are those of MLPs over all groups */
        used += snprintf(out->name + used, sizeof out->name - (size_t)used, ", MLPs over %d",
                         binder->n_wide);
    }
    if (whim_engine_dispatch_rounds(engine, why, sizeof why)) {
        used += snprintf(out->name + used, sizeof out->name - (size_t)used, ", rows %d",
                         (int)binder->deal_rows);
    }
    if (binder->deal_span > 0) { /* as are those of whose experts these are */
        used +=
            snprintf(out->name + used, sizeof out->name - (size_t)used, ", experts of %d %016llx",
                     binder->n_deal, (unsigned long long)counts_hash(binder));
    }
    /* Of the weights samples are enough: it is to be the same without a disk. */
    hash = text_hash(text_hash(hash, NUMERICS_VERSION), out->name + own);
    out->answers = hash;
    if (binder->whole_sums) { /* the same bits, of which each rank has some heads' */
        used += snprintf(out->name + used, sizeof out->name - (size_t)used, ", heads of %d",
                         binder->n_rank);
    }
    if (whim_engine_draft(engine) != NULL) {
        WHIM_TRY(weights_name(whim_engine_draft_ckpt(engine), weights->draft, files, diag));
        snprintf(out->name + used, sizeof out->name - (size_t)used, ", draft %s as %s", files,
                 whim_engine_draft_type(engine));
    }
    return WHIM_ERR_OK;
}
