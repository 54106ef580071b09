/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of the outputs and the way to the host. */
#include "runner/outputs.h"

#include "base/alloc.h"
#include "ops/args/row_args.h"

whim_output_bytes whim_output_bytes_of(const whim_config *config, const whim_exec_cfg *cfg)
{
    int64_t f32 = sizeof(float);
    return (whim_output_bytes){
        .logits = whim_aligned(cfg->max_outs * config->n_vocab * f32),
        .top = whim_aligned(2 * cfg->max_outs * WHIM_TOPK_MAX * f32),
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
    set->brought = whim_alloc_array(o->cfg->max_outs, sizeof *set->brought);
    return set->brought != NULL
               ? WHIM_ERR_OK
               : whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for the results of a step");
}

whim_err whim_outputs_init(whim_outputs *o, const whim_config *config, const whim_exec_cfg *cfg,
                           whim_device *device, whim_diag *diag)
{
    *o = (whim_outputs){.device = device, .config = config, .cfg = cfg};
    o->bytes = whim_output_bytes_of(config, cfg);
    WHIM_TRY(floats_alloc(o, whim_device_alloc, o->bytes.logits, &o->logits, diag));
    WHIM_TRY(floats_alloc(o, whim_device_alloc, o->bytes.top, &o->top, diag));
    WHIM_TRY(floats_alloc(o, whim_device_alloc, o->bytes.hidden, &o->hidden, diag));
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
    return (int32_t *)(void *)(top + o->cfg->max_outs * WHIM_TOPK_MAX);
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
