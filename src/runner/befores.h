/* SPDX-License-Identifier: Apache-2.0 */
/* For each row of a step the slot of the position before it (whim_batch.before): what a draft kept
 * there is part of its input. A block says it without words of its own: it is the slot of the row
 * before, or, of a sequence's first row, the end of what its page list has so far.
 * Threads: the exec's. */
#ifndef WHIM_RUNNER_BEFORES_H
#define WHIM_RUNNER_BEFORES_H

#include "runner/exec.h"

typedef struct whim_befores {
    whim_device *device;
    int64_t bytes;                   /* of each array; 0: not wanted */
    int32_t *rows;                   /* device: [max_rows] */
    int32_t *sets[WHIM_EXEC_FLIGHT]; /* pinned: the same, of each step under way */
} whim_befores;

int64_t whim_befores_bytes_of(const whim_exec_cfg *cfg);

/* Deinit is right after a failure too. */
WHIM_MUST_CHECK whim_err whim_befores_init(whim_befores *befores, const whim_exec_cfg *cfg,
                                           whim_device *device, whim_diag *diag);
void whim_befores_deinit(whim_befores *befores);

/* The slots of a block that has been checked, [bucket_row]. */
void whim_befores_fill(const int32_t *block, int32_t page_len, int32_t *out);

/* Queue those of a block, as step `set` of those under way. */
WHIM_MUST_CHECK whim_err whim_befores_send(const whim_befores *befores, whim_stream *s,
                                           const int32_t *block, int32_t page_len, int32_t set);

#endif
