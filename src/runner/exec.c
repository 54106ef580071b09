/* SPDX-License-Identifier: Apache-2.0 */
/* Opening an exec and running blocks on it. */
#include "runner/exec.h"

#include "base/alloc.h"
#include "base/check.h"
#include "comm/comm.h"
#include "comm/rank_meters.h"
#include "ops/ops.h"
#include "parallel/cut.h"
#include "runner/befores.h"
#include "runner/graphs.h"
#include "runner/kept.h"
#include "runner/late.h"
#include "runner/outputs.h"
#include "runner/page_store.h"
#include "runner/page_table.h"
#include "runner/ranks.h"
#include "runner/sampling.h"

#include <string.h>

/* A step under way. */
typedef struct flight {
    int32_t *block; /* the host's copy, pinned */
    float *embeds;  /* the same */
    whim_event done;
} flight;

struct whim_exec {
    const whim_config *config;
    const whim_model_def *def;
    whim_model *model;
    whim_device *device;
    whim_stream *stream;
    whim_exec_cfg cfg;
    whim_exec_plan plan;
    whim_step_limits limits;
    whim_graphs graphs;
    /* device */
    void *kv;
    void *state; /* [n_state] slots */
    void *activations;
    int32_t *block;
    float *embeds;
    whim_page_table pages;
    whim_befores befores;
    whim_cut cut;
    whim_outputs outputs;
    whim_sampling sampling;
    whim_kept kept;
    whim_late late;
    /* host */
    int64_t *kv_offsets; /* [n_layer] of a layer's part of a page */
    whim_ranks ranks;
    whim_page_store *store;
    flight flights[WHIM_EXEC_FLIGHT];
    int64_t n_submitted, n_collected;
    int64_t n_lost;              /* steps up to this one failed, though their waits may not tell */
    whim_exec_tap tap;           /* without functions: nobody listens */
    whim_step_size last;         /* the step submitted last; n_out 0: its results are of no use */
    bool last_chose;             /* its results are chosen tokens, else the best */
    const whim_sample_ask *asks; /* [n_ask] of the next step */
    int64_t n_ask;
};

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

_Static_assert((int)WHIM_CUT_SETS == (int)WHIM_EXEC_FLIGHT, "a set for each step under way");

whim_cut_cfg whim_exec_cut_cfg(const whim_exec_cfg *cfg)
{
    return (whim_cut_cfg){
        .n_rank = cfg->n_share,
        .rank = cfg->comm != NULL ? cfg->comm->rank : 0, /* a plan may be made before it is there */
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
        x->stream->comm = cfg->comm;
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

/* --- a step ----------------------------------------------------------------------------------- */

static whim_state_view states_of(const whim_exec *x)
{
    return (whim_state_view){
        .slots = x->state, .slot_stride = x->plan.slot_bytes, .n_slot = x->cfg.n_state};
}

static whim_err forward(whim_exec *x, const whim_graph_key *key)
{
    const whim_step_size *bucket = &key->bucket;
    whim_batch_cut cut;
    whim_batch batch = {
        .kv = {.pages = x->kv,
               .page_stride = x->plan.page_bytes,
               .type = x->cfg.kv_type,
               .page_len = x->cfg.page_len},
        .kv_offsets = x->kv_offsets,
        .state = states_of(x),
        .embeds = (key->flags & WHIM_STEP_EMBEDS) != 0 ? x->embeds : NULL,
        .kept = (key->flags & WHIM_STEP_KEEP) != 0 ? x->kept.rows : NULL,
        .max_kept = x->kept.max_rows,
        .drafts = (key->flags & WHIM_STEP_DRAFT) != 0,
        .before = x->befores.rows,
        .cut = key->own_rows > 0 ? &cut : NULL,
    };
    whim_step_view(x->block, &x->limits, bucket, &batch);
    whim_late_view(&x->late, &key->late, &batch);
    if (key->own_rows > 0) {
        whim_cut_view(&x->cut.cfg, x->cut.arrays, key->own_rows, bucket->n_seq, &cut);
    }
    whim_bump bump = {.base = x->activations, .size = x->plan.activation_bytes};
    whim_out out = {.scratch = &bump};
    whim_outputs_view(&x->outputs, bucket->n_top, &out);
    return x->def->forward(x->model, x->stream, &batch, &out);
}

/* Record the pass of a bucket. A bucket's first step records; later ones only replay. */
static whim_err record(whim_exec *x, whim_graph_slot *slot, const whim_graph_key *key)
{
    whim_alloc_guard_leave();
    whim_err err = x->stream->vt->capture_begin(x->stream);
    if (err == WHIM_ERR_OK) {
        err = forward(x, key);
        whim_graph *graph = NULL;
        whim_err end = x->stream->vt->capture_end(x->stream, &graph);
        err = err != WHIM_ERR_OK ? err : end;
        if (err != WHIM_ERR_OK && graph != NULL) { /* half a pass must never be replayed */
            x->stream->vt->graph_free(x->stream, graph);
            graph = NULL;
        }
        slot->graph = graph;
    }
    whim_alloc_guard_enter();
    return err;
}

/* Run the pass of a bucket: eagerly, or by the graph that was recorded when it was first seen. */
static whim_err run(whim_exec *x, const whim_graph_key *key)
{
    whim_graph_slot *slot = x->cfg.graphs ? whim_graphs_find(&x->graphs, key) : NULL;
    if (slot == NULL) {
        return forward(x, key);
    }
    if (slot->graph == NULL) {
        WHIM_TRY(record(x, slot, key));
    }
    return x->stream->vt->replay(x->stream, slot->graph);
}

/* The block: its arrays, the fresh pages behind them, and what is new in the page lists. */
static whim_err block_send(whim_exec *x, const flight *f, const int32_t *block)
{
    const whim_step_head *head = whim_step_head_of(f->block);
    int64_t arrays = whim_step_lists(f->block) - f->block, word = sizeof(int32_t);
    WHIM_TRY(whim_page_table_send(&x->pages, x->stream, block, f->block));
    WHIM_TRY(whim_stream_copy_in(x->stream, x->block, f->block, arrays * word));
    return whim_stream_copy_in(x->stream, x->block + arrays, whim_step_fresh(f->block),
                               head->n_fresh * word);
}

/* Tokens that only the device knows, and of several ranks only the first one's. */
static whim_err tokens_fill(whim_exec *x, const whim_step_head *head, const whim_step_size *bucket)
{
    whim_batch batch;
    const whim_sampling_out *chosen = &x->sampling.out_device;
    whim_step_view(x->block, &x->limits, bucket, &batch);
    if (!x->ranks.follows) {
        WHIM_TRY(whim_op_result_tokens(
            x->stream,
            &(whim_result_tokens_args){
                .refs = batch.tokens,
                .results = x->last_chose ? chosen->tokens : whim_outputs_ids(&x->outputs),
                .result_stride = x->last_chose ? 1 : x->last.n_top,
                .tokens = (int32_t *)batch.tokens,
                .n_row = head->n_row,
                .n_result = x->last.n_out,
            }));
    }
    return whim_op_broadcast(x->stream, &(whim_broadcast_args){
                                            .x = (int32_t *)batch.tokens,
                                            .bytes = head->n_row * (int64_t)sizeof(int32_t),
                                            .site = "tokens of the step before",
                                        });
}

/* What a step needs on the device before its pass, in the order in which it is needed. */
static whim_err prepare(whim_exec *x, const flight *f, const int32_t *block, int32_t set)
{
    const whim_step_head *head = whim_step_head_of(f->block);
    whim_step_size bucket = whim_step_bucket(f->block);
    WHIM_TRY(block_send(x, f, block));
    WHIM_TRY(whim_befores_send(&x->befores, x->stream, block, x->cfg.page_len, set));
    WHIM_TRY(whim_sampling_begin(&x->sampling, set, x->stream, x->asks, x->n_ask));
    if ((head->flags & WHIM_STEP_AFTER) != 0) {
        WHIM_TRY(tokens_fill(x, head, &bucket));
    }
    return whim_op_page_zero(x->stream,
                             &(whim_page_zero_args){
                                 .pages = x->kv,
                                 .page_bytes = x->plan.page_bytes,
                                 .ids = x->block + (whim_step_lists(f->block) - f->block),
                                 .n_id = head->n_fresh,
                             });
}

/* Deal the rows of a step, unless it is small, or the draft's; how many each rank has. The block is
 * the device's, whose page lists are where the table has them. */
static whim_err deal(whim_exec *x, const int32_t *block, int32_t set, int64_t *own_rows)
{
    const whim_step_head *head = whim_step_head_of(block);
    whim_step_size bucket = whim_step_bucket(block);
    whim_step_layout at = whim_step_layout_of(&bucket);
    whim_cut_step step = {
        .n_row = head->n_row,
        .bucket_row = head->bucket_row,
        .bucket_seq = head->bucket_seq,
        .q_start = block + at.q_start,
        .kv_len = block + at.kv_len,
        .page_start = block + at.page_start,
        .positions = block + at.positions,
        .slots = block + at.slots,
    };
    *own_rows = (head->flags & WHIM_STEP_DRAFT) == 0 ? whim_cut_rows(&x->cut, &step) : 0;
    if (*own_rows == 0) {
        return WHIM_ERR_OK;
    }
    if (x->cfg.graphs) {
        *own_rows = whim_graphs_round(*own_rows, whim_cut_max_rows(&x->cut.cfg));
    }
    return whim_cut_send(&x->cut, x->stream, &step, *own_rows, set);
}

static whim_err queue(whim_exec *x, flight *f, const int32_t *block, int32_t set, bool embeds_given)
{
    whim_step_size work = whim_step_work(f->block), bucket = whim_step_bucket(f->block);
    bool listens = x->tap.collected != NULL;
    WHIM_TRY(prepare(x, f, block, set));
    if (embeds_given) {
        WHIM_TRY(whim_stream_copy_in(x->stream, x->embeds, f->embeds,
                                     work.n_row * x->config->d_model * (int64_t)sizeof(float)));
    }
    whim_graph_key key = {.bucket = bucket, .flags = whim_step_head_of(f->block)->flags};
    WHIM_TRY(whim_late_begin(&x->late, x->stream, block, x->cfg.page_len, set, &key.late));
    WHIM_TRY(deal(x, f->block, set, &key.own_rows));
    WHIM_TRY(run(x, &key));
    whim_out out = {0};
    whim_outputs_view(&x->outputs, bucket.n_top, &out);
    /* The pass is over, and its memory free. */
    WHIM_TRY(whim_sampling_end(&x->sampling, x->stream, &out));
    if (!x->ranks.follows || listens) {
        WHIM_TRY(whim_outputs_fetch(&x->outputs, set, x->stream, &work, listens ? NULL : x->asks));
    }
    return whim_stream_record(x->stream, &f->done);
}

/* Of several ranks none can go on: the others have done the step, or wait in the midst of it. */
static whim_err step_failed(whim_exec *x, whim_err err, whim_diag *diag)
{
    bool ranks_ended = x->cfg.comm != NULL && x->cfg.comm->diag.text[0] != '\0';
    const whim_device_vt *vt = x->device->vt;
    whim_diag lost = {""};
    bool is_lost = vt->check != NULL && vt->check(x->device, &lost) != WHIM_ERR_OK;
    const char *why = ranks_ended ? x->cfg.comm->diag.text
                      : is_lost   ? lost.text
                                  : whim_err_text(err);
    x->last = (whim_step_size){0};
    x->kept.n_row = 0; /* it may have written over some of them */
    whim_page_table_forget(&x->pages);
    whim_late_forget(&x->late);
    whim_ranks_failed(&x->ranks, why);
    return whim_fail(diag, err, "a step failed on the device: %s", why);
}

/* Refuse before anything changes. */
static whim_err submit_check(const whim_exec *x, const int32_t *block, int64_t n_word,
                             const float *embeds, whim_diag *diag)
{
    if (whim_exec_in_flight(x) >= whim_exec_flights(&x->cfg)) {
        return whim_fail(diag, WHIM_ERR_FULL, "%d steps are under way already",
                         whim_exec_in_flight(x));
    }
    WHIM_TRY(whim_step_check(block, n_word, &x->limits, whim_exec_results(x), diag));
    if ((whim_step_head_of(block)->flags & WHIM_STEP_DRAFT) != 0 && !x->cfg.drafts) {
        return whim_fail(diag, WHIM_ERR_INVALID, "a draft's step comes to a model without one");
    }
    bool wanted = (whim_step_head_of(block)->flags & WHIM_STEP_EMBEDS) != 0;
    if ((wanted && !x->cfg.embeds) || (!wanted && embeds != NULL)) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         wanted ? "a step brings embeddings to a model that was opened without"
                                : "embeddings come with a step that has tokens");
    }
    if (wanted && x->ranks.leads) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED, "embeddings cannot be sent to other ranks");
    }
    whim_step_size work = whim_step_work(block);
    if (x->asks != NULL && x->n_ask != work.n_out) {
        return whim_fail(diag, WHIM_ERR_INVALID, "%lld choices are asked of a step of %lld outputs",
                         (long long)x->n_ask, (long long)work.n_out);
    }
    return whim_sampling_check(&x->sampling, x->asks, x->n_ask, work.n_top, diag);
}

void whim_exec_ask(whim_exec *x, const whim_sample_ask *asks, int64_t n_ask)
{
    x->asks = asks;
    x->n_ask = n_ask;
}

static whim_err submit(whim_exec *x, const int32_t *block, int64_t n_word, const float *embeds,
                       whim_diag *diag)
{
    WHIM_TRY(submit_check(x, block, n_word, embeds, diag));
    const whim_step_head *head = whim_step_head_of(block);
    bool chose = x->ranks.follows ? x->ranks.chose : x->n_ask > 0;
    WHIM_TRY(whim_ranks_tell(&x->ranks, WHIM_LETTER_SUBMIT, chose, block, head->n_word, diag));
    int32_t set = (int32_t)(x->n_submitted % whim_exec_flights(&x->cfg));
    flight *f = &x->flights[set];
    memcpy(f->block, block, (size_t)head->n_word * sizeof *block);
    if (embeds != NULL) {
        memcpy(f->embeds, embeds, (size_t)(head->n_row * x->config->d_model) * sizeof *embeds);
    }
    whim_alloc_guard_enter();
    whim_err err = queue(x, f, block, set, embeds != NULL);
    whim_alloc_guard_leave();
    if (err != WHIM_ERR_OK) {
        /* What is queued of it reads the host's block, which the next step will overwrite. */
        whim_err ignored = whim_stream_sync(x->stream);
        (void)ignored;
        return step_failed(x, err, diag);
    }
    x->last = whim_step_work(block);
    x->last_chose = chose;
    x->n_submitted++;
    if ((head->flags & WHIM_STEP_KEEP) != 0) {
        x->kept.n_row = head->n_row;
    }
    if (x->tap.submitted != NULL && (head->flags & WHIM_STEP_DRAFT) == 0) {
        x->tap.submitted(x->tap.ctx, block);
    }
    return WHIM_ERR_OK;
}

whim_err whim_exec_submit(whim_exec *x, const int32_t *block, int64_t n_word, const float *embeds,
                          whim_diag *diag)
{
    whim_err err = submit(x, block, n_word, embeds, diag);
    whim_exec_ask(x, NULL, 0);
    return err;
}

whim_err whim_exec_begin(whim_exec *x, whim_diag *diag)
{
    return whim_stream_begin(x->stream, diag);
}

whim_err whim_exec_collect(whim_exec *x, whim_diag *diag)
{
    whim_check(whim_exec_in_flight(x) > 0);
    int32_t set = (int32_t)(x->n_collected++ % whim_exec_flights(&x->cfg));
    whim_err err = whim_stream_wait(x->stream, x->flights[set].done);
    if (err == WHIM_ERR_OK && x->n_collected <= x->n_lost) {
        err = WHIM_ERR_DEVICE;
    }
    if (err != WHIM_ERR_OK) {
        return step_failed(x, err, diag);
    }
    if (x->cfg.comm != NULL) {
        whim_comm_step_done(x->cfg.comm);
    }
    bool drafted = (whim_step_head_of(x->flights[set].block)->flags & WHIM_STEP_DRAFT) != 0;
    if (x->tap.collected != NULL && !drafted) {
        x->tap.collected(x->tap.ctx, x);
    }
    return WHIM_ERR_OK;
}

void whim_exec_set_tap(whim_exec *x, const whim_exec_tap *tap)
{
    x->tap = *tap;
}

int64_t whim_exec_results(const whim_exec *x)
{
    return x->last_chose || x->last.n_top > 0 ? x->last.n_out : 0;
}

int32_t whim_exec_in_flight(const whim_exec *x)
{
    return (int32_t)(x->n_submitted - x->n_collected);
}

int32_t whim_exec_room(const whim_exec *x)
{
    return whim_exec_flights(&x->cfg);
}

void whim_exec_rejoin(whim_exec *x)
{
    whim_check(x->ranks.leads && whim_exec_in_flight(x) == 0);
    whim_late_forget(&x->late); /* nothing waits with the others */
    whim_mail_open(&x->ranks.mail, x->cfg.comm);
}

whim_ranks *whim_exec_ranks(whim_exec *x)
{
    return &x->ranks;
}

whim_page_store **whim_exec_store(whim_exec *x)
{
    return &x->store;
}

/* --- results ---------------------------------------------------------------------------------- */

static int32_t collected(const whim_exec *x)
{
    return x->n_collected > 0 ? (int32_t)((x->n_collected - 1) % whim_exec_flights(&x->cfg)) : 0;
}

int64_t whim_exec_n_vocab(const whim_exec *x)
{
    return x->config->n_vocab;
}

whim_step_size whim_exec_size(const whim_exec *x)
{
    return whim_outputs_size(&x->outputs, collected(x));
}

whim_err whim_exec_sampled(const whim_exec *x, int64_t i, whim_sampled *out, whim_diag *diag)
{
    return whim_sampling_take(&x->sampling, collected(x), i, out, diag);
}

const float *whim_exec_logits(const whim_exec *x, int64_t i)
{
    return whim_outputs_logits(&x->outputs, collected(x), i);
}

whim_ranked whim_exec_best(const whim_exec *x, int64_t i)
{
    return whim_outputs_top(&x->outputs, collected(x), i);
}

const float *whim_exec_hidden(const whim_exec *x, int32_t c, int64_t r)
{
    return whim_outputs_hidden(&x->outputs, collected(x), c, r);
}

float *whim_exec_capture(whim_exec *x, int32_t c)
{
    return whim_outputs_capture(&x->outputs, c);
}

float *whim_exec_embeds(whim_exec *x)
{
    return x->embeds;
}

/* --- states and pages ------------------------------------------------------------------------- */

/* Wait for all that is queued. */
static whim_err settle(whim_exec *x)
{
    whim_err err = whim_stream_sync(x->stream);
    if (err != WHIM_ERR_OK) { /* a step under way may be what failed; its own wait tells no more */
        x->n_lost = x->n_submitted;
    }
    return err;
}

static char *slot_at(const whim_exec *x, int32_t slot)
{
    whim_check(slot >= 0 && slot < x->cfg.n_state);
    return (char *)x->state + slot * x->plan.slot_bytes;
}

whim_err whim_exec_state_copy(whim_exec *x, int32_t from, int32_t to)
{
    const int32_t slots[] = {from, to};
    WHIM_TRY(whim_ranks_tell(&x->ranks, WHIM_LETTER_STATE_COPY, false, slots, 2, NULL));
    WHIM_TRY(whim_op_copy_bytes(x->stream, &(whim_copy_bytes_args){
                                               .dst = slot_at(x, to),
                                               .src = slot_at(x, from),
                                               .bytes = x->plan.slot_bytes,
                                           }));
    if (x->tap.state_copied != NULL) {
        x->tap.state_copied(x->tap.ctx, from, to);
    }
    return settle(x);
}

static whim_err advance(whim_exec *x, const whim_step_take *takes, int64_t n)
{
    whim_batch batch = {.state = states_of(x)};
    whim_bump bump = {.base = x->activations, .size = x->plan.activation_bytes};
    if (x->n_collected <=
        x->kept.n_submitted_then) { /* the arrays of the last call may still be read */
        WHIM_TRY(whim_stream_sync(x->stream));
    }
    x->kept.n_submitted_then = x->n_submitted;
    WHIM_TRY(whim_kept_take(&x->kept, x->stream, takes, n, &batch));
    return x->def->advance(x->model, x->stream, &batch, &bump);
}

whim_err whim_exec_advance(whim_exec *x, const whim_step_take *takes, int64_t n, whim_diag *diag)
{
    int64_t n_kept = x->kept.rows != NULL ? x->kept.n_row : 0;
    if (x->ranks.follows && x->kept.rows == NULL) { /* this rank has no part of the states */
        return WHIM_ERR_OK;
    }
    WHIM_TRY(whim_step_takes_check(takes, n, &x->limits, n_kept, diag));
    if (n == 0) {
        return WHIM_ERR_OK;
    }
    WHIM_TRY(
        whim_ranks_tell(&x->ranks, WHIM_LETTER_ADVANCE, false, takes, n * WHIM_TAKE_WORDS, diag));
    whim_alloc_guard_enter();
    whim_err err = advance(x, takes, n);
    whim_alloc_guard_leave();
    if (err != WHIM_ERR_OK) {
        whim_ranks_failed(&x->ranks, "states could not go on");
        return whim_fail(diag, err, "states could not go on: %s", whim_err_text(err));
    }
    if (x->tap.advanced != NULL) {
        x->tap.advanced(x->tap.ctx, takes, n);
    }
    return WHIM_ERR_OK;
}

static char *page_at(const whim_exec *x, int32_t page)
{
    whim_check(page >= 0 && page < x->cfg.n_page);
    return (char *)x->kv + page * x->plan.page_bytes;
}

whim_err whim_exec_page_read(whim_exec *x, int32_t page, void *out)
{
    WHIM_TRY(whim_stream_copy_out(x->stream, out, page_at(x, page), x->plan.page_bytes));
    return settle(x);
}

whim_err whim_exec_page_write(whim_exec *x, int32_t page, const void *bytes)
{
    whim_late_drop_page(&x->late, page, x->cfg.page_len);
    WHIM_TRY(whim_stream_copy_in(x->stream, page_at(x, page), bytes, x->plan.page_bytes));
    return settle(x);
}

/* --- sums of a few numbers -------------------------------------------------------------------- */

enum { MAX_SUM = 8 };

static whim_err sum(whim_exec *x, float *values, int64_t n)
{
    float sums[MAX_SUM];           /* while copies are under way, nobody else has their memory */
    float *there = x->activations; /* free between two passes */
    int64_t bytes = n * (int64_t)sizeof *values;
    whim_check(n <= MAX_SUM && bytes <= x->plan.activation_bytes);
    WHIM_TRY(whim_stream_copy_in(x->stream, there, values, bytes));
    WHIM_TRY(whim_op_all_reduce(
        x->stream, &(whim_all_reduce_args){.x = there, .n_row = 1, .n_col = n, .site = "a vote"}));
    WHIM_TRY(whim_stream_copy_out(x->stream, sums, there, bytes));
    WHIM_TRY(settle(x));
    memcpy(values, sums, (size_t)bytes);
    return WHIM_ERR_OK;
}

whim_err whim_exec_sum(whim_exec *x, float *values, int64_t n, int64_t wait_ns)
{
    if (!x->ranks.leads && !x->ranks.follows) {
        return WHIM_ERR_OK;
    }
    WHIM_TRY(settle(x)); /* a step under way would wait as long */
    int64_t usual = x->cfg.comm->wait_ns;
    x->cfg.comm->wait_ns = wait_ns > usual ? wait_ns : usual;
    whim_err err = sum(x, values, n);
    x->cfg.comm->wait_ns = usual;
    return err;
}
