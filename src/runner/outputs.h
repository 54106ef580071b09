/* SPDX-License-Identifier: Apache-2.0 */
/* What a step gives back: rows of logits or the best of them, and hidden states; on the device at
 * fixed addresses, and a copy on the host for each step that may be under way.
 * Threads: the exec's. */
#ifndef WHIM_RUNNER_OUTPUTS_H
#define WHIM_RUNNER_OUTPUTS_H

#include "runner/exec.h"

enum { WHIM_OUTPUT_COLS = WHIM_TOPK_MAX + 2 };

/* Bytes of each kind, for the largest step; `own`: of what a pass makes for its own group. */
typedef struct whim_output_bytes {
    int64_t logits, top, hidden, own;
} whim_output_bytes;

whim_output_bytes whim_output_bytes_of(const whim_config *config, const whim_exec_cfg *cfg);

/* The host's copy of one step's. */
typedef struct whim_output_set {
    float *logits, *top, *hidden; /* as on the device */
    bool *brought;                /* [whim_exec_outs]: the logits of this output are there */
    whim_step_size size;          /* of the step that was fetched */
} whim_output_set;

typedef struct whim_outputs {
    whim_device *device;
    const whim_config *config;
    const whim_exec_cfg *cfg;
    whim_output_bytes bytes;
    /* device */
    float *logits; /* [whim_exec_outs, n_vocab] */
    float *top;    /* values [whim_exec_outs, WHIM_TOPK_MAX], then ids of the same shape */
    float *hidden; /* [n_capture, max_rows, d_model] */
    float *own;    /* of one of several groups, before they are gathered: logits, or the best */
    /* host */
    int64_t *cols; /* [WHIM_OUTPUT_COLS, n_rank]: how wide an output is, by n_top; then 1, 0 .. */
    whim_output_set sets[WHIM_EXEC_FLIGHT];
} whim_outputs;

/* `config` and `cfg` are kept. Deinit is right after a failure too. */
WHIM_MUST_CHECK whim_err whim_outputs_init(whim_outputs *outputs, const whim_config *config,
                                           const whim_exec_cfg *cfg, whim_device *device,
                                           whim_diag *diag);
void whim_outputs_deinit(whim_outputs *outputs);

/* Where a pass of n_top (0: logits) writes. */
void whim_outputs_view(const whim_outputs *outputs, int64_t n_top, whim_out *out);

/* Of several groups: the first rank's n tokens become everybody's. */
WHIM_MUST_CHECK whim_err whim_outputs_share(const whim_outputs *outputs, whim_stream *s,
                                            int32_t *tokens, int64_t n);

/* Where it writes, and what it wrote, where each of several groups has its own: queue the gather of
 * n_out outputs of each. */
void whim_outputs_view_own(const whim_outputs *outputs, int64_t n_top, whim_out *out);
WHIM_MUST_CHECK whim_err whim_outputs_gather(const whim_outputs *outputs, whim_stream *stream,
                                             int64_t n_out, int64_t n_top);

/* How wide an output of each rank is, in row n_top of `cols`: a group's are those of its first. */
void whim_outputs_cols(int64_t *cols, const whim_exec_cfg *cfg, int64_t n_vocab);

/* The best ids of a pass, on the device: [n_out, n_top]. */
const int32_t *whim_outputs_ids(const whim_outputs *outputs);

/* Rows of capture c on the device. */
float *whim_outputs_capture(const whim_outputs *outputs, int32_t c);

/* Queue the copies to the host's set of a step of the size `work`: of logits those that bring
 * themselves by asks[n_out], all where that is NULL. */
WHIM_MUST_CHECK whim_err whim_outputs_fetch(whim_outputs *outputs, int32_t set, whim_stream *stream,
                                            const whim_step_size *work,
                                            const whim_sample_ask *asks);

whim_step_size whim_outputs_size(const whim_outputs *outputs, int32_t set);
const float *whim_outputs_logits(const whim_outputs *outputs, int32_t set, int64_t i);
whim_ranked whim_outputs_top(const whim_outputs *outputs, int32_t set, int64_t i);
const float *whim_outputs_hidden(const whim_outputs *outputs, int32_t set, int32_t c, int64_t row);

#endif
