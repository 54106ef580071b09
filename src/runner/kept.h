/* SPDX-License-Identifier: Apache-2.0 */
/* Rows on trial: memory on the device for what recurrent layers keep of them, and the arrays by
 * which states advance by those that are taken.
 * Threads: the exec's. */
#ifndef WHIM_RUNNER_KEPT_H
#define WHIM_RUNNER_KEPT_H

#include "runner/exec.h"

typedef struct whim_kept_bytes {
    int64_t rows;   /* 0: the model has no recurrent states, or no rows are kept */
    int64_t arrays; /* on the device, and on the host again */
} whim_kept_bytes;

typedef struct whim_kept {
    whim_device *device;
    whim_kept_bytes bytes;
    int64_t max_rows;
    void *rows;               /* device */
    int32_t *arrays;          /* device */
    int32_t *host;            /* what was copied there last */
    int64_t n_row;            /* of the last step that kept its rows, 0: none did */
    int64_t n_submitted_then; /* steps, when the arrays were copied last */
} whim_kept;

whim_kept_bytes whim_kept_bytes_of(const whim_layer_table *layers, const whim_exec_cfg *cfg);

/* Deinit is right after a failure too. */
WHIM_MUST_CHECK whim_err whim_kept_init(whim_kept *kept, const whim_kept_bytes *bytes,
                                        const whim_exec_cfg *cfg, whim_device *device,
                                        whim_diag *diag);
void whim_kept_deinit(whim_kept *kept);

/* Queue the arrays of what is taken, which has been checked: sequences and rows of `batch`, whose
 * kept rows these are. */
WHIM_MUST_CHECK whim_err whim_kept_take(whim_kept *kept, whim_stream *stream,
                                        const whim_step_take *takes, int64_t n, whim_batch *batch);

#endif
