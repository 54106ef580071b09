/* SPDX-License-Identifier: Apache-2.0 */
/* One turn of the service's loop: plan, step, choose, commit. Threads: the service's. */
#ifndef WHIM_ENGINE_SERVICE_STEP_H
#define WHIM_ENGINE_SERVICE_STEP_H

#include "engine/service_impl.h"

/* Rows that a step may have at least (--max-step-tokens permitting); steps begin small, until it is
 * known what a row costs. */
enum {
    WHIM_SERVICE_LEAST_ROWS = 64,
    WHIM_SERVICE_FIRST_AGE = 4096, /* tokens for a step of priority, until steps have been timed */
};

/* Give a choice to the scheduler; where that fails its job is cancelled. */
void whim_service_enter(whim_service *s, whim_choice *choice);

/* The other choices of a job begin when the first has its prompt in the tree, where they find it,
 * or has ended. Those that have ended themselves stay out. */
void whim_service_followers_enter(whim_service *s, whim_job *job);

/* End a job early: what is left of it leaves the scheduler. Its choices report nothing more. */
void whim_service_fail_job(whim_service *s, whim_job *job, whim_err err, whim_job_reason reason,
                           const char *message);

/* False when there was nothing to do. A step may be under way afterwards, whose requests go on. */
bool whim_service_step(whim_service *s);

/* Wait for what is under way and forget it, at the end. */
void whim_service_land(whim_service *s);

#endif
