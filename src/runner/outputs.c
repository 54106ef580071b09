/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of the outputs and the way to the host. */
#include "runner/outputs.h"

#include "base/alloc.h"
#include "ops/args/row_args.h"

whim_output_bytes whim_output_bytes_of(const whim_config *config, const whim_runner_cfg *cfg)
{
    int64_t f32 = sizeof(float);
    return (whim_output_bytes){
        .logits = whim_aligned(cfg->max_outs * config->n_vocab * f32),
        .top = whim_aligned(2 * cfg->max_outs * WHIM_TOPK_MAX * f32),
        .hidden = whim_aligned(cfg->n_capture * cfg->max_rows * config->d_model * f32),
    };
}

static whim_err pair_alloc(whim_device *device, int64_t bytes, float **on_device, float **on_host,
                           whim_diag *diag)
{
    void *p;
    WHIM_TRY(whim_device_alloc(device, bytes, &p, diag));
    *on_device = p;
    *on_host = whim_alloc(bytes);
    if (*on_host == NULL) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for the results of a step");
    }
    return WHIM_ERR_OK;
}

whim_err whim_outputs_init(whim_outputs *o, const whim_config *config, const whim_runner_cfg *cfg,
                           whim_device *device, whim_diag *diag)
{
    *o = (whim_outputs){.device = device, .config = config, .cfg = cfg};
    o->bytes = whim_output_bytes_of(config, cfg);
    WHIM_TRY(pair_alloc(device, o->bytes.logits, &o->logits, &o->host_logits, diag));
    WHIM_TRY(pair_alloc(device, o->bytes.top, &o->top, &o->host_top, diag));
    return pair_alloc(device, o->bytes.hidden, &o->hidden, &o->host_hidden, diag);
}

void whim_outputs_deinit(whim_outputs *o)
{
    whim_device_free(o->device, o->logits, o->bytes.logits);
    whim_device_free(o->device, o->top, o->bytes.top);
    whim_device_free(o->device, o->hidden, o->bytes.hidden);
    whim_free(o->host_logits);
    whim_free(o->host_top);
    whim_free(o->host_hidden);
}

/* The ids follow the values of the largest step. */
static int32_t *top_ids(const whim_outputs *o, float *top)
{
    return (int32_t *)(void *)(top + o->cfg->max_outs * WHIM_TOPK_MAX);
}

void whim_outputs_view(const whim_outputs *o, int64_t n_top, whim_out *out)
{
    out->logits = o->logits;
    out->n_top = n_top;
    out->top_values = o->top;
    out->top_ids = top_ids(o, o->top);
    out->hidden = o->hidden;
    out->n_capture = o->cfg->n_capture;
    for (int32_t i = 0; i < o->cfg->n_capture; i++) {
        out->boundary[i] = o->cfg->boundary[i];
    }
}

whim_err whim_outputs_fetch(whim_outputs *o, whim_stream *s, const whim_step_size *used,
                            const whim_step_size *bucket)
{
    int64_t f32 = sizeof(float), d = o->config->d_model;
    o->last = *used;
    if (used->n_top > 0) {
        int64_t bytes = used->n_out * used->n_top * f32;
        WHIM_TRY(whim_stream_copy_out(s, o->host_top, o->top, bytes));
        WHIM_TRY(whim_stream_copy_out(s, top_ids(o, o->host_top), top_ids(o, o->top), bytes));
    } else {
        WHIM_TRY(whim_stream_copy_out(s, o->host_logits, o->logits,
                                      used->n_out * o->config->n_vocab * f32));
    }
    for (int32_t c = 0; c < o->cfg->n_capture; c++) {
        WHIM_TRY(whim_stream_copy_out(s, o->host_hidden + c * o->cfg->max_rows * d,
                                      o->hidden + c * bucket->n_row * d, used->n_row * d * f32));
    }
    return WHIM_ERR_OK;
}

const float *whim_outputs_logits(const whim_outputs *o, int64_t i)
{
    return o->last.n_top > 0 ? NULL : o->host_logits + i * o->config->n_vocab;
}

whim_ranked whim_outputs_top(const whim_outputs *o, int64_t i)
{
    int64_t n = o->last.n_top;
    return (whim_ranked){
        .values = o->host_top + i * n,
        .ids = top_ids(o, o->host_top) + i * n,
        .n = (int32_t)(n < o->config->n_vocab ? n : o->config->n_vocab),
    };
}

const float *whim_outputs_hidden(const whim_outputs *o, int32_t c, int64_t row)
{
    return o->host_hidden + (c * o->cfg->max_rows + row) * o->config->d_model;
}
