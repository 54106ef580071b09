/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of a model: what options become for it, the draft that lies beside the model, and
 * drafts and ranks that nobody asked for, which are left out where they do not fit. */
#include "device/choose.h"
#include "library/model_impl.h"
#include "ranks/ranks.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Few requests reach the whole context: room for 8 that do, and where nobody said how long that is,
 * half of what the weights leave for one, because an agent begins with ten thousand tokens. */
enum {
    MANY_PARALLEL = 32,
    LEAST_OUTS = 32,
    PROPOSED_OUTS = 15, /* rows of proposals, beside those that come anyway */
    KV_SEQS = 8,
    CHECKPOINTS_OF_ONE = 4,
    CHECKPOINTS_OF_MANY = 32,
};
#define KV_SHARE 0.25
#define CTX_SHARE 0.5

/* --- options ---------------------------------------------------------------------------------- */

static bool proposes_by_draft(const whimbrel_model_options *o)
{
    return o->draft != NULL && o->draft[0] != '\0';
}

/* A draft's matrices on the device: it changes no text, so they are narrow unless asked for. */
static const char *draft_type_of(const whimbrel_model_options *o)
{
    const char *type = o->draft_type != NULL ? o->draft_type : "q4_0";
    return strcmp(type, "file") == 0 ? NULL : type;
}

whim_engine_cfg whim_library_engine_cfg(const whimbrel_model_options *o,
                                        const whim_library_extra *extra)
{
    static const whim_library_extra none = {0};
    const whim_library_extra *x = extra != NULL ? extra : &none;
    int64_t n = o->max_parallel > 0 ? o->max_parallel : MANY_PARALLEL;
    bool shares = n > 1 && !x->all_at_longest, proposes = !o->no_lookup || proposes_by_draft(o);
    return (whim_engine_cfg){
        .model = o->path,
        .draft = proposes_by_draft(o) ? o->draft : NULL,
        .draft_type = draft_type_of(o),
        .load_format = x->load_format,
        .weight_type = x->weight_type,
        .backend = o->backend,
        .best_device = true,
        .isa = o->isa,
        .n_thread = o->threads,
        .ctx = o->context,
        .ctx_share = shares ? CTX_SHARE : 0,
        .kv_mem = o->kv_bytes,
        .kv_seqs = shares ? KV_SEQS : 0,
        .kv_share = shares ? KV_SHARE : 0,
        .n_checkpoint = x->no_checkpoints ? 0
                        : n > 1           ? CHECKPOINTS_OF_MANY
                                          : CHECKPOINTS_OF_ONE,
        .kv_as_used = !o->take_memory,
        .kv_dir = x->kv_dir,
        .request_bytes = x->request_bytes,
        .request_bytes_asked = x->request_bytes_asked,
        .kv_type = o->kv_type,
        .max_seqs = n,
        .may_lower_seqs = o->max_parallel == 0,
        .max_step_tokens = o->max_step_tokens,
        .max_outs = (x->max_outs > 0  ? x->max_outs
                     : n > LEAST_OUTS ? n
                                      : LEAST_OUTS) +
                    (proposes ? PROPOSED_OUTS : 0),
        .max_kept = proposes ? n + PROPOSED_OUTS : 0,
        .n_flight = shares ? WHIM_EXEC_FLIGHT : 1,
        .graphs = WHIM_GRAPHS_AUTO,
        .watch = x->watch,
        .record_steps = x->record_steps,
        .on_progress = o->progress,
        .progress_ctx = o->progress_ctx,
    };
}

/* --- the draft beside a model ----------------------------------------------------------------- */

/* Bytes of a file's path without ".gguf", and without "-00001-of-00003" of a part. */
static int64_t stem_length(const char *path, int64_t n)
{
    static const char part[] = "-00000-of-00000";
    int64_t at = n - 5 - (int64_t)(sizeof part - 1);
    for (size_t i = 0; at > 0 && i < sizeof part - 1; i++) {
        char c = path[at + (int64_t)i];
        if (part[i] == '0' ? c < '0' || c > '9' : c != part[i]) {
            at = 0;
        }
    }
    return at > 0 ? at : n - 5;
}

bool whim_library_draft_beside(const char *model, char *out, size_t size)
{
    static const char config[] = "/config.json";
    int64_t n = (int64_t)strlen(model);
    bool is_file = n > 5 && strcmp(model + n - 5, ".gguf") == 0;
    int used = snprintf(out, size, "%.*s%s%s", (int)(is_file ? stem_length(model, n) : n), model,
                        is_file ? ".draft" : "/draft", config);
    if (used < 0 || (size_t)used >= size || access(out, R_OK) != 0) {
        return false;
    }
    out[(size_t)used + 1 - sizeof config] = '\0';
    return true;
}

/* Where no draft was named, the one beside the model. */
static bool draft_find(whimbrel_model *m)
{
    whimbrel_model_options *o = &m->options;
    char path[PATH_MAX];
    if (o->draft == NULL && whim_library_draft_beside(o->path, path, sizeof path)) {
        o->draft = whim_arena_strndup(&m->arena, path, (int64_t)strlen(path));
        return o->draft != NULL;
    }
    return true;
}

/* --- preparing -------------------------------------------------------------------------------- */

/* What a field of the engine's configuration is called here. */
static const char *option_of(const char *field)
{
    static const char *const others[][2] = {
        {"ctx", "context"}, {"kv_mem", "kv_bytes"}, {"n_thread", "threads"}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strcmp(field, others[i][0]) == 0) {
            return others[i][1];
        }
    }
    return field;
}

static whim_err engine_prepare(whimbrel_model *m, const whim_library_extra *extra,
                               const char **field, whim_diag *diag)
{
    whim_engine_cfg cfg = whim_library_engine_cfg(&m->options, extra);
    cfg.wrong = field;
    cfg.n_share = extra != NULL ? extra->n_share : 0;
    cfg.n_group = extra != NULL ? extra->n_group : 0;
    cfg.n_deal = extra != NULL ? extra->n_deal : 0;
    cfg.deal_cut = extra != NULL && extra->deal_cut;
    cfg.deal_rows = extra != NULL ? extra->deal_rows : NULL;
    cfg.deal_counts = extra != NULL ? extra->deal_counts : NULL;
    cfg.deal_slots = extra != NULL ? extra->deal_slots : 0;
    whim_err err;
    if (extra != NULL && extra->n_rank > 1) {
        whim_ranks_cfg ranks = {.n_rank = extra->n_rank,
                                .may_crowd = extra->may_crowd,
                                .is_wish = extra->wish_rank > 1,
                                .nodes = extra->nodes};
        err = whim_ranks_prepare(&cfg, &ranks, &m->engine, diag);
    } else {
        err = whim_engine_prepare(&cfg, &m->engine, diag);
    }
    *field = err != WHIM_ERR_OK ? option_of(*field) : "";
    return err;
}

/* A better device that has no room for model and draft may have it for the model. */
static whim_err draft_weigh(whimbrel_model *m, const whim_library_extra *extra, const char **field,
                            whim_diag *diag)
{
    const char *draft = m->options.draft, *why = whim_engine_passed(m->engine);
    why = whim_arena_strndup(&m->arena, why, (int64_t)strlen(why));
    for (int32_t turn = 0; turn < 2; turn++) {
        whim_engine_close(m->engine);
        m->engine = NULL;
        m->options.draft = turn == 0 ? "" : draft;
        WHIM_TRY(whim_got(why != NULL, diag, "no memory for a model"));
        WHIM_TRY(engine_prepare(m, extra, field, diag));
        if (turn == 0 && whim_engine_passed(m->engine) == NULL) {
            m->draft_unused = why;
            break;
        }
    }
    return WHIM_ERR_OK;
}

/* With a draft that nobody asked for, and without it where it cannot be used: it must keep nobody
 * from an answer. */
static whim_err engine_prepare_found(whimbrel_model *m, const whim_library_extra *extra,
                                     const char **field, whim_diag *diag)
{
    whim_err err = engine_prepare(m, extra, field, diag);
    bool too_large = false;
    if (err == WHIM_ERR_OK && whim_engine_passed(m->engine) != NULL) {
        err = draft_weigh(m, extra, field, diag);
    }
    if (err == WHIM_ERR_OK) {
        err = whim_memory_plan_check(whim_engine_plan(m->engine), diag);
        too_large = err != WHIM_ERR_OK;
    }
    /* A rank that is lost is no fault of the draft. */
    if (err == WHIM_ERR_OK || err == WHIM_ERR_DEVICE || strcmp(*field, "draft_type") == 0) {
        return err;
    }
    const char *why = whim_arena_strndup(&m->arena, diag->text, (int64_t)strlen(diag->text));
    whim_engine_close(m->engine);
    m->engine = NULL;
    m->options.draft = "";
    *field = "";
    WHIM_TRY(whim_got(why != NULL, diag, "no memory for a model"));
    WHIM_TRY(engine_prepare(m, extra, field, diag));
    /* Where it is too large without the draft, too, that is no matter of drafts. */
    if (!too_large || whim_memory_plan_check(whim_engine_plan(m->engine), diag) == WHIM_ERR_OK) {
        m->draft_unused = why;
    }
    return WHIM_ERR_OK;
}

/* Ranks that nobody asked for: where they are refused, or there is no memory for them, or the draft
 * would be lost, the model is whole. False: it is to be prepared as if none had been wished. */
static bool engine_prepare_wished(whimbrel_model *m, const whim_library_extra *extra)
{
    whim_library_extra wished = *extra;
    const char *field = "";
    whim_diag diag = {""};
    wished.n_rank = extra->wish_rank;
    whim_err err = engine_prepare(m, &wished, &field, &diag);
    if (err == WHIM_ERR_OK) {
        err = whim_memory_plan_check(whim_engine_plan(m->engine), &diag);
    }
    if (err == WHIM_ERR_OK) {
        return true;
    }
    whim_engine_close(m->engine);
    m->engine = NULL;
    m->ranks_unused = whim_arena_strndup(&m->arena, diag.text, (int64_t)strlen(diag.text));
    return false;
}

whim_err whim_model_prepare(whimbrel_model *m, const whim_library_extra *extra, const char **field,
                            whim_diag *diag)
{
    const whimbrel_model_options *o = &m->options;
    bool is_named = o->draft != NULL;
    WHIM_TRY(whim_got(draft_find(m), diag, "no memory for a model"));
    bool is_found = !is_named && o->draft != NULL;
    bool wishes = extra != NULL && extra->n_rank == 0 && extra->wish_rank > 1;
    if (wishes && o->backend == NULL && o->isa == NULL && whim_backend_preferred()) {
        m->ranks_unused = "there is a better device than the CPUs";
        wishes = false;
    }
    if (wishes && engine_prepare_wished(m, extra)) {
        return WHIM_ERR_OK;
    }
    return (is_found ? engine_prepare_found : engine_prepare)(m, extra, field, diag);
}
