/* SPDX-License-Identifier: Apache-2.0 */
/* A stream on which nothing runs: every op is checked and counted. A forward pass over it, with
 * made-up addresses, tells before anything is loaded how much memory the pass takes and whether its
 * arguments are legal. */
#ifndef WHIM_OPS_RECORDER_H
#define WHIM_OPS_RECORDER_H

#include "ops/ops.h"

typedef struct whim_recorder {
    whim_stream base;
    int64_t n_op[WHIM_OP_COUNT]; /* calls of each op */
} whim_recorder;

void whim_recorder_init(whim_recorder *recorder);

#endif
