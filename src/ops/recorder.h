/* SPDX-License-Identifier: Apache-2.0 */
/* A stream on which nothing runs. A forward pass over it, with made-up addresses, tells before
 * anything is loaded whether the arguments of its ops are legal, whether a device has them all, and
 * how much workspace they take. */
#ifndef WHIM_OPS_RECORDER_H
#define WHIM_OPS_RECORDER_H

#include "ops/ops.h"

typedef struct whim_recorder {
    whim_stream base;                 /* workspace.peak: what a stream must have */
    int64_t n_op;                     /* calls; what a composition is made of belongs to it */
    int64_t comm_bytes;               /* of all collectives' messages */
    int64_t comm_most[WHIM_OP_COUNT]; /* of the largest of them, for each op */
    char refused[512]; /* the op that the device lacks, with its operands; "" while there is none */
} whim_recorder;

void whim_recorder_init(whim_recorder *recorder, whim_device *device);

#endif
