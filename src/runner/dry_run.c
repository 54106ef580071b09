/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/dry_run.h"

#include "base/alloc.h"
#include "comm/comm.h"
#include "ops/recorder.h"
#include "parallel/cut.h"
#include "parallel/groups.h"
#include "runner/graphs.h"
#include "runner/late.h"
#include "runner/outputs.h"

#include <string.h>

/* The largest pass of a model, on a stream where nothing runs. */
typedef struct dry_run {
    const whim_config *config;
    const whim_model_def *def;
    whim_model *model;
    const whim_exec_cfg *cfg;
    whim_recorder recorder;
    whim_bump bump;
    int64_t kv_offsets[WHIM_CONFIG_MAX_LAYER];
    whim_batch batch;
    whim_out out;
} dry_run;

static void dry_run_init(dry_run *d, const whim_config *config, const whim_model_def *def,
                         whim_model *model, whim_device *device, const whim_exec_cfg *cfg)
{
    *d = (dry_run){.config = config, .def = def, .model = model, .cfg = cfg};
    int64_t page_bytes =
        whim_layer_table_place(def->layers(model), cfg->kv_type, cfg->page_len, d->kv_offsets);
    whim_recorder_init(&d->recorder, device);
    d->recorder.base.comm = cfg->comm;
    d->bump = whim_bump_measure();
    char *any = d->bump.base;
    d->batch = (whim_batch){
        .kv = {.pages = any,
               .page_stride = page_bytes,
               .type = cfg->kv_type,
               .page_len = cfg->page_len},
        .kv_offsets = d->kv_offsets,
        .state = {.slots = any,
                  .slot_stride = def->layers(model)->slot_bytes,
                  .n_slot = cfg->n_state},
        .n_meet = cfg->meets ? cfg->max_rows : 0,
        .pads = cfg->graphs,
    };
    whim_step_size size = {cfg->max_rows, cfg->max_seqs, cfg->max_outs};
    whim_step_limits limits = whim_exec_limits(config, cfg);
    whim_step_view((const int32_t *)(const void *)any, &limits, &size, &d->batch);
    d->batch.before = cfg->befores ? d->batch.slots : NULL;
    whim_late late = {.rows = (float *)any, .arrays = (int32_t *)any};
    whim_late_view(&late, &(whim_late_step){-1, def->late_cols > 0 ? WHIM_LATE_ROWS : 0},
                   &d->batch);
    d->out = (whim_out){
        .scratch = &d->bump,
        .logits = (float *)any,
        .top_values = (float *)any,
        .top_ids = (int32_t *)any,
        .n_capture = cfg->n_capture,
    };
    for (int32_t i = 0; i < cfg->n_capture; i++) {
        d->out.captures[i] = (whim_capture){cfg->boundary[i], (float *)any, config->d_model};
    }
}

/* The choice of tokens from all logits; words of lists are only read. */
static whim_err record_sample(whim_stream *s, const whim_exec_cfg *cfg, const whim_out *out,
                              int64_t n_vocab)
{
    void *any = out->logits;
    return whim_op_sample(s, &(whim_sample_args){
                                 .logits = any,
                                 .logits_stride = n_vocab,
                                 .wants = any,
                                 .tokens = any,
                                 .told = any,
                                 .top_ids = any,
                                 .top_logprobs = any,
                                 .n_row = whim_exec_outs(cfg),
                                 .n_col = n_vocab,
                             });
}

/* What an exec itself queues beside its passes. */
static whim_err record_own(whim_stream *s, const whim_batch *batch, const whim_exec_cfg *cfg)
{
    WHIM_TRY(whim_op_page_zero(s, &(whim_page_zero_args){
                                      .pages = batch->kv.pages,
                                      .page_bytes = batch->kv.page_stride,
                                      .ids = batch->slots,
                                      .n_id = 1,
                                  }));
    if (cfg->n_flight > 1) {
        WHIM_TRY(whim_op_result_tokens(s, &(whim_result_tokens_args){
                                              .refs = batch->tokens,
                                              .results = batch->tokens,
                                              .result_stride = 1,
                                              .tokens = (int32_t *)batch->tokens,
                                              .n_row = batch->n_row,
                                              .n_result = batch->n_out,
                                          }));
        WHIM_TRY(whim_op_broadcast(s, &(whim_broadcast_args){
                                          .x = (int32_t *)batch->tokens,
                                          .bytes = batch->n_row * (int64_t)sizeof(int32_t),
                                          .site = "tokens of the step before",
                                      }));
    }
    if (batch->state.slot_stride == 0) {
        return WHIM_ERR_OK;
    }
    return whim_op_copy_bytes(s, &(whim_copy_bytes_args){
                                     .dst = batch->state.slots,
                                     .src = batch->state.slots,
                                     .bytes = batch->state.slot_stride,
                                 });
}

/* States that go on by as many rows as can be kept. */
static whim_err record_advance(whim_stream *s, const whim_model_def *def, whim_model *model,
                               const whim_exec_cfg *cfg, const whim_batch *batch,
                               const whim_out *out)
{
    if (batch->state.slot_stride == 0 || cfg->max_kept == 0) {
        return WHIM_ERR_OK;
    }
    whim_batch taken = *batch;
    taken.kept = out->logits;
    taken.max_kept = taken.n_row = cfg->max_kept;
    taken.n_seq = 2 * cfg->max_seqs; /* with what lies between them */
    out->scratch->used = 0;
    return def->advance(model, s, &taken, out->scratch);
}

/* A pass of which the n_top best are wanted; 0: all logits. */
static whim_err pass_run(dry_run *d, const whim_batch *batch, int32_t n_top)
{
    whim_out out = d->out;
    out.n_top = n_top;
    d->bump.used = 0;
    return d->def->forward(d->model, &d->recorder.base, batch, &out);
}

/* What a step may queue whose batch is no larger, and what goes with any step. */
static whim_err record_all(dry_run *d, const whim_batch *batch)
{
    whim_stream *s = &d->recorder.base;
    WHIM_TRY(pass_run(d, batch, 0));
    WHIM_TRY(pass_run(d, batch, WHIM_TOPK_MAX));
    WHIM_TRY(record_sample(s, d->cfg, &d->out, d->config->n_vocab));
    if (d->cfg->drafts) {
        whim_batch block = d->batch;
        block.drafts = true;
        WHIM_TRY(pass_run(d, &block, WHIM_TOPK_MAX));
    }
    WHIM_TRY(record_advance(s, d->def, d->model, d->cfg, &d->batch, &d->out));
    return record_own(s, &d->batch, d->cfg);
}

/* The batch with rows that ranks share; each has n_own. */
static whim_batch cut_batch(const dry_run *d, const whim_batch *whole, int64_t n_own,
                            whim_batch_cut *cut)
{
    whim_cut_cfg cfg = whim_exec_cut_cfg(d->cfg);
    whim_batch batch = *whole;
    whim_cut_view(&cfg, d->batch.tokens, n_own, batch.n_seq, cut);
    batch.cut = cut;
    return batch;
}

/* Passes of the largest batch, cut so, of which n_meet rows meet others'. */
static whim_err cut_run(dry_run *d, int64_t n_own, int64_t n_meet)
{
    whim_batch_cut cut;
    whim_batch batch = cut_batch(d, &d->batch, n_own, &cut);
    batch.n_meet = d->cfg->meets ? n_meet : 0;
    WHIM_TRY(pass_run(d, &batch, 0));
    return pass_run(d, &batch, WHIM_TOPK_MAX);
}

/* What groups tell each other of n_out outputs each. */
static whim_err groups_measure(dry_run *d, int64_t n_out, int64_t n_top)
{
    if (whim_exec_groups(d->cfg) == 1) {
        return WHIM_ERR_OK;
    }
    int64_t *cols =
        whim_alloc_array(WHIM_OUTPUT_COLS * (int64_t)d->cfg->comm->n_rank, sizeof *cols);
    if (cols == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    float *any = d->out.logits;
    whim_outputs outputs = {
        .config = d->config, .cfg = d->cfg, .logits = any, .top = any, .own = any, .cols = cols};
    whim_outputs_cols(cols, d->cfg, d->config->n_vocab);
    whim_err err = whim_outputs_gather(&outputs, &d->recorder.base, n_out, n_top);
    whim_free(cols);
    return err;
}

/* Of a step's rows as they are padded. */
static int64_t padded(const whim_exec_cfg *cfg, int64_t n, int64_t limit)
{
    return cfg->graphs ? whim_graphs_round(n, limit) : n;
}

static whim_err step_run(dry_run *d, int64_t n_row, bool is_prompt)
{
    whim_cut_cfg cut = whim_exec_cut_cfg(d->cfg);
    whim_batch batch = d->batch;
    whim_batch_cut parts;
    batch.n_row = padded(d->cfg, n_row, d->cfg->max_rows);
    batch.n_seq = batch.n_out = is_prompt ? 1 : batch.n_row;
    batch.n_meet = d->cfg->meets ? batch.n_row : 0;
    if (is_prompt && cut.n_rank > 1 && n_row >= 2 * cut.n_rank) {
        int64_t n_own = (n_row + cut.n_rank - 1) / cut.n_rank;
        n_own = padded(d->cfg, n_own, whim_cut_max_rows(&cut));
        batch.n_meet = d->cfg->meets ? n_own : 0;
        batch = cut_batch(d, &batch, n_own, &parts);
    }
    WHIM_TRY(pass_run(d, &batch, 1));
    return groups_measure(d, batch.n_out, 1);
}

whim_err whim_exec_step_comm(const whim_config *config, const whim_model_def *def,
                             whim_model *model, whim_device *device, const whim_exec_cfg *cfg,
                             int64_t n_row, bool is_prompt, int64_t *bytes)
{
    dry_run d;
    dry_run_init(&d, config, def, model, device, cfg);
    *bytes = 0;
    if (cfg->comm != NULL) {
        WHIM_TRY(step_run(&d, n_row, is_prompt));
        *bytes = d.recorder.comm_bytes;
    }
    return WHIM_ERR_OK;
}

/* Steps up to n_row rows that are not cut. */
static whim_err whole_run(dry_run *d, int64_t n_row)
{
    whim_batch batch = d->batch;
    batch.n_row = n_row;
    batch.n_meet = d->cfg->meets ? n_row : 0;
    WHIM_TRY(record_all(d, &batch));
    if (d->cfg->comm == NULL) {
        return WHIM_ERR_OK;
    }
    WHIM_TRY(groups_measure(d, d->cfg->max_outs, 0));
    return groups_measure(d, d->cfg->max_outs, WHIM_TOPK_MAX);
}

/* What ranks tell each other in steps as they are cut. Those of which a rank has the most rows have
 * padding on the others, which goes to no experts: most results come from even ones. */
static whim_err messages_run(dry_run *d)
{
    whim_cut_cfg cut = whim_exec_cut_cfg(d->cfg);
    int64_t *most = d->recorder.comm_most, own = whim_cut_max_rows(&cut);
    int64_t whole = padded(d->cfg, whim_cut_max_whole(&cut), d->cfg->max_rows);
    int64_t even = (d->cfg->max_rows + cut.n_rank - 1) / cut.n_rank;
    memset(most, 0, sizeof d->recorder.comm_most);
    WHIM_TRY(cut_run(d, own, own > whole ? own : whole));
    most[WHIM_OP_moe_dispatch] = most[WHIM_OP_moe_exchange] = 0;
    WHIM_TRY(cut_run(d, even, even));
    return whole_run(d, whole);
}

/* The passes that need the most, and then those that tell the most. Of rows that are shared the
 * first count as if they were not: a page takes as much on its way to another group. */
static whim_err largest_run(dry_run *d)
{
    whim_cut_cfg cut = whim_exec_cut_cfg(d->cfg);
    WHIM_TRY(whole_run(d, d->cfg->max_rows));
    if (cut.n_rank <= 1) {
        return WHIM_ERR_OK;
    }
    WHIM_TRY(cut_run(d, whim_cut_max_rows(&cut), d->cfg->max_rows));
    return d->cfg->comm != NULL ? messages_run(d) : WHIM_ERR_OK;
}

static int64_t largest_of(const int64_t *list, int32_t n)
{
    int64_t most = 0;
    for (int32_t i = 0; i < n; i++) {
        most = list[i] > most ? list[i] : most;
    }
    return most;
}

whim_err whim_dry_run(const whim_config *config, const whim_model_def *def, whim_model *model,
                      whim_device *device, const whim_exec_cfg *cfg, whim_exec_plan *plan,
                      whim_diag *diag)
{
    dry_run d;
    dry_run_init(&d, config, def, model, device, cfg);
    whim_err err = largest_run(&d);
    if (d.recorder.refused[0] != '\0') {
        return whim_fail(diag, err, "%s models need an op that this device lacks: %s",
                         def->arch.name, d.recorder.refused);
    }
    if (err != WHIM_ERR_OK) {
        return whim_fail(diag, err, "a dry run of the %s model failed: %s", def->arch.name,
                         whim_err_text(err));
    }
    plan->activation_bytes = d.bump.peak;
    plan->workspace_bytes = d.recorder.base.workspace.peak;
    plan->most_comm = largest_of(d.recorder.comm_most, WHIM_OP_COUNT);
    return WHIM_ERR_OK;
}
