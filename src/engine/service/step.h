/* SPDX-License-Identifier: Apache-2.0 */
/* One turn of the service's loop: plan, step, choose, commit. Threads: the service's. */
#ifndef WHIM_ENGINE_SERVICE_STEP_H
#define WHIM_ENGINE_SERVICE_STEP_H

#include "engine/service/inner.h"

/* Rows that a step may have at least (--max-step-tokens permitting); steps begin small, until it is
 * known what a row costs. */
enum {
    WHIM_SERVICE_LEAST_ROWS = 64,
    WHIM_SERVICE_FIRST_AGE = 4096, /* tokens for a step of priority, until steps have been timed */
};

/* False when there was nothing to do. A step may be under way afterwards, whose requests go on. */
bool whim_service_step(whim_service *s);

/* Wait for what is under way and forget it, at the end. */
void whim_service_land(whim_service *s);

#endif
