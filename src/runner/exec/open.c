/* SPDX-License-Identifier: Apache-2.0 */
/* The life of an exec, and its buffers. */
#include "base/alloc.h"
#include "base/check.h"
#include "comm/comm.h"
#include "runner/exec/inner.h"

whim_step_limits whim_exec_limits(const whim_config *config, const whim_exec_cfg *cfg)
{
    return (whim_step_limits){
        .max_rows = cfg->max_rows,
        .max_seqs = cfg->max_seqs,
        .max_outs = cfg->max_outs,
        .max_ctx = cfg->max_ctx,
        .n_page = cfg->n_page,
        .page_len = cfg->page_len,
        .n_state = cfg->n_state,
        .n_vocab = config->n_vocab,
        .max_kept = cfg->max_kept,
    };
}

int32_t whim_exec_group(const whim_exec_cfg *cfg)
{
    return whim_exec_groups(cfg) > 1 && cfg->comm != NULL
               ? cfg->comm->rank / whim_exec_group_ranks(cfg)
               : 0;
}

int32_t whim_exec_group_ranks(const whim_exec_cfg *cfg)
{
    return cfg->comm != NULL ? cfg->comm->n_rank / whim_exec_groups(cfg) : 1;
}

/* Parts of a group that have the whole model each. */
static int32_t parts_of(const whim_exec_cfg *cfg)
{
    return cfg->n_share > 1 ? cfg->n_share : 1;
}

/* Ranks that have the whole model together; all where nobody else has it. */
static int32_t part_ranks(const whim_exec_cfg *cfg)
{
    return cfg->comm != NULL ? cfg->comm->n_rank / whim_exec_groups(cfg) / parts_of(cfg) : 1;
}

/* Passes are those of a part, or of all where parts of one rank meet in them. Parts that share rows
 * gather them beside each other, groups send pages across, and what is behind a pass is of all.
 * Where ranks differ in one of these ways only, all are the comm for it. */
static void comms_open(whim_exec *x)
{
    whim_comm *all = x->cfg.comm;
    int32_t span = part_ranks(&x->cfg), reach = parts_of(&x->cfg);
    int32_t n_way = (span > 1) + (reach > 1) + (whim_exec_groups(&x->cfg) > 1);
    if (all == NULL) { /* opened for its plan */
        return;
    }
    if (n_way > 1) {
        whim_comm_split(all, span, reach, &x->comms);
    }
    bool all_meet = n_way > 1 && x->cfg.meets && span == 1;
    all->cuts = all_meet ? &x->comms : NULL;
    x->stream->comm = n_way > 1 && !all_meet ? &x->comms.block : all;
}

_Static_assert((int)WHIM_CUT_SETS == (int)WHIM_EXEC_FLIGHT, "a set for each step under way");

whim_cut_cfg whim_exec_cut_cfg(const whim_exec_cfg *cfg)
{
    int32_t rank = cfg->comm != NULL ? cfg->comm->rank : 0; /* a plan may be made before that */
    return (whim_cut_cfg){
        .n_rank = cfg->n_share,
        .rank = rank / part_ranks(cfg) % parts_of(cfg),
        .max_rows = cfg->max_rows,
        .max_seqs = cfg->max_seqs,
        .n_set = whim_exec_flights(cfg),
    };
}

static whim_err device_buffers_open(whim_exec *x, whim_diag *diag)
{
    void *block, *embeds;
    WHIM_TRY((x->cfg.kv_as_used ? whim_device_reserve : whim_device_alloc)(
        x->device, x->plan.kv_bytes, &x->kv, diag)); /* a page is zeroed before its first use */
    WHIM_TRY(whim_device_alloc(x->device, x->plan.state_bytes, &x->state, diag));
    WHIM_TRY(whim_device_alloc(x->device, x->plan.activation_bytes, &x->activations, diag));
    WHIM_TRY(whim_device_alloc(x->device, x->plan.batch_bytes, &block, diag));
    x->block = block;
    WHIM_TRY(whim_page_table_init(&x->pages, &x->limits, x->block, diag));
    WHIM_TRY(whim_befores_init(&x->befores, &x->cfg, x->device, diag));
    whim_cut_cfg cut = whim_exec_cut_cfg(&x->cfg);
    WHIM_TRY(whim_cut_init(&x->cut, &cut, x->device, diag));
    if (x->cfg.embeds) {
        WHIM_TRY(whim_device_alloc(x->device, x->plan.embed_bytes, &embeds, diag));
        x->embeds = embeds;
    }
    WHIM_TRY(whim_outputs_init(&x->outputs, x->config, &x->cfg, x->device, diag));
    whim_kept_bytes kept = whim_kept_bytes_of(x->def->layers(x->model), &x->cfg);
    WHIM_TRY(whim_kept_init(&x->kept, &kept, &x->cfg, x->device, diag));
    whim_late_bytes late = whim_late_bytes_of(x->def);
    WHIM_TRY(whim_late_init(&x->late, &late, &x->cfg, x->device, diag));
    return whim_sampling_init(&x->sampling, x->config, &x->cfg, x->device, diag);
}

static whim_err host_buffers_open(whim_exec *x, whim_diag *diag)
{
    const whim_layer_table *layers = x->def->layers(x->model);
    x->kv_offsets = whim_alloc(layers->n_layer * (int64_t)sizeof *x->kv_offsets);
    WHIM_TRY(whim_got(x->kv_offsets != NULL, diag, "no memory for the layout of a page"));
    whim_layer_table_place(layers, x->cfg.kv_type, x->cfg.page_len, x->kv_offsets);
    x->placed = whim_alloc_array(whim_exec_groups(&x->cfg) > 1 ? whim_exec_outs(&x->cfg) : 0,
                                 sizeof *x->placed);
    WHIM_TRY(whim_got(x->placed != NULL, diag, "no memory for what groups ask for"));
    for (int32_t i = 0; i < whim_exec_flights(&x->cfg); i++) {
        void *block, *embeds;
        WHIM_TRY(whim_device_host_alloc(x->device, x->plan.batch_bytes, &block, diag));
        x->flights[i].block = block;
        WHIM_TRY(whim_device_host_alloc(x->device, x->plan.embed_bytes, &embeds, diag));
        x->flights[i].embeds = embeds;
    }
    return WHIM_ERR_OK;
}

whim_err whim_exec_open(const whim_config *config, const whim_model_def *def, whim_model *model,
                        whim_device *device, const whim_exec_cfg *cfg, whim_exec **out,
                        whim_diag *diag)
{
    whim_exec *x = whim_alloc(sizeof *x);
    WHIM_TRY(whim_got(x != NULL, diag, "no memory for an exec"));
    x->config = config;
    x->def = def;
    x->model = model;
    x->device = device;
    x->cfg = *cfg;
    x->limits = whim_exec_limits(config, cfg);
    whim_err err = whim_exec_measure(config, def, model, device, cfg, &x->plan, diag);
    whim_ranks_init(&x->ranks, cfg);
    if (err == WHIM_ERR_OK) {
        err = whim_stream_open(device, &x->stream, diag);
    }
    if (err == WHIM_ERR_OK) {
        comms_open(x);
        err = whim_stream_reserve(x->stream, x->plan.workspace_bytes, diag);
    }
    if (err == WHIM_ERR_OK) {
        err = device_buffers_open(x, diag);
    }
    if (err == WHIM_ERR_OK) {
        err = host_buffers_open(x, diag);
    }
    if (err != WHIM_ERR_OK) {
        whim_exec_close(x);
        return err;
    }
    *out = x;
    return WHIM_ERR_OK;
}

void whim_exec_close(whim_exec *x)
{
    if (x == NULL) {
        return;
    }
    if (x->stream != NULL) {
        whim_err told = whim_ranks_tell(&x->ranks, WHIM_LETTER_END, false, NULL, 0, NULL);
        whim_err ignored = whim_stream_sync(x->stream); /* nobody collected what still reads here */
        (void)told;
        (void)ignored;
        whim_graphs_clear(&x->graphs, x->stream);
    }
    whim_page_store_free(x->store);
    whim_stream_close(x->stream);
    whim_device_free(x->device, x->kv, x->plan.kv_bytes);
    whim_device_free(x->device, x->state, x->plan.state_bytes);
    whim_device_free(x->device, x->activations, x->plan.activation_bytes);
    whim_device_free(x->device, x->block, x->plan.batch_bytes);
    whim_device_free(x->device, x->embeds, x->plan.embed_bytes);
    whim_page_table_deinit(&x->pages);
    whim_befores_deinit(&x->befores);
    whim_cut_deinit(&x->cut);
    whim_outputs_deinit(&x->outputs);
    whim_sampling_deinit(&x->sampling);
    whim_kept_deinit(&x->kept);
    whim_late_deinit(&x->late);
    whim_free(x->kv_offsets);
    whim_free(x->placed);
    for (int32_t i = 0; i < WHIM_EXEC_FLIGHT; i++) {
        whim_device_host_free(x->device, x->flights[i].block, x->plan.batch_bytes);
        whim_device_host_free(x->device, x->flights[i].embeds, x->plan.embed_bytes);
    }
    whim_free(x);
}

const whim_exec_plan *whim_exec_plan_of(const whim_exec *x)
{
    return &x->plan;
}

const whim_exec_cfg *whim_exec_cfg_of(const whim_exec *x)
{
    return &x->cfg;
}

void whim_exec_rejoin(whim_exec *x)
{
    whim_check(x->ranks.leads && whim_exec_in_flight(x) == 0);
    whim_late_forget(&x->late); /* nothing waits with the others */
    whim_mail_open(&x->ranks.mail, x->cfg.comm);
    comms_open(x);
}

whim_ranks *whim_exec_ranks(whim_exec *x)
{
    return &x->ranks;
}

whim_page_store **whim_exec_store(whim_exec *x)
{
    return &x->store;
}
