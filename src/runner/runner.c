/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a runner and stepping it. */
#include "runner/runner.h"

#include "base/alloc.h"
#include "ops/ops.h"
#include "runner/batch_arrays.h"
#include "runner/graphs.h"
#include "runner/outputs.h"

struct whim_runner {
    const whim_config *config;
    const whim_model_def *def;
    whim_model *model;
    whim_device *device;
    whim_stream *stream;
    whim_runner_cfg cfg;
    whim_runner_plan plan;
    whim_batch_layout layout;
    whim_page_pool pool, states;
    whim_graphs graphs;
    /* device */
    void *kv;
    void *state; /* [n_state] slots */
    void *activations;
    int32_t *arrays;
    /* host */
    int32_t *host_arrays;
    int64_t *kv_offsets; /* [n_layer] of a layer's part of a page */
    whim_outputs outputs;
    int64_t n_step; /* steps so far, refused ones included */
};

static whim_err device_buffers_open(whim_runner *r, whim_diag *diag)
{
    void *arrays;
    WHIM_TRY(whim_device_alloc(r->device, r->plan.kv_bytes, &r->kv, diag));
    WHIM_TRY(whim_device_alloc(r->device, r->plan.state_bytes, &r->state, diag));
    WHIM_TRY(whim_device_alloc(r->device, r->plan.activation_bytes, &r->activations, diag));
    WHIM_TRY(whim_device_alloc(r->device, r->plan.batch_bytes, &arrays, diag));
    r->arrays = arrays;
    return whim_outputs_init(&r->outputs, r->config, &r->cfg, r->device, diag);
}

static whim_err host_buffers_open(whim_runner *r, whim_diag *diag)
{
    const whim_layer_table *layers = r->def->layers(r->model);
    r->host_arrays = whim_alloc(r->plan.batch_bytes);
    r->kv_offsets = whim_alloc(layers->n_layer * (int64_t)sizeof *r->kv_offsets);
    if (r->host_arrays == NULL || r->kv_offsets == NULL) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for the arrays of a step");
    }
    whim_layer_table_place(layers, r->cfg.kv_type, r->kv_offsets);
    if (whim_page_pool_init(&r->pool, r->cfg.n_page) != WHIM_ERR_OK) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for a list of %lld KV pages",
                         (long long)r->cfg.n_page);
    }
    if (whim_page_pool_init(&r->states, r->plan.slot_bytes > 0 ? r->cfg.n_state : 0) !=
        WHIM_ERR_OK) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for a list of %lld states",
                         (long long)r->cfg.n_state);
    }
    return WHIM_ERR_OK;
}

whim_err whim_runner_open(const whim_config *config, const whim_model_def *def, whim_model *model,
                          whim_device *device, const whim_runner_cfg *cfg, whim_runner **out,
                          whim_diag *diag)
{
    whim_runner *r = whim_alloc(sizeof *r);
    if (r == NULL) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for a runner");
    }
    r->config = config;
    r->def = def;
    r->model = model;
    r->device = device;
    r->cfg = *cfg;
    whim_batch_layout_init(&r->layout, cfg);
    whim_err err = whim_runner_measure(config, def, model, cfg, &r->plan, diag);
    if (err == WHIM_ERR_OK) {
        err = whim_stream_open(device, &r->stream, diag);
    }
    if (err == WHIM_ERR_OK) {
        err = device_buffers_open(r, diag);
    }
    if (err == WHIM_ERR_OK) {
        err = host_buffers_open(r, diag);
    }
    if (err != WHIM_ERR_OK) {
        whim_runner_close(r);
        return err;
    }
    *out = r;
    return WHIM_ERR_OK;
}

void whim_runner_close(whim_runner *r)
{
    if (r == NULL) {
        return;
    }
    if (r->stream != NULL) {
        whim_graphs_clear(&r->graphs, r->stream);
    }
    whim_stream_close(r->stream);
    whim_device_free(r->device, r->kv, r->plan.kv_bytes);
    whim_device_free(r->device, r->state, r->plan.state_bytes);
    whim_device_free(r->device, r->activations, r->plan.activation_bytes);
    whim_device_free(r->device, r->arrays, r->plan.batch_bytes);
    whim_outputs_deinit(&r->outputs);
    whim_page_pool_deinit(&r->pool);
    whim_page_pool_deinit(&r->states);
    whim_free(r->host_arrays);
    whim_free(r->kv_offsets);
    whim_free(r);
}

/* An id outside the vocabulary would be taken for padding and give a wrong answer. */
static whim_err tokens_check(const whim_step_part *part, int64_t n_vocab, whim_diag *diag)
{
    for (int64_t i = 0; i < part->n_tok; i++) {
        if (part->tokens[i] < 0 || part->tokens[i] >= n_vocab) {
            return whim_fail(diag, WHIM_ERR_INVALID,
                             "token id %d is outside the vocabulary of %lld ids", part->tokens[i],
                             (long long)n_vocab);
        }
    }
    return WHIM_ERR_OK;
}

/* What the outputs of a step are: logits as soon as one part wants them; otherwise the best one, or as many
 * as there can be, so that the graphs are few. */
static int64_t step_top(const whim_step_part *parts, int64_t n_part)
{
    int64_t most = 0;
    for (int64_t i = 0; i < n_part; i++) {
        if (parts[i].n_out > 0 && parts[i].n_top == 0) {
            return 0;
        }
        most = parts[i].n_out > 0 && parts[i].n_top > most ? parts[i].n_top : most;
    }
    return most > 1 ? WHIM_TOPK_MAX : most;
}

/* Refuse a step that breaks a limit before anything changes. */
static whim_err step_check(const whim_runner *r, const whim_step_part *parts, int64_t n_part,
                           whim_step_size *size, whim_diag *diag)
{
    int64_t pages = 0;
    *size = (whim_step_size){.n_seq = n_part, .n_top = step_top(parts, n_part)};
    for (int64_t i = 0; i < n_part; i++) {
        const whim_step_part *part = &parts[i];
        if (part->n_tok < 1 || part->n_out < 0 || part->n_out > part->n_tok || part->n_top < 0 ||
            part->n_top > WHIM_TOPK_MAX) {
            return whim_fail(diag, WHIM_ERR_INVALID,
                             "part %lld of a step has %lld tokens and asks for %lld outputs of %d",
                             (long long)i, (long long)part->n_tok, (long long)part->n_out,
                             part->n_top);
        }
        if (part->seq->step ==
            r->n_step) { /* its second part would get the positions of the first */
            return whim_fail(diag, WHIM_ERR_INVALID, "a sequence occurs twice in one step");
        }
        part->seq->step = r->n_step;
        if (part->seq->len + part->n_tok > r->cfg.max_ctx) {
            return whim_fail(diag, WHIM_ERR_INVALID,
                             "a sequence of %lld tokens cannot take %lld more: the context is %lld",
                             (long long)part->seq->len, (long long)part->n_tok,
                             (long long)r->cfg.max_ctx);
        }
        if (r->plan.slot_bytes > 0 && part->seq->state_at != part->seq->len && part->seq->len > 0) {
            return whim_fail(diag, WHIM_ERR_INVALID,
                             "a sequence of %lld tokens has the recurrent state of %lld",
                             (long long)part->seq->len, (long long)part->seq->state_at);
        }
        WHIM_TRY(tokens_check(part, r->config->n_vocab, diag));
        size->n_row += part->n_tok;
        size->n_out += part->n_out;
        pages += whim_sequence_pages_needed(part->seq, part->n_tok);
    }
    if (size->n_row > r->cfg.max_rows || n_part > r->cfg.max_seqs ||
        size->n_out > r->cfg.max_outs) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "a step of %lld tokens, %lld sequences and %lld outputs is larger than "
                         "the limits %lld, %lld and %lld",
                         (long long)size->n_row, (long long)n_part, (long long)size->n_out,
                         (long long)r->cfg.max_rows, (long long)r->cfg.max_seqs,
                         (long long)r->cfg.max_outs);
    }
    if (pages > r->pool.n_free) {
        return whim_fail(diag, WHIM_ERR_FULL, "a step needs %lld KV pages, %lld are free",
                         (long long)pages, (long long)r->pool.n_free);
    }
    return WHIM_ERR_OK;
}

static whim_err forward(whim_runner *r, const whim_step_size *bucket)
{
    whim_batch batch = {
        .kv = {.pages = r->kv, .page_stride = r->plan.page_bytes, .type = r->cfg.kv_type},
        .kv_offsets = r->kv_offsets,
        .state = {.slots = r->state, .slot_stride = r->plan.slot_bytes, .n_slot = r->states.n_page},
    };
    whim_batch_view(&r->layout, r->arrays, bucket, &batch);
    whim_bump bump = {.base = r->activations, .size = r->plan.activation_bytes};
    whim_out out = {.scratch = &bump};
    whim_outputs_view(&r->outputs, bucket->n_top, &out);
    return r->def->forward(r->model, r->stream, &batch, &out);
}

/* Run the pass of a bucket: eagerly, or by the graph that was captured when it was first seen. */
static whim_err run(whim_runner *r, const whim_step_size *bucket)
{
    whim_graph_slot *slot = r->cfg.graphs ? whim_graphs_find(&r->graphs, bucket) : NULL;
    if (slot == NULL) {
        return forward(r, bucket);
    }
    if (slot->graph == NULL) {
        whim_alloc_guard_leave(); /* a bucket's first step records; later ones only replay */
        whim_err err = r->stream->vt->capture_begin(r->stream);
        if (err == WHIM_ERR_OK) {
            err = forward(r, bucket);
            whim_graph *graph = NULL;
            whim_err end = r->stream->vt->capture_end(r->stream, &graph);
            err = err != WHIM_ERR_OK ? err : end;
            if (err != WHIM_ERR_OK && graph != NULL) { /* half a pass must never be replayed */
                r->stream->vt->graph_free(r->stream, graph);
                graph = NULL;
            }
            slot->graph = graph;
        }
        whim_alloc_guard_enter();
        WHIM_TRY(err);
    }
    return r->stream->vt->replay(r->stream, slot->graph);
}

static whim_err step(whim_runner *r, const whim_step_part *parts, int64_t n_part,
                     const whim_step_size *size)
{
    for (int64_t i = 0; i < n_part; i++) {
        parts[i].seq->state_at = -1; /* until the step has succeeded */
        WHIM_TRY(whim_sequence_grow(parts[i].seq, &r->pool, parts[i].n_tok));
    }
    whim_step_size bucket = *size;
    if (r->cfg.graphs) {
        whim_graphs_bucket(&bucket, &r->cfg);
    } else {
        whim_batch_narrow(&r->layout, parts, n_part);
    }
    int64_t n_fresh = whim_batch_fill(&r->layout, r->host_arrays, parts, n_part, &bucket);
    int64_t elems = r->layout.page_table + bucket.n_seq * r->layout.max_pages;
    WHIM_TRY(whim_stream_copy_in(r->stream, r->arrays, r->host_arrays,
                                 elems * (int64_t)sizeof(int32_t)));
    WHIM_TRY(whim_op_page_zero(r->stream, &(whim_page_zero_args){
                                              .pages = r->kv,
                                              .page_bytes = r->plan.page_bytes,
                                              .ids = r->arrays + r->layout.fresh,
                                              .n_id = n_fresh,
                                          }));
    WHIM_TRY(run(r, &bucket));
    WHIM_TRY(whim_outputs_fetch(&r->outputs, r->stream, size, &bucket));
    WHIM_TRY(whim_stream_sync(r->stream));
    for (int64_t i = 0; i < n_part; i++) {
        parts[i].seq->state_at = parts[i].seq->len;
    }
    return WHIM_ERR_OK;
}

whim_err whim_runner_step(whim_runner *r, const whim_step_part *parts, int64_t n_part,
                          whim_diag *diag)
{
    r->n_step++;
    whim_step_size size;
    WHIM_TRY(step_check(r, parts, n_part, &size, diag));
    if (n_part == 0) {
        return WHIM_ERR_OK;
    }
    whim_alloc_guard_enter();
    whim_err err = step(r, parts, n_part, &size);
    whim_alloc_guard_leave();
    if (err != WHIM_ERR_OK) {
        return whim_fail(diag, err, "a step failed on the device: %s", whim_err_text(err));
    }
    return WHIM_ERR_OK;
}

const float *whim_runner_logits(const whim_runner *r, int64_t i)
{
    return whim_outputs_logits(&r->outputs, i);
}

whim_ranked whim_runner_best(const whim_runner *r, int64_t i)
{
    return whim_outputs_top(&r->outputs, i);
}

const float *whim_runner_hidden(const whim_runner *r, int32_t c, int64_t row)
{
    return whim_outputs_hidden(&r->outputs, c, row);
}

whim_err whim_runner_sequence_create(whim_runner *r, whim_sequence **out)
{
    whim_sequence *seq = whim_alloc(sizeof *seq);
    if (seq == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    whim_err err = whim_sequence_init(seq, r->cfg.max_ctx);
    if (err == WHIM_ERR_OK) {
        err = whim_sequence_take_state(seq, &r->states);
    }
    if (err != WHIM_ERR_OK) {
        whim_sequence_deinit(seq, &r->pool);
        whim_free(seq);
        return err;
    }
    *out = seq;
    return WHIM_ERR_OK;
}

void whim_runner_sequence_destroy(whim_runner *r, whim_sequence *seq)
{
    if (seq != NULL) {
        whim_sequence_give_state(seq, &r->states);
        whim_sequence_deinit(seq, &r->pool);
        whim_free(seq);
    }
}

int64_t whim_runner_sequence_cut(whim_runner *r, whim_sequence *seq, int64_t len)
{
    bool stale = r->plan.slot_bytes > 0 && seq->state_at != len;
    whim_sequence_cut(seq, &r->pool, stale ? 0 : len);
    return seq->len;
}

static char *slot_at(const whim_runner *r, int32_t slot)
{
    whim_check(slot >= 0 && slot < r->states.n_page && r->states.refs[slot] > 0);
    return (char *)r->state + slot * r->plan.slot_bytes;
}

whim_err whim_runner_state_copy(whim_runner *r, int32_t from, int32_t to)
{
    WHIM_TRY(whim_op_copy_bytes(r->stream, &(whim_copy_bytes_args){
                                               .dst = slot_at(r, to),
                                               .src = slot_at(r, from),
                                               .bytes = r->plan.slot_bytes,
                                           }));
    return whim_stream_sync(r->stream);
}

whim_page_pool *whim_runner_states(whim_runner *r)
{
    return &r->states;
}

static char *page_at(const whim_runner *r, int32_t page)
{
    whim_check(page >= 0 && page < r->cfg.n_page);
    return (char *)r->kv + page * r->plan.page_bytes;
}

whim_err whim_runner_page_read(whim_runner *r, int32_t page, void *out)
{
    WHIM_TRY(whim_stream_copy_out(r->stream, out, page_at(r, page), r->plan.page_bytes));
    return whim_stream_sync(r->stream);
}

whim_err whim_runner_page_write(whim_runner *r, int32_t page, const void *bytes)
{
    WHIM_TRY(whim_stream_copy_in(r->stream, page_at(r, page), bytes, r->plan.page_bytes));
    return whim_stream_sync(r->stream);
}

whim_page_pool *whim_runner_pool(whim_runner *r)
{
    return &r->pool;
}

int64_t whim_runner_free_pages(const whim_runner *r)
{
    return r->pool.n_free;
}
