/* SPDX-License-Identifier: Apache-2.0 */
/* How memory is shared out among weights, states, pages and passes. */
#include "base/os/mem.h"
#include "engine/engine_inner.h"
#include "engine/memory_fit.h"
#include "kv/disk_tier.h"

#include <stdio.h>

/* Of memory for requests and answers, where it is planned at all. */
#define LEAST_REQUEST_BYTES (INT64_C(32) << 20)

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
        whim_engine_blame(e, "kv_mem");
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "the memory for keys and values is below one KV page of %lld bytes%s",
                         (long long)fit.page_bytes,
                         e->cfg.draft != NULL ? ", the draft's included (--no-draft leaves it out)"
                                              : "");
    }
    return WHIM_ERR_OK;
}

/* Bytes of this rank's experts, and how many there are in a layer. */
static int64_t experts_bytes(const whim_engine *e, int64_t *n_own)
{
    int64_t bytes = 0;
    *n_own = 0;
    for (int64_t i = 0; i < e->binder.n_param; i++) {
        const whim_param *param = &e->binder.params[i];
        bytes += param->n_expert > 0 ? whim_aligned(param->bytes) : 0;
        *n_own = param->n_expert > 0 ? whim_param_experts(param) : *n_own;
    }
    return bytes;
}

/* What the ranks of this host take together beyond as much as this one has for each: experts need
 * not be dealt evenly. */
static int64_t others_excess(const whim_engine *e)
{
    int64_t n_own, bytes = experts_bytes(e, &n_own), n_more = 0;
    const int32_t *counts = e->binder.deal_counts;
    int32_t n_rank = whim_engine_deal_ranks(e);
    int32_t span = counts != NULL ? n_rank / e->binder.n_deal : 1;
    for (int32_t i = 0; i < whim_engine_n_here(e) && counts != NULL; i++) {
        n_more += counts[(e->cfg.host_first + i) % n_rank / span] - n_own;
    }
    return n_own > 0 ? n_more * (bytes / n_own) : 0;
}

/* Weights by part: experts are most of a model that has them. */
static void plan_weights(const whim_engine *e, whim_memory_plan *plan)
{
    const whim_moe_config *moe = &e->ckpt.config.moe;
    int64_t n_own, experts = experts_bytes(e, &n_own);
    whim_memory_plan_add(plan, WHIM_MEMORY_WEIGHTS, "weights", e->binder.bytes - experts,
                         "packed for %s %s%s", e->backend->name, e->device->caps.isa,
                         experts > 0 ? ", without experts" : "");
    if (experts > 0) {
        char of[32] = "";
        if (n_own < moe->n_expert) {
            snprintf(of, sizeof of, " of %d", moe->n_expert);
        }
        whim_memory_plan_add(plan, WHIM_MEMORY_WEIGHTS, "experts", experts,
                             "%lld%s, of which a token passes %d", (long long)n_own, of,
                             moe->top_k);
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
        whim_memory_plan_add(
            plan, WHIM_MEMORY_HOST, "pages for the disk",
            whim_disk_queue_bytes(r->page_bytes, r->slot_bytes, c->page_len, whim_engine_n_rank(e)),
            "waiting to be written, at most");
    }
    whim_memory_plan_add(plan, WHIM_MEMORY_OTHER, "activations", r->activation_bytes,
                         "steps of up to %lld tokens", (long long)c->max_rows);
    if (e->cfg.request_bytes > 0) {
        whim_memory_plan_add(plan, WHIM_MEMORY_HOST, WHIM_PLAN_REQUESTS, e->cfg.request_bytes,
                             "what clients send and have not read, at most");
    }
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
    plan->loading = whim_bind_staging_bytes(&e->binder, e->device, caps->n_loader);
}

/* No more for requests than an eighth of what the weights leave of the host's memory, before a
 * context is chosen: on a machine that they nearly fill, the context is worth more. */
static void requests_cap(whim_engine *e, int64_t available)
{
    int64_t host = has_own_memory(e) ? whim_os_mem_available()
                                     : available - e->binder.bytes - e->draft_binder.bytes;
    int64_t most = host / 8 > LEAST_REQUEST_BYTES ? host / 8 : LEAST_REQUEST_BYTES;
    if (!e->cfg.request_bytes_asked && e->cfg.request_bytes > most) {
        e->cfg.request_bytes = most;
    }
}

/* States, context, pages, and the plan. What a pass takes beside its pages is known only when it
 * has been measured: where the whole does not fit then, pages are chosen once more from what that
 * leaves. */
whim_err whim_engine_choose_memory(whim_engine *e, whim_diag *diag)
{
    whim_device *dev = e->device;
    int64_t available = has_own_memory(e) ? dev->vt->mem_available(dev) : whim_os_mem_available();
    int64_t all = available;
    available = (all - others_excess(e)) / whim_engine_n_here(e);
    requests_cap(e, available);
    int64_t left = states_choose(e, available), needed = INT64_MAX;
    for (int32_t turn = 0; turn < 2 && needed > available; turn++) {
        WHIM_TRY(pages_choose(e, left, diag));
        WHIM_TRY(whim_exec_measure(&e->ckpt.config, e->def, e->model, e->device, &e->runner_cfg,
                                   &e->runner_plan, diag));
        plan_make(e, available);
        e->plan.available_here = all;
        needed = whim_memory_plan_needed(&e->plan);
        left = available - (needed - e->runner_plan.kv_bytes);
    }
    int64_t host = whim_memory_plan_host_needed(&e->plan) - e->plan.host_available;
    int64_t lacks = needed - available > host ? needed - available : host;
    bool may_less = !e->cfg.request_bytes_asked && e->cfg.request_bytes > LEAST_REQUEST_BYTES;
    if (lacks > 0 && may_less) { /* rather than no model */
        int64_t less = e->cfg.request_bytes - lacks;
        e->cfg.request_bytes = less > LEAST_REQUEST_BYTES ? less : LEAST_REQUEST_BYTES;
        plan_make(e, available);
        e->plan.available_here = all;
    }
    return WHIM_ERR_OK;
}
