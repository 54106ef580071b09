/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of the outputs and the way to the host. */
#include "runner/outputs.h"

#include "base/alloc.h"
#include "comm/comm.h"
#include "ops/ops.h"

whim_output_bytes whim_output_bytes_of(const whim_config *config, const whim_exec_cfg *cfg)
{
    int64_t f32 = sizeof(float), n_out = whim_exec_outs(cfg), most = 2 * WHIM_TOPK_MAX;
    most = config->n_vocab > most ? config->n_vocab : most;
    return (whim_output_bytes){
        .logits = whim_aligned(n_out * config->n_vocab * f32),
        .top = whim_aligned(2 * n_out * WHIM_TOPK_MAX * f32),
        .own = whim_exec_groups(cfg) > 1 ? whim_aligned(cfg->max_outs * most * f32) : 0,
        .hidden = whim_aligned(cfg->n_capture * cfg->max_rows * config->d_model * f32),
    };
}

typedef whim_err alloc_fn(whim_device *dev, int64_t bytes, void **out, whim_diag *diag);

static whim_err floats_alloc(const whim_outputs *o, alloc_fn *alloc, int64_t bytes, float **out,
                             whim_diag *diag)
{
    void *p;
    WHIM_TRY(alloc(o->device, bytes, &p, diag));
    *out = p;
    return WHIM_ERR_OK;
}

static whim_err set_alloc(const whim_outputs *o, whim_output_set *set, whim_diag *diag)
{
    WHIM_TRY(floats_alloc(o, whim_device_host_alloc, o->bytes.logits, &set->logits, diag));
    WHIM_TRY(floats_alloc(o, whim_device_host_alloc, o->bytes.top, &set->top, diag));
    if (o->cfg->fetch_hidden) {
        WHIM_TRY(floats_alloc(o, whim_device_host_alloc, o->bytes.hidden, &set->hidden, diag));
    }
    set->brought = whim_alloc_array(whim_exec_outs(o->cfg), sizeof *set->brought);
    return set->brought != NULL
               ? WHIM_ERR_OK
               : whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for the results of a step");
}

void whim_outputs_cols(int64_t *cols, const whim_exec_cfg *cfg, int64_t n_vocab)
{
    int32_t span = whim_exec_group_ranks(cfg), n = whim_exec_groups(cfg) * span;
    for (int64_t n_top = 0; n_top <= WHIM_TOPK_MAX; n_top++) {
        for (int32_t r = 0; r < n; r++) {
            int64_t width = n_top > 0 ? n_top : n_vocab;
            cols[n_top * n + r] = r % span == 0 ? width : 0;
        }
    }
    for (int32_t r = 0; r < n; r++) {
        cols[(WHIM_OUTPUT_COLS - 1) * n + r] = r == 0;
    }
}

static whim_err groups_init(whim_outputs *o, whim_diag *diag)
{
    int32_t n = whim_exec_groups(o->cfg);
    if (n == 1) {
        return WHIM_ERR_OK;
    }
    n *= whim_exec_group_ranks(o->cfg);
    o->cols = whim_alloc_array(WHIM_OUTPUT_COLS * (int64_t)n, sizeof *o->cols);
    WHIM_TRY(whim_got(o->cols != NULL, diag, "no memory for the outputs of groups"));
    whim_outputs_cols(o->cols, o->cfg, o->config->n_vocab);
    return floats_alloc(o, whim_device_alloc, o->bytes.own, &o->own, diag);
}

whim_err whim_outputs_init(whim_outputs *o, const whim_config *config, const whim_exec_cfg *cfg,
                           whim_device *device, whim_diag *diag)
{
    *o = (whim_outputs){.device = device, .config = config, .cfg = cfg};
    o->bytes = whim_output_bytes_of(config, cfg);
    WHIM_TRY(floats_alloc(o, whim_device_alloc, o->bytes.logits, &o->logits, diag));
    WHIM_TRY(floats_alloc(o, whim_device_alloc, o->bytes.top, &o->top, diag));
    WHIM_TRY(floats_alloc(o, whim_device_alloc, o->bytes.hidden, &o->hidden, diag));
    WHIM_TRY(groups_init(o, diag));
    for (int32_t i = 0; i < whim_exec_flights(cfg); i++) {
        WHIM_TRY(set_alloc(o, &o->sets[i], diag));
    }
    return WHIM_ERR_OK;
}

void whim_outputs_deinit(whim_outputs *o)
{
    whim_device_free(o->device, o->logits, o->bytes.logits);
    whim_device_free(o->device, o->top, o->bytes.top);
    whim_device_free(o->device, o->hidden, o->bytes.hidden);
    whim_device_free(o->device, o->own, o->bytes.own);
    whim_free(o->cols);
    for (int32_t i = 0; i < WHIM_EXEC_FLIGHT; i++) {
        whim_device_host_free(o->device, o->sets[i].logits, o->bytes.logits);
        whim_device_host_free(o->device, o->sets[i].top, o->bytes.top);
        whim_device_host_free(o->device, o->sets[i].hidden, o->bytes.hidden);
        whim_free(o->sets[i].brought);
    }
}

/* The ids follow the values of the largest step. */
static int32_t *top_ids(const whim_outputs *o, float *top)
{
    return (int32_t *)(void *)(top + whim_exec_outs(o->cfg) * WHIM_TOPK_MAX);
}

const int32_t *whim_outputs_ids(const whim_outputs *o)
{
    return top_ids(o, o->top);
}

float *whim_outputs_capture(const whim_outputs *o, int32_t c)
{
    return o->hidden + c * o->cfg->max_rows * o->config->d_model;
}

void whim_outputs_view(const whim_outputs *o, int64_t n_top, whim_out *out)
{
    out->logits = o->logits;
    out->n_top = n_top;
    out->top_values = o->top;
    out->top_ids = top_ids(o, o->top);
    out->n_capture = o->cfg->n_capture;
    for (int32_t i = 0; i < o->cfg->n_capture; i++) {
        out->captures[i] =
            (whim_capture){o->cfg->boundary[i], whim_outputs_capture(o, i), o->config->d_model};
    }
}

void whim_outputs_view_own(const whim_outputs *o, int64_t n_top, whim_out *out)
{
    whim_outputs_view(o, n_top, out);
    if (o->own != NULL) {
        out->logits = out->top_values = o->own;
        out->top_ids = (int32_t *)(void *)(o->own + o->cfg->max_outs * WHIM_TOPK_MAX);
    }
}

whim_err whim_outputs_gather(const whim_outputs *o, whim_stream *s, int64_t n_out, int64_t n_top)
{
    int32_t span = whim_exec_group_ranks(o->cfg), n = whim_exec_groups(o->cfg) * span;
    if (n == span) {
        return WHIM_ERR_OK;
    }
    whim_out own, all;
    whim_outputs_view_own(o, n_top, &own);
    whim_outputs_view(o, n_top, &all);
    whim_all_gather_v_args args = {.x = own.logits,
                                   .cols = o->cols + n_top * n,
                                   .y = n_top > 0 ? all.top_values : all.logits,
                                   .n_row = n_out,
                                   .n_rank = n,
                                   .rank = o->cfg->comm->rank,
                                   .site = "outputs of groups",
                                   .among = WHIM_AMONG_ALL};
    WHIM_TRY(whim_op_all_gather_v(s, &args));
    if (n_top == 0) {
        return WHIM_ERR_OK;
    }
    args.x = (const float *)(const void *)own.top_ids;
    args.y = (float *)(void *)all.top_ids;
    args.site = "ids of groups";
    return whim_op_all_gather_v(s, &args);
}

whim_err whim_outputs_share(const whim_outputs *o, whim_stream *s, int32_t *tokens, int64_t n)
{
    int32_t n_rank = o->cfg->comm->n_rank;
    float *any = (float *)(void *)tokens; /* bits travel as they are */
    return whim_op_all_gather_v(
        s, &(whim_all_gather_v_args){.x = any,
                                     .cols = o->cols + (WHIM_OUTPUT_COLS - 1) * (int64_t)n_rank,
                                     .y = any,
                                     .n_row = n,
                                     .n_rank = n_rank,
                                     .rank = o->cfg->comm->rank,
                                     .site = "tokens of the step before",
                                     .among = WHIM_AMONG_ALL});
}

/* Rows that follow one another go in one copy. */
static whim_err logits_fetch(const whim_outputs *o, whim_output_set *host, whim_stream *s,
                             int64_t n_out, const whim_sample_ask *asks)
{
    int64_t n_vocab = o->config->n_vocab;
    for (int64_t i = 0, end; i < n_out; i = end) {
        bool brings = asks == NULL || asks[i].brings_logits;
        for (end = i; end < n_out && (asks == NULL || asks[end].brings_logits) == brings; end++) {
            host->brought[end] = brings;
        }
        WHIM_TRY(whim_stream_copy_out(s, host->logits + i * n_vocab, o->logits + i * n_vocab,
                                      brings ? (end - i) * n_vocab * (int64_t)sizeof(float) : 0));
    }
    return WHIM_ERR_OK;
}

whim_err whim_outputs_fetch(whim_outputs *o, int32_t set, whim_stream *s,
                            const whim_step_size *work, const whim_sample_ask *asks)
{
    int64_t f32 = sizeof(float), d = o->config->d_model;
    whim_output_set *host = &o->sets[set];
    host->size = *work;
    if (work->n_top > 0) {
        int64_t bytes = work->n_out * work->n_top * f32;
        WHIM_TRY(whim_stream_copy_out(s, host->top, o->top, bytes));
        WHIM_TRY(whim_stream_copy_out(s, top_ids(o, host->top), top_ids(o, o->top), bytes));
    } else {
        WHIM_TRY(logits_fetch(o, host, s, work->n_out, asks));
    }
    for (int32_t c = 0; c < o->cfg->n_capture && o->cfg->fetch_hidden; c++) {
        WHIM_TRY(whim_stream_copy_out(s, host->hidden + c * o->cfg->max_rows * d,
                                      whim_outputs_capture(o, c), work->n_row * d * f32));
    }
    return WHIM_ERR_OK;
}

whim_step_size whim_outputs_size(const whim_outputs *o, int32_t set)
{
    return o->sets[set].size;
}

const float *whim_outputs_logits(const whim_outputs *o, int32_t set, int64_t i)
{
    const whim_output_set *host = &o->sets[set];
    bool there = host->size.n_top == 0 && host->brought[i];
    return there ? host->logits + i * o->config->n_vocab : NULL;
}

whim_ranked whim_outputs_top(const whim_outputs *o, int32_t set, int64_t i)
{
    const whim_output_set *host = &o->sets[set];
    int64_t n = host->size.n_top;
    return (whim_ranked){
        .values = host->top + i * n,
        .ids = top_ids(o, host->top) + i * n,
        .n = (int32_t)(n < o->config->n_vocab ? n : o->config->n_vocab),
    };
}

const float *whim_outputs_hidden(const whim_outputs *o, int32_t set, int32_t c, int64_t row)
{
    return o->sets[set].hidden + (c * o->cfg->max_rows + row) * o->config->d_model;
}
