/* SPDX-License-Identifier: Apache-2.0 */
/* The way of a request into its group, and out of it. Threads: the service's. */
#ifndef WHIM_ENGINE_SERVICE_ENTER_H
#define WHIM_ENGINE_SERVICE_ENTER_H

#include "engine/service/inner.h"

/* Give a choice to a scheduler; where that fails its job is cancelled. */
void whim_service_enter(whim_service *s, whim_choice *choice);

/* The other choices of a job begin when the first has its prompt in the tree, where they find it,
 * or has ended. Those that have ended themselves stay out. */
void whim_service_followers_enter(whim_service *s, whim_job *job);

/* A choice is in a plan: it waits no more. */
void whim_choice_admit(whim_choice *choice);

/* Take it out of its scheduler, if it is there. */
void whim_choice_leave(whim_choice *choice);

/* End a job early: what is left of it leaves the scheduler. Its choices report nothing more. */
void whim_job_fail(whim_job *job, whim_err err, whim_job_reason reason, const char *message);

#endif
