/* SPDX-License-Identifier: Apache-2.0 */
/* Packing asks and running the op over them. */
#include "runner/sampling.h"

#include "base/alloc.h"
#include "ops/ops.h"

/* For one row that has all it can have, and for usual ones of all sequences. */
int64_t whim_sampling_words(const whim_config *config, const whim_exec_cfg *cfg)
{
    enum { USUAL = 512 };
    int64_t mask = (config->n_vocab + 31) / 32;
    return 2 * (int64_t)config->n_vocab + 2 * WHIM_HISTORY_PAIRS + mask + cfg->max_ctx + 1 +
           cfg->max_seqs * (mask + USUAL);
}

/* Lay memory out from `base` on; returns its bytes. */
static int64_t in_lay(whim_sampling_in *in, char *base, int64_t max_outs, int64_t n_word)
{
    int64_t lists = whim_aligned(max_outs * (int64_t)sizeof *in->wants);
    *in = (whim_sampling_in){(void *)base, (void *)(base + lists)};
    return lists + whim_aligned(n_word * (int64_t)sizeof *in->lists);
}

static int64_t out_lay(whim_sampling_out *out, char *base, int64_t max_outs)
{
    int64_t tops = max_outs * WHIM_MAX_LOGPROBS;
    int64_t told = whim_aligned(max_outs * (int64_t)sizeof *out->tokens);
    int64_t ids = told + whim_aligned(max_outs * (int64_t)sizeof *out->told);
    int64_t logprobs = ids + whim_aligned(tops * (int64_t)sizeof *out->top_ids);
    *out = (whim_sampling_out){(void *)base, (void *)(base + told), (void *)(base + ids),
                               (void *)(base + logprobs)};
    return logprobs + whim_aligned(tops * (int64_t)sizeof *out->top_logprobs);
}

whim_sampling_bytes whim_sampling_bytes_of(const whim_config *config, const whim_exec_cfg *cfg)
{
    char somewhere[1];
    whim_sampling_in in;
    whim_sampling_out out;
    return (whim_sampling_bytes){
        .in = in_lay(&in, somewhere, whim_exec_outs(cfg), whim_sampling_words(config, cfg)),
        .out = out_lay(&out, somewhere, whim_exec_outs(cfg)),
    };
}

static whim_err host_alloc(whim_sampling *s, int32_t n_flight, whim_diag *diag)
{
    for (int32_t i = 0; i < n_flight; i++) {
        void *in, *out;
        WHIM_TRY(whim_device_host_alloc(s->device, s->bytes.in, &in, diag));
        in_lay(&s->in_host[i], in, s->max_outs, s->n_word);
        WHIM_TRY(whim_device_host_alloc(s->device, s->bytes.out, &out, diag));
        out_lay(&s->out_host[i], out, s->max_outs);
    }
    return WHIM_ERR_OK;
}

whim_err whim_sampling_init(whim_sampling *s, const whim_config *config, const whim_exec_cfg *cfg,
                            whim_device *device, whim_diag *diag)
{
    void *in, *out;
    *s = (whim_sampling){.device = device,
                         .n_vocab = config->n_vocab,
                         .max_outs = whim_exec_outs(cfg),
                         .n_word = whim_sampling_words(config, cfg),
                         .bytes = whim_sampling_bytes_of(config, cfg)};
    WHIM_TRY(whim_device_alloc(device, s->bytes.in, &in, diag));
    in_lay(&s->in_device, in, s->max_outs, s->n_word);
    WHIM_TRY(whim_device_alloc(device, s->bytes.out, &out, diag));
    out_lay(&s->out_device, out, s->max_outs);
    return host_alloc(s, whim_exec_flights(cfg), diag);
}

void whim_sampling_deinit(whim_sampling *s)
{
    whim_device_free(s->device, s->in_device.wants, s->bytes.in);
    whim_device_free(s->device, s->out_device.tokens, s->bytes.out);
    for (int32_t i = 0; i < WHIM_EXEC_FLIGHT; i++) {
        whim_device_host_free(s->device, s->in_host[i].wants, s->bytes.in);
        whim_device_host_free(s->device, s->out_host[i].tokens, s->bytes.out);
    }
}

whim_err whim_sampling_check(const whim_sampling *s, const whim_sample_ask *asks, int64_t n_ask,
                             int64_t n_top, whim_diag *diag)
{
    for (int64_t i = 0; i < n_ask; i++) {
        int64_t needed = whim_sample_best_needed(&asks[i], (int32_t)s->n_vocab);
        WHIM_TRY(whim_sample_words_check(&asks[i], s->n_word, diag));
        if (n_top > 0 && (needed == 0 || needed > n_top)) {
            return whim_fail(diag, WHIM_ERR_INVALID,
                             "output %lld needs %s, and the step gives the %lld best", (long long)i,
                             needed == 0 ? "all logits" : "more of them", (long long)n_top);
        }
    }
    return WHIM_ERR_OK;
}

/* From a pointer to the end of n items that lie behind it, in bytes. */
#define SPAN(from, items, n) ((char *)((items) + (n)) - (char *)(from))

/* Pack rows from the next one on until one's lists do not fit, and send them. */
static whim_err rows_send(whim_sampling *s, whim_stream *stream)
{
    const whim_sampling_in *in = &s->in_host[s->set];
    s->n_used = 0;
    for (; s->n_packed < s->n_ask; s->n_packed++) {
        const whim_sample_ask *ask = &s->asks[s->n_packed];
        whim_sample_want *want = &in->wants[s->n_packed];
        if (ask->params == NULL) {
            *want = (whim_sample_want){.kind = WHIM_SAMPLE_NOTHING};
        } else if (whim_sample_words(ask) > s->n_word - s->n_used) {
            break;
        } else {
            whim_sample_pack(ask, in->lists, &s->n_used, want);
            s->tops = s->tops || want->n_logprob > 0;
        }
    }
    return whim_stream_copy_in(stream, s->in_device.wants, in->wants,
                               SPAN(in->wants, in->lists, s->n_used));
}

whim_err whim_sampling_begin(whim_sampling *s, int32_t set, whim_stream *stream,
                             const whim_sample_ask *asks, int64_t n_ask)
{
    s->set = set;
    s->asks = asks;
    s->n_ask = n_ask;
    s->n_packed = s->n_run = 0;
    s->tops = false;
    return n_ask > 0 ? rows_send(s, stream) : WHIM_ERR_OK;
}

/* The op over the rows that were sent. */
static whim_err rows_run(whim_sampling *s, whim_stream *stream, const whim_out *from)
{
    const whim_sampling_out *to = &s->out_device;
    int64_t r = s->n_run, top = r * WHIM_MAX_LOGPROBS;
    s->n_run = s->n_packed;
    return whim_op_sample(stream,
                          &(whim_sample_args){
                              .logits = from->n_top == 0 ? from->logits + r * s->n_vocab : NULL,
                              .logits_stride = s->n_vocab,
                              .best_values = from->top_values + r * from->n_top,
                              .best_ids = from->top_ids + r * from->n_top,
                              .k_best = from->n_top,
                              .wants = s->in_device.wants + r,
                              .lists = s->in_device.lists,
                              .n_word = s->n_used,
                              .tokens = to->tokens + r,
                              .told = to->told + r,
                              .top_ids = to->top_ids + top,
                              .top_logprobs = to->top_logprobs + top,
                              .n_row = s->n_run - r,
                              .n_col = s->n_vocab,
                          });
}

static whim_err results_fetch(whim_sampling *s, whim_stream *stream)
{
    const whim_sampling_out *from = &s->out_device, *to = &s->out_host[s->set];
    WHIM_TRY(whim_stream_copy_out(stream, to->tokens, from->tokens,
                                  SPAN(to->tokens, to->told, s->n_run)));
    int64_t tops = SPAN(to->top_ids, to->top_logprobs, s->n_run * WHIM_MAX_LOGPROBS);
    return whim_stream_copy_out(stream, to->top_ids, from->top_ids, s->tops ? tops : 0);
}

whim_err whim_sampling_end(whim_sampling *s, whim_stream *stream, const whim_out *out)
{
    if (s->n_ask == 0) {
        return WHIM_ERR_OK;
    }
    WHIM_TRY(rows_run(s, stream, out));
    while (s->n_packed < s->n_ask) {
        WHIM_TRY(whim_stream_sync(stream)); /* the lists on the host are the copy's until then */
        WHIM_TRY(rows_send(s, stream));
        WHIM_TRY(rows_run(s, stream, out));
    }
    return results_fetch(s, stream);
}

whim_err whim_sampling_take(const whim_sampling *s, int32_t set, int64_t i, whim_sampled *out,
                            whim_diag *diag)
{
    const whim_sampling_out *from = &s->out_host[set];
    return whim_sampled_take(out, from->tokens[i], &from->told[i],
                             from->top_ids + i * WHIM_MAX_LOGPROBS,
                             from->top_logprobs + i * WHIM_MAX_LOGPROBS, diag);
}
