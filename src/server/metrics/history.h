/* SPDX-License-Identifier: Apache-2.0 */
/* The last hour of what the dashboard draws, so that it opens with a past: a ring of samples in
 * fixed memory, taken every few seconds, in the form of the cells of /metrics.
 *
 * Invariants:
 *  1. A sample is as old as it says; where the machine slept there is a gap, and nothing is made
 *     up for it.
 *  2. Memory is taken at create and does not grow.
 * Threads: any. */
#ifndef WHIM_SERVER_METRICS_HISTORY_H
#define WHIM_SERVER_METRICS_HISTORY_H

#include "base/str.h"
#include "engine/meters.h"

#include <stdbool.h>
#include <stdint.h>

enum { WHIM_HISTORY_STEP_S = 5, WHIM_HISTORY_SAMPLES = 720 };

typedef struct whim_history whim_history;

/* NULL without memory. */
whim_history *whim_history_create(void);
void whim_history_destroy(whim_history *history);

/* Whether it is time for the next sample. */
bool whim_history_is_due(whim_history *history, int64_t now_ns);

/* Keep what the cells are now; the oldest sample goes where the ring is full. */
void whim_history_take(whim_history *history, const whim_meters *meters, int64_t now_ns);

/* As JSON, appended: {"step_s", "columns": [names of /metrics], "rows": [[age in ms, ...]]}, oldest
 * first. A row has the difference to the one before it, the first to 0. */
void whim_history_write(whim_history *history, int64_t now_ns, whim_str *out);

#endif
