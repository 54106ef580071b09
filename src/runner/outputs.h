/* SPDX-License-Identifier: Apache-2.0 */
/* What a step gives back: rows of logits or the best of them, and hidden states; on the device at fixed
 * addresses, and the host's copies.
 * Threads: the runner's. */
#ifndef WHIM_RUNNER_OUTPUTS_H
#define WHIM_RUNNER_OUTPUTS_H

#include "runner/batch_arrays.h"

/* Bytes of each kind, for the largest step. */
typedef struct whim_output_bytes {
    int64_t logits, top, hidden;
} whim_output_bytes;

whim_output_bytes whim_output_bytes_of(const whim_config *config, const whim_runner_cfg *cfg);

typedef struct whim_outputs {
    whim_device *device;
    const whim_config *config;
    const whim_runner_cfg *cfg;
    whim_output_bytes bytes;
    /* device */
    float *logits; /* [max_outs, n_vocab] */
    float *top;    /* values [max_outs, WHIM_TOPK_MAX], then ids of the same shape */
    float *hidden; /* [n_capture, rows, d_model] */
    /* host */
    float *host_logits, *host_top, *host_hidden;
    whim_step_size last; /* of the step that was fetched */
} whim_outputs;

/* `config` and `cfg` are kept. Deinit is right after a failure too. */
WHIM_MUST_CHECK whim_err whim_outputs_init(whim_outputs *outputs, const whim_config *config,
                                           const whim_runner_cfg *cfg, whim_device *device,
                                           whim_diag *diag);
void whim_outputs_deinit(whim_outputs *outputs);

/* Where a pass of n_top (0: logits) writes. */
void whim_outputs_view(const whim_outputs *outputs, int64_t n_top, whim_out *out);

/* Queue the copies to the host of a step of the size `used` that ran as `bucket`. */
WHIM_MUST_CHECK whim_err whim_outputs_fetch(whim_outputs *outputs, whim_stream *stream,
                                            const whim_step_size *used,
                                            const whim_step_size *bucket);

const float *whim_outputs_logits(const whim_outputs *outputs, int64_t i);
whim_ranked whim_outputs_top(const whim_outputs *outputs, int64_t i);
const float *whim_outputs_hidden(const whim_outputs *outputs, int32_t c, int64_t row);

#endif
