/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing tokens in a step: what its outputs ask for goes to the device as records and lists, the
 * op `sample` runs after the pass, and what it tells comes back, to a copy on the host for each
 * step that may be under way. Lists that are longer than there is room for go in groups of rows.
 * Threads: the exec's. */
#ifndef WHIM_RUNNER_SAMPLING_H
#define WHIM_RUNNER_SAMPLING_H

#include "runner/exec.h"

/* What rows ask for, in one piece of memory. */
typedef struct whim_sampling_in {
    whim_sample_want *wants; /* [whim_exec_outs] */
    int32_t *lists;          /* [n_word] */
} whim_sampling_in;

/* What came of them, in another. */
typedef struct whim_sampling_out {
    int32_t *tokens;        /* [whim_exec_outs] */
    whim_sample_told *told; /* [whim_exec_outs] */
    int32_t *top_ids;       /* [max_outs, WHIM_MAX_LOGPROBS] */
    float *top_logprobs;    /* [max_outs, WHIM_MAX_LOGPROBS] */
} whim_sampling_out;

typedef struct whim_sampling_bytes {
    int64_t in, out;
} whim_sampling_bytes;

typedef struct whim_sampling {
    whim_device *device;
    int64_t n_vocab, max_outs, n_word;
    whim_sampling_bytes bytes;
    whim_sampling_in in_device, in_host[WHIM_EXEC_FLIGHT];
    whim_sampling_out out_device, out_host[WHIM_EXEC_FLIGHT];
    /* of the step that is queued */
    int32_t set;                 /* which of the host's */
    const whim_sample_ask *asks; /* [n_ask] */
    int64_t n_ask;
    int64_t n_packed, n_run; /* rows */
    int64_t n_used;          /* words of the lists that belong to rows n_run .. n_packed - 1 */
    bool tops;               /* some ask for the likeliest tokens */
} whim_sampling;

/* Words of lists that there is room for at once. */
int64_t whim_sampling_words(const whim_config *config, const whim_exec_cfg *cfg);

whim_sampling_bytes whim_sampling_bytes_of(const whim_config *config, const whim_exec_cfg *cfg);

/* Deinit is right after a failure too. */
WHIM_MUST_CHECK whim_err whim_sampling_init(whim_sampling *sampling, const whim_config *config,
                                            const whim_exec_cfg *cfg, whim_device *device,
                                            whim_diag *diag);
void whim_sampling_deinit(whim_sampling *sampling);

/* INVALID when a row's lists are longer than any could be, or it needs more of the step than the
 * n_top best. */
WHIM_MUST_CHECK whim_err whim_sampling_check(const whim_sampling *sampling,
                                             const whim_sample_ask *asks, int64_t n_ask,
                                             int64_t n_top, whim_diag *diag);

/* Before the pass of a step with the host's set `set`: the rows that fit go to the device. */
WHIM_MUST_CHECK whim_err whim_sampling_begin(whim_sampling *sampling, int32_t set,
                                             whim_stream *stream, const whim_sample_ask *asks,
                                             int64_t n_ask);

/* After it: queue the op and the copies back. */
WHIM_MUST_CHECK whim_err whim_sampling_end(whim_sampling *sampling, whim_stream *stream,
                                           const whim_out *out);

WHIM_MUST_CHECK whim_err whim_sampling_take(const whim_sampling *sampling, int32_t set, int64_t i,
                                            whim_sampled *out, whim_diag *diag);

#endif
