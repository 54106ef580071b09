/* SPDX-License-Identifier: Apache-2.0 */
/* Every op of a device's streams as a line of text: name, time, operands with their shapes. Each op
 * is waited for, so that its time is its own; results are those of an untraced run. Graphs must be
 * off: a replay calls no ops.
 * Threads: those of the streams. */
#ifndef WHIM_OPS_TRACE_H
#define WHIM_OPS_TRACE_H

#include "ops/ops.h"

typedef struct whim_trace {
    whim_stream_watch watch;
    void (*line)(void *ctx, const char *line);
    void *ctx;
    const whim_ops *inner; /* what the ops do */
} whim_trace;

/* A device's watch, by which all streams that are opened on it are traced. `trace` has `line` and
 * `ctx`, and outlives the device. */
whim_stream_watch *whim_trace_watch(whim_trace *trace);

#endif
