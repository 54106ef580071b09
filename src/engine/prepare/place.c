/* SPDX-License-Identifier: Apache-2.0 */
/* Where a model runs: on which device, in steps of which size, as which of several ranks. */
#include "device/choose.h"
#include "engine/engine_inner.h"

enum { DEFAULT_STEP_TOKENS = 512 };

whim_err whim_engine_choose_device(whim_engine *e, whim_diag *diag)
{
    int32_t index = 0;
    e->backend =
        e->cfg.backend != NULL ? whim_backend_choose(e->cfg.backend, &index) : whim_backend_at(0);
    if (e->backend == NULL) {
        whim_engine_blame(e, "backend");
        return whim_fail(diag, WHIM_ERR_NOT_FOUND,
                         "there is no backend '%s' in this build; `whimbrel doctor` lists them",
                         e->cfg.backend);
    }
    whim_device_cfg cfg = {.n_thread = e->cfg.n_thread,
                           .isa = e->cfg.isa,
                           .part = e->cfg.rank - e->cfg.host_first,
                           .n_part = whim_engine_n_here(e)};
    whim_err err = e->backend->device_open(index, &cfg, &e->device, diag);
    if (index != 0 && err == WHIM_ERR_NOT_FOUND) {
        whim_engine_blame(e, "backend");
    }
    if (err == WHIM_ERR_INVALID || (err == WHIM_ERR_UNSUPPORTED && cfg.isa != NULL)) {
        whim_engine_blame(e, err == WHIM_ERR_INVALID ? "n_thread" : "isa");
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
        whim_engine_blame(e, "kv_type");
        return whim_fail(diag, WHIM_ERR_INVALID, "KV type '%s' is not one of f32, bf16, f16, q8",
                         e->cfg.kv_type);
    }
    return WHIM_ERR_OK;
}

static int64_t or_default(int64_t value, int64_t fallback)
{
    return value > 0 ? value : fallback;
}

whim_err whim_engine_choose_limits(whim_engine *e, whim_diag *diag)
{
    const whim_config *c = &e->ckpt.config;
    whim_exec_cfg *r = &e->runner_cfg;
    if (e->cfg.ctx > c->max_ctx) {
        whim_engine_blame(e, "ctx");
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

/* Parts of ranks that share prompts have the whole model each. Where a part has several ranks, rows
 * are gathered in memory that all of them share. */
static whim_err share_check(const whim_engine *e, whim_diag *diag)
{
    int32_t n_rank = whim_engine_n_rank(e), n_share = e->cfg.n_share;
    if (n_share <= 1 || n_share == n_rank) {
        return WHIM_ERR_OK;
    }
    whim_engine_blame(e, "n_share");
    if (n_rank % n_share != 0) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "%d ranks cannot be %d parts that share prompts: as many must have the "
                         "model together in each, so it divides the ranks",
                         n_rank, n_share);
    }
    if (whim_engine_n_here(e) != n_rank) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "%d ranks in %d parts that split the model and share prompts must all be "
                         "on one machine so far",
                         n_rank, n_share);
    }
    return WHIM_ERR_OK;
}

/* Ranks of a group sum often, and in memory that they share. */
static whim_err hosts_check(const whim_engine *e, int32_t span, whim_diag *diag)
{
    int32_t first = e->cfg.host_first, n = whim_engine_n_here(e);
    if (first % span == 0 && n % span == 0) {
        return WHIM_ERR_OK;
    }
    return whim_fail(
        diag, WHIM_ERR_UNSUPPORTED,
        "groups of %d ranks would have ranks of several hosts: this one has ranks %d to "
        "%d; so many that a host has whole groups will do",
        span, first, first + n - 1);
}

/* Groups of several ranks have all of the model in each, cut. */
static whim_err groups_check(const whim_engine *e, whim_diag *diag)
{
    int32_t n_rank = whim_engine_n_rank(e), n_group = e->cfg.n_group;
    if (n_group <= 1) {
        return WHIM_ERR_OK;
    }
    whim_engine_blame(e, "n_group");
    if (n_rank % n_group != 0) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "%d ranks cannot be %d groups with requests of their own", n_rank,
                         n_group);
    }
    if (e->cfg.n_share > 1 && n_rank % (n_group * e->cfg.n_share) != 0) {
        return whim_fail(
            diag, WHIM_ERR_INVALID,
            "%d ranks cannot be %d groups with requests of their own, each of %d parts "
            "that share prompts: the product of the two divides the ranks",
            n_rank, n_group, e->cfg.n_share);
    }
    WHIM_TRY(hosts_check(e, n_rank / n_group, diag));
    if (e->cfg.record_steps != NULL) {
        whim_engine_blame(e, "record_steps");
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "--dp has steps of its own for each group, which a file cannot hold yet: "
                         "leave out --record-steps, or --dp");
    }
    if (e->cfg.kv_dir != NULL && n_group < n_rank && whim_engine_n_here(e) != n_rank) {
        whim_engine_blame(e, "kv_dir");
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "groups of %d ranks on several machines cannot send pages to those that "
                         "keep them: leave out --kv-dir, or use groups of one rank",
                         n_rank / n_group);
    }
    return WHIM_ERR_OK;
}

/* Ranks over which all that is no expert is cut; 1: each has the whole of it. */
static int32_t cut_ranks(const whim_engine *e)
{
    int32_t n_rank = whim_engine_n_rank(e);
    bool whole = e->cfg.n_deal > 1 && !e->cfg.deal_cut;
    int32_t n_part = e->cfg.n_share > 1 ? e->cfg.n_share : 1;
    return whole ? 1 : n_rank / n_part / (e->cfg.n_group > 1 ? e->cfg.n_group : 1);
}

/* Ranks that have whole experts and the same rows deal the heads as well, and split no sum. That
 * takes two messages a layer, which pay where ranks share memory. */
static bool keeps_sums(const whim_engine *e)
{
    return e->cfg.n_deal > 1 && !e->cfg.deal_cut && e->cfg.n_share <= 1 && e->cfg.n_group <= 1 &&
           whim_engine_n_here(e) == whim_engine_n_rank(e);
}

/* Ranks that have experts have one each at least. Where they cut the rest, some may have one
 * together. */
static whim_err deal_check(const whim_engine *e, whim_diag *diag)
{
    int32_t n_rank = whim_engine_n_rank(e), n_deal = e->cfg.n_deal;
    int32_t n_expert = e->ckpt.config.moe.n_expert;
    if (n_deal <= 1) {
        return WHIM_ERR_OK;
    }
    whim_engine_blame(e, "n_deal");
    if (n_expert == 0) {
        return whim_fail(
            diag, WHIM_ERR_INVALID,
            "experts cannot be distributed over %d ranks: the %s model has none; ranks "
            "can split it, or share its prompts",
            n_deal, e->ckpt.config.arch->name);
    }
    if (n_deal > n_expert) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "%d ranks cannot have an expert each: the model has %d", n_deal, n_expert);
    }
    if (n_rank % n_deal != 0) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "experts cannot be distributed over %d of %d ranks: the first number must "
                         "divide the second",
                         n_deal, n_rank);
    }
    int32_t part = whim_engine_deal_ranks(e);
    if (part < n_rank && (part % n_deal != 0 || !e->cfg.deal_cut)) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "experts cannot be distributed over %d ranks in parts of %d that share "
                         "prompts: each part has all experts, so --ep must divide the ranks of a "
                         "part",
                         n_deal, part);
    }
    if (n_deal != part && cut_ranks(e) == 1) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "experts cannot be distributed over %d of %d ranks that have the rest of "
                         "the model whole: use --ep %d, or --tp %d with a smaller --cp or --dp, "
                         "which splits the rest as well",
                         n_deal, n_rank, part, n_rank);
    }
    int32_t n_part = e->cfg.n_group * (e->cfg.n_share > 1 ? e->cfg.n_share : 1);
    if (e->cfg.n_group > 1 && n_part != n_rank && !e->cfg.deal_cut) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "experts cannot be distributed over %d ranks in groups of %d that have "
                         "the rest whole: groups of several ranks split it; give the number of "
                         "all ranks (--tp)",
                         n_deal, n_rank / e->cfg.n_group);
    }
    return WHIM_ERR_OK;
}

/* Who has which experts, and with whom. */
static void deal_choose(whim_engine *e)
{
    int32_t n_rank = whim_engine_deal_ranks(e), n_deal = e->cfg.n_deal;
    if (n_deal <= 1) {
        return;
    }
    int32_t span = n_rank / n_deal;
    e->binder.n_deal = n_deal;
    e->binder.deal_rank = e->cfg.rank % n_rank / span;
    e->binder.deal_span = cut_ranks(e) > 1 ? span : 0;
}

/* Which part of the model is bound. */
whim_err whim_engine_choose_ranks(whim_engine *e, whim_diag *diag)
{
    int32_t n_rank = whim_engine_n_rank(e);
    if (e->cfg.rank < 0 || e->cfg.rank >= n_rank) {
        return whim_fail(diag, WHIM_ERR_INVALID, "rank %d of %d: ranks are counted from 0",
                         e->cfg.rank, n_rank);
    }
    WHIM_TRY(share_check(e, diag));
    WHIM_TRY(groups_check(e, diag));
    WHIM_TRY(deal_check(e, diag));
    bool shares = e->cfg.n_share > 1, groups = e->cfg.n_group > 1, deals = e->cfg.n_deal > 1;
    e->binder.whole_sums = keeps_sums(e);
    e->binder.n_rank = e->binder.whole_sums ? n_rank : cut_ranks(e);
    e->binder.rank = e->cfg.rank % e->binder.n_rank;
    deal_choose(e);
    e->binder.n_share = e->runner_cfg.n_share = shares ? e->cfg.n_share : 0;
    e->runner_cfg.n_group = groups ? e->cfg.n_group : 0;
    bool wide = groups && e->cfg.n_group < n_rank && !shares;
    e->binder.n_wide = wide ? n_rank : 0;
    e->binder.wide_rank = wide ? e->cfg.rank : 0;
    e->runner_cfg.meets = wide || (groups && deals && (!shares || cut_ranks(e) == 1));
    e->binder.ckpt = &e->ckpt;
    e->runner_cfg.comm = e->cfg.comm;
    e->binder.comm = e->cfg.comm;
    e->draft_binder.comm = e->cfg.comm;
    e->runner_cfg.kv_dir = e->cfg.kv_dir;
    return WHIM_ERR_OK;
}
