/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that a draft takes late. What a draft keeps of a row costs a read of some of its matrices;
 * for several rows at once it costs little more. So steps leave what the draft needs in a place of
 * its own on the device, and one of the next steps takes all that is there: when enough wait,
 * before the draft is asked, and before a page is full (then others may see it).
 * Threads: the exec's. */
#ifndef WHIM_RUNNER_LATE_H
#define WHIM_RUNNER_LATE_H

#include "runner/exec.h"

enum { WHIM_LATE_FEW = 4 }; /* rows that wait where few answers are under way */

typedef struct whim_late_bytes {
    int64_t rows;   /* 0: the model takes nothing late */
    int64_t arrays; /* on the device, and on the host for each step under way */
} whim_late_bytes;

typedef struct whim_late {
    whim_device *device;
    whim_late_bytes bytes;
    float *rows;     /* device: [WHIM_LATE_ROWS, late_cols] */
    int32_t *arrays; /* device: positions, slots */
    int32_t *host[WHIM_EXEC_FLIGHT];
    int32_t n;                                                /* rows that wait */
    int32_t positions[WHIM_LATE_ROWS], slots[WHIM_LATE_ROWS]; /* slot -1: it need not be taken */
} whim_late;

whim_late_bytes whim_late_bytes_of(const whim_model_def *def);

/* Deinit is right after a failure too. */
WHIM_MUST_CHECK whim_err whim_late_init(whim_late *late, const whim_late_bytes *bytes,
                                        const whim_exec_cfg *cfg, whim_device *device,
                                        whim_diag *diag);
void whim_late_deinit(whim_late *late);

/* What a step does: where its rows go, and how many rows are taken from there. */
typedef struct whim_late_step {
    int32_t at;      /* -1: nowhere */
    int32_t n_taken; /* all that are there, and places that nobody's are up to a power of two */
} whim_late_step;

/* Choose for the next step, and queue the arrays of what it takes. */
WHIM_MUST_CHECK whim_err whim_late_begin(whim_late *late, whim_stream *stream, const int32_t *block,
                                         int32_t page_len, int32_t set, whim_late_step *step);

void whim_late_view(const whim_late *late, const whim_late_step *step, whim_batch *batch);

/* What waits for a page is no longer needed; a step failed, and nothing waits from now on. */
void whim_late_drop_page(whim_late *late, int32_t page, int32_t page_len);
void whim_late_forget(whim_late *late);

#endif
