/* SPDX-License-Identifier: Apache-2.0 */
/* From a model's name to a loaded runner. */
#include "engine/engine.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/os/mem.h"
#include "device/choose.h"
#include "draft/draft.h"
#include "draft/mtp.h"
#include "engine/memory_fit.h"
#include "kv/disk_tier.h"
#include "runner/step_record.h"
#include "weights/gguf/read.h"

#include <stdio.h>
#include <string.h>

enum { DEFAULT_STEP_TOKENS = 512 };

/* One conversation leaves more of the machine to others than a server must. */
#define DEFAULT_CTX_SHARE 0.25

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

static const char shape_prefix[] = "shape:";

/* Dummy weights: the configuration of a published shape or of real files, and no tensors. */
static whim_err ckpt_make_dummy(whim_engine *e, whim_diag *diag)
{
    const char *model = e->cfg.model, *published = "bf16";
    if (strncmp(model, shape_prefix, sizeof shape_prefix - 1) == 0) {
        whim_arena_init(&e->ckpt.arena);
        e->ckpt.generation = whim_generation_ours;
        WHIM_TRY(whim_config_shape(&e->ckpt.config, whim_model_archs(),
                                   model + sizeof shape_prefix - 1, diag));
        published = whim_dtype_get(e->ckpt.config.dtype)->name;
    } else {
        WHIM_TRY(whim_ckpt_open_config(&e->ckpt, whim_model_archs(), model, diag));
    }
    const char *type = e->cfg.weight_type != NULL ? e->cfg.weight_type : published;
    whim_dtype dtype;
    if (!whim_dtype_from_name(type, &dtype) || whim_dtype_get(dtype)->kind == WHIM_DTYPE_KIND_INT) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "'%s' is no type of weights; examples: f32, bf16, q8_0, q4_0, q4_k", type);
    }
    e->ckpt.format = WHIM_CKPT_DUMMY;
    e->ckpt.n_tensor = 0;
    e->ckpt.config.dtype = dtype;
    e->ckpt.config.qk_paired = false;
    /* As GGUF files of such models are, so that a file of these weights is the same model. */
    whim_gdn_config *gdn = &e->ckpt.config.gdn;
    gdn->folded = gdn->apart = false;
    const whim_gguf_arch *facts = whim_gguf_arch_of(&e->ckpt.config);
    gdn->tiled = facts != NULL && facts->tiled && gdn->n_value != gdn->n_key;
    return WHIM_ERR_OK;
}

static whim_err ckpt_find(whim_engine *e, whim_diag *diag)
{
    const char *format = e->cfg.load_format != NULL ? e->cfg.load_format : "auto";
    if (strcmp(format, "dummy") == 0) {
        return ckpt_make_dummy(e, diag);
    }
    if (strcmp(format, "auto") != 0) {
        return whim_fail(diag, WHIM_ERR_INVALID, "load format '%s' is neither auto nor dummy",
                         format);
    }
    if (strncmp(e->cfg.model, shape_prefix, sizeof shape_prefix - 1) == 0) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "%s is a shape without weights; with load format 'dummy' it can be timed",
                         e->cfg.model);
    }
    if (e->cfg.weight_type != NULL) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "a weight type is for dummy weights; the files of %s have their own",
                         e->cfg.model);
    }
    return whim_ckpt_open(&e->ckpt, whim_model_archs(), e->cfg.model, diag);
}

/* A field of the configuration is why the next error comes. */
static void blame_of(const whim_engine_cfg *cfg, const char *field)
{
    if (cfg->wrong != NULL) {
        *cfg->wrong = field;
    }
}

static void blame(const whim_engine *e, const char *field)
{
    blame_of(&e->cfg, field);
}

static int32_t ranks_of(const whim_engine *e)
{
    return e->cfg.n_rank > 1 ? e->cfg.n_rank : 1;
}

/* Ranks that have this host together, this one among them. */
static int32_t ranks_here(const whim_engine *e)
{
    int32_t n = e->cfg.n_host > 0 ? e->cfg.n_host : e->cfg.n_rank;
    return n > 1 ? n : 1;
}

static whim_err device_choose(whim_engine *e, whim_diag *diag)
{
    int32_t index = 0;
    e->backend =
        e->cfg.backend != NULL ? whim_backend_choose(e->cfg.backend, &index) : whim_backend_at(0);
    if (e->backend == NULL) {
        blame(e, "backend");
        return whim_fail(diag, WHIM_ERR_NOT_FOUND,
                         "there is no backend '%s' in this build; `whimbrel doctor` lists them",
                         e->cfg.backend);
    }
    whim_device_cfg cfg = {.n_thread = e->cfg.n_thread,
                           .isa = e->cfg.isa,
                           .part = e->cfg.rank - e->cfg.host_first,
                           .n_part = ranks_here(e)};
    whim_err err = e->backend->device_open(index, &cfg, &e->device, diag);
    if (index != 0 && err == WHIM_ERR_NOT_FOUND) {
        blame(e, "backend");
    }
    if (err == WHIM_ERR_INVALID || (err == WHIM_ERR_UNSUPPORTED && cfg.isa != NULL)) {
        blame(e, err == WHIM_ERR_INVALID ? "n_thread" : "isa");
    }
    WHIM_TRY(err);
    if (e->cfg.watch != NULL) {
        e->device->watch = e->cfg.watch;
        e->cfg.graphs = WHIM_GRAPHS_OFF;
    }
    return WHIM_ERR_OK;
}

static whim_err kv_type_choose(const whim_engine *e, whim_kv_type *out, whim_diag *diag)
{
    if (e->cfg.kv_type == NULL) {
        *out = e->ckpt.config.dtype == WHIM_DTYPE_F32 ? WHIM_KV_F32 : WHIM_KV_BF16;
        return WHIM_ERR_OK;
    }
    if (!whim_kv_type_from_name(e->cfg.kv_type, out)) {
        blame(e, "kv_type");
        return whim_fail(diag, WHIM_ERR_INVALID, "KV type '%s' is none of f32, bf16, f16, q8",
                         e->cfg.kv_type);
    }
    return WHIM_ERR_OK;
}

static int64_t or_default(int64_t value, int64_t fallback)
{
    return value > 0 ? value : fallback;
}

static whim_err limits_choose(whim_engine *e, whim_diag *diag)
{
    const whim_config *c = &e->ckpt.config;
    whim_exec_cfg *r = &e->runner_cfg;
    if (e->cfg.ctx > c->max_ctx) {
        blame(e, "ctx");
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "a context of %lld tokens was asked for, but the model was made for %lld",
                         (long long)e->cfg.ctx, (long long)c->max_ctx);
    }
    r->page_len = e->device->caps.page_len;
    r->max_seqs = or_default(e->cfg.max_seqs, 1);
    r->max_rows = or_default(e->cfg.max_step_tokens, DEFAULT_STEP_TOKENS);
    r->max_rows = r->max_rows > r->max_seqs ? r->max_rows : r->max_seqs;
    r->max_outs = or_default(e->cfg.max_outs, r->max_seqs);
    r->graphs = e->cfg.graphs == WHIM_GRAPHS_AUTO ? e->device->caps.graph_capture
                                                  : e->cfg.graphs == WHIM_GRAPHS_ON;
    r->n_flight = e->cfg.n_flight;
    r->kv_as_used = e->cfg.kv_as_used;
    r->embeds = e->cfg.embeds;
    r->n_capture = e->cfg.n_capture;
    r->fetch_hidden = r->n_capture > 0;
    for (int32_t i = 0; i < r->n_capture; i++) {
        r->boundary[i] = e->cfg.boundary[i];
        if (r->boundary[i] < 0 || r->boundary[i] > c->n_layer) {
            return whim_fail(diag, WHIM_ERR_INVALID,
                             "hidden states of boundary %d: the model has boundaries 0 to %d",
                             r->boundary[i], c->n_layer);
        }
    }
    return kv_type_choose(e, &r->kv_type, diag);
}

/* Slots of recurrent state; what memory is left then for pages. */
static int64_t states_choose(whim_engine *e, int64_t available)
{
    whim_exec_cfg *r = &e->runner_cfg;
    if (e->cfg.sizes != NULL) {
        r->max_seqs = e->cfg.sizes->max_seqs;
        r->n_state = e->cfg.sizes->n_state;
        r->max_kept = r->n_state > 0 ? e->cfg.max_kept : 0;
        return 0;
    }
    whim_state_fit fit = {
        .slot_bytes = e->def->layers(e->model)->slot_bytes,
        .n_checkpoint = e->cfg.n_checkpoint,
        .may_lower = e->cfg.may_lower_seqs,
        .max_seqs = r->max_seqs,
    };
    int64_t left = whim_state_fit_choose(&fit, available - e->binder.bytes - e->draft_binder.bytes);
    r->max_seqs = fit.max_seqs;
    r->n_state = fit.n_state;
    r->max_kept = fit.slot_bytes > 0 ? e->cfg.max_kept : 0;
    return left;
}

/* The context, and pages for it, in what memory the weights and states leave. */
static whim_err pages_choose(whim_engine *e, int64_t left, whim_diag *diag)
{
    whim_exec_cfg *r = &e->runner_cfg;
    if (e->cfg.sizes != NULL) {
        r->max_ctx = e->cfg.sizes->max_ctx;
        r->n_page = e->cfg.sizes->n_page;
        return WHIM_ERR_OK;
    }
    whim_page_fit fit = {
        .page_bytes =
            whim_layer_table_place(e->def->layers(e->model), r->kv_type, r->page_len, NULL),
        .page_len = r->page_len,
        .model_ctx = e->ckpt.config.max_ctx,
        .asked_ctx = e->cfg.ctx,
        .asked_bytes = e->cfg.kv_mem,
        .n_seq = e->cfg.kv_seqs > 0 && e->cfg.kv_seqs < r->max_seqs ? e->cfg.kv_seqs : r->max_seqs,
        .share = e->cfg.kv_share,
        .one_share = whim_engine_ctx_share(e),
    };
    whim_page_fit_choose(&fit, left);
    r->max_ctx = fit.ctx;
    r->n_page = fit.n_page;
    if (r->n_page < 1) {
        blame(e, "kv_mem");
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "the memory for keys and values is below one KV page of %lld bytes%s",
                         (long long)fit.page_bytes,
                         e->cfg.draft != NULL ? ", the draft's included (--no-draft leaves it out)"
                                              : "");
    }
    return WHIM_ERR_OK;
}

/* Weights by part: experts are most of a model that has them. */
static void plan_weights(const whim_engine *e, whim_memory_plan *plan)
{
    const whim_moe_config *moe = &e->ckpt.config.moe;
    int64_t experts = 0;
    for (int64_t i = 0; i < e->binder.n_param; i++) {
        const whim_param *param = &e->binder.params[i];
        experts += param->n_expert > 0 ? whim_aligned(param->bytes) : 0;
    }
    whim_memory_plan_add(plan, WHIM_MEMORY_WEIGHTS, "weights", e->binder.bytes - experts,
                         "packed for %s %s%s", e->backend->name, e->device->caps.isa,
                         experts > 0 ? ", without experts" : "");
    if (experts > 0) {
        whim_memory_plan_add(plan, WHIM_MEMORY_WEIGHTS, "experts", experts,
                             "%d, of which a token passes %d", moe->n_expert, moe->top_k);
    }
}

static bool has_own_memory(const whim_engine *e)
{
    return e->device->vt->mem_available != NULL;
}

static void plan_make(whim_engine *e, int64_t available)
{
    const whim_exec_plan *r = &e->runner_plan;
    const whim_exec_cfg *c = &e->runner_cfg;
    whim_memory_plan *plan = &e->plan;
    const whim_device_caps *caps = &e->device->caps;
    *plan = (whim_memory_plan){.available = available, .apart = has_own_memory(e)};
    plan->host_available = plan->apart ? whim_os_mem_available() : 0;
    plan_weights(e, plan);
    if (e->draft_binder.bytes > 0) {
        whim_memory_plan_add(plan, WHIM_MEMORY_WEIGHTS, "draft", e->draft_binder.bytes,
                             "%d layers, blocks of %d", e->draft.config.n_layer,
                             e->draft.config.draft.block);
    }
    whim_memory_plan_add(plan, WHIM_MEMORY_KV, "KV pages", r->kv_bytes, "%lld tokens in %s",
                         (long long)(c->n_page * c->page_len), whim_kv_type_name(c->kv_type));
    if (r->state_bytes > 0) {
        whim_memory_plan_add(plan, WHIM_MEMORY_KV, "recurrent states", r->state_bytes,
                             "%lld sequences, %lld checkpoints of %lld bytes",
                             (long long)c->max_seqs, (long long)(c->n_state - c->max_seqs),
                             (long long)r->slot_bytes);
    }
    if (r->kept_bytes > 0) {
        whim_memory_plan_add(plan, WHIM_MEMORY_OTHER, "proposals", r->kept_bytes,
                             "rows on trial: %lld, rows that a draft takes late: %d",
                             (long long)c->max_kept, WHIM_LATE_ROWS);
    }
    if (e->cfg.kv_dir != NULL) {
        whim_memory_plan_add(plan, WHIM_MEMORY_HOST, "pages for the disk",
                             whim_disk_queue_bytes(r->page_bytes, c->page_len, ranks_of(e)),
                             "waiting to be written, at most");
    }
    whim_memory_plan_add(plan, WHIM_MEMORY_OTHER, "activations", r->activation_bytes,
                         "steps of up to %lld tokens", (long long)c->max_rows);
    int64_t batch_bytes = r->batch_bytes + r->before_bytes + r->cut_bytes + r->output_bytes;
    whim_memory_plan_add(plan, WHIM_MEMORY_OTHER, "batch and results",
                         batch_bytes + (plan->apart ? 0 : r->host_bytes),
                         "sequences: %lld, rows of logits: %lld", (long long)c->max_seqs,
                         (long long)c->max_outs);
    if (plan->apart) {
        whim_memory_plan_add(plan, WHIM_MEMORY_HOST, "pinned", r->host_bytes,
                             "on the host, the other ends of copies");
    }
    whim_memory_plan_add(plan, WHIM_MEMORY_OTHER, "workspace",
                         caps->workspace_bytes + r->workspace_bytes, "worker threads: %d",
                         caps->n_thread);
    whim_memory_plan_add(plan, WHIM_MEMORY_HOST, "tables",
                         whim_ckpt_memory(&e->ckpt) + e->binder.arena.total + e->arena.total,
                         "%snames and metadata", plan->apart ? "on the host, " : "");
    plan->loading = whim_bind_staging_bytes(&e->binder, e->device, caps->n_thread);
}

/* States, context, pages, and the plan. What a pass takes beside its pages is known only when it
 * has been measured: where the whole does not fit then, pages are chosen once more from what that
 * leaves. */
static whim_err memory_choose(whim_engine *e, whim_diag *diag)
{
    whim_device *dev = e->device;
    int64_t available = has_own_memory(e) ? dev->vt->mem_available(dev) : whim_os_mem_available();
    available /= ranks_here(e); /* the others have as much */
    int64_t left = states_choose(e, available), needed = INT64_MAX;
    for (int32_t turn = 0; turn < 2 && needed > available; turn++) {
        WHIM_TRY(pages_choose(e, left, diag));
        WHIM_TRY(whim_exec_measure(&e->ckpt.config, e->def, e->model, e->device, &e->runner_cfg,
                                   &e->runner_plan, diag));
        plan_make(e, available);
        needed = whim_memory_plan_needed(&e->plan);
        left = available - (needed - e->runner_plan.kv_bytes);
    }
    return WHIM_ERR_OK;
}

/* A draft changes no text, so it may be as coarse as pays. */
static whim_err draft_type_choose(whim_engine *e, whim_diag *diag)
{
    whim_dtype type = WHIM_DTYPE_F32;
    const char *name = e->cfg.draft_type;
    bool known = name == NULL || whim_dtype_from_name(name, &type);
    if (name != NULL && (!known || (type != WHIM_DTYPE_Q8_0 && type != WHIM_DTYPE_Q4_0))) {
        blame(e, "draft_type");
        return whim_fail(diag, WHIM_ERR_INVALID, "'%s' is none of q8_0, q4_0 and file", name);
    }
    e->draft_binder.narrow = type;
    return WHIM_ERR_OK;
}

/* The draft is the layer that lies in the model's own files for that. */
static bool uses_mtp(const whim_engine *e)
{
    return e->cfg.draft != NULL && strcmp(e->cfg.draft, WHIM_DRAFT_OWN) == 0;
}

/* From here on the model is one with its draft. */
static whim_err draft_join(whim_engine *e, whim_diag *diag)
{
    const whim_config *c = &e->draft.config;
    WHIM_TRY(draft_type_choose(e, diag));
    blame(e, "draft");
    if (uses_mtp(e)) {
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
    blame(e, "");
    return WHIM_ERR_OK;
}

/* Ranks that have a part of the model each cannot share rows yet. */
static whim_err share_check(const whim_engine *e, whim_diag *diag)
{
    int32_t n_rank = ranks_of(e), n_share = e->cfg.n_share;
    if (n_share <= 1 || n_share == n_rank) {
        return WHIM_ERR_OK;
    }
    blame(e, "n_share");
    return n_rank % n_share != 0
               ? whim_fail(diag, WHIM_ERR_INVALID,
                           "%d ranks cannot be groups of %d that share prompts", n_rank, n_share)
               : whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                           "%d ranks would share prompts in groups of %d with a part of the model "
                           "each; so far all of them share prompts, or none",
                           n_rank, n_share);
}

/* Which part of the model is bound. */
static whim_err ranks_choose(whim_engine *e, whim_diag *diag)
{
    int32_t n_rank = ranks_of(e);
    if (e->cfg.rank < 0 || e->cfg.rank >= n_rank) {
        return whim_fail(diag, WHIM_ERR_INVALID, "rank %d of %d: ranks are counted from 0",
                         e->cfg.rank, n_rank);
    }
    WHIM_TRY(share_check(e, diag));
    bool shares = e->cfg.n_share > 1;
    e->binder.n_rank = shares ? 1 : n_rank;
    e->binder.rank = shares ? 0 : e->cfg.rank;
    e->binder.n_share = e->runner_cfg.n_share = shares ? n_rank : 0;
    e->binder.ckpt = &e->ckpt;
    e->runner_cfg.comm = e->cfg.comm;
    e->binder.comm = e->cfg.comm;
    e->draft_binder.comm = e->cfg.comm;
    e->runner_cfg.kv_dir = e->cfg.kv_dir;
    return WHIM_ERR_OK;
}

static whim_err prepare(whim_engine *e, whim_diag *diag)
{
    WHIM_TRY(ckpt_find(e, diag));
    const whim_config *config = &e->ckpt.config;
    WHIM_TRY(whim_model_find(config->arch->name, &e->def, diag));
    if (e->def->configure != NULL) {
        WHIM_TRY(e->def->configure(config, diag));
    }
    WHIM_TRY(device_choose(e, diag));
    WHIM_TRY(limits_choose(e, diag));
    WHIM_TRY(ranks_choose(e, diag));
    WHIM_TRY(e->def->bind(e->def, config, &e->arena, &e->binder, &e->model, diag));
    if (e->cfg.draft != NULL) {
        WHIM_TRY(draft_join(e, diag));
    }
    WHIM_TRY(whim_bind_match(&e->binder, &e->ckpt, e->device, diag));
    if (uses_mtp(e)) { /* what was skipped there is in use here */
        e->binder.n_skipped[WHIM_SKIPPED_MTP] = 0;
    }
    return memory_choose(e, diag);
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

/* On the first of a backend's devices that has room for it. */
static whim_err prepare_on(const whim_engine_cfg *cfg, const whim_backend *backend,
                           whim_engine **out, whim_diag *diag)
{
    whim_engine_cfg there = *cfg;
    whim_device *device = NULL;
    int32_t n = backend->device_count();
    char name[64];
    there.backend = name;
    for (int32_t i = 0; i < n; i++) {
        whim_diag why = {""};
        snprintf(name, sizeof name, "%s:%d", backend->name, i);
        whim_err err = prepare_here(&there, out, &why);
        if (err == WHIM_ERR_OK) {
            err = whim_memory_plan_check(&(*out)->plan, &why);
            if (err == WHIM_ERR_OK) {
                (*out)->cfg.backend = NULL; /* the name is ours */
                return WHIM_ERR_OK;
            }
            whim_engine_close(*out);
            *out = NULL;
        }
        if (i == n - 1) {
            return whim_fail(diag, err, "%s", why.text);
        }
    }
    whim_device_cfg none = {0};
    whim_err err = backend->device_open(0, &none, &device, diag); /* says what is missing */
    whim_device_close(device);
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
            (void)whim_fail(&passed, err, "%s: %s", backend->name, why.text);
        }
    }
    blame_of(cfg, "");
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
    WHIM_TRY(whim_bind_load(&e->binder, &e->ckpt, e->device, e->device->caps.n_thread,
                            e->cfg.on_progress, e->cfg.progress_ctx, diag));
    if (e->cfg.draft != NULL) {
        WHIM_TRY(whim_bind_load(&e->draft_binder, &e->draft, e->device, e->device->caps.n_thread,
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
    e->plan.available *= ranks_here(e); /* the whole host's now */
    whim_memory_plan_add(&e->plan, WHIM_MEMORY_OTHER, "other ranks", bytes, "processes: %d",
                         ranks_here(e) - 1);
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
    return uses_mtp(e) ? &e->ckpt : &e->draft;
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
        int64_t times = param->n_expert > 0 ? e->ckpt.config.moe.top_k : 1;
        macs += param_is_read(e, param) ? times * param->n_here * param->k_here : 0;
    }
    return macs;
}

int64_t whim_engine_parameters(const whim_engine *e)
{
    int64_t n = 0;
    for (int64_t i = 0; i < e->binder.n_param; i++) {
        const whim_param *param = &e->binder.params[i];
        n += param->constant == NULL ? param->n_part * param->n * param->k : 0;
    }
    return n;
}
